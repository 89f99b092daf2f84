"""Computes the status of tables from their plan, their item and their newest change.

`cdclake status` and the console both show it, so they agree.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Callable

from cdclake.concurrency import in_parallel
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.run.item_sync import check_not_ahead
from cdclake.control.run.metrics import exceeds_max_delay, lag_seconds
from cdclake.errors import CdclakeError
from cdclake.model.change.delay import RecentDelays
from cdclake.model.names import RunState, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from cdclake.commit.log import ChangeLog
    from cdclake.control.plan.decision import Decision
    from cdclake.control.plan.planned_table import PlannedTable
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState

LATE_AFTER_MINUTES = 180
"""The Controller runs every hour. A file that waits for three hours was skipped more than once."""
_LATE_AT_WORK = "wait for the run at work; if that takes long, read its log"
_LATE = "check that the Controller runs, and read the log of its last run (cdclake run starts it)"
CONCURRENT_READS = 32
"""The number of connections that a client keeps."""


class Health(Enum):
    """The health of a table: the first of these that applies, but `incomplete` goes before health without action."""

    BROKEN = "broken"
    """Its settings, item, raw files or change log cannot be read."""
    NEW = "new"
    """No operator has configured it yet."""
    ROLLED_BACK = "rolled back"
    """A rollback turned it off, and nobody has turned it on or left it off on purpose."""
    INACTIVE = "inactive"
    """An operator turned it off."""
    FROZEN = "frozen"
    """Change files vanished before they were applied."""
    FAILED = "failed"
    """Its last run failed."""
    WORKING = "working"
    """A run is working on it."""
    WAITING = "waiting"
    """Its full load is still arriving."""
    LATE = "late"
    """Raw files have been due for longer than its `MaxDelayMinutes`, which goes before `working`. Or, without that, for
    too long, and no run is working on it."""
    STALE_CATALOG = "stale catalog"
    """Its rows are right, but updating the catalog failed."""
    INCOMPLETE = "incomplete"
    """It works, but something was left out of it or changed at its source: it has findings."""
    BEHIND = "behind"
    """Raw files are due; the next run applies them."""
    UP_TO_DATE = "up to date"
    """Every raw file is accounted for, and there are no findings."""


NEEDS_ACTION = frozenset(
    {
        Health.BROKEN,
        Health.NEW,
        Health.ROLLED_BACK,
        Health.FROZEN,
        Health.FAILED,
        Health.LATE,
        Health.STALE_CATALOG,
        Health.INCOMPLETE,
    }
)


@dataclass(frozen=True)
class TableStatus:
    """The status of one table. Times are UTC, in the form of the item or the change record.

    Attributes:
        reason: Why it has this health, for people.
        to_do: The action needed from an operator; empty if none.
        findings: What was left out or needs an operator's attention although the table works, each with its remedy.
        lag_seconds: How long the oldest due raw file has been waiting; None if unknown.
        lag_files: Number of due raw files; None if unknown.
        delay_p50_seconds: Median of its changes' delays of the last day, see `cdclake.model.change.delay`; None if no
            change applied new files.
        delay_p95_seconds: The delay that 95 % of them did not exceed.
        change: Number of the newest change that the item knows; None if there is none.
        change_kind: Kind of that change.
        change_utc: When it was made.
        rows: Rows of the lake table after it; None if unknown.
        run_state: `SUCCEEDED` or `FAILED`: how the last run ended; empty if there was none.
        run_id: Id of that run.
        run_utc: When it ended.
        error: Its error; empty if it had none.
        leased_by: Run that holds the table's lease; empty if none.
        leased_until_utc: When the lease expires.
        catalog_table: `<database>.<table>` that shows the table in the catalog; empty if none.
        catalog_error: Why the last update of the catalog failed; empty if it did not.
    """

    table: str
    path: str
    health: Health
    reason: str
    to_do: str
    findings: tuple[str, ...]
    lag_seconds: float | None
    lag_files: int | None
    delay_p50_seconds: int | None
    delay_p95_seconds: int | None
    change: int | None
    change_kind: str
    change_utc: str
    rows: int | None
    run_state: str
    run_id: str
    run_utc: str
    error: str
    leased_by: str
    leased_until_utc: str
    catalog_table: str
    catalog_error: str

    @property
    def needs_action(self) -> bool:
        """Whether the table waits for an operator."""
        return self.health in NEEDS_ACTION or (self.health is Health.WAITING and bool(self.to_do))

    def to_json(self) -> dict[str, object]:
        """JSON data. `health` is under the key `standing`, and `needs_action` under `needs_a_person`."""
        data = {("standing" if name == "health" else name): value for name, value in asdict(self).items()}
        return {**data, "standing": self.health.value, "needs_a_person": self.needs_action}


def table_statuses(
    planned: Iterable[PlannedTable], log_of: Callable[[TableName], ChangeLog], now: datetime, late_after_minutes: int
) -> list[TableStatus]:
    """Compute the status of each table. Tables that need action come first, else the order is kept.

    Args:
        planned: The Controller's plan for each table.
        log_of: Opens a table's change log.
        late_after_minutes: A raw file that has been due for longer is late.
    """

    def read(table: PlannedTable) -> TableStatus:
        record, problem, state = None, "", table.state
        if state.last_change:
            try:
                record = log_of(state.name).record(state.last_change)
            except CdclakeError as error:  # reported in the table's status
                problem = str(_of_lost_log(state, log_of, error))
        return table_status(table, record, problem, now, late_after_minutes)

    statuses = in_parallel(read, planned, CONCURRENT_READS)
    return sorted(statuses, key=lambda status: not status.needs_action)


def _of_lost_log(state: TableState, log_of: Callable[[TableName], ChangeLog], error: CdclakeError) -> CdclakeError:
    """The error with which a run stops, if the lake lacks the newest change; the same error if another is the cause."""
    try:
        log = log_of(state.name)
        check_not_ahead(state, log.layout, log.head())
    except CdclakeError as cause:
        return cause
    return error


def table_status(
    planned: PlannedTable, newest: ChangeRecord | None, problem: str, now: datetime, late_after_minutes: int
) -> TableStatus:
    """Compute the status of one table. Pure.

    Args:
        planned: The Controller's plan for it.
        newest: The newest change that its item knows; None if there is none or it cannot be read.
        problem: Why the change cannot be read; empty if it can.
        late_after_minutes: A raw file that has been due for longer is late.
    """
    state, decision = planned.state, planned.decision
    error = planned.error_text or problem
    health = Health.BROKEN if error or decision is None else _health(state, decision, now, late_after_minutes)
    if decision and decision.findings and health not in (*NEEDS_ACTION, Health.INACTIVE):
        health = Health.INCOMPLETE
    known = decision is not None and decision.kind is not DecisionKind.INACTIVE
    leased = state.leased(now)
    item = state.item
    delays = RecentDelays.of(item, now)
    late = _late_text(state, decision, now) if decision and health is Health.LATE else ""
    return TableStatus(
        table=str(state.name),
        path=state.path,
        health=health,
        reason=error or late or (decision.reason if decision else ""),
        to_do=f"{late}: {_LATE_AT_WORK if leased else _LATE}" if late else _to_do(health, error, state, decision),
        findings=decision.findings if decision else (),
        lag_seconds=lag_seconds(decision, now) if decision and known else None,
        lag_files=decision.files + decision.left if decision and known else None,
        delay_p50_seconds=delays.percentile(50),
        delay_p95_seconds=delays.percentile(95),
        change=state.last_change or None,
        change_kind=newest.kind.value if newest else "",
        change_utc=newest.created_utc if newest else "",
        rows=newest.books.rows_after if newest else None,
        run_state=item.get(Attribute.LAST_RUN_STATE, ""),
        run_id=item.get(Attribute.LAST_RUN_ID, ""),
        run_utc=item.get(Attribute.LAST_RUN_UTC, ""),
        error=item.get(Attribute.LAST_ERROR, ""),
        leased_by=item[Attribute.LEASE_HOLDER] if leased else "",
        leased_until_utc=item[Attribute.LEASE_EXPIRES_UTC] if leased else "",
        catalog_table=item.get(Attribute.LAST_CATALOG_TABLE, ""),
        catalog_error=item.get(Attribute.LAST_CATALOG_ERROR, ""),
    )


def _health(state: TableState, decision: Decision, now: datetime, late_after_minutes: int) -> Health:
    catalog_error = state.item.get(Attribute.LAST_CATALOG_ERROR)
    if state.off_by_rollback:
        return Health.ROLLED_BACK
    if decision.kind is DecisionKind.INACTIVE:
        off = Health.STALE_CATALOG if catalog_error else Health.INACTIVE
        return Health.NEW if _never_configured(state) else off
    if decision.kind is DecisionKind.FROZEN:
        return Health.FROZEN
    if state.item.get(Attribute.LAST_RUN_STATE) == RunState.FAILED:
        return Health.FAILED
    lag = lag_seconds(decision, now)
    if decision.kind is not DecisionKind.WAITING and exceeds_max_delay(state, lag):
        return Health.LATE
    if state.leased(now):
        return Health.WORKING
    if decision.kind is DecisionKind.WAITING:
        return Health.WAITING
    if lag > late_after_minutes * 60 and not state.settings.max_delay_minutes:
        return Health.LATE
    if catalog_error:
        return Health.STALE_CATALOG
    is_current = decision.kind is DecisionKind.CLEAN_UP or not decision.work
    return Health.UP_TO_DATE if is_current else Health.BEHIND


def delay_text(status: TableStatus) -> str:
    """The delays of the last day, for people: `42 s, p95 3 min`; empty if there are none."""
    if status.delay_p50_seconds is None or status.delay_p95_seconds is None:
        return ""
    return f"{duration_text(status.delay_p50_seconds)}, p95 {duration_text(status.delay_p95_seconds)}"


def _late_text(state: TableState, decision: Decision, now: datetime) -> str:
    bound, age = state.settings.max_delay_minutes, duration_text(round(lag_seconds(decision, now)))
    limit = f", and {Attribute.MAX_DELAY_MINUTES} is {bound}" if bound else ""
    return f"the oldest due raw file was written {age} ago{limit}"


def _never_configured(state: TableState) -> bool:
    """Whether an inactive table is as it was registered: it has no key, and no run ever worked on it."""
    run_attributes = (Attribute.LAST_RUN_STATE, Attribute.LAST_CHANGE_ID, Attribute.FENCING_TOKEN)
    key = state.item.get(Attribute.PRIMARY_KEY, Sentinel.NONE)
    return key == Sentinel.NONE and not any(state.item.get(name) for name in run_attributes)


def _to_do(health: Health, error: str, state: TableState, decision: Decision | None) -> str:
    if health is Health.BROKEN:
        return error
    waits = decision is not None and decision.kind is DecisionKind.WAITING and bool(decision.to_do)
    if health is Health.FAILED and not waits:  # a table that waits is not run again: the error is of other files
        return state.item.get(Attribute.LAST_ERROR, "")
    if health is Health.STALE_CATALOG:
        return state.item[Attribute.LAST_CATALOG_ERROR]
    if health is Health.INCOMPLETE and decision:
        return decision.findings[0]
    return decision.to_do if decision else ""
