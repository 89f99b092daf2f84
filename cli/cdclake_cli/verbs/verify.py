"""`cdclake verify`: compare lake tables with their source database, or with expected row counts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import AttentionError, CdclakeError, ConfigurationError, gravest_kind
from cdclake.model.table.name import TableName
from cdclake_cli.known_table import require_known
from cdclake_cli.options import with_target
from cdclake_cli.patterns import is_pattern
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import for_each, gathering, matching_names
from cdclake_cli.sources import options as source_database
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.lake.read.as_of import TableLocation
    from cdclake_cli.sources.verify import TableVerification

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("change", "Change", number=True),
    OutputColumn("lake_rows", "Rows in\nthe lake", number=True),
    OutputColumn("source_rows", "Rows in\nthe source", number=True),
    OutputColumn("equal", "Equal"),
    OutputColumn("difference", "First difference"),
)


@with_target
def verify(
    database: Annotated[
        str | None,
        typer.Argument(help="Database. Of MySQL, its name is the schema's name; of PostgreSQL, all schemas."),
    ] = None,
    *,
    engine: source_database.EngineOption = source_database.Engine.MYSQL,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this table of the database, or those that a pattern such as 'order*' matches;"
            " of PostgreSQL also sales.orders. Repeatable."
        ),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Compare row counts only, not values.")] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEMA.TABLE=ROWS", help="Compare with this row count instead of a database. Repeatable."
        ),
    ] = None,
    user: source_database.UserOption = None,
    host: source_database.HostOption = None,
    port: source_database.PortOption = None,
    socket: source_database.SocketOption = "",
    option_file: source_database.OptionFileOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of the DMS source endpoint: MapBooleanAsBoolean, MapUnboundedNumericAsString. Repeatable.",
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Compare lake tables with their source, every value of every row.

    Changes that the lake has not applied yet count as differences. First wait until cdclake status shows no lag.
    Exit status 6 if a table differs.

    The temporary folder must have room for a table and its source, compressed. --count reads no rows.

    Example: cdclake verify shop --user reader --host db.example.com
    """
    from cdclake.run_ports import hash_secret
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it
    from cdclake_cli.dms.settings import settings_from
    from cdclake_cli.sources.verify import verify as compare

    if (database is None) == (not expect):
        raise ConfigurationError("There is nothing to compare with", remedy="Name a database, or use --expect")

    results: list[TableVerification] = []
    problems: list[CdclakeError] = []
    try:
        with aws_environment(target), progress("Comparing") as bar:
            if database is None:
                expected = dict(map(_expectation, expect or ()))
                for_each(list(expected), lambda name: results.append(_compare_count(target, name, expected[name])))
            else:
                dms = settings_from(source_database.named_settings(settings or ()))
                source = source_database.source(
                    engine, database, dms, user=user, host=host, port=port, socket=socket, option_file=option_file
                )
                secret = hash_secret()
                only = [name for text in table or () for name in _matching(target, engine, database, text)]
                with source.snapshot(only) as now, gathering(len(now.tables)) as failures:
                    for one in now.tables:
                        with failures.of(one.name):
                            location = _location(target, one.name)
                            results.append(
                                compare(now, one, location, counts_only=count, report=bar.count, secret=secret)
                            )
    except CdclakeError as error:
        problems.append(error)
    if results or not problems:
        problems += _show(results, output)
    if len(problems) > 1:
        message = "; ".join(problem.message for problem in problems)
        raise gravest_kind(problems)(message, remedy=problems[-1].remedy)
    if problems:
        raise problems[0]


def _show(results: list[TableVerification], output: OutputFormat) -> list[CdclakeError]:
    """Print the results. Returns the error about those that differ, if there are any."""
    out = output_for(output)
    records = [{**asdict(one), "equal": one.equal, "difference": next(iter(one.differences), "")} for one in results]
    out.records("Lake and source", _COLUMNS, records)
    different = [one for one in results if not one.equal]
    if output is OutputFormat.TABLE:
        for one in different:
            for difference in one.differences[1:]:
                out.remark(f"{one.table}: {difference}")
    if not different:
        return []
    message = f"{len(different)} of {len(results)} tables differ from their source"
    remedy = "Check that they have no lag (cdclake status), then check the named rows"
    return [AttentionError(message, remedy=remedy)]


def _matching(target: Target, engine: source_database.Engine, database: str, text: str) -> list[str]:
    """The tables that a name or pattern names, with the schema for PostgreSQL."""
    if not is_pattern(text):
        return [text]
    if engine is source_database.Engine.MYSQL:
        return [name.table for name in matching_names(target, [f"{database}/{text}"])]
    pattern = text if "." in text or "/" in text else f"*/{text}"
    return [str(name) for name in matching_names(target, [pattern])]


def _location(target: Target, name: TableName) -> TableLocation:
    from cdclake.lake.read.as_of import TableLocation

    return TableLocation.at(target.lake_bucket, str(name), target.lake_prefix)


def _expectation(text: str) -> tuple[TableName, int]:
    """A table and its expected number of rows."""
    name, equals, rows = text.rpartition("=")  # the name may contain one
    if not (equals and rows.isdecimal()):
        message = f"'{text}' is not an expected row count"
        raise ConfigurationError(message, remedy="Write --expect shop.orders=1000")
    return TableName.parse(name), int(rows)


def _compare_count(target: Target, name: TableName, expected: int) -> TableVerification:
    from cdclake.lake.read.as_of import table_as_of
    from cdclake_cli.sources.verify import TableVerification

    log = _location(target, name).log()
    require_known(target, name, log)
    lake = table_as_of(log)
    lake_rows = lake.snapshot.rows
    differences = () if lake_rows == expected else (f"{lake_rows:,} rows in the lake, {expected:,} expected",)
    return TableVerification(str(name), lake.change, lake_rows, expected, differences)
