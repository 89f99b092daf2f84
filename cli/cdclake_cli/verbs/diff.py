"""`cdclake diff`: show the rows that differ between two changes of a lake table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.model.table.name import TableName
from cdclake_cli.known_table import require_known
from cdclake_cli.options import TableArgument, change_or_time, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, exact_text, output_for, progress
from cdclake_cli.several import one_table
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.lake.read.diff_report import DiffReport

_DEFAULT_LIMIT = 50


@with_target
def diff(
    table: TableArgument,
    before: Annotated[str, typer.Argument(metavar="FROM", help="Change number, or time such as 2024-03-05T10:00:00Z.")],
    after: Annotated[str, typer.Argument(metavar="TO", help="Change number or time; may be earlier than FROM.")],
    *,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many rows.")] = _DEFAULT_LIMIT,
    count: Annotated[bool, typer.Option("--count", help="Show the counts only.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show the rows that differ between two changes of one table.

    Shows inserted, updated (before and after) and deleted rows. Runs Spark on this machine, and reads only files that
    are not in both states.

    Example: cdclake diff shop.orders 3 5
    """
    from cdclake_cli.aws.spark import require_spark

    require_spark()
    from cdclake.lake.read.as_of import TableLocation, table_as_of
    from cdclake.lake.read.diff import plan_diff
    from cdclake.lake.read.diff_report import report
    from cdclake.lake.spark.session import local_session
    from cdclake_cli.aws.environment import aws_environment, local_spark_environment  # slow to import

    with aws_environment(target), progress(f"Reading the change log of {table}") as bar:
        location = TableLocation.at(target.lake_bucket, table, target.lake_prefix)
        log = location.log()
        with one_table(table):
            require_known(target, TableName.parse(table), log)
        sides = [table_as_of(log, *change_or_time(text)) for text in (before, after)]
        plan = plan_diff(*sides)
        bar.describe("Starting Spark on this machine")
        with local_spark_environment(), local_session("cdclake") as spark:
            bar.describe(f"Comparing files: {len(plan.before.files):,} before, {len(plan.after.files):,} after")
            result = report(spark, location, plan, 0 if count else limit)
    show(table, (sides[0].change, sides[1].change), result, output, with_rows=not count)


def show(table: str, changes: tuple[int, int], result: DiffReport, output: OutputFormat, *, with_rows: bool) -> None:
    """Print a difference: counts and rows, or one JSON object."""
    out = output_for(output)
    if output is OutputFormat.JSON:
        rows = {"rows": [dict(zip(result.columns, row, strict=True)) for row in result.rows]} if with_rows else {}
        out.json_record({"table": table, "from": changes[0], "to": changes[1], "counts": result.counts, **rows})
        return
    counts = ", ".join(f"{count:,} {kind}" for kind, count in result.counts.items())
    out.remark(f"{table} from change {changes[0]} to change {changes[1]}: {counts}")
    if with_rows and result.rows:
        columns = [OutputColumn(str(i), name) for i, name in enumerate(result.columns)]
        out.records("", columns, [{str(i): exact_text(value) for i, value in enumerate(row)} for row in result.rows])
        left_out = result.inserted + 2 * result.updated + result.deleted - len(result.rows)
        if left_out:
            out.remark(f"Rows not shown: {left_out:,}; --limit shows more")
