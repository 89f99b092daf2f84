"""Completes a change that a run committed but did not publish, or undoes it if its files can have no place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, no_lease, publish, remove_staging
from cdclake.commit.storable import is_publishable
from cdclake.commit.undo import apply_undo, plan_rollback
from cdclake.concurrency import executor
from cdclake.errors import CommitConflictError

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord


_WITHDRAWN = "-withdrawn"
"""Ends the run id of a rollback that is no operator's."""


def is_withdrawal(record: ChangeRecord) -> bool:
    """Whether a change is the rollback of one whose files could have no place, see `roll_forward`."""
    return record.run_id.endswith(_WITHDRAWN)


def roll_forward(log: ChangeLog, keep_alive: KeepAlive = no_lease) -> int:
    """Publish the newest change if a run crashed before it was published; returns its number, 0 if there is none.

    If the store cannot hold the change's files (an earlier version of cdclake committed such changes), the change is
    rolled back instead, and the number is that of the rollback. Its raw files are due again.

    Also deletes what crashed runs staged for this change or earlier ones.
    """
    change = complete_newest(log, keep_alive)
    remove_staging(log, change)
    return change


def complete_newest(log: ChangeLog, keep_alive: KeepAlive = no_lease) -> int:
    """As `roll_forward`, but leaves what crashed runs staged. No reader sees it, so it can be deleted at any time."""
    published = log.newest_published()
    with executor(log.store.calls_at_once) as pool:
        # most often there is no newer change, and the caller needs this one's record
        reading = pool.submit(log.record, published) if published else None
        change = log.newest_after(published)
        if reading:
            reading.result()
    if change == published or log.is_published(change):
        return change
    record = log.record(change)
    if is_publishable(log.store, log.layout, record):
        publish(log, record, keep_alive)
        return change
    return _withdraw(log, record, keep_alive)


def _withdraw(log: ChangeLog, record: ChangeRecord, keep_alive: KeepAlive) -> int:
    plan = plan_rollback(log, record.change - 1)
    run_id, reason = f"{record.run_id}{_WITHDRAWN}", f"the store cannot hold files of change {record.change}"
    committed_utc = datetime.fromisoformat(record.created_utc)
    try:
        token = record.fencing_token
        apply_undo(log, plan, run_id, token, lambda: committed_utc, reason=reason, keep_alive=keep_alive)
    except CommitConflictError:
        return complete_newest(log, keep_alive)  # another run did it
    return plan.after.change
