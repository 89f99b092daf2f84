"""`cdclake verify`: compare lake tables with their source database, or with expected row counts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from cdclake.errors import AttentionError, CdclakeError, ConfigurationError, gravest_kind
from cdclake.model.table.name import TableName
from cdclake_cli.errors import explain, explain_file
from cdclake_cli.known_table import require_known
from cdclake_cli.options import with_target
from cdclake_cli.patterns import is_pattern, parse_pattern
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import for_each, gathering, matching_names
from cdclake_cli.sources import options as source_database
from cdclake_cli.sources.effort import BUCKET_ROWS, CHECKSUMS, COUNTS, ROWS, Effort, Pace
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.lake.read.as_of import TableLocation
    from cdclake_cli.sources.source import ComparedSource
    from cdclake_cli.sources.verify import TableVerification

_LOAD = "Load on the source"
_WATCHED = "For a schedule"
_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("change", "Change", number=True),
    OutputColumn("lake_rows", "Rows in\nthe lake", number=True),
    OutputColumn("source_rows", "Rows in\nthe source", number=True),
    OutputColumn("compared_by", "Compared by"),
    OutputColumn("rows_read", "Rows read", number=True),
    OutputColumn("equal", "Equal"),
    OutputColumn("difference", "First difference"),
)


@with_target
def verify(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCHEMA.TABLE...]",
            help="Tables, or quoted patterns of registered tables such as `'shop.*'`. Default: all of the source's.",
        ),
    ] = None,
    *,
    source: source_database.SourceOption = None,
    socket: source_database.SocketOption = "",
    option_file: source_database.OptionFileOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            rich_help_panel="Source",
            help="Setting of the DMS source endpoint: MapBooleanAsBoolean, MapUnboundedNumericAsString. Repeatable.",
        ),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Compare row counts only, not values.")] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="Read all rows, also of tables whose checksums could be compared.")
    ] = False,
    bucket_rows: Annotated[
        int, typer.Option(min=1, help="Rows that one checksum covers: they are read if one of them differs.")
    ] = BUCKET_ROWS,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEMA.TABLE=ROWS", help="Compare with this row count instead of a database. Repeatable."
        ),
    ] = None,
    max_rows_per_second: Annotated[
        int | None,
        typer.Option(min=1, rich_help_panel=_LOAD, help="Pause so that the source reads no more rows than this."),
    ] = None,
    statement_seconds: Annotated[
        int | None,
        typer.Option(min=1, rich_help_panel=_LOAD, help="Have the source stop statements that take longer."),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_WATCHED,
            help="Write the result with the keys of differing rows as JSON, also to s3://bucket/key.",
        ),
    ] = None,
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics", rich_help_panel=_WATCHED, help="Send DifferingRows and DifferingTables to CloudWatch."
        ),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Compare lake tables with their source, every value of every row.

    MySQL, MariaDB and PostgreSQL compute checksums, and send only the rows of parts that differ. Of other sources, and
    where checksums cannot be compared, all rows are read. The output says which. The temporary folder must have room
    for the rows that are read, compressed.

    Changes that the lake has not applied yet count as differences. First wait until cdclake status shows no lag.
    Exit status 6 if a table differs. On a schedule, --report and --metrics say what was found.

    Example: cdclake verify --source mysql://reader@db.example.com/shop 'shop.*'
    """
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it
    from cdclake_cli.aws.services import connect
    from cdclake_cli.dms.settings import settings_from
    from cdclake_cli.sources.report import ReportPlace, metrics_of, report_of
    from cdclake_cli.sources.url import open_source

    if (source is None) == (not expect) or (expect and patterns):
        raise ConfigurationError("There is nothing to compare with", remedy="Name a --source, or use --expect")
    if count and rows:
        raise ConfigurationError("--count reads no rows, and --rows reads all", remedy="Use one of them")

    place = ReportPlace(report) if report else None
    if place:
        place.check()
    found = _Found()
    begun = datetime.now(timezone.utc)
    with aws_environment(target):
        with found.problems_of():
            if source is None:
                expected = dict(map(_expectation, expect or ()))
                for_each(
                    list(expected), lambda name: found.results.append(_compare_count(target, name, expected[name]))
                )
            else:
                dms = settings_from(source_database.named_settings(settings or ()))
                opened = open_source(source, dms, socket=socket, option_file=option_file)
                by = COUNTS if count else ROWS if rows else CHECKSUMS
                effort = Effort(by, bucket_rows, Pace(max_rows_per_second))
                _compare(target, opened, _chosen(target, opened, patterns or []), effort, statement_seconds, found)
        if place:
            errors = [*found.errors.items()] or [("", problem) for problem in found.problems]
            name = (source or "").partition("?")[0]  # what follows may have a password
            with found.problems_of():
                place.write(report_of(found.results, errors, name, begun, datetime.now(timezone.utc)))
        if metrics:
            with found.problems_of():
                connect(target).send_metrics(metrics_of(found.results))
    problems = found.problems
    if found.results or not problems:
        problems += _show(found.results, output)
    if len(problems) > 1:
        message = "; ".join(problem.message for problem in problems)
        raise gravest_kind(problems)(message, remedy=problems[-1].remedy)
    if problems:
        raise problems[0]


