"""Starts a ProcessTable run for tables with new files, unless a run that will see the files exists.

How no trigger is lost::

    trigger:        set mark, read lease ─┬─ free ──▶ start a run
                                          └─ held ──▶ leave the work to the holder
    run:            take lease ──▶ clear mark ──▶ list ──▶ work ──▶ release lease, unless the mark is set
                                       ▲                                        │ it is set
                                       └────────────────────────────────────────┘

The trigger sets the mark and reads the lease at once. So if it finds the lease held, the holder has yet to release it,
will find the mark then, and goes another round. ProcessTable hands its lease over to the Spark run that it starts, and
so never releases it in between.

If a Spark run dies, Glue's event ends its leases and starts a run, see `dead_spark_run`. If the event is lost, or
another holder dies, its lease expires, and with it the mark that was left to it. If a run dies before it takes the
lease, its mark becomes stale after `STALE_AFTER_SECONDS`. Then the next event or the Controller starts a run. A second
run would not help before that: it would find the lease held, or wait in Glue's queue behind the first.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.arguments import paths_json
from cdclake.errors import CdclakeError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from cdclake.ports import JobRunner, StateStore

log = logging.getLogger(__name__)

STALE_AFTER_SECONDS = 900
"""A run that has not listed the raw files this long after it was requested counts as dead."""


CLOCK_TOLERANCE = timedelta(seconds=10)
"""How much the clocks of S3 and of a run may differ."""


class TriggerOutcome(Enum):
    """The outcome of a trigger for one table."""

    STARTED = "started"
    """A run was started."""
    COLLAPSED = "collapsed"
    """A run requested shortly before has not listed the raw files yet, and will see the same files."""
    BUSY = "busy"
    """A run holds the table. It lists the raw files again before it ends."""
    FAILED = "failed"
    """An error occurred. A mark set by this call is cleared, so that it delays no other trigger."""


class TriggerResult(NamedTuple):
    """The result of a trigger for one table: the outcome, the id of a started run, and the error of a failure."""

    outcome: TriggerOutcome
    run_id: str = ""
    error: Exception | None = None


def have_listed(state: TableState, written_utc: datetime, now: datetime) -> bool:
    """Whether a successful run of the table began to list its raw files after a file was written: it needs no run."""
    listed = state.seen.listed_utc
    return listed is not None and written_utc + CLOCK_TOLERANCE < listed <= now + CLOCK_TOLERANCE


def trigger_table(states: StateStore, jobs: JobRunner, path: str, now: datetime) -> TriggerResult:
    """Trigger a run for one table; see `trigger_tables`.

    Raises:
        JobRunError: The run could not be started.
        UnknownTableError: The table is not registered.
    """
    result = trigger_tables(states, jobs, [path], now)[path]
    if result.error:
        raise result.error
    return result


def trigger_tables(
    states: StateStore,
    jobs: JobRunner,
    paths: Sequence[str],
    now: datetime,
    even_if_requested: Collection[str] = (),
) -> dict[str, TriggerResult]:
    """Trigger one run for several tables. Returns the result of each, by path.

    Args:
        paths: Keys of the tables' items.
        even_if_requested: Those that get a run although one was requested shortly before: it is known to be dead, or an
            operator wants one now.
    """
    results: dict[str, TriggerResult] = {}
    marked: set[str] = set()
    due: list[TableState] = []
    for path in paths:
        try:
            request = states.request_work(path, now, STALE_AFTER_SECONDS)
            if request.is_new:
                marked.add(path)
            elif path not in even_if_requested:
                results[path] = TriggerResult(TriggerOutcome.COLLAPSED)
                continue
            else:
                request = states.request_work(path, now, 0)  # others rely on the new run from now on
            if request.state.leased(now):
                results[path] = TriggerResult(TriggerOutcome.BUSY)
            else:
                due.append(request.state)
        except Exception as error:
            log.exception("could not trigger a run", extra={"table": name_of(path)})
            results[path] = _failed(states, path, error, marked)
    if due:
        started = _start(states, jobs, due, marked)
        results.update(started)
    return results


def _start(
    states: StateStore, jobs: JobRunner, due: Sequence[TableState], marked: set[str]
) -> dict[str, TriggerResult]:
    try:
        run_id = jobs.start(JOB_PROCESS_TABLE, {Argument.PATHS: paths_json([state.path for state in due])})
    except Exception as error:  # noqa: BLE001 - returned to the caller for each table
        return {state.path: _failed(states, state.path, error, marked) for state in due}
    return {state.path: TriggerResult(TriggerOutcome.STARTED, run_id) for state in due}


def _failed(states: StateStore, path: str, error: Exception, marked: set[str]) -> TriggerResult:
    if path in marked:
        try:
            states.clear_request(path)
        except CdclakeError:
            log.exception("could not clear the mark; it stays until it is stale", extra={"table": name_of(path)})
    return TriggerResult(TriggerOutcome.FAILED, error=error)


def name_of(path: str) -> str:
    """The name of the table whose item has a key."""
    return str(TableState({Attribute.PATH: path}).name)
