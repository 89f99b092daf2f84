"""What the verbs that change a lake table share: the table, and the person's consent."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import typer

from cdclake.cli.output import OutputFormat, printable
from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from cdclake.cli.output import Output
    from cdclake.cli.target import Target
    from cdclake.control.admin.table_admin import RegisteredTable


def open_table(target: Target, table: str) -> RegisteredTable:
    """A registered table and its lake table.

    Raises:
        ConfigurationError: Not a table name.
        UnknownTableError: It is not registered.
    """
    from cdclake.cli.aws.services import connect  # boto3 takes a while, and --help needs none

    return connect(target).open_table(TableName.parse(table))


def person(target: Target) -> str:
    """Who gives the command, for change records: as `CDCLAKE_USER` says, else as AWS knows the caller."""
    from cdclake.adapters.caller import aws_caller, named_user
    from cdclake.cli.aws.environment import aws_environment

    with aws_environment(target):
        return named_user() or aws_caller()


def ask(question: str, *, yes: bool, output: OutputFormat) -> None:
    """Go on if the person agrees.

    Raises:
        ConfigurationError: Nobody can be asked, as there is no terminal, or the answer goes to a program.
        typer.Exit: The person does not agree.
    """
    if yes:
        return
    if output is OutputFormat.JSON or not sys.stdin.isatty():
        remedy = "Look with --dry-run at what would be done, then give --yes"
        raise ConfigurationError("Nothing was done, as nobody can be asked here", remedy=remedy)
    if not typer.confirm(printable(question), err=True):
        typer.echo("Nothing was done.", err=True)
        raise typer.Exit(1)


def warn_if_at_work(lake_table: RegisteredTable, shown: Output) -> None:
    """Say so if a run is working on the table, as what is found then may be its doing."""
    if lake_table.state.leased(datetime.now(timezone.utc)):
        shown.remark(f"A run is working on {lake_table.state.name}. Look again when it has ended.")


def tell_of_catalog(lake_table: RegisteredTable, shown: Output) -> None:
    """Say so if the catalog could not be brought in line with what was done."""
    state = lake_table.states.get(lake_table.state.path)
    error = state.item.get(Attribute.LAST_CATALOG_ERROR) if state else ""
    if error:
        shown.remark(f"The catalog does not show {lake_table.state.name} as it is: {error}")
