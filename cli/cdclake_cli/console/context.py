"""Gives the pages access to the lake that they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Protocol, cast

from flask import current_app

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from flask import Flask

    from cdclake.commit.log import ChangeLog
    from cdclake.control.admin.installation import Installation
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.control.controller import PlanInputs
    from cdclake.errors import CdclakeError
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock
    from cdclake_cli.config.column_checks import Checks

_KEY = "cdclake-console"


class Lake(Protocol):
    """The raw files, the lake tables and the state table."""

    @property
    def installation(self) -> Installation:
        """Names of the buckets and of the state table."""
        ...

    @property
    def plan_inputs(self) -> PlanInputs:
        """The inputs of the planner."""
        ...

    def log(self, name: TableName) -> ChangeLog:
        """The change log of a lake table."""
        ...

    def open_table(self, name: TableName, made_by: str = "") -> RegisteredTable:
        """Open a registered table for one operation of the operator `made_by`.

        Raises:
            UnknownTableError: It is not registered.
        """
        ...


@dataclass(frozen=True)
class Console:
    """The lake that the pages show, and what they may change.

    Attributes:
        lake: The raw files, the lake tables and the state table.
        where: The AWS account and region, as text.
        clock: Returns the time.
        explain: Translates an expected error of a library to a `CdclakeError`; returns None for an unexpected one.
        late_after_minutes: Age at which a raw file that no run has applied counts as late.
        checks: Prepares the checks of tables with their new settings.
        allow_changes: Whether the pages may change anything.
        made_by: The operator, for change records.
        tables_per_page: Tables that a page lists; likewise changes and bad rows.
        days_per_page: Tables whose last day the page of the fleet adds up.
        max_files_listed: Files of a change that its page names.
        keep_seconds: How long what is known of all tables is kept at least; 0: each page reads it again.
        patience_seconds: How long a page waits for what is being read again.
    """

    lake: Lake
    where: str
    clock: Clock
    explain: Callable[[Exception], CdclakeError | None]
    late_after_minutes: int
    checks: Callable[[Collection[TableState]], AbstractContextManager[Checks]]
    allow_changes: bool = False
    made_by: str = ""
    tables_per_page: int = 50
    days_per_page: int = 20
    changes_per_page: int = 40
    rows_per_page: int = 50
    max_files_listed: int = 200
    keep_seconds: float = 10.0
    patience_seconds: float = 0.1

    def attach(self, app: Flask) -> None:
        """Make this the console of an application's pages."""
        app.extensions[_KEY] = self


def current_console() -> Console:
    """The console of the current request's application."""
    return cast("Console", current_app.extensions[_KEY])
