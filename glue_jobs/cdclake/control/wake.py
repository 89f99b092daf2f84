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

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.arguments import item_json
from cdclake.errors import UnknownTableError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.ports import JobRunner, StateStore

STALE_AFTER_SECONDS = 900
"""A run that has not listed the raw files so long after it was asked for is taken for dead."""


class Wake(Enum):
    """What came of it."""

    STARTED = "started"
    """A run was started."""
    COLLAPSED = "collapsed"
    """A run that was asked for a moment ago has not listed yet and will see the same files."""
    BUSY = "busy"
    """A run is working on the table and will look again before it ends."""


class Woken(NamedTuple):
    """What came of it; the run's id if one was started."""

    wake: Wake
    run_id: str = ""


def wake_table(
    states: StateStore,
    jobs: JobRunner,
    path: str,
    now: datetime,
    *,
    job: str = JOB_PROCESS_TABLE,
    even_if_requested: bool = False,
) -> Woken:
    """Get a table looked at.

    Args:
        states: The state table.
        jobs: Starts the run.
        path: Key of the table's item.
        now: The time.
        job: Name of the ProcessTable job.
        even_if_requested: Do not rely on a mark that somebody else left: the Controller comes by so seldom that it
            rather starts a run too many.

    Raises:
        JobRunError: The run could not be started. A mark left by this call is taken away, so that it holds up nobody.
        UnknownTableError: The table is not registered.
    """
    marked = states.request_work(path, now, STALE_AFTER_SECONDS)
    if not (marked or even_if_requested):
        return Woken(Wake.COLLAPSED)
    try:
        state = states.get(path)
        if state is None:
            raise UnknownTableError("The table is gone from the state table", path=path)
        if state.leased(now):
            return Woken(Wake.BUSY)
        return Woken(Wake.STARTED, jobs.start(job, {Argument.ITEM: item_json(state.item)}))
    except Exception:
        if marked:
            states.clear_request(path)
        raise
