"""`cdclake status`: how every table stands, and whether anything needs a person."""

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
"""More than that nobody reads, and they take long to lay out: those that need a person come first."""

_COLUMNS = (
    Column("table", "Table"),
    Column("standing", "Stands"),
    Column("lag_seconds", "Lag\nseconds", number=True),
    Column("lag_files", "Lag\nfiles", number=True),
    Column("change", "Change", number=True),
    Column("change_kind", "made by"),
    Column("change_utc", "at (UTC)"),
    Column("run_state", "Last run"),
    Column("run_utc", "ended (UTC)"),
    Column("leased_by", "Leased by"),
    Column("to_do", "For a person to do"),
)


@with_target
def status(
    *,
    table: TablesOption = None,
    late_after_minutes: LateAfterOption = LATE_AFTER_MINUTES,
    ignore_new: Annotated[bool, typer.Option("--ignore-new", help="New tables do not need a person.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show how every table stands: lag, last change, last run. Exit status 6 if something needs a person.

    Example: cdclake status --late-after-minutes 60
    """
    from cdclake.cli.aws.services import connect  # boto3 takes a while, and --help needs none
    from cdclake.control import controller
    from cdclake.control.status import table_statuses

    services, now = connect(target), datetime.now(timezone.utc)
    planned = controller.plan(services.plan_inputs, now, table)
    found = table_statuses(planned.tables, services.log, now, late_after_minutes)
    shown = output_for(output)
    rows = found[:MOST_ROWS] if output is OutputFormat.TABLE else found
    shown.records("Status", _COLUMNS, [one.to_json() for one in rows])
    if output is OutputFormat.TABLE:
        shown.remark(_summary(found, left_out=len(found) - len(rows)))
    for error in planned.errors:
        shown.remark(f"A folder of the raw bucket could not be looked at: {error}")
    needing = [one for one in found if one.needs_action and not (ignore_new and one.health is Health.NEW)]
    if needing or planned.errors:
        raise AttentionError(_in_short(needing, len(planned.errors)), remedy=_first_remedy(needing))


def _summary(found: list[TableStatus], left_out: int) -> str:
    counts = Counter(one.health for one in found)
    text = f"{len(found):,} tables" + "".join(f", {counts[one]:,} {one.value}" for one in Health if counts[one])
    return f"{text}. {left_out:,} are not shown: --output json tells of all" if left_out else text


def _in_short(needing: list[TableStatus], folders: int) -> str:
    names = {
        health: [one.table for one in needing if one.health is health]
        for health in Health
        if any(one.health is health for one in needing)
    }
    parts = [f"{len(tables)} {health.value} ({_names(tables)})" for health, tables in names.items()]
    if folders:
        parts.append(f"{folders} folders that could not be looked at")
    return f"Something needs a person: {'; '.join(parts)}"


def _names(tables: list[str]) -> str:
    return ", ".join([*tables[:MOST_NAMES], *(["..."] if len(tables) > MOST_NAMES else [])])


def _first_remedy(needing: list[TableStatus]) -> str:
    return f"{needing[0].table}: {needing[0].to_do}" if needing else "Run again"
