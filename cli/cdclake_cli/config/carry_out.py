"""Checks and carries out the changes that make tables as a file says, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple, TypeVar

from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.control.admin.change_settings import change_settings
from cdclake.errors import CdclakeError, CommitConflictError
from cdclake.model.layout import require_schema_folder
from cdclake.model.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.table.name import TableName
    from cdclake.ports import StateStore
    from cdclake_cli.config.compare import TableChange

Result = TypeVar("Result")
Errors = dict["TableName", CdclakeError]


class Checks(NamedTuple):
    """What settings that name columns are checked with.

    Attributes:
        lake: Reads a lake table.
        columns: Refuses settings that name columns which the table's raw files lack.
    """

    lake: Callable[[TableName], Snapshot]
    columns: Callable[[TableChange, Snapshot], None]


def checked(changes: Iterable[TableChange], checks: Checks) -> tuple[list[TableChange], Errors]:
    """The changes with the meaning of their differences, and the errors of those that are not possible."""

    def check(change: TableChange) -> TableChange:
        if change.is_new:
            require_schema_folder(change.name)
        if not change.names_columns:
            return change.checked(None)
        # Of an item that lost its lake, a run refuses other keys. Of many new tables, none must be looked for.
        lake = checks.lake(change.name) if change.before.last_change else Snapshot()
        found = change.checked(lake)
        checks.columns(found, lake)
        return found

    return _each(check, changes)


def carry_out(states: StateStore, changes: Iterable[TableChange]) -> tuple[list[TableChange], Errors]:
    """Write each table's settings, in one request. Returns the changes that were made, and the errors of the others."""

    def write(change: TableChange) -> TableChange:
        if not change.is_new:
            change_settings(states, change.before, change.settings)
        elif not states.register(change.after):
            message = "The table was registered meanwhile. Nothing of it was changed"
            raise CommitConflictError(message, remedy="Run the same command again", table=change.name)
        return change

    return _each(write, changes)


def _each(
    work: Callable[[TableChange], TableChange], changes: Iterable[TableChange]
) -> tuple[list[TableChange], Errors]:
    errors: Errors = {}

    def attempt(change: TableChange) -> TableChange | None:
        try:
            return work(change)
        except CdclakeError as error:
            errors[change.name] = error
            return None

    done = in_parallel(attempt, changes, CALLS_AT_ONCE)
    return [change for change in done if change], errors
