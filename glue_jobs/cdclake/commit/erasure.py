"""Takes rows out of what a table is and was, for good.

Whoever knows the rows gives files without them in place of those with them. Then the table changes like in any other
change, and after that its past: the snapshots of the changes that one can go back to are told of the new files, and the
old ones are deleted with all that is held of them. Each step may be repeated, and one that died is finished by erasing
the same rows again: until the snapshots are told, the old files are still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdclake.commit.clean_up import KEYS_AT_ONCE
from cdclake.commit.publish import KeepAlive, no_lease, publish
from cdclake.model.change import Books, ChangeKind, ChangeRecord, StagedFile
from cdclake.model.due_files import remember_applied
from cdclake.model.layout import CHANGE_DIGITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from cdclake.commit.log import ChangeLog
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile
    from cdclake.ports import Clock


@dataclass(frozen=True)
class Replacement:
    """Files without the rows in place of files with them.

    Attributes:
        files: Path of a data file, of the table or its history, to what takes its place; None: no row is left. What
            snapshots say of a file that is gone may change as well, under its old path.
        tombstones: Key of a file of remembered deletes to what takes its place, likewise.
        staged: Path of a new file to where it is staged, for those that take the place of a live one. Others are where
            retired files are kept.
    """

    files: Mapping[str, DataFile | None] = field(default_factory=dict)
    tombstones: Mapping[str, TombstoneFile | None] = field(default_factory=dict)
    staged: Mapping[str, str] = field(default_factory=dict)

    def of(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the new files in place of the old."""
        history = snapshot.history
        if history:
            history = replace(history, open=self._files(history.open), closed=self._files(history.closed))
        tombstones = (self.tombstones.get(file.key, file) for file in snapshot.tombstones)
        return replace(
            snapshot,
            files=self._files(snapshot.files),
            tombstones=tuple(file for file in tombstones if file),
            history=history,
        )

    def _files(self, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
        return tuple(file for old in files if (file := self.files.get(old.path, old)))


def retained_snapshots(log: ChangeLog, head: int) -> Iterator[tuple[ChangeRecord, Snapshot]]:
    """The changes that one can go back to, the newest first, each with the table after it."""
    for change in range(head, log.first_retained() - 1, -1):
        yield log.record(change), log.snapshot(change)


def commit_erasure(
    log: ChangeLog,
    before: Snapshot,
    replacement: Replacement,
    run_id: str,
    fencing_token: int,
    clock: Clock,
    *,
    raw_files: tuple[str, ...] = (),
    known_raw_files: Collection[str] = (),
    reason: str = "",
    made_by: str = "",
    keep_alive: KeepAlive = no_lease,
) -> ChangeRecord:
    """Commit the change that takes rows out of the table, and make it visible. Its past still has them.

    Args:
        before: The table after its newest change.
        raw_files: Relative keys of the raw files that are to be written anew or deleted.
        known_raw_files: Those of the change files among them that are in the lake.
        reason: Why, for people.
        made_by: Who asked for it.

    Raises:
        CommitConflictError: Another run committed first; nothing was changed.
        LeaseLostError: Another run took the table over.
    """
    after = remember_applied(replace(replacement.of(before), change=before.change + 1), known_raw_files)
    live = {file.path for file in before.all_files}
    # New files of the past have never been in sight, but so a clean-up finds them when nobody needs them any more.
    new = [file for old, file in replacement.files.items() if file and file.path != old]
    born_retired = [file.path for file in new if file.path not in replacement.staged]
    record = ChangeRecord(
        change=after.change,
        kind=ChangeKind.ERASURE,
        created_utc=clock().isoformat(timespec="seconds"),
        run_id=run_id,
        fencing_token=fencing_token,
        raw_files=raw_files,
        books=Books(erased=before.rows - after.rows, rows_before=before.rows, rows_after=after.rows),
        added=tuple(StagedFile(staged, path) for path, staged in replacement.staged.items()),
        retired=(*(path for path in replacement.files if path in live), *born_retired),
        snapshot_key=log.write_snapshot(after, run_id),
        reason=reason,
        made_by=made_by,
        bytes_added=sum(file.bytes for file in new),
    )
    log.commit(record)
    publish(log, record, keep_alive)
    return record


def tell_snapshots(log: ChangeLog, head: int, replacement: Replacement, keep_alive: KeepAlive = no_lease) -> int:
    """Have the snapshots of all changes that one can go back to name the new files; returns how many were changed."""
    changed = 0
    for record, snapshot in retained_snapshots(log, head):
        after = replacement.of(snapshot)
        if after != snapshot:
            log.store.put(record.snapshot_key, after.to_bytes())
            changed += 1
        keep_alive()
    return changed


def forget(log: ChangeLog, head: int, keep_alive: KeepAlive = no_lease) -> int:
    """Delete what no change that one can go back to names: old files, copies, what runs that died left, old versions.

    It may be repeated, and one that died is finished by the next. What was written for a later change is left alone: if
    this run was paused past its lease, it is another run's.

    Args:
        head: Number of the newest change, published, when this run had the table for itself.

    Returns:
        How many versions were deleted, those of objects in sight not counted.
    """
    store, layout = log.store, log.layout
    needed, paths, has_history = set[str](), set[str](), False
    for record, snapshot in retained_snapshots(log, head):
        needed.add(record.snapshot_key)
        needed.update(file.key for file in snapshot.tombstones)
        paths.update(file.path for file in snapshot.all_files)
        has_history = has_history or snapshot.history is not None
    needed.update(layout.retired_key(path) for path in paths)
    needed.update(layout.data_key(path) for path in paths)

    def spared(key: str) -> bool:
        return key in needed or _change_of(layout, key) > head

    folders = (
        layout.retired_folder,
        layout.tombstones_folder,
        layout.snapshots_folder,
        layout.as_of_folder,
        layout.staging_folder,
    )
    unneeded = [entry.key for folder in folders for entry in store.list(folder) if not spared(entry.key)]
    for start in range(0, len(unneeded), KEYS_AT_ONCE):
        store.delete(unneeded[start : start + KEYS_AT_ONCE])
        keep_alive()
    versions = store.purge(layout.table_prefix, spared)
    if has_history:  # otherwise the folder may be another table's
        versions += store.purge(layout.history_prefix, spared)
    for folder in (*folders, layout.quarantine_folder):
        versions += store.purge(folder, lambda key: _change_of(layout, key) > head)
        keep_alive()
    return versions


def _change_of(layout: LakeLayout, key: str) -> int:
    """Number of the change that an object was written for, by its name; 0 if that does not tell."""
    folders = (layout.tombstones_folder, layout.snapshots_folder, layout.staging_folder, layout.quarantine_folder)
    folder = next((folder for folder in folders if key.startswith(folder)), "")
    name = key[len(folder) :] if folder else key.rpartition("/")[2]
    number = name[:CHANGE_DIGITS]
    return int(number) if len(number) == CHANGE_DIGITS and number.isdecimal() else 0
