"""Gets a table looked at: starts a ProcessTable run unless one that will see the new files is there already.

How no wake-up is lost::

    somebody:       mark ──▶ read lease ─┬─ free ──▶ start a run
                                         └─ live ──▶ leave it to the holder
    ProcessTable:   take lease ──▶ take mark away ──▶ list ──▶ work ──▶ give lease back, unless there is a mark
                                        ▲                                            │ there is one
                                        └────────────────────────────────────────────┘

The mark comes before the look at the lease. So whoever finds the lease live knows that its holder has still to try to
give it back, will find the mark then, and goes round again. If the holder dies, its lease runs out, the mark goes stale
after `STALE_AFTER_SECONDS`, and the next event, or the hourly Controller, starts a run. A second run would not do
better meanwhile: it would find the lease held.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.arguments import item_json, paths_json
from cdclake.errors import CdclakeError, UnknownTableError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument, Attribute
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.ports import JobRunner, StateStore

log = logging.getLogger(__name__)

STALE_AFTER_SECONDS = 900
"""A run that has not listed the raw files so long after it was asked for is taken for dead."""


class TriggerOutcome(Enum):
    """What came of it."""

    STARTED = "started"
    """A run was started."""
    COLLAPSED = "collapsed"
    """A run that was asked for a moment ago has not listed yet and will see the same files."""
    BUSY = "busy"
    """A run is working on the table and will look again before it ends."""
    FAILED = "failed"
    """Something went wrong. A mark left by this call is taken away, so that it holds up nobody."""


class TriggerResult(NamedTuple):
    """What came of it; the run's id if one was started, and the error if something went wrong."""

    wake: TriggerOutcome
    run_id: str = ""
    error: Exception | None = None


def trigger_table(
    states: StateStore,
    jobs: JobRunner,
    path: str,
    now: datetime,
    *,
    job: str = JOB_PROCESS_TABLE,
    even_if_requested: bool = False,
) -> TriggerResult:
    """Get a table looked at; see `trigger_tables`.

    Raises:
        JobRunError: The run could not be started.
        UnknownTableError: The table is not registered.
    """
    triggered = trigger_tables(states, jobs, [path], now, job=job, even_if_requested=even_if_requested)[path]
    if triggered.error:
        raise triggered.error
    return triggered


def trigger_tables(
    states: StateStore,
    jobs: JobRunner,
    paths: Sequence[str],
    now: datetime,
    *,
    job: str = JOB_PROCESS_TABLE,
    even_if_requested: bool = False,
) -> dict[str, TriggerResult]:
    """Get tables looked at by one run; returns what came of each, by path.

    Args:
        states: The state table.
        jobs: Starts the run.
        paths: Keys of the tables' items.
        now: The time.
        job: Name of the ProcessTable job.
        even_if_requested: Do not rely on a mark that somebody else left: the Controller comes by so seldom that it
            rather starts a run too many.
    """
    triggered: dict[str, TriggerResult] = {}
    marked: set[str] = set()
    due: list[TableState] = []
    for path in paths:
        try:
            if states.request_work(path, now, STALE_AFTER_SECONDS):
                marked.add(path)
            elif not even_if_requested:
                triggered[path] = TriggerResult(TriggerOutcome.COLLAPSED)
                continue
            state = states.get(path)
            if state is None:
                raise UnknownTableError("The table is gone from the state table", path=path)
            if state.leased(now):
                triggered[path] = TriggerResult(TriggerOutcome.BUSY)
            else:
                due.append(state)
        except Exception as error:
            log.exception("could not be triggered", extra={"table": _name(path)})
            triggered[path] = _failed(states, path, error, marked)
    if due:
        started = _start(states, jobs, job, due, marked)
        triggered.update(started)
    return triggered


def _start(
    states: StateStore, jobs: JobRunner, job: str, due: Sequence[TableState], marked: set[str]
) -> dict[str, TriggerResult]:
    single = len(due) == 1
    tables = {Argument.ITEM: item_json(due[0].item)} if single else {Argument.PATHS: paths_json([s.path for s in due])}
    try:
        run_id = jobs.start(job, tables)
    except Exception as error:  # noqa: BLE001 - it is handed to the caller, table by table
        return {state.path: _failed(states, state.path, error, marked) for state in due}
    return {state.path: TriggerResult(TriggerOutcome.STARTED, run_id) for state in due}


def _failed(states: StateStore, path: str, error: Exception, marked: set[str]) -> TriggerResult:
    if path in marked:
        try:
            states.clear_request(path)
        except CdclakeError:
            log.exception("the mark stays until it is stale", extra={"table": _name(path)})
    return TriggerResult(TriggerOutcome.FAILED, error=error)


def _name(path: str) -> str:
    return str(TableState({Attribute.PATH: path}).name)
