"""The Controller: looks at every table of a raw location and starts a ProcessTable run for those that have work.

`plan` looks and changes nothing; `execute` does what the plan says. `cdclake plan` prints the same plan.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.control.decision import Decision, DecisionKind
from cdclake.control.discovery import has_raw_data, table_folders
from cdclake.control.entry import error_line
from cdclake.control.full_load_gate import task_word
from cdclake.control.lake_state import last_change
from cdclake.control.packing import PackLimits, Work, packs
from cdclake.control.planning import plan_table, to_activate
from cdclake.control.raw_look import Look, look_at_raw, transactions_begin
from cdclake.control.shared_listings import SharedListings
from cdclake.control.wake import wake_table, wake_tables
from cdclake.errors import ConfigurationError, RawFilesLostError, RetryableError, UnknownTableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from cdclake.control.wake import Woken
    from cdclake.model.table import TableState
    from cdclake.ports import JobRunner, ObjectReader, StateStore, TaskStatistics

CONCURRENT_LISTINGS = 16
"""10,000 requests of 30 ms in 20 seconds, far below the 5,500 a second that S3 answers for a prefix."""


DEFAULT_LIMITS = PackLimits()


class Action(Enum):
    """What the Controller does about a table."""

    REGISTER = "register"
    """Add it to the state table, inactive: a person looks first."""
    START = "start"
    """Start a ProcessTable run."""
    ASK = "ask"
    """Ask the run that is working on the table to look again before it ends."""
    NONE = "none"
    """Leave it alone."""


@dataclass(frozen=True)
class PlannedTable:
    """The plan for one table: a decision, or the error that prevented one.

    Attributes:
        state: The item as read; for a new table, the item to register.
    """

    state: TableState
    action: Action
    decision: Decision | None = None
    error: str = ""

    @property
    def failure(self) -> str:
        """What a run must report as failed: the error, or that the table is frozen; empty if neither."""
        if self.decision and self.decision.kind is DecisionKind.FROZEN:
            return error_line(RawFilesLostError(self.decision.reason, remedy=self.decision.to_do))
        return self.error

    def to_json(self) -> dict[str, object]:
        """Good for JSON: `table`, `path`, `action`, `error`, and the decision's own fields if there is one."""
        decision = self.decision.to_json() if self.decision else {}
        names = {"table": str(self.state.name), "path": self.state.path}
        return {**names, "action": self.action.value, "error": self.error, **decision}


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
class TableResult:
    """What became of one table's plan.

    Attributes:
        planned: The plan.
        outcome: `registered`, `started`, `busy`, ...; empty if nothing was to be done or it failed.
        run_id: Of the ProcessTable run that was started.
        error: What prevented planning or starting.
    """

    planned: PlannedTable
    outcome: str = ""
    run_id: str = ""
    error: str = ""

    def to_json(self) -> dict[str, object]:
        """Good for JSON: the plan's fields, `outcome` and `run_id`."""
        return {**self.planned.to_json(), "outcome": self.outcome, "run_id": self.run_id, "error": self.error}


@dataclass(frozen=True)
class Summary:
    """What a Controller run did; `errors` are the plan's."""

    tables: tuple[TableResult, ...]
    errors: tuple[str, ...] = ()

    @property
    def failed(self) -> list[TableResult]:
        """Tables that could not be planned, registered or started."""
        return [table for table in self.tables if table.error]

    def to_json(self) -> dict[str, object]:
        """Good for JSON; `error` says in one line what failed, and is empty if nothing did."""
        failures = [table.error for table in self.failed] + list(self.errors)
        error = ""
        if failures:
            names = ", ".join(str(table.planned.state.name) for table in self.failed)
            folders = f"; folders that could not be looked at: {len(self.errors)}" if self.errors else ""
            message = f"{len(self.failed)} of {len(self.tables)} tables failed: {names or 'none'}{folders}"
            error = error_line(RetryableError(message, remedy=f"The others went on. First error: {failures[0]}"))
        return {"tables": [table.to_json() for table in self.tables], "error": error}


@dataclass(frozen=True)
class Source:
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


