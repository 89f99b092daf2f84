"""`cdclake status`: show the health of every table."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.options import LateAfterOption, TablesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for
from cdclake.cli.target import Target
from cdclake.control.status import LATE_AFTER_MINUTES, Health
from cdclake.errors import AttentionError

if TYPE_CHECKING:
    from cdclake.control.status import TableStatus

MOST_NAMES = 3
MOST_ROWS = 200
"""Longer tables take long to lay out, and are too long to read. Tables that need action come first."""

_COLUMNS = (
    Column("table", "Table"),
    Column("standing", "Health"),
    Column("lag_seconds", "Lag\nseconds", number=True),
    Column("lag_files", "Lag\nfiles", number=True),
    Column("change", "Change", number=True),
    Column("change_kind", "Kind"),
    Column("change_utc", "Committed", time=True),
    Column("run_state", "Last run"),
    Column("run_utc", "Ended", time=True),
    Column("leased_by", "Leased by"),
    Column("to_do", "Action needed"),
)


@with_target
def status(
    *,
    table: TablesOption = None,
    late_after_minutes: LateAfterOption = LATE_AFTER_MINUTES,
    ignore_new: Annotated[bool, typer.Option("--ignore-new", help="Do not count new tables as action needed.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show the health of every table: lag, last change, last run. Exit status 6 if action is needed.

    Example: cdclake status --late-after-minutes 60
    """
    from cdclake.cli.aws.services import connect  # slow to import, and --help does not need it
    from cdclake.control import controller
    from cdclake.control.status import table_statuses

    services, now = connect(target), datetime.now(timezone.utc)
    planned = controller.plan(services.plan_inputs, now, table)
    statuses = table_statuses(planned.tables, services.log, now, late_after_minutes)
    out = output_for(output)
    shown = statuses[:MOST_ROWS] if output is OutputFormat.TABLE else statuses
    out.records("Status", _COLUMNS, [one.to_json() for one in shown])
    if output is OutputFormat.TABLE:
        out.remark(_summary(statuses, omitted=len(statuses) - len(shown)))
    for error in planned.errors:
        out.remark(f"A folder of the raw bucket cannot be read: {error}")
    urgent = [one for one in statuses if one.needs_action and not (ignore_new and one.health is Health.NEW)]
    if urgent or planned.errors:
        raise AttentionError(_message(urgent, len(planned.errors)), remedy=_first_remedy(urgent))


def _summary(statuses: list[TableStatus], omitted: int) -> str:
    counts = Counter(one.health for one in statuses)
    text = f"{len(statuses):,} tables" + "".join(f", {counts[one]:,} {one.value}" for one in Health if counts[one])
    return f"{text}. {omitted:,} are not shown; --output json lists all" if omitted else text


def _message(urgent: list[TableStatus], unreadable_folders: int) -> str:
    names = {health: [one.table for one in urgent if one.health is health] for health in Health}
    parts = [f"{len(tables)} {health.value} ({_names(tables)})" for health, tables in names.items() if tables]
    if unreadable_folders:
        parts.append(f"{unreadable_folders} unreadable folders")
    return f"Action needed: {'; '.join(parts)}"


def _names(tables: list[str]) -> str:
    return ", ".join([*tables[:MOST_NAMES], *(["..."] if len(tables) > MOST_NAMES else [])])


def _first_remedy(urgent: list[TableStatus]) -> str:
    return f"{urgent[0].table}: {urgent[0].to_do}" if urgent else "Run again"
