"""`cdclake verify`: lake tables beside their source database, or beside expected numbers of rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.options import with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.source_database import (
    HostOption,
    OptionFileOption,
    PortOption,
    SocketOption,
    UserOption,
    connection_options,
)
from cdclake.cli.target import Target
from cdclake.errors import AttentionError, ConfigurationError
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.devkit.replicate.verify import TableVerification
    from cdclake.lake.read.as_of import TableLocation

_COLUMNS = (
    Column("table", "Table"),
    Column("change", "Change", number=True),
    Column("lake_rows", "Rows in\nthe lake", number=True),
    Column("source_rows", "Rows in\nthe source", number=True),
    Column("equal", "Equal"),
    Column("difference", "First difference"),
)


@with_target
def verify(
    database: Annotated[
        str | None, typer.Argument(help="Name of a MySQL or MariaDB database, which is that of the schema.")
    ] = None,
    *,
    table: Annotated[list[str] | None, typer.Option(help="Only this table of it; may be repeated.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Compare numbers of rows only, and no values.")] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="SCHEMA.TABLE=ROWS", help="In place of a database: so many rows; may be repeated."),
    ] = None,
    user: UserOption = None,
    host: HostOption = None,
    port: PortOption = None,
    socket: SocketOption = "",
    option_file: OptionFileOption = None,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Compare lake tables with their source, every value of every row. Exit status 6 if something differs.

    What the source has and the lake has not applied yet differs, so wait until cdclake status shows no lag.

    The temporary folder must have room for a table and its source, compressed. --count reads no rows.

    Example: cdclake verify shop --user reader --host db.example.com
    """
    from cdclake.cli.aws.environment import aws_environment  # Arrow takes a while, and --help needs none
    from cdclake.devkit.replicate.verify import verify as compare_with
    from cdclake.lake.read.as_of import TableLocation

    if (database is None) == (not expect):
        raise ConfigurationError("There is nothing to compare with", remedy="Name a database, or give --expect")

    def place_of(name: TableName) -> TableLocation:
        return TableLocation.at(target.lake_bucket, str(name), target.lake_prefix)

    found: list[TableVerification] = []
    with aws_environment(target), progress("Comparing") as bar:
        if database is None:
            found = [_expected(place_of, text) for text in expect or ()]
        else:
            options = connection_options(user, host, port, socket, option_file)
            found += compare_with(options, database, place_of, table or (), counts_only=count, report=bar.show)
    shown = output_for(output)
    lines = [{**asdict(one), "equal": one.equal, "difference": next(iter(one.differences), "")} for one in found]
    shown.records("Lake and source", _COLUMNS, lines)
    differing = [one for one in found if not one.equal]
    if output is OutputFormat.TABLE:
        for one in differing:
            for difference in one.differences[1:]:
                shown.remark(f"{one.table}: {difference}")
    if differing:
        message = f"{len(differing)} of {len(found)} tables are not equal to their source"
        raise AttentionError(message, remedy="See whether they lag (cdclake status), then look at the rows named")


def _expected(place_of: Callable[[TableName], TableLocation], text: str) -> TableVerification:
    from cdclake.devkit.replicate.verify import TableVerification
    from cdclake.lake.read.as_of import table_as_of

    name, equals, rows = text.rpartition("=")  # there may be one in the name
    if not (equals and rows.isdecimal()):
        message = f"'{text}' expects nothing"
        raise ConfigurationError(message, remedy="Write --expect shop.orders=1000")
    lake = table_as_of(place_of(TableName.parse(name)).log())
    ours, wanted = lake.snapshot.rows, int(rows)
    differences = () if ours == wanted else (f"{ours:,} rows in the lake, {wanted:,} expected",)
    return TableVerification(name, lake.change, ours, wanted, differences)