def plan(source: Source, now: datetime, only: Collection[str] | None = None) -> Plan:
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
    found = table_folders(
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
    shared = replace(source, raw=SharedListings(source.raw, _transaction_begins(registered.values())))
    with ThreadPoolExecutor(CONCURRENT_LISTINGS) as pool:
        planned = list(pool.map(partial(_plan_one, shared, now, new), wanted))
    tables = tuple(table for table in planned if table)
    unknown = sorted(set(only or ()) - {str(table.state.name) for table in tables})
    if unknown and not found.errors:
        message = f"There is no table {', '.join(unknown)} in {bucket}/{prefix}"
        raise UnknownTableError(message, remedy="Write it as schema.table, as the folders in the raw bucket are named")
    return Plan(tables, tuple(found.errors))


def _transaction_begins(states: Iterable[TableState]) -> dict[str, str]:
    """By prefix of transaction files, the key after which any of the tables that read them wants them."""
    begins: dict[str, str] = {}
    for state in states:
        if state.active and state.transactions_prefix:
            try:
                begin = transactions_begin(state)
            except ConfigurationError:
                continue  # the table's own plan will say so
            known = begins.get(state.transactions_prefix, begin)
            begins[state.transactions_prefix] = min(known, begin)
    return begins


def _plan_one(source: Source, now: datetime, new: Collection[str], state: TableState) -> PlannedTable | None:
    """Plan one table; None for a folder that holds no table."""
    try:
        if state.path in new:
            found = has_raw_data(source.raw, state, source.prefix)
            return _plan_new(state.with_attributes(**source.new_table)) if found else None
        look = look_at_raw(source.raw, state, now) if state.active else Look([], [])
        word = task_word(source.statistics, state, look.full_load_files) if state.active else None
        decision = plan_table(state, look.full_load_files, look.change_files, now, task_word=word)
        return PlannedTable(state, _action(decision), decision)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one table must not stop the others; it is reported
        return PlannedTable(state, Action.NONE, error=error_line(error))


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

    Tables with little work share a run, see `cdclake.control.packing`. A run that cannot be started, as there is no
    room for it, is reported with each of its tables, and they come next time.

    Args:
        plan: From `plan`.
        states: The state table.
        jobs: Starts the runs.
        now: The time.
        limits: What goes into one run.
    """
    results = []
    woken = _start_runs(plan, states, jobs, now, limits)
    for table in plan.tables:
        log = logs.bind(__name__, table=str(table.state.name), change=last_change(table.state) or None)
        result = TableResult(table, error=table.error)
        try:
            result = _execute_one(table, woken, states, jobs, now)
        except Exception as error:
            log.exception("failed")
            result = replace(result, error=error_line(error))
        what = table.decision.reason if table.decision else result.error
        log.info(result.outcome or table.action.value, extra={"reason": what, "started": result.run_id})
        results.append(result)
    return Summary(tuple(results), plan.errors)


def _start_runs(plan: Plan, states: StateStore, jobs: JobRunner, now: datetime, limits: PackLimits) -> dict[str, Woken]:
    """Start a run for each pack of tables; what came of each table, by path."""
    work = [
        Work(table.state.path, table.decision.files, table.decision.bytes, table.decision.left)
        for table in plan.tables
        if table.action is Action.START and table.decision
    ]
    woken: dict[str, Woken] = {}
    for paths in packs(work, limits):
        woken.update(wake_tables(states, jobs, paths, now, even_if_requested=True))
    return woken


def _execute_one(
    table: PlannedTable, woken: Mapping[str, Woken], states: StateStore, jobs: JobRunner, now: datetime
) -> TableResult:
    if table.action is Action.REGISTER:
        added = states.register(table.state)
        return TableResult(table, outcome="registered" if added else "registered meanwhile")
    if table.action is Action.START:
        started = woken[table.state.path]
        if started.error:
            raise started.error
        return TableResult(table, outcome=started.wake.value, run_id=started.run_id)
    if table.action is Action.ASK:
        asked = wake_table(states, jobs, table.state.path, now, even_if_requested=True)
        return TableResult(table, outcome=asked.wake.value, run_id=asked.run_id)
    return TableResult(table, error=table.failure)
