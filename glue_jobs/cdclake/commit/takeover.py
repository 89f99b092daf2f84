"""Fences off a run that lost its lease without releasing it.

Such a run may be paused anywhere, even right before its commit, and checking the lease cannot stop it from continuing
later. But it can commit only one number: the one after the change it started from. So the new run takes that number
itself, by committing a change that changes nothing. Then the old run finds the number taken. A run that starts later
with an old lease finds a greater fencing token in the newest change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, no_lease, publish
from cdclake.commit.roll_forward import roll_forward
from cdclake.errors import CommitConflictError
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.ports import Clock


def take_over(
    log: ChangeLog, run_id: str, fencing_token: int, reason: str, clock: Clock, keep_alive: KeepAlive = no_lease
) -> int:
    """Commit a change that changes nothing, so that no earlier run can commit; returns its number.

    Args:
        run_id: The run that takes over.
        reason: Which run it takes over from, as free text.
        clock: Returns the time.
        keep_alive: Renews the lease.

    Raises:
        LeaseLostError: Another run took over the table from this one.
    """
    while True:
        change = roll_forward(log, keep_alive)
        snapshot = replace(log.snapshot(change), change=change + 1)
        record = ChangeRecord(
            change=snapshot.change,
            kind=ChangeKind.TAKEOVER,
            run_id=run_id,
            fencing_token=fencing_token,
            books=Books(rows_before=snapshot.rows, rows_after=snapshot.rows),
            snapshot_key=log.write_snapshot(snapshot, run_id),
            as_of=log.record(change).content_change if change else 0,
            reason=reason,
        ).with_iceberg(snapshot, snapshot)
        record = log.dated(record, clock)
        try:
            looked = log.commit(record)
        except CommitConflictError:
            continue  # the old run committed first, and is done now; take the next number
        publish(log, record, keep_alive, looked=looked)
        return record.change
