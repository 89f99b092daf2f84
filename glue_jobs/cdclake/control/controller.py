"""The Controller: looks at every table of a raw location and starts a ProcessTable run for those that have work.

`plan` looks and changes nothing; `execute` does what the plan says. `cdclake plan` prints the same plan.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.control.discovery import has_raw_data, table_folders
from cdclake.control.entry import error_line
from cdclake.control.planning import Decision, DecisionKind, plan_table
from cdclake.control.shared_listings import SharedListings
from cdclake.control.wake import wake_table
from cdclake.errors import RetryableError, UnknownTableError
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from cdclake.model.table import TableState
    from cdclake.ports import JobRunner, ObjectReader, StateStore

CONCURRENT_LISTINGS = 8


class Action(Enum):
    """What the Controller does about a table."""

    REGISTER = "register"
    """Add it to the state table, inactive: a person looks first."""
    START = "start"
    """Start a ProcessTable run."""
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

    def to_json(self) -> dict[str, object]:
        """Good for JSON: `table`, `path`, `action`, `error`, and the decision's own fields if there is one."""
        decision = self.decision.to_json() if self.decision else {}
        names = {"table": str(self.state.name), "path": self.state.path}
        return {**names, "action": self.action.value, "error": self.error, **decision}


@dataclass(frozen=True)
class Plan:
    """What a Controller run would do now, table by table in the order of their paths. Inert."""

    tables: tuple[PlannedTable, ...]

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        return {"tables": [table.to_json() for table in self.tables]}


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
    """What a Controller run did."""

    tables: tuple[TableResult, ...]

    @property
    def failed(self) -> list[TableResult]:
        """Tables that could not be planned, registered or started."""
        return [table for table in self.tables if table.error]

    def to_json(self) -> dict[str, object]:
        """Good for JSON; `error` says in one line which tables failed, and is empty if none did."""
        error = ""
        if self.failed:
            names = ", ".join(str(table.planned.state.name) for table in self.failed)
            message = f"{len(self.failed)} of {len(self.tables)} tables failed: {names}"
            remedy = f"The others went on. First error: {self.failed[0].error}"
            error = error_line(RetryableError(message, remedy=remedy))
        return {"tables": [table.to_json() for table in self.tables], "error": error}


def plan(raw: ObjectReader, states: StateStore, bucket: str, prefix: str, only: Collection[str] | None = None) -> Plan:
    """Look at every table and decide what to do. Changes nothing.

    Tables are those with raw files and those registered under the location. A table that cannot be planned carries its
    error in the plan, and the others are planned all the same.

    Args:
        raw: The raw bucket.
        states: The state table.
        bucket: Name of the raw bucket.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        only: `schema.table` names to limit the plan to; all if None or empty.

    Raises:
        ConfigurationError: The raw location is empty.
        UnknownTableError: A name in `only` is no table.
    """
    registered = {state.path: state for state in states.all(f"{bucket}/{prefix}")}
    transaction_folders = {state.transactions_folder for state in registered.values()} - {""}
    seen = {state.path: state for state in table_folders(raw, bucket, prefix, transaction_folders)}
    candidates = [registered.get(path, seen.get(path)) for path in sorted({*seen, *registered})]
    wanted = [state for state in candidates if state and (not only or str(state.name) in only)]
    new = {path for path in seen if path not in registered}
    with ThreadPoolExecutor(CONCURRENT_LISTINGS) as pool:
        planned = list(pool.map(partial(_plan_one, SharedListings(raw), prefix, new), wanted))
    tables = tuple(table for table in planned if table)
    unknown = sorted(set(only or ()) - {str(table.state.name) for table in tables})
    if unknown:
        message = f"There is no table {', '.join(unknown)} in {bucket}/{prefix}"
        raise UnknownTableError(message, remedy="Write it as schema.table, as the folders in the raw bucket are named")
    return Plan(tables)


def _plan_one(raw: ObjectReader, prefix: str, new: Collection[str], state: TableState) -> PlannedTable | None:
    """Plan one table; None for a folder that holds no table."""
    try:
        if state.path in new:
            return _plan_new(state) if has_raw_data(raw, state, prefix) else None
        files = list_raw_files(raw, state.raw_prefix, state.settings.cdc_path) if state.active else ([], [])
        decision = plan_table(state, *files)
        return PlannedTable(state, Action.START if decision.work else Action.NONE, decision)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one table must not stop the others; it is reported
        return PlannedTable(state, Action.NONE, error=error_line(error))


def _plan_new(state: TableState) -> PlannedTable:
    reason = "the table is new: set its keys, then its ActiveFlag to 'true'"
    return PlannedTable(state, Action.REGISTER, Decision(DecisionKind.INACTIVE, reason))


def execute(plan: Plan, states: StateStore, jobs: JobRunner, now: datetime) -> Summary:
    """Do what a plan says: register new tables, start runs. One table's failure does not stop the others.

    Args:
        plan: From `plan`.
        states: The state table.
        jobs: Starts the runs.
        now: The time.
    """
    results = []
    for table in plan.tables:
        log = logs.bind(__name__, table=str(table.state.name))
        result = TableResult(table, error=table.error)
        try:
            result = _execute_one(table, states, jobs, now)
        except Exception as error:
            log.exception("failed")
            result = replace(result, error=error_line(error))
        what = table.decision.reason if table.decision else result.error
        log.info(result.outcome or table.action.value, extra={"reason": what, "started": result.run_id})
        results.append(result)
    return Summary(tuple(results))


def _execute_one(table: PlannedTable, states: StateStore, jobs: JobRunner, now: datetime) -> TableResult:
    if table.action is Action.REGISTER:
        added = states.register(table.state)
        return TableResult(table, outcome="registered" if added else "registered meanwhile")
    if table.action is Action.START:
        woken = wake_table(states, jobs, table.state.path, now, even_if_requested=True)
        return TableResult(table, outcome=woken.wake.value, run_id=woken.run_id)
    return TableResult(table, error=table.error)
