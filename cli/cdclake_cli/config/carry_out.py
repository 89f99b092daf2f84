"""Checks and carries out the changes that make tables as a file says, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.control.admin.change_settings import change_settings
from cdclake.errors import CommitConflictError
from cdclake.model.layout import require_schema_folder
from cdclake_cli.several import at_once, gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.ports import StateStore
    from cdclake_cli.config.column_checks import Checks
    from cdclake_cli.config.compare import TableChange


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
        lake = checks.lake(change.before)
        found = change.checked(lake)
        checks.columns(found.after, found.settings, lake, found.reloads)
        return found

    found: list[TableChange] = []
    with gathering(len(changes), "Nothing was changed") as failures:
        at_once(check, changes, failures, found)
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
        at_once(write, changes, failures, done)
