"""`cdclake status`: show the health of every table."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.control.status import LATE_AFTER_MINUTES, Health, delay_text
from cdclake.errors import AttentionError
from cdclake.model.times import display_stored
from cdclake_cli.aws.untyped import untyped_columns
from cdclake_cli.options import AnyTablesArgument, LateAfterOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.several import MAX_NAMES, first_names, limited_to
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.control.controller import Plan
    from cdclake.control.status import TableStatus
    from cdclake_cli.aws.untyped import Untyped
    from cdclake_cli.printing.output import Output

MAX_ROWS = 200
"""Longer tables are slow to lay out and hard to read. Tables that need action come first."""

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("health", "Health"),
    OutputColumn("lag", "Lag"),
    OutputColumn("delay", "Delay"),
    OutputColumn("change", "Last change"),
    OutputColumn("run", "Last run"),
)


@with_target
def status(
    tables: AnyTablesArgument = None,
    *,
    late_after_minutes: LateAfterOption = LATE_AFTER_MINUTES,
    ignore_new: Annotated[bool, typer.Option("--ignore-new", help="Do not count new tables as action needed.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show the health of every table: lag, delay, last change, last run, action needed.

    The delay is the time from raw file to visible row of the last day's changes, p50 and p95.
    Exit status 6 if action is needed.

    Example: cdclake status --late-after-minutes 60
    """
    from cdclake.control import controller
    from cdclake.control.status import table_statuses
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services = connect(target)
    now = services.clock()
    planned = controller.plan(services.plan_inputs, now, limited_to(target, tables))
    statuses = table_statuses(planned.tables, services.log, now, late_after_minutes)
    untyped = untyped_columns(services.raw, [entry.state for entry in planned.tables])
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.records("Status", (), [{**one.to_json(), "untyped": untyped[one.path].columns} for one in statuses])
    else:
        show(statuses, out, untyped)
    for error in planned.errors:
        out.remark(f"A folder of the raw bucket cannot be read: {error}")
    for finding in planned.findings:
        out.remark(finding)
    urgent = [one for one in statuses if one.needs_action and not (ignore_new and one.health is Health.NEW)]
    if urgent or planned.errors or planned.findings:
        raise AttentionError(_message(urgent, planned), remedy=_remedies(urgent, planned))


def show(statuses: list[TableStatus], out: Output, untyped: Mapping[str, Untyped], max_rows: int = MAX_ROWS) -> None:
    """Print a table that fits 100 columns. Run ids and actions are long, so they follow it."""
    shown = statuses[:max_rows]
    out.records("Status", _COLUMNS, [_record(one) for one in shown])
    for one in shown:
        if one.leased_by:
            out.remark(f"{one.table}: leased by {one.leased_by} until {display_stored(one.leased_until_utc)}")
        for text in dict.fromkeys(filter(None, (one.to_do, *one.findings, untyped[one.path].text))):
            out.remark(f"{one.table}: {text}")
    out.remark(_summary(statuses, omitted=len(statuses) - len(shown)))


def _record(status: TableStatus) -> dict[str, object]:
    lag = "unknown" if status.lag_files is None else ""
    if status.lag_files and status.lag_seconds is not None:
        noun = "file" if status.lag_files == 1 else "files"
        lag = f"{status.lag_files:,} {noun} for {timedelta(seconds=round(status.lag_seconds))}"
    return {
        "table": status.table,
        "health": status.health.value,
        "lag": lag,
        "delay": delay_text(status),
        "change": f"{status.change:,} {status.change_kind} {display_stored(status.change_utc)}"
        if status.change
        else "",
        "run": f"{status.run_state} {display_stored(status.run_utc)}".strip(),
    }


def _summary(statuses: list[TableStatus], omitted: int) -> str:
    counts = Counter(one.health for one in statuses)
    text = f"Tables: {len(statuses):,}" + "".join(f", {one.value}: {counts[one]:,}" for one in Health if counts[one])
    return f"{text}. Not shown: {omitted:,}; --output json lists all" if omitted else text


def _message(urgent: list[TableStatus], planned: Plan) -> str:
    names = {health: [one.table for one in urgent if one.health is health] for health in Health}
    parts = [f"{len(tables)} {health.value} ({first_names(tables)})" for health, tables in names.items() if tables]
    if planned.errors:
        parts.append(f"unreadable folders: {len(planned.errors)}")
    if planned.findings:
        parts.append(f"folders with raw files of no table: {len(planned.findings)}")
    return f"Action needed: {'; '.join(parts)}"


def _remedies(urgent: list[TableStatus], planned: Plan) -> str:
    if urgent:
        more = f"; and {len(urgent) - MAX_NAMES:,} more tables, as shown" if len(urgent) > MAX_NAMES else ""
        return "; ".join(f"{one.table}: {one.to_do}" for one in urgent[:MAX_NAMES]) + more
    return planned.findings[0] if planned.findings else "Run again"
