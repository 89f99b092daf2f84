"""What the pages work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Protocol, cast

from flask import current_app

if TYPE_CHECKING:
    from flask import Flask

    from cdclake.commit.log import ChangeLog
    from cdclake.control.admin.installation import Installation
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.control.controller import PlanInputs
    from cdclake.errors import CdclakeError
    from cdclake.model.table import TableName
    from cdclake.ports import Clock

_KEY = "cdclake-console"


class Lake(Protocol):
    """The raw files, the lake and the state."""

    @property
    def installation(self) -> Installation:
        """Where they are."""
        ...

    @property
    def plan_inputs(self) -> PlanInputs:
        """What a plan is made from."""
        ...

    def log(self, name: TableName) -> ChangeLog:
        """A lake table's change log."""
        ...

    def open_table(self, name: TableName, made_by: str = "") -> RegisteredTable:
        """A registered table and its lake table, for one thing that a person does to it.

        Raises:
            UnknownTableError: It is not registered.
        """
        ...


@dataclass(frozen=True)
class Console:
    """What the pages work on, and what they may do.

    Attributes:
        lake: The raw files, the lake and the state.
        where: The AWS they are in, for people.
        clock: The time.
        explain: Tells an expected error of an adapter's library as one of ours; None for one that nobody expected.
        late_after_minutes: After how long a raw file that no run has taken is late.
        allow_changes: Whether pages may change anything.
        made_by: The person, for change records.
    """

    lake: Lake
    where: str
    clock: Clock
    explain: Callable[[Exception], CdclakeError | None]
    late_after_minutes: int
    allow_changes: bool = False
    made_by: str = ""

    def attach(self, app: Flask) -> None:
        """Have the pages of an application work on this."""
        app.extensions[_KEY] = self


def console() -> Console:
    """What the pages of the application at work are about."""
    return cast("Console", current_app.extensions[_KEY])
