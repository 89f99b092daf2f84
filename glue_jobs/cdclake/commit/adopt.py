"""Adoption: files that lie in a table's folder already become the lake table, as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, no_lease, publish
from cdclake.commit.table_files import compare
from cdclake.errors import ConfigurationError, LakeFilesError
from cdclake.model.change import Books, ChangeKind, ChangeRecord

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Clock


def require_no_table(log: ChangeLog, now: Snapshot) -> None:
    """Refuse to adopt files where there is a lake table.

    Args:
        log: The table's change log.
        now: The table after its newest change.

    Raises:
        ConfigurationError: There is one.
    """
    if now.exists:
        message = f"{log.layout.name} is a lake table already, at change {now.change}: there is nothing to adopt"
        raise ConfigurationError(message, remedy=f"cdclake changes {log.layout.name.typed} lists its changes")


def adopt(
    log: ChangeLog,
    found: Snapshot,
    run_id: str,
    fencing_token: int,
    clock: Clock,
    keep_alive: KeepAlive = no_lease,
) -> ChangeRecord:
    """Commit the change that makes files the table. No file is written, moved or deleted.

    Args:
        log: The table's change log, rolled forward.
        found: The table that the files make; the number of its change does not count.
        run_id: The run that does it.
        fencing_token: Number of its lease.
        clock: The time.
        keep_alive: Called every now and then.

    Raises:
        ConfigurationError: There is a lake table already.
        LakeFilesError: The files in the folder are no longer those that were found.
        CommitConflictError: Another run was quicker.
        LeaseLostError: Another run took the table over.
    """
    before = log.snapshot(log.head())
    require_no_table(log, before)
    differences = compare(log, found.files)
    if differences:
        message = f"The lake folder of {log.layout.name} changed while it was looked at. Nothing was done"
        remedy = "See to it that no other job writes there, then give the command again"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix, **_counts(differences.to_json()))
    after = replace(found, change=before.change + 1)
    record = ChangeRecord(
        change=after.change,
        kind=ChangeKind.ADOPTION,
        created_utc=clock().isoformat(timespec="seconds"),
        run_id=run_id,
        fencing_token=fencing_token,
        raw_files=(),
        books=Books(restored=after.rows, rows_before=before.rows, rows_after=after.rows),
        added=(),
        retired=(),
        snapshot_key=log.write_snapshot(after, run_id),
    )
    log.commit(record)
    publish(log, record, keep_alive)
    return record


def _counts(differences: dict[str, list[str]]) -> dict[str, int]:
    return {name: len(paths) for name, paths in differences.items() if paths}
