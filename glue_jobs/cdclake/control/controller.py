"""The Controller: polls at every table of a raw location and starts a ProcessTable run for those that have work.

`plan` polls and changes nothing; `execute` does what the plan says. `cdclake plan` prints the same plan.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.discovery import discover_tables, has_raw_data
from cdclake.control.plan.full_load_gate import dms_table_state
from cdclake.control.plan.packing import PackLimits, Work, packs
from cdclake.control.plan.plan_table import plan_table, to_activate
from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.control.plan.raw_scan import Look, scan_all, scan_raw, transactions_begin
from cdclake.control.plan.shared_listings import SharedListings
from cdclake.control.plan.summary import NOT_STARTED, Summary, TableResult
from cdclake.control.run.trigger import trigger_table, trigger_tables
from cdclake.errors import ConfigurationError, NoRoomError, UnknownTableError
from cdclake.model.names import Attribute

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from cdclake.control.run.trigger import TriggerResult
    from cdclake.model.table import TableState
    from cdclake.ports import JobRunner, ObjectReader, StateStore, TaskStatistics

CONCURRENT_LISTINGS = 16
"""10,000 requests of 30 ms in 20 seconds, far below the 5,500 a second that S3 answers for a prefix."""
CONCURRENT_WRITES = 16
"""As many, within the connections that a client keeps open (`cdclake.adapters.aws`)."""


DEFAULT_LIMITS = PackLimits()


@dataclass(frozen=True)
class Plan:
    """What a Controller run would do now. Inert.

    Attributes:
        tables: In the order of their paths.
        errors: Folders that could not be looked at, a line each; there may be tables in them that nobody knows yet.
    """

    tables: tuple[PlannedTable, ...]
    errors: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        return {"tables": [table.to_json() for table in self.tables], "errors": list(self.errors)}


@dataclass(frozen=True)
class PlanInputs:
    """Where a plan's facts come from; nothing of it is changed.

    Attributes:
        raw: The raw bucket.
        states: The state table.
        bucket: Name of the raw bucket.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        statistics: Tells how far the DMS tasks are that tables name; None: full loads are judged by their files alone.
        new_table: Settings that a table is registered with, beside the defaults.
    """

    raw: ObjectReader
    states: StateStore
    bucket: str
    prefix: str
    statistics: TaskStatistics | None = None
    new_table: Mapping[str, str] = field(default_factory=dict)


def plan(source: PlanInputs, now: datetime, only: Collection[str] | None = None) -> Plan:
    """Look at every table and decide what to do. Changes nothing.

    Tables are those with raw files and those registered under the location. A table that cannot be planned carries its
    error in the plan, and the others are planned all the same.

    Args:
        source: Raw bucket and state table.
        now: The time.
        only: `schema.table` names to limit the plan to; all if None or empty.

    Raises:
        ConfigurationError: The raw location is empty, and no table of it is registered.
        UnknownTableError: A name in `only` is no table.
    """
    bucket, prefix = source.bucket, source.prefix
    registered = {state.path: state for state in source.states.all(f"{bucket}/{prefix}")}
    transaction_folders = {state.transactions_folder for state in registered.values()} - {""}
    found = discover_tables(
        source.raw,
        bucket,
        prefix,
        transaction_folders,
        may_be_empty=bool(registered),
        at_once=CONCURRENT_LISTINGS,
    )
    seen = {state.path: state for state in found.tables}
    candidates = [registered.get(path, seen.get(path)) for path in sorted({*seen, *registered})]
    wanted = [state for state in candidates if state and (not only or str(state.name) in only)]
    new = {path for path in seen if path not in registered}
    shared = replace(source, raw=SharedListings(source.raw, _transaction_begins(registered.values(), now)))
    with ThreadPoolExecutor(CONCURRENT_LISTINGS) as pool:
        planned = list(pool.map(partial(_plan_one, shared, now, new), wanted))
    tables = tuple(table for table in planned if table)
    unknown = sorted(set(only or ()) - {str(table.state.name) for table in tables})
    if unknown and not found.errors:
        message = f"There is no table {', '.join(unknown)} in {bucket}/{prefix}"
        raise UnknownTableError(message, remedy="Write it as schema.table, as the folders in the raw bucket are named")
    return Plan(tables, tuple(found.errors))


def _transaction_begins(states: Iterable[TableState], now: datetime) -> dict[str, str]:
    """By prefix of transaction files, the key after which any of the tables that read them wants them."""
    begins: dict[str, str] = {}
    for state in states:
        if state.active and state.transactions_prefix:
            try:
                begin = transactions_begin(state, now)
            except ConfigurationError:
                continue  # the table's own plan will say so
            known = begins.get(state.transactions_prefix, begin)
            begins[state.transactions_prefix] = min(known, begin)
    return begins


def _plan_one(source: PlanInputs, now: datetime, new: Collection[str], state: TableState) -> PlannedTable | None:
    """Plan one table; None for a folder that holds no table."""
    try:
        if state.path in new:
            found = has_raw_data(source.raw, state, source.prefix)
            return _plan_new(state.with_attributes(**source.new_table)) if found else None
        if not state.active:
            return PlannedTable(state, Action.NONE, plan_table(state, (), (), now))
        look = scan_raw(source.raw, state, now)
        decision = _decide(source, state, look, now)
        if decision.kind is DecisionKind.FROZEN and not look.whole:  # the files may lie where this look did not come
            decision = _decide(source, state, scan_all(source.raw, state), now)
        return PlannedTable(state, _action(decision), decision, page_end=look.page_end)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one table must not stop the others; it is reported
        return PlannedTable(state, Action.NONE, error=error_line(error))


def _decide(source: PlanInputs, state: TableState, look: Look, now: datetime) -> Decision:
    word = dms_table_state(source.statistics, state, look.full_load_files)
    return plan_table(state, look.full_load_files, look.change_files, now, dms_table_state=word)


def _action(decision: Decision) -> Action:
    if decision.kind is DecisionKind.BUSY:
        return Action.ASK
    return Action.START if decision.work else Action.NONE


def _plan_new(state: TableState) -> PlannedTable:
    return PlannedTable(state, Action.REGISTER, Decision(DecisionKind.INACTIVE, "the table is new", to_activate(state)))


def execute(
    plan: Plan, states: StateStore, jobs: JobRunner, now: datetime, limits: PackLimits = DEFAULT_LIMITS
) -> Summary:
    """Do what a plan says: register new tables, start runs. One table's failure does not stop the others.

    Tables with little work share a run, see `cdclake.control.plan.packing`. A table whose run finds no room is reported
    as such. It is no failure: it comes next time.

    Args:
        plan: From `plan`.
        states: The state table.
        jobs: Starts the runs.
        now: The time.
        limits: What goes into one run.
    """
    results = []
    forgotten = _remember_pages(plan, states)
    triggered = _start_runs(plan, states, jobs, now, limits)
    for table in plan.tables:
        log = logs.bind(__name__, table=str(table.state.name), change=table.state.last_change or None)
        result = TableResult(table, error=table.error)
        try:
            if table.state.path in forgotten:
                raise forgotten[table.state.path]
            result = _execute_one(table, triggered, states, jobs, now)
        except NoRoomError as error:
            result = replace(result, outcome=NOT_STARTED, no_room=str(error))
        except Exception as error:
            log.exception("failed")
            result = replace(result, error=error_line(error))
        what = result.no_room or (table.decision.reason if table.decision else result.error)
        log.info(result.outcome or table.action.value, extra={"reason": what, "started": result.run_id})
        results.append(result)
    return Summary(tuple(results), plan.errors)


def _remember_pages(plan: Plan, states: StateStore) -> dict[str, Exception]:
    """Write down how far each look came, where that changed; what went wrong, by path."""

    def remember(table: PlannedTable) -> Exception | None:
        try:
            states.record_run(table.state.path, {Attribute.LAST_PAGE_END: table.page_end})
        except Exception as error:  # noqa: BLE001 - it is told of its table, and the others go on
            return error
        return None

    moved = [table for table in plan.tables if table.page_moved]
    with ThreadPoolExecutor(CONCURRENT_WRITES) as pool:
        errors = zip(moved, pool.map(remember, moved))
        return {table.state.path: error for table, error in errors if error}


def _start_runs(
    plan: Plan, states: StateStore, jobs: JobRunner, now: datetime, limits: PackLimits
) -> dict[str, TriggerResult]:
    """Start a run for each pack of tables; what came of each table, by path."""
    work = [
        Work(table.state.path, table.decision.files, table.decision.bytes, table.decision.left)
        for table in plan.tables
        if table.action is Action.START and table.decision
    ]
    triggered: dict[str, TriggerResult] = {}
    for paths in packs(work, limits):
        triggered.update(trigger_tables(states, jobs, paths, now, even_if_requested=True))
    return triggered


def _execute_one(
    table: PlannedTable, triggered: Mapping[str, TriggerResult], states: StateStore, jobs: JobRunner, now: datetime
) -> TableResult:
    if table.action is Action.REGISTER:
        added = states.register(table.state)
        return TableResult(table, outcome="registered" if added else "registered meanwhile")
    if table.action is Action.START:
        started = triggered[table.state.path]
        if started.error:
            raise started.error
        return TableResult(table, outcome=started.wake.value, run_id=started.run_id)
    if table.action is Action.ASK:
        asked = trigger_table(states, jobs, table.state.path, now, even_if_requested=True)
        return TableResult(table, outcome=asked.wake.value, run_id=asked.run_id)
    return TableResult(table, error=table.failure)