@dataclass
class _Found:
    """What was found.

    Attributes:
        errors: The error of each table that could not be compared, if there are several tables.
        problems: Errors to exit with.
    """

    results: list[TableVerification] = field(default_factory=list)
    errors: dict[str, CdclakeError] = field(default_factory=dict)
    problems: list[CdclakeError] = field(default_factory=list)

    @contextmanager
    def problems_of(self) -> Iterator[None]:
        """Collect the error of the block, so that what was found is shown nevertheless."""
        try:
            yield
        except (CdclakeError, BotoCoreError, ClientError, OSError) as error:
            explained = explain_file(error) if isinstance(error, OSError) else explain(error)
            if explained is None:
                raise
            self.problems.append(explained)


def _compare(
    target: Target,
    source: ComparedSource,
    names: Sequence[TableName],
    effort: Effort,
    statement_seconds: int | None,
    found: _Found,
) -> None:
    """Compare tables one after the other, on one connection."""
    from cdclake.hash_secret import hash_secret
    from cdclake_cli.sources.verify import verify as compare

    secret = hash_secret()
    with (
        progress("Comparing") as bar,
        source.reading(names) as now,
        gathering(len(now.tables)) as failures,
    ):
        found.errors = failures.errors
        if statement_seconds is not None:
            now.limit_statements(statement_seconds)
        for one in now.tables:
            with failures.of(one.name):
                location = _location(target, one.name)
                found.results.append(compare(now, one, location, effort, report=bar.count, secret=secret))


def _chosen(target: Target, source: ComparedSource, patterns: Sequence[str]) -> list[TableName]:
    """The tables to compare: those that are named, and the registered tables that patterns match and the source has.

    Without patterns it is empty, which means all tables of the source.
    """
    exact = {parse_pattern(text) for text in patterns if not is_pattern(text)}
    names = matching_names(target, patterns)
    if len(exact) == len(names):
        return names
    present = {table.name for table in source.catalog.tables(patterns)}
    chosen = [name for name in names if name in exact or name in present]
    if not chosen:
        message = "The source has none of the registered tables that match"
        raise ConfigurationError(message, remedy="Check the pattern, and the database in the URL")
    return chosen


def _show(results: list[TableVerification], output: OutputFormat) -> list[CdclakeError]:
    """Print the results. Returns the error about those that differ, if there are any."""
    out = output_for(output)
    records = [
        {
            **{name: value for name, value in asdict(one).items() if name != "named"},
            "equal": one.equal,
            "difference": next(iter(one.differences), ""),
        }
        for one in results
    ]
    out.records("Lake and source", _COLUMNS, records)
    different = [one for one in results if not one.equal]
    if output is OutputFormat.TABLE:
        for one in results:
            for text in _remarks(one):
                out.remark(f"{one.table}: {text}")
    if not different:
        return []
    message = f"{len(different)} of {len(results)} tables differ from their source"
    remedy = "Check that they have no lag (cdclake status), then check the named rows"
    return [AttentionError(message, remedy=remedy)]


def _remarks(one: TableVerification) -> Iterator[str]:
    yield from one.differences[1:]
    if one.why_rows:
        yield f"all rows were read: {one.why_rows}"
    if not one.is_consistent:
        yield "the source has no snapshot: rows that changed while they were read may count as differences"


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
    difference = abs(lake_rows - expected)
    return TableVerification(str(name), lake.change, lake_rows, expected, differences, differing_rows=difference)
