"""`cdclake run`: what the hourly workflow does, now, and what came of it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cdclake.cli.change_columns import STEP_COLUMNS, step_record
from cdclake.cli.options import TablesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.cli.pipeline import PipelineOutcome, TableOutcome
    from cdclake.commit.report import ChangeSummary

_COLUMNS = (Column("table", "Table"), Column("what", "What"), *STEP_COLUMNS)
_PHASES = ("list", "read", "route", "load", "rewrite", "commit", "publish")
_COST_COLUMNS = (
    Column("table", "Table"),
    Column("change", "Change", number=True),
    *(Column(phase, phase.capitalize(), number=True) for phase in _PHASES),
    Column("mb_read", "MB\nread", number=True),
    Column("mb_added", "MB\nwritten", number=True),
)


@with_target
def run(
    *,
    table: TablesOption = None,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Apply what is new in the raw bucket, and wait for it.

    Example: cdclake run --table shop.orders
    """
    from cdclake.cli.aws.services import connect
    from cdclake.cli.pipeline import Pipeline  # boto3 takes a while, and --help needs none
    from cdclake.control.controller import plan

    names = tuple(TableName.parse(name) for name in table or ())
    with progress("Starting the Controller") as bar:
        services = connect(target)
        outcome = Pipeline(services, target, bar.say).run(names)
        if outcome.idle:
            outcome = outcome.with_plan(plan(services.plan_inputs, datetime.now(timezone.utc), outcome.idle))
    show(outcome, output)
    if outcome.failed:
        raise outcome.error()


def show(outcome: PipelineOutcome, output: OutputFormat) -> None:
    """Print what became of each table: a line for each change, or a JSON object for each table."""
    shown = output_for(output)
    if output is OutputFormat.JSON:
        shown.records("Run", (), [table_record(table) for table in outcome.tables])
        return
    if not outcome.tables:
        return
    shown.records("Run", _COLUMNS, [record for table in outcome.tables for record in _lines(table)])
    costs = [cost for table in outcome.tables for cost in _costs(table)]
    if costs:
        columns = [column for column in _COST_COLUMNS if any(column.key in cost for cost in costs)]
        shown.records("Seconds of each phase", columns, costs)
    for table in outcome.tables:
        for change in table.changes:
            for line in _left_out(table.name, change):
                shown.remark(line)
    for table in outcome.tables:
        if table.reason:
            shown.remark(f"{table.name}: {table.outcome}: {table.reason}")
    if any(table.outcome == "inactive" for table in outcome.tables):
        shown.remark("Inactive tables wait for a person: cdclake tables set ..., then cdclake tables activate ...")


def table_record(table: TableOutcome) -> dict[str, object]:
    """What became of a table, as JSON holds it."""
    return {
        "table": str(table.name),
        "outcome": table.outcome,
        "error": table.error or None,
        "reason": table.reason or None,
        "run_id": table.run_id or None,
        "steps": [step_record(asdict(change)) for change in table.changes],
    }


def _lines(table: TableOutcome) -> Iterable[dict[str, object]]:
    """A line for each change, and one for an outcome that the changes do not tell."""
    name = str(table.name)
    for change in table.changes:
        yield {"table": name, "what": change.kind, **step_record(asdict(change))}
    if table.outcome != "changed":
        yield {"table": name, "what": table.outcome}


def _costs(table: TableOutcome) -> Iterable[dict[str, object]]:
    """What each change cost: seconds of its phases, and the megabytes (10**6 bytes) it read and wrote."""
    for change in table.changes:
        sizes = {"mb_read": change.bytes_read / 1e6, "mb_added": change.bytes_added / 1e6}
        rounded = {name: round(size, 1) for name, size in sizes.items()}
        yield {"table": str(table.name), "change": change.change, **change.phase_seconds, **rounded}


def _left_out(name: TableName, change: ChangeSummary) -> Iterable[str]:
    """What a change did not take of its raw files, and the command that tells more."""
    if change.quarantined:
        told_by = f"cdclake quarantine show {name.typed}"
        yield f"{name}, change {change.change}: {change.quarantined:,} bad rows put aside: {told_by}"
    if change.too_late_files:
        told_by = f"cdclake changes show {name.typed} {change.change}"
        yield f"{name}, change {change.change}: {change.too_late_files:,} files left out as too late: {told_by}"
