"""`cdclake compare`: compare a lake table with the table that another job keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import AttentionError, ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.known_table import require_known
from cdclake_cli.options import TableArgument, change_or_time, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import one_table
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_cli.shadow.compare import TableComparison

_SUMMARY = (
    OutputColumn("table", "Table"),
    OutputColumn("change", "Change", number=True),
    OutputColumn("rows_here", "Rows\nhere", number=True),
    OutputColumn("rows_there", "Rows\nthere", number=True),
    OutputColumn("only_here", "Only\nhere", number=True),
    OutputColumn("only_there", "Only\nthere", number=True),
    OutputColumn("different", "Different", number=True),
    OutputColumn("repeated", "Repeated", number=True),
    OutputColumn("equal", "Equal"),
)
_BY_COLUMN = (OutputColumn("column", "Column"), OutputColumn("rows", "Rows that differ", number=True))
_SAMPLES = (
    OutputColumn("kind", "Difference"),
    OutputColumn("row", "Row", folds=True),
    OutputColumn("column", "Column"),
    OutputColumn("here", "Here", folds=True),
    OutputColumn("there", "There", folds=True),
)
_MAX_CHARACTERS = 80


@with_target
def compare(
    table: TableArgument,
    *,
    other: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="LOCATION",
            help="Folder of a Delta or Hudi table or of Parquet files, metadata file of an Iceberg table, or"
            " iceberg:glue:database.table. A path or s3://bucket/folder.",
        ),
    ],
    version: Annotated[
        str,
        typer.Option(
            metavar="VERSION", help="Delta version, Iceberg snapshot or Hudi instant to read. Default: newest."
        ),
    ] = "",
    as_of: Annotated[
        str | None,
        typer.Option(metavar="CHANGE|TIME", help="Change number or time of the lake table. Default: the newest."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="Columns that tell rows apart. Default: the lake table's key."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column not to compare; also a pattern such as `'etl_*'`. Repeatable."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="THERE=HERE", help="Column with another name in the lake table. Repeatable."),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Write all differences as Parquet files to this new folder, also in S3."),
    ] = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Send DifferingRows and DifferingTables to CloudWatch.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Compare a lake table with the table that another job keeps from the same source, every value of every row.

    Shows whether cdclake may take the place of a Hudi, Delta, Iceberg or Parquet job that it runs beside. "Here" is the
    lake table, "there" the other one. Both must have applied the same changes.

    Reads only. The temporary folder must have room for the rows of both tables, compressed. Exit status 6 if the tables
    differ.

    Example: cdclake compare shop.orders --with s3://old-lake/shop/orders
    """
    from cdclake.lake.read.as_of import TableLocation, table_as_of
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it
    from cdclake_cli.aws.services import connect
    from cdclake_cli.shadow.compare import Choice, columns_of
    from cdclake_cli.shadow.compare import compare as compare_tables
    from cdclake_cli.shadow.formats.open import open_table
    from cdclake_cli.shadow.formats.place import Place
    from cdclake_cli.shadow.report import ReportFolder
    from cdclake_cli.sources.report import metrics_of

    change, at = change_or_time(as_of)
    choice = Choice(
        columns_of(key) if key else None, tuple(ignore or ()), tuple(_renamed(text) for text in rename or ())
    )
    name = TableName.parse(table)
    with aws_environment(target):
        location = TableLocation.at(target.lake_bucket, str(name), target.lake_prefix)
        with one_table(table):
            require_known(target, name, location.log())
        lake = table_as_of(location.log(), change, at)
        opened = open_table(other, version)
        folder = ReportFolder(Place(report)) if report else None
        with progress(f"Comparing {name}") as bar:
            result = compare_tables(location, lake, opened, other, choice, report=folder, progress=bar.count)
        if metrics:
            connect(target).send_metrics(metrics_of([result]))
    _show(result, output, report)


def _renamed(text: str) -> tuple[str, str]:
    there, equals, here = text.partition("=")
    if not (equals and there and here):
        message = f"'{text}' renames no column"
        raise ConfigurationError(message, remedy="Write --rename THERE=HERE")
    return there, here


def _show(result: TableComparison, output: OutputFormat, report: str | None) -> None:
    """Print the result.

    Raises:
        AttentionError: The tables differ.
    """
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.json_record(result.to_json())
    else:
        repeated = result.repeated_here + result.repeated_there
        record = {**vars(result), "repeated": repeated, "equal": result.equal}
        out.records(f"Here: {result.table}. There: {_there(result)}", _SUMMARY, [record])
        if result.columns:
            by_rows = sorted(result.columns.items(), key=lambda item: -item[1])
            out.records("Columns that differ", _BY_COLUMN, [{"column": name, "rows": rows} for name, rows in by_rows])
        if result.samples:
            out.records("The first differences of each kind", _SAMPLES, list(_sample_lines(result)))
        for remark in _remarks(result):
            out.remark(remark)
        if report:
            out.remark(f"All differences are in {report}")
    if not result.equal:
        message = f"{result.table} differs from the other table in {result.differing_rows:,} rows"
        if result.columns_only_here or result.columns_only_there:
            message += " and in its columns"
        remedy = "Check that both have applied the same changes, then look at the differences"
        raise AttentionError(message, remedy=f"{remedy}{'' if report else ': --report FOLDER writes all'}")


def _there(result: TableComparison) -> str:
    return f"{result.format} {result.other}{f', {result.version}' if result.version else ''}"


def _sample_lines(result: TableComparison) -> Iterator[dict[str, str]]:
    for sample in result.samples:
        row = ", ".join(f"{name} {_text(value)}" for name, value in sample.key.items())
        first = {"kind": sample.kind, "row": row}
        for name, (here, there) in sample.values.items():
            yield {**first, "column": name, "here": _text(here), "there": _text(there)}
            first = {}
        if first:
            yield first


def _text(value: object) -> str:
    return ("null" if value is None else repr(value))[:_MAX_CHARACTERS]


def _remarks(result: TableComparison) -> Iterator[str]:
    yield f"Rows were matched by {', '.join(result.key)}" if result.key else "Whole rows were matched, without a key"
    for names, where in ((result.columns_only_here, "here"), (result.columns_only_there, "there")):
        if names:
            yield f"Columns only {where}: {', '.join(names)}"
    if result.ignored:
        yield f"Not compared: {', '.join(result.ignored)}"
    yield from result.types
    if result.repeated_there:
        yield f"{result.repeated_there:,} rows there have the key of another row there"
    if result.repeated_here:
        yield f"{result.repeated_here:,} rows here have the key of another row here"
