"""Adoption: existing files in a table's folder become the lake table, unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, no_lease, publish
from cdclake.commit.table_files import compare
from cdclake.errors import ConfigurationError, LakeFilesError
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import Clock


def require_no_table(log: ChangeLog, current: Snapshot) -> None:
    """Refuse to adopt files if the lake table already exists.

    Args:
        current: The table after its newest change.

    Raises:
        ConfigurationError: The lake table exists.
    """
    if current.exists:
        message = f"{log.layout.name} is already a lake table, at change {current.change}: there is nothing to adopt"
        raise ConfigurationError(message, remedy=f"cdclake changes {log.layout.name.typed} lists its changes")


def adopt(
    log: ChangeLog,
    adopted: Snapshot,
    run_id: str,
    fencing_token: int,
    clock: Clock,
    keep_alive: KeepAlive = no_lease,
) -> ChangeRecord:
    """Commit the change that turns the files into the table. No data file is written, moved or deleted.

    Args:
        log: The table's change log, rolled forward.
        adopted: The table that the files make up; its change number is ignored.
        clock: Returns the time.
        keep_alive: Renews the lease.

    Raises:
        ConfigurationError: The lake table already exists.
        LakeFilesError: The folder no longer contains exactly these files.
        CommitConflictError: Another run committed first.
        LeaseLostError: Another run took over the table.
    """
    before = log.snapshot(log.head())
    require_no_table(log, before)
    differences = compare(log, adopted.files)
    if differences:
        message = f"The lake folder of {log.layout.name} changed while its files were read. Nothing was changed"
        remedy = "Make sure that no other job writes there, then run the command again"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix, **_counts(differences.to_json()))
    after = replace(adopted, change=before.change + 1)
    record = ChangeRecord(
        change=after.change,
        kind=ChangeKind.ADOPTION,
        run_id=run_id,
        fencing_token=fencing_token,
        books=Books(restored=after.rows, rows_before=before.rows, rows_after=after.rows),
        snapshot_key=log.write_snapshot(after, run_id),
    )
    record = log.dated(record, clock)
    looked = log.commit(record)
    publish(log, record, keep_alive, looked=looked)
    return record


def _counts(differences: dict[str, list[str]]) -> dict[str, int]:
    return {name: len(paths) for name, paths in differences.items() if paths}
