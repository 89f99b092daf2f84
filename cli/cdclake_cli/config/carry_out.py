"""Checks and carries out the changes that make tables as a file says, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.control.admin.change_settings import change_settings
from cdclake.errors import CommitConflictError
from cdclake.model.layout import require_schema_folder
from cdclake.model.snapshot import Snapshot
from cdclake_cli.several import gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.table.name import TableName
    from cdclake.ports import StateStore
    from cdclake_cli.config.compare import TableChange
    from cdclake_cli.several import Failures


class Checks(NamedTuple):
    """What settings that name columns are checked with.

    Attributes:
        lake: Reads a lake table.
        columns: Refuses settings that name columns which the table's raw files lack.
    """

    lake: Callable[[TableName], Snapshot]
    columns: Callable[[TableChange, Snapshot], None]


def checked(changes: Sequence[TableChange], checks: Checks) -> list[TableChange]:
    """The changes with the meaning of their differences.

    Raises:
        CdclakeError: As `cdclake_cli.several.gathering`: some are not possible.
    """

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

    found: list[TableChange] = []
    with gathering(len(changes), "Nothing was changed") as failures:
        _each(check, changes, failures, found)
    return sorted(found, key=lambda change: change.name)


def carry_out(states: StateStore, changes: Sequence[TableChange], done: list[TableChange]) -> None:
    """Write each table's settings, in one request.

    Args:
        done: Gets the changes that were made.

    Raises:
        CdclakeError: As `cdclake_cli.several.gathering`: some were not made.
    """

    def write(change: TableChange) -> TableChange:
        if not change.is_new:
            change_settings(states, change.before, change.settings)
        elif not states.register(change.after):
            message = "The table was registered meanwhile. Nothing of it was changed"
            raise CommitConflictError(message, remedy="Run the same command again", table=change.name)
        return change

    with gathering(len(changes), "Run the same command again for these") as failures:
        _each(write, changes, failures, done)


def _each(
    work: Callable[[TableChange], TableChange],
    changes: Sequence[TableChange],
    failures: Failures,
    done: list[TableChange],
) -> None:
    def attempt(change: TableChange) -> None:
        with failures.of(change.name):
            done.append(work(change))

    in_parallel(attempt, changes, CALLS_AT_ONCE)
