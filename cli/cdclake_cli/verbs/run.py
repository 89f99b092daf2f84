"""`cdclake run`: run the pipeline now, and show the outcome."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from cdclake.commit.describe import MAX_LISTED, first_of
from cdclake.control.jobs.entry import error_line
from cdclake.model.change.record import PHASES
from cdclake.model.names import DRIFT_SEPARATOR
from cdclake_cli.options import AnyTablesArgument, with_target
from cdclake_cli.printing.change_columns import STEP_COLUMNS, step_record
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import limited_to
from cdclake_cli.signals import Interrupted, exiting_on_signals
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.commit.report import ChangeSummary
    from cdclake.model.table.name import TableName
    from cdclake_cli.pipeline import PipelineOutcome, TableOutcome

_COLUMNS = (OutputColumn("table", "Table"), OutputColumn("what", "Outcome"), *STEP_COLUMNS)
_COST_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("change", "Change", number=True),
    *(OutputColumn(phase, phase.capitalize(), number=True) for phase in PHASES),
    OutputColumn("mb_read", "MB\nread", number=True),
    OutputColumn("mb_added", "MB\nwritten", number=True),
)


@with_target
def run(tables: AnyTablesArgument = None, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Apply new raw files now and wait for the result.

    Does the same as the hourly workflow. The work is done by jobs in Glue: if this command is stopped, they go on. It
    then names them, and exits with 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP (a closed terminal).

    Example: cdclake run shop.orders
    """
    from cdclake.control.controller import plan
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it
    from cdclake_cli.pipeline import Pipeline

    names = limited_to(target, tables)
    with progress("Starting the Controller") as bar, exiting_on_signals():
        services = connect(target)
        pipeline = Pipeline(services, target, bar.describe, bar.note)
        try:
            if names:
                plan(services.plan_inputs, services.clock(), names)  # refuses unknown names before a job starts
            outcome = pipeline.run(names)
        except BaseException as error:  # such as a signal, a lost connection or expired credentials
            if pipeline.unfinished or isinstance(error, Interrupted):
                for line in _without_this_command(pipeline.unfinished):
                    bar.note(line)
            raise
        if outcome.succeeded:
            outcome = outcome.with_plan(plan(services.plan_inputs, services.clock(), outcome.succeeded))
    show(outcome, output)
    if outcome.failed:
        raise outcome.error()


def _without_this_command(unfinished: list[str]) -> Iterable[str]:
    """What goes on when this command ends early, and how to watch it."""
    if not unfinished:
        yield "This command ends; no job goes on without it."
        return
    yield "This command no longer waits. In Glue, these go on without it, and so do the runs that they start:"
    yield from unfinished[:MAX_LISTED]
    if len(unfinished) > MAX_LISTED:
        yield f"and {len(unfinished) - MAX_LISTED:,} more runs"
    yield "To watch them: cdclake status. To wait for them again: cdclake run"


def show(outcome: PipelineOutcome, output: OutputFormat) -> None:
    """Print the outcome: a line for each change, or a JSON object for each table."""
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.records("Run", (), [_to_json(table) for table in outcome.tables])
        return
    if not outcome.tables:
        return
    out.records("Run", _COLUMNS, [record for table in outcome.tables for record in _change_records(table)])
    costs = [cost for table in outcome.tables for cost in _cost_records(table)]
    if costs:
        columns = [column for column in _COST_COLUMNS if any(column.key in cost for cost in costs)]
        out.records("Seconds per phase", columns, costs)
    for table in outcome.tables:
        for change in table.changes:
            for remark in _omissions(table.name, change):
                out.remark(remark)
    for table in outcome.tables:
        if table.reason:
            out.remark(f"{table.name}: {table.outcome}: {table.reason}")
        for finding in table.findings:
            out.remark(f"{table.name}: {finding}")
    if any(table.outcome == "inactive" for table in outcome.tables):
        out.remark("Inactive tables wait for you: cdclake tables set ..., then cdclake tables activate ...")


def _to_json(table: TableOutcome) -> dict[str, object]:
    return {
        "table": str(table.name),
        "outcome": table.outcome,
        "error": error_line(table.error) if table.error else None,
        "reason": table.reason or None,
        "findings": list(table.findings),
        "run_id": table.run_id or None,
        "steps": [step_record(asdict(change)) for change in table.changes],
    }


def _change_records(table: TableOutcome) -> Iterable[dict[str, object]]:
    """A record for each change, and one for the outcome if it is not `changed`."""
    name = str(table.name)
    for change in table.changes:
        yield {"table": name, "what": change.kind, **step_record(asdict(change))}
    if table.outcome != "changed":
        yield {"table": name, "what": table.outcome}


def _cost_records(table: TableOutcome) -> Iterable[dict[str, object]]:
    """For each change, the seconds per phase and the megabytes (10**6 bytes) read and written."""
    for change in table.changes:
        sizes = {"mb_read": change.bytes_read / 1e6, "mb_added": change.bytes_added / 1e6}
        rounded = {name: round(size, 1) for name, size in sizes.items()}
        yield {"table": str(table.name), "change": change.change, **change.phase_seconds, **rounded}


def _omissions(name: TableName, change: ChangeSummary) -> Iterable[str]:
    """What a change did not apply, and the command that shows it."""
    if change.quarantined:
        command = f"cdclake quarantine show {name.typed}"
        yield f"{name}, change {change.change}, rows quarantined: {change.quarantined:,}. To show them: {command}"
    if change.suppressed:
        what = "rows left out because their keys were erased after them"
        yield f"{name}, change {change.change}, {what}: {change.suppressed:,}"
    if change.unknown_keys:
        what = "updates that may have changed the key unseen"
        yield f"{name}, change {change.change}, {what}: {change.unknown_keys:,}. What that means: cdclake status"
    command = f"cdclake changes show {name.typed} {change.change}"
    for what, texts, separator in (
        ("columns changed at the source", change.drift, DRIFT_SEPARATOR),
        ("columns missing in updates", change.missing_columns, ", "),
    ):
        if texts:
            more = f". To show them all: {command}" if len(set(texts)) > MAX_LISTED else ""
            yield f"{name}, change {change.change}, {what}: {first_of(texts, separator)}{more}"
