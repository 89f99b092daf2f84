"""What is proposed for a table, with the evidence. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdclake.control.jobs.entry import error_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.errors import CdclakeError
    from cdclake.model.table.name import TableName


@dataclass(frozen=True)
class ProposedSetting:
    """A setting of a table.

    Attributes:
        attribute: Its name, see `Attribute`.
        evidence: What it was concluded from.
        sure: Whether the evidence proves it. Another setting is for a person to judge, and never takes effect by
            itself.
    """

    attribute: str
    value: str
    evidence: str
    sure: bool = True

    def doubted(self, reason: str) -> ProposedSetting:
        """The same setting, for a person to judge."""
        return replace(self, evidence=f"{self.evidence}; {reason}", sure=False)


@dataclass(frozen=True)
class TableProposal:
    """All settings that are proposed for a table.

    Attributes:
        notes: What else a person should know about the table, one sentence each.
        unread: Why its raw files could not be read; None if they were, or were not to be.
    """

    name: TableName
    settings: tuple[ProposedSetting, ...] = ()
    notes: tuple[str, ...] = ()
    unread: CdclakeError | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """The settings that are sure."""
        return {one.attribute: one.value for one in self.settings if one.sure}

    def without_files(self, reason: CdclakeError) -> TableProposal:
        """The proposal of a table whose raw files could not be read."""
        note = f"Its raw files were not read: {error_line(reason)}"
        return replace(self, notes=(*self.notes, note), unread=reason)

    def plus(self, settings: Iterable[ProposedSetting], notes: Iterable[str] = ()) -> TableProposal:
        """The proposal with more of both."""
        return replace(self, settings=(*self.settings, *settings), notes=(*self.notes, *notes))
