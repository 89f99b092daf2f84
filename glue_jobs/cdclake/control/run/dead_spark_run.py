"""Lets a new run go on with the tables of a Spark run that died, as Glue's event tells."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.run.trigger import TriggerOutcome, TriggerResult, name_of, trigger_tables
from cdclake.model.names import Argument
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from cdclake.ports import JobRunner, StateStore

log = logging.getLogger(__name__)


def continue_after(
    states: StateStore, jobs: JobRunner, job: str, run_id: str, now: datetime
) -> dict[str, TriggerResult]:
    """Let a new run go on with the tables of a Spark run that has died: end their leases, and trigger it.

    The new run takes the tables over, so it keeps the dead one from committing, and it finds out how that ended.

    Args:
        job: Name of the Spark job.
        run_id: Id of its run.

    Returns:
        The result of each table that the dead run still held, by path; none if it was started by hand. A table that
        fails does not stop the others.

    Raises:
        JobRunError: The run does not exist.
    """
    run = jobs.get(job, run_id)  # its state may lag behind the event
    if Argument.PATHS not in run.arguments:
        return {}
    holders = {run_id, run.arguments.get(Argument.LEASE_HOLDER, run_id)}
    failed: dict[str, TriggerResult] = {}
    left = []
    for path in parse_paths(run.arguments[Argument.PATHS]):
        try:
            if _end_lease(states, path, holders, now):
                left.append(path)
        except Exception as error:
            log.exception("could not end the lease", extra={"table": name_of(path)})
            failed[path] = TriggerResult(TriggerOutcome.FAILED, error=error)
    return {**failed, **trigger_tables(states, jobs, left, now, even_if_requested=left)}


def _end_lease(states: StateStore, path: str, holders: Collection[str], now: datetime) -> bool:
    """Let a table's lease expire now; False if none of these holders has it."""
    state = states.get(path)
    holder = state.item.get(Attribute.LEASE_HOLDER, "") if state else ""
    if not state or holder not in holders:
        return False
    return states.renew_lease(path, holder, state.fencing_token, now, 0)
