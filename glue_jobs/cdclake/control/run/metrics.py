"""Computes metrics from decisions and change records. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.control.plan.decision import DecisionKind
from cdclake.model.metrics import Measure, Metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from cdclake.control.plan.decision import Decision
    from cdclake.control.plan.summary import TableResult
    from cdclake.model.change.delay import Delay
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.table.state import TableState


def lag_seconds(decision: Decision, now: datetime) -> float:
    """How long the oldest due raw file has been waiting; 0 if none is due."""
    return max((now - decision.oldest_utc).total_seconds(), 0.0) if decision.oldest_utc else 0.0


def exceeds_max_delay(state: TableState, seconds: float) -> bool:
    """Whether a raw file that waits for so long exceeds the table's `MaxDelayMinutes`."""
    # most tables have no such file, and reading settings takes time
    return seconds > 0 and 0 < state.settings.max_delay_minutes * 60 < seconds


def lag_metrics(state: TableState, decision: Decision, now: datetime) -> list[Metric]:
    """How far a lake table is behind its raw files. More than `MaxDelayMinutes` is a failure, to raise the alarm.

    Files of a full load that is still arriving are not due. A table without due files counts in the totals, but gets no
    metric of its own: most tables are idle most of the time, and CloudWatch charges for each name in each hour.
    """
    arriving = decision.kind is DecisionKind.WAITING
    files = 0 if arriving else decision.files + decision.left
    name = str(state.name) if files else ""
    seconds = lag_seconds(decision, now) if files else 0
    return [
        Metric(Measure.LAG_SECONDS, seconds, name),
        Metric(Measure.LAG_FILES, files, name),
        *([Metric(Measure.FAILURES, 1, name)] if exceeds_max_delay(state, seconds) else []),
    ]


def change_metrics(state: TableState, changes: Sequence[ChangeRecord], delays: Iterable[Delay]) -> list[Metric]:
    """Sums of what changes of a lake table read, rewrote and quarantined, and their delays; empty if there are none.

    Column changes are rare, and reported only if there are any. As in `lag_metrics`, too long a delay is a failure.
    """
    table, seconds = str(state.name), [delay.seconds for delay in delays]
    if not changes:
        return []
    drift = sum(len(record.drift) for record in changes)
    rows = {
        "I": sum(record.books.read_insert for record in changes),
        "U": sum(record.books.read_update for record in changes),
        "D": sum(record.books.read_delete for record in changes),
    }
    return [
        *(Metric(Measure.ROWS, count, table, op) for op, count in rows.items()),
        Metric(Measure.FILES_REWRITTEN, sum(len(record.retired) for record in changes), table),
        Metric(Measure.QUARANTINED_ROWS, sum(record.books.quarantined for record in changes), table),
        *([Metric(Measure.COLUMN_CHANGES, drift, table)] if drift else []),
        *(Metric(Measure.DELAY_SECONDS, one, table) for one in seconds),
        *(Metric(Measure.FAILURES, 1, table) for one in seconds if exceeds_max_delay(state, one)),
    ]


def run_end_metrics(table: str, seconds: float, *, failed: bool) -> list[Metric]:
    """Result and duration of the work on a table."""
    return [Metric(Measure.FAILURES, int(failed), table), Metric(Measure.DURATION_SECONDS, seconds, table)]


def catalog_failure_metrics(table: str) -> list[Metric]:
    """A failed update of the catalog. It counts as a failure, to raise the alarm."""
    return [Metric(Measure.FAILURES, 1, table)]


def controller_metrics(results: Sequence[TableResult], now: datetime, other_errors: int = 0) -> list[Metric]:
    """Metrics of a Controller run: the lag of every active table, the number of frozen tables, and the failures.

    Every run reports the number of tables, so missing data means that the Controller does not run. The number of tables
    for which Glue had no room is reported only if there are any.

    Args:
        other_errors: Number of errors that concern no table, such as a schema's folder that cannot be listed.
    """
    active = [result for result in results if result.planned.state.active]
    decisions = [result.planned.decision for result in active]
    frozen = sum(decision is not None and decision.kind is DecisionKind.FROZEN for decision in decisions)
    metrics = [Metric(Measure.TABLES, len(active)), Metric(Measure.FROZEN_TABLES, frozen)]
    not_started = sum(bool(result.no_room) for result in results)
    if not_started:
        metrics.append(Metric(Measure.NOT_STARTED, not_started))
    for result in results:
        name, decision = str(result.planned.state.name), result.planned.decision
        if result.planned.state.active and decision:
            metrics += lag_metrics(result.planned.state, decision, now)
        if result.error:
            metrics.append(Metric(Measure.FAILURES, 1, name))
    if other_errors:
        metrics.append(Metric(Measure.FAILURES, other_errors))
    return metrics
