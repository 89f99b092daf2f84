"""`cdclake diff`: rows inserted, updated and deleted between two changes of a lake table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake.cli.options import TableArgument, change_or_time, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target

if TYPE_CHECKING:
    from cdclake.lake.read.diff_report import DiffReport

_DEFAULT_LIMIT = 50
_NULL = "null"


@with_target
def diff(
    table: TableArgument,
    before: Annotated[str, typer.Argument(metavar="FROM", help="Change number, or a time as 2024-03-05T10:00:00Z.")],
    after: Annotated[str, typer.Argument(metavar="TO", help="The same; may be earlier.")],
    *,
    limit: Annotated[int, typer.Option(min=1, help="Show this many rows at most.")] = _DEFAULT_LIMIT,
    count: Annotated[bool, typer.Option("--count", help="Count only, and show no rows.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show the rows inserted, updated (before and after) and deleted between two changes of a table.

    Computed by Spark on this machine, which reads the files that are not in both.

    Example: cdclake diff shop.orders 3 5
    """
    from cdclake.cli.aws.environment import aws_environment, spark_environment_here  # slow, and --help needs none
    from cdclake.lake.read.as_of import TableLocation, table_as_of
    from cdclake.lake.read.diff import plan_diff
    from cdclake.lake.read.diff_report import report
    from cdclake.lake.spark.session import local_session

    with aws_environment(target), progress(f"Looking for changes of {table}") as bar:
        place = TableLocation.at(target.lake_bucket, table, target.lake_prefix)
        log = place.log()
        sides = [table_as_of(log, *change_or_time(text)) for text in (before, after)]
        plan = plan_diff(*sides)
        bar.say("Starting Spark on this machine")
        with spark_environment_here(), local_session("cdclake") as spark:
            bar.say(f"Comparing {len(plan.before.files)} files with {len(plan.after.files)}")
            found = report(spark, place, plan, 0 if count else limit)
    show(table, (sides[0].change, sides[1].change), found, output, with_rows=not count)


def show(table: str, changes: tuple[int, int], found: DiffReport, output: OutputFormat, *, with_rows: bool) -> None:
    """Print a difference: counts and rows, or one JSON object."""
    shown = output_for(output)
    if output is OutputFormat.JSON:
        rows = {"rows": [dict(zip(found.columns, row, strict=True)) for row in found.rows]} if with_rows else {}
        answer = {"table": table, "from": changes[0], "to": changes[1], "counts": found.counts, **rows}
        shown.records("Difference", (), [answer])
        return
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items())
    shown.remark(f"{table} from change {changes[0]} to change {changes[1]}: {counts}")
    if with_rows and found.rows:
        columns = [Column(str(i), name) for i, name in enumerate(found.columns)]
        shown.records("", columns, [{str(i): _cell(value) for i, value in enumerate(row)} for row in found.rows])
        left_out = found.inserted + 2 * found.updated + found.deleted - len(found.rows)
        if left_out:
            shown.remark(f"{left_out:,} more rows; --limit shows more")


def _cell(value: Any) -> str:  # noqa: ANN401 - any value of a lake table
    """A value as it is, and not as `Column` rounds figures for people."""
    if value is None:
        return _NULL
    return value if isinstance(value, str) else json.dumps(value)
