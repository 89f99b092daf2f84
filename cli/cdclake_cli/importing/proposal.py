"""What is proposed for a table, with the evidence. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """

    name: TableName
    settings: tuple[ProposedSetting, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def attributes(self) -> dict[str, str]:
        """The settings that are sure."""
        return {one.attribute: one.value for one in self.settings if one.sure}

    def plus(self, settings: Iterable[ProposedSetting], notes: Iterable[str] = ()) -> TableProposal:
        """The proposal with more of both."""
        return replace(self, settings=(*self.settings, *settings), notes=(*self.notes, *notes))
