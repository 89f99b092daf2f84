"""The Controller: plans every table of a raw location, and starts a ProcessTable run for each table with work.

`plan` only reads; `execute` carries the plan out. `cdclake plan` prints the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.concurrency import in_parallel
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.discovery import discover_tables, has_raw_data
from cdclake.control.plan.full_load_gate import dms_table_state
from cdclake.control.plan.packing import DueWork, PackLimits, pack_tables
from cdclake.control.plan.plan_table import plan_table, to_activate
from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.control.plan.raw_scan import RawScan, scan_all, scan_raw
from cdclake.control.plan.shared_listings import SharedListings
from cdclake.control.plan.summary import NOT_STARTED, Summary, TableResult
from cdclake.control.run.trigger import trigger_tables
from cdclake.errors import NoRoomError, RawFilesLostError, UnknownTableError, similar_names
from cdclake.model.layout import require_schema_folder
from cdclake.model.names import RunState
from cdclake.model.raw.files import RawFiles
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from cdclake.control.run.trigger import TriggerResult
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock, JobRunner, ObjectReader, StateStore, TaskStatistics

CONCURRENT_WRITES = 16
"""Within the number of connections that a client keeps open (`cdclake.adapters.aws`)."""

DEFAULT_LIMITS = PackLimits()


@dataclass(frozen=True)
class Plan:
    """What a Controller run would do now. Inert.

    Attributes:
        tables: In the order of their paths.
        errors: One line for each folder that could not be listed. The plan lacks new tables in these folders.
        findings: One text for each folder with raw files that are in no table's folder, with the remedy; none if the
            plan is limited to some tables.
        limited: Whether it is limited to some tables.
    """

    tables: tuple[PlannedTable, ...]
    errors: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    limited: bool = False

    def to_json(self) -> dict[str, object]:
        """JSON data."""
        tables = [table.to_json() for table in self.tables]
        return {"tables": tables, "errors": list(self.errors), "findings": list(self.findings)}


@dataclass(frozen=True)
class PlanInputs:
    """The sources of a plan. Planning only reads them.

    Attributes:
        bucket: Name of the raw bucket.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        statistics: Reads table states of DMS tasks; None: only the files decide whether a full load is complete.
        new_table: Settings for newly registered tables, in addition to the defaults.
    """

    raw: ObjectReader
    states: StateStore
    bucket: str
    prefix: str
    statistics: TaskStatistics | None = None
    new_table: Mapping[str, str] = field(default_factory=dict)


def plan(inputs: PlanInputs, now: datetime, only: Collection[TableName] = ()) -> Plan:
    """Decide what to do for every table. Changes nothing.

    The plan covers tables with raw files and registered tables of the location. If a table cannot be planned, the plan
    holds its error, and the other tables are planned anyway.

    Args:
        inputs: Raw bucket and state table.
        only: Tables to limit the plan to; empty for all.

    Raises:
        ConfigurationError: The raw location is empty, and it has no registered table.
        UnknownTableError: A name in `only` is not a table.
    """
    bucket, prefix = inputs.bucket, inputs.prefix
    registered = {state.path: state for state in inputs.states.all(f"{bucket}/{prefix}")}
    transaction_folders = {state.transactions_folder for state in registered.values()} - {""}
    discovered = discover_tables(inputs.raw, bucket, prefix, transaction_folders, may_be_empty=bool(registered))
    states = {**{state.path: state for state in discovered.tables}, **registered}
    selected = [state for _, state in sorted(states.items()) if not only or state.name in only]
    tables = plan_tables(inputs, now, selected, states.keys() - registered.keys())
    unknown = sorted(set(only) - {table.state.name for table in tables})
    if unknown and not discovered.errors:
        message = f"There is no table {', '.join(map(str, unknown))} in {bucket}/{prefix}"
        known = [str(state.name) for state in states.values()]
        similar = "".join(similar_names(str(name), known) for name in unknown)
        remedy = f"{similar}Write it as schema.table, as the folders in the raw bucket are named"
        raise UnknownTableError(message, remedy=remedy)
    return Plan(tables, tuple(discovered.errors), () if only else tuple(discovered.findings), bool(only))


def plan_tables(
    inputs: PlanInputs, now: datetime, states: Collection[TableState], new: Collection[str] = ()
) -> tuple[PlannedTable, ...]:
    """Decide what to do for tables whose items are known, in their order; see `plan`.

    Args:
        new: Paths of those that are not registered. Without raw files they are no tables, and left out.
    """
    active = (state for state in states if state.active)
    shared = replace(inputs, raw=SharedListings.of_tables(inputs.raw, active, now))
    planned = in_parallel(partial(_plan_one, shared, now, new), states, inputs.raw.calls_at_once)
    return tuple(table for table in planned if table)


def _plan_one(inputs: PlanInputs, now: datetime, new: Collection[str], state: TableState) -> PlannedTable | None:
    """Plan one table; None for a folder that holds no table."""
    try:
        if state.path in new:
            if not has_raw_data(inputs.raw, state, inputs.prefix):
                return None
            require_schema_folder(state.name)
            state = state.with_attributes(**inputs.new_table)
            decision = Decision(DecisionKind.INACTIVE, "the table is new", to_activate(state))
            return PlannedTable(state, Action.REGISTER, decision)
        require_schema_folder(state.name)
        state.check_types()
        if not state.active:
            return PlannedTable(state, Action.NONE, plan_table(state, RawFiles(), now))
        scan = scan_raw(inputs.raw, state, now)
        decision = _decide(inputs, state, scan, now)
        if decision.kind is DecisionKind.FROZEN and not scan.complete:  # the scan may have missed the files
            decision = _decide(inputs, state, scan_all(inputs.raw, state), now)
        return PlannedTable(state, _action(state, decision), decision, page_end=scan.page_end)
    except Exception as error:  # noqa: BLE001 - reported; an error of one table must not stop the others
        return PlannedTable(state, Action.NONE, error=error)


def _decide(inputs: PlanInputs, state: TableState, scan: RawScan, now: datetime) -> Decision:
    dms_state = dms_table_state(inputs.statistics, state, scan.files.full_load)
    return plan_table(state, scan.files, now, dms_state=dms_state, complete=scan.complete)


def _action(state: TableState, decision: Decision) -> Action:
    if decision.kind is DecisionKind.BUSY:
        return Action.ASK
    # Only a run knows whether the files were applied before they vanished: the item may be restored from before that.
    confirmed = state.item.get(Attribute.LAST_ERROR_CODE) == RawFilesLostError.__name__
    unsure = decision.kind is DecisionKind.FROZEN and not confirmed
    return Action.START if decision.work or unsure else Action.NONE


def execute(
    plan: Plan,
    states: StateStore,
    jobs: JobRunner,
    clock: Clock,
    limits: PackLimits = DEFAULT_LIMITS,
) -> Summary:
    """Carry out a plan: register new tables, and start runs. A failure of one table does not stop the others.

    Tables with little work share a run, see `cdclake.control.plan.packing`. If Glue has no room for a run, its tables
    are reported as not started. That is no failure: the next Controller run starts them.

    No run is started for a table that another run holds by now, nor for one whose run was requested shortly before and
    has not begun yet. In a plan that is limited to some tables the latter get one.

    Args:
        clock: The time now: planning may have taken minutes.
    """
    for finding in plan.findings:
        logs.bind(__name__).warning(finding)
    results = []
    page_errors = _store_pages(plan, states)
    triggered: dict[str, TriggerResult] = {}
    asked = [[table.state.path] for table in plan.tables if table.action is Action.ASK]
    insisted = {table.state.path for table in plan.tables if plan.limited or _failed_since_request(table.state)}
    for paths in [*_packs(plan, limits), *asked]:
        triggered.update(trigger_tables(states, jobs, paths, clock(), insisted))
    for table in plan.tables:
        log = logs.bind(__name__, table=str(table.state.name), change=table.state.last_change or None)
        result = TableResult(table, error=table.error)
        try:
            if table.state.path in page_errors:
                raise page_errors[table.state.path]
            result = _execute_one(table, triggered, states)
        except NoRoomError as error:
            result = replace(result, outcome=NOT_STARTED, no_room=str(error))
        except Exception as error:
            log.exception("failed")
            result = replace(result, error=error)
        reason = result.no_room or (table.decision.reason if table.decision else table.error_text)
        log.info(result.outcome or table.action.value, extra={"reason": reason, "started": result.run_id})
        results.append(result)
    return Summary(tuple(results), plan.errors, plan.findings)


def _store_pages(plan: Plan, states: StateStore) -> dict[str, Exception]:
    """Store where the next page of each table begins, if that changed. Returns the errors, by path."""

    def store(table: PlannedTable) -> Exception | None:
        try:
            states.record_run(table.state.path, {Attribute.LAST_PAGE_END: table.page_end})
        except Exception as error:  # noqa: BLE001 - reported for its table; the others continue
            return error
        return None

    moved = [table for table in plan.tables if table.page_moved]
    errors = zip(moved, in_parallel(store, moved, CONCURRENT_WRITES))
    return {table.state.path: error for table, error in errors if error}


def _packs(plan: Plan, limits: PackLimits) -> list[list[str]]:
    """The paths of the tables of each run to start."""
    due = [
        DueWork(
            table.state.path,
            table.decision.files,
            table.decision.bytes,
            table.decision.left,
            alone=table.state.deaths > 0 or _left_by_processtable(table.state),
        )
        for table in plan.tables
        if table.action is Action.START and table.decision
    ]
    return pack_tables(due, limits)


def _failed_since_request(state: TableState) -> bool:
    """Whether the last run failed after the pending request was made, and left it: no run will come for it."""
    requested_utc, failed_utc = (
        state.item.get(Attribute.WORK_REQUESTED_UTC, ""),
        state.item.get(Attribute.LAST_RUN_UTC, ""),
    )
    return state.item.get(Attribute.LAST_RUN_STATE) == RunState.FAILED and requested_utc <= failed_utc


def _left_by_processtable(state: TableState) -> bool:
    """Whether a ProcessTable run died before it handed the table over: perhaps at this table, as at too many files."""
    return Attribute.LEASE_HOLDER in state.item and not state.item.get(Attribute.LAST_SPARK_RUN)


def _execute_one(table: PlannedTable, triggered: Mapping[str, TriggerResult], states: StateStore) -> TableResult:
    if table.action is Action.REGISTER:
        added = states.register(table.state)
        return TableResult(table, outcome="registered" if added else "registered meanwhile")
    if table.state.path in triggered:
        result = triggered[table.state.path]
        if result.error:
            raise result.error
        return TableResult(table, outcome=result.outcome.value, run_id=result.run_id, error=table.failure)
    return TableResult(table, error=table.failure)
