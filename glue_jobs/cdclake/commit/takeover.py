"""Shuts out a run that lost its lease without giving it back.

Such a run may be paused anywhere, also right before its commit, and no look at the lease can prevent that it goes on
later. But what it can commit is one number: the one after the change it started from. So the run that takes over takes
that number itself, with a change that changes nothing. Whoever comes second finds the number taken, whatever it knows
of leases; and a run that starts later with an old lease finds a greater fencing token in the newest change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, no_lease, publish, roll_forward
from cdclake.errors import CommitConflictError
from cdclake.model.change import Books, ChangeKind, ChangeRecord

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.ports import Clock


def take_over(
    log: ChangeLog, run_id: str, fencing_token: int, reason: str, clock: Clock, keep_alive: KeepAlive = no_lease
) -> int:
    """Commit a change that changes nothing, so that no run that began before can commit; returns its number.

    Args:
        run_id: The run that takes over.
        fencing_token: Number of its lease.
        reason: From whom, for people.
        clock: The time.
        keep_alive: Called every now and then.

    Raises:
        LeaseLostError: The table was taken over from this run as well.
    """
    while True:
        change = roll_forward(log, keep_alive)
        snapshot = replace(log.snapshot(change), change=change + 1)
        record = ChangeRecord(
            change=snapshot.change,
            kind=ChangeKind.TAKEOVER,
            created_utc=clock().isoformat(timespec="seconds"),
            run_id=run_id,
            fencing_token=fencing_token,
            raw_files=(),
            books=Books(rows_before=snapshot.rows, rows_after=snapshot.rows),
            added=(),
            retired=(),
            snapshot_key=log.write_snapshot(snapshot, run_id),
            as_of=log.record(change).content_change if change else 0,
            reason=reason,
        )
        try:
            log.commit(record)
        except CommitConflictError:
            continue  # the other run was quicker, and so it is done; a run began with what it left
        publish(log, record, keep_alive)
        return record.change
