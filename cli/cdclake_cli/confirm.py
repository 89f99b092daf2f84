"""Shared by the verbs that change a lake table: open it, ask for confirmation, warn."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from cdclake.errors import ConfigurationError
from cdclake.model.table.attributes import Attribute
from cdclake.printable import printable
from cdclake_cli.printing.output import OutputFormat

if TYPE_CHECKING:
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.table.name import TableName
    from cdclake_cli.printing.output import Output
    from cdclake_cli.target import Target

LEASE_WAIT_SECONDS = 60
"""How long a command waits for a run that is working on its table. Most runs are shorter."""
DRY_RUN = "Dry run: nothing was changed."


def open_table(target: Target, name: TableName) -> RegisteredTable:
    """Open a registered table and its lake table. A change waits for a run that is working on it.

    Raises:
        UnknownTableError: The table is not registered.
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    return replace(connect(target).open_table(name), lease_wait_seconds=LEASE_WAIT_SECONDS)


def author(target: Target) -> str:
    """The author of a change, for its change record: `CDCLAKE_USER` if set, else the AWS identity of the caller."""
    from cdclake.adapters.caller import aws_caller_arn, configured_user
    from cdclake_cli.aws.environment import aws_environment

    with aws_environment(target):
        return configured_user() or aws_caller_arn()


def confirm(question: str, *, yes: bool, output: OutputFormat) -> None:
    """Ask for confirmation, unless `yes`.

    Raises:
        ConfigurationError: There is no terminal to ask on, or the output is JSON.
        typer.Exit: The user declines.
    """
    if yes:
        return
    if output is OutputFormat.JSON or not sys.stdin.isatty():
        remedy = "Check with --dry-run what would change, then add --yes"
        raise ConfigurationError("Nothing was changed: this needs a confirmation, and cannot ask here", remedy=remedy)
    if not typer.confirm(printable(question), err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(1)


def warn_if_running(lake_table: RegisteredTable, out: Output) -> None:
    """Warn if a run is working on the table, because its unfinished work can show up as a finding."""
    if lake_table.state.leased(lake_table.clock()):
        out.remark(f"A run is working on {lake_table.state.name}. Check again when it has finished.")


def warn_of_catalog_error(lake_table: RegisteredTable, out: Output) -> None:
    """Warn if updating the catalog failed."""
    state = lake_table.states.get(lake_table.state.path)
    error = state.item.get(Attribute.LAST_CATALOG_ERROR) if state else ""
    if error:
        out.remark(f"The catalog entry of {lake_table.state.name} is out of date: {error}")
