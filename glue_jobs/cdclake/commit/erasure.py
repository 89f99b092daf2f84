"""Permanently erases rows from a table and from its retained past.

The caller provides new files without the rows. One commit replaces the files of the current table. Then the snapshots
of all retained changes are rewritten to name the new files, and the old files are deleted with all their versions.
Every step is repeatable. Erasing the same rows again finishes an erasure that crashed, because the old files exist
until the snapshots are rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Callable

from cdclake.commit.clean_up import DELETE_BATCH_KEYS, orphaned_quarantine
from cdclake.commit.iceberg.tables import list_iceberg
from cdclake.commit.ledger import forgetting
from cdclake.commit.publish import Fence, publish
from cdclake.errors import CommitConflictError
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord, RawFileRows, StagedFile
from cdclake.model.layout import change_of, is_in_iceberg
from cdclake.model.snapshot import Snapshot
from cdclake.model.versions import history_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.iceberg.table import IcebergFiles
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import DataFile, ErasedKeys, TombstoneFile
    from cdclake.ports import Clock, ObjectStore

_ERASE_AGAIN = "Erase again: that completes the erasure"


@dataclass(frozen=True)
class Replacement:
    """New files without the rows, for old files with them.

    Attributes:
        files: New data file by the path of the old one, for the table and its history. None: no row is left. A file
            that no longer exists keeps its path; only what snapshots record of it changes.
        tombstones: New tombstone file by the key of the old one; None as in `files`.
        staged: Staged key by the path of the new file, for replacements of live files. All other new files are
            already in the folder of retired files, or in the folder of an Iceberg table, where they stay.
        iceberg: Manifests of the new files by the key of the old manifest list. They list the files in the same order.
    """

    files: Mapping[str, DataFile | None] = field(default_factory=dict)
    tombstones: Mapping[str, TombstoneFile | None] = field(default_factory=dict)
    staged: Mapping[str, str] = field(default_factory=dict)
    iceberg: Mapping[str, IcebergFiles] = field(default_factory=dict)

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the old files replaced."""
        history = snapshot.history
        if history:
            history = replace(
                history,
                open=self._files(history.open),
                closed=self._files(history.closed),
                iceberg=self._manifests(history.iceberg),
            )
        tombstones = (self.tombstones.get(file.key, file) for file in snapshot.tombstones)
        return replace(
            snapshot,
            files=self._files(snapshot.files),
            tombstones=tuple(file for file in tombstones if file),
            history=history,
            iceberg=self._manifests(snapshot.iceberg),
        )

    def _manifests(self, old: IcebergFiles | None) -> IcebergFiles | None:
        return old and self.iceberg.get(old.manifest_list, old)

    def _files(self, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
        new = ((old, self.files.get(old.path, old)) for old in files)
        return tuple(replace(file, counts_as_loaded=old.counts_as_loaded) for old, file in new if file)


def retained_snapshots(log: ChangeLog, head: int) -> Iterator[tuple[ChangeRecord, Snapshot]]:
    """The retained changes, newest first, each with the table after it."""
    for change in reversed(log.retained().up_to(head)):
        record = log.record(change)
        yield record, log.snapshot_of(record)


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
    erased: Iterable[ErasedKeys] = (),
    reason: str = "",
    made_by: str = "",
) -> ChangeRecord:
    """Commit and publish the change that removes rows from the current table. Its past still contains them.

    Args:
        before: The table after its newest change.
        raw_files: Relative keys of the raw files to rewrite or delete.
        known_raw_files: The change files among them that the lake contains. The next change learns their identities.
        erased: `Snapshot.erased` after the change.
        reason: Why the rows are erased, as free text.
        made_by: The operator who asked for it.

    Raises:
        CommitConflictError: Another run committed first; nothing was changed.
        LeaseLostError: Another run took over the table.
    """
    after = replace(replacement.apply_to(before), change=before.change + 1, erased=tuple(erased))
    after = replace(after, ledger=forgetting(log, known_raw_files)(after.ledger))
    live = {file.path for file in before.all_files}
    # New files of the past were never live. Recording them as retired lets a later clean-up delete them.
    new = [file for old, file in replacement.files.items() if file and file.path != old]
    past = (file.path for file in new if file.path not in replacement.staged)
    never_live = [path for path in past if not is_in_iceberg(path)]  # of those, it deletes what is not needed
    record = ChangeRecord(
        change=after.change,
        kind=ChangeKind.ERASURE,
        run_id=run_id,
        fencing_token=fencing_token,
        raw_files=tuple(map(RawFileRows, raw_files)),
        books=Books(erased=before.rows - after.rows, rows_before=before.rows, rows_after=after.rows),
        added=tuple(StagedFile(staged, path) for path, staged in replacement.staged.items()),
        retired=(*(path for path in replacement.files if path in live), *never_live),
        snapshot_key=log.write_snapshot(after, run_id),
        reason=reason,
        made_by=made_by,
        bytes_added=sum(file.bytes for file in new),
    ).with_iceberg(before, after)
    record = log.dated(record, clock)
    looked = log.commit(record)
    publish(log, record, looked=looked)
    return record


def claim_snapshots(log: ChangeLog, lake: Snapshot, unfinished: int) -> None:
    """Give the snapshots of earlier changes another content than the run of an unfinished erasure knows.

    That run may be paused right before it replaces one of them, by one that names files which are deleted meanwhile. It
    replaces none that it does not know, see `replace_object`.

    Args:
        lake: The table after its newest change.
        unfinished: Number of the last change whose erasure is not marked as done.

    Raises:
        As `rewrite_snapshots`.
    """

    def claimed(snapshot: Snapshot) -> Snapshot:
        is_known = snapshot.change < unfinished and all(one.change != unfinished for one in snapshot.erased)
        return snapshot.with_erased(lake.erased) if is_known else snapshot

    _rewrite(log, lake.change, claimed)


def rewrite_snapshots(log: ChangeLog, lake: Snapshot, replacement: Replacement, raw_files: Collection[str] = ()) -> int:
    """Replace the old files in the snapshots of all retained changes.

    Args:
        lake: The table after its newest change. Each snapshot that is written lists its erased keys, too.
        raw_files: Relative keys of the rewritten change files. After a rollback, they do not count as overwritten.

    Returns:
        Number of snapshots changed.

    Raises:
        CommitConflictError: Another run took over the table.
    """
    forget = forgetting(log, raw_files)

    def replaced(snapshot: Snapshot) -> Snapshot:
        after = replace(replacement.apply_to(snapshot), ledger=forget(snapshot.ledger))
        return after if after == snapshot else after.with_erased(lake.erased)

    return _rewrite(log, lake.change, replaced)


def _rewrite(log: ChangeLog, head: int, change: Callable[[Snapshot], Snapshot]) -> int:
    """Change the retained snapshots; returns how many differ."""
    changed, fence = 0, _fence(log, head)
    for record, snapshot in retained_snapshots(log, head):
        after = change(snapshot)
        if after != snapshot:
            old = log.store.get(record.snapshot_key) or b""
            if Snapshot.from_bytes(old, record.snapshot_key) != snapshot:
                raise overtaken(record.snapshot_key)
            fence.check()  # whoever claims snapshots has committed a change before
            replace_object(log.store, record.snapshot_key, after.to_bytes(), old)
            changed += 1
    return changed


def _fence(log: ChangeLog, head: int) -> Fence:
    return Fence(log, head, remedy=_ERASE_AGAIN)


def replace_object(store: ObjectStore, key: str, data: bytes, old: bytes) -> None:
    """Replace an object that has still the content `old`.

    Raises:
        CommitConflictError: Another erasure changed it, while this run was paused past its lease.
    """
    if not store.put_if_unchanged(key, data, old):
        raise overtaken(key)


def overtaken(key: str) -> CommitConflictError:
    """The error of an erasure that was paused past its lease."""
    message = "Another run changed an object that this erasure was about to replace"
    return CommitConflictError(message, remedy=_ERASE_AGAIN, file=key)


def delete_unreferenced(log: ChangeLog, head: int) -> int:
    """Delete what no retained change refers to: old files, copies, leftovers of crashed runs, and old object versions.

    Repeatable: the next call finishes one that crashed. Files of later changes are kept: if this run was paused past
    its lease, they belong to another run.

    Args:
        head: Number of the newest published change, read while this run held the lease.

    Returns:
        Number of noncurrent object versions deleted.

    Raises:
        CommitConflictError: Another run took over the table.
    """
    store, layout = log.store, log.layout
    needed, paths, has_history = set[str](), set[str](), False
    iceberg = list_iceberg(log)
    layouts = [one for one, _ in iceberg]
    for record, snapshot in retained_snapshots(log, head):
        needed.add(record.snapshot_key)
        needed.update(snapshot.part_keys)
        paths.update(file.path for file in snapshot.all_files)
        needed.update(snapshot.manifest_keys)
        if record.change == head:
            tables = ((snapshot, layout), history_table(snapshot, layout))
            needed.update(one.iceberg_metadata_key(head) for table, one in tables if table.iceberg)
        has_history = has_history or snapshot.history is not None
    needed.update(layout.retired_key(path) for path in paths)
    needed.update(layout.data_key(path) for path in paths)

    def is_protected(key: str) -> bool:
        return (
            key in needed
            or _change_of(layouts, key) > head
            or any(key == one.version_hint_key or is_foreign_iceberg(one, key) for one in layouts)
        )

    folders = (
        layout.retired_folder,
        layout.tombstones_folder,
        layout.ledger_folder,
        layout.snapshots_folder,
        layout.as_of_folder,
        layout.staging_folder,
    )
    found = [entry for folder in folders for entry in store.list(folder)]
    found += [entry for _, objects in iceberg for entry in objects]
    unneeded = [entry.key for entry in found if not is_protected(entry.key)]
    unneeded += orphaned_quarantine(log, head, head)
    # What no state needs now, none will need. But a change that was made before the states were read may need more.
    _fence(log, head).check()
    versions = store.purge(layout.table_prefix, is_protected)
    versions += sum(store.purge(one.iceberg_prefix, is_protected) for one in layouts)
    if has_history:  # otherwise the folder may belong to another table
        versions += store.purge(layout.history.table_prefix, is_protected)
    # Snapshots go after the files in the tables' folders: only they tell a clean-up of these if this run dies.
    for start in range(0, len(unneeded), DELETE_BATCH_KEYS):
        store.delete(unneeded[start : start + DELETE_BATCH_KEYS])
    for folder in (*folders, *(one.iceberg_prefix for one in layouts), layout.quarantine_folder):
        versions += store.purge(folder, lambda key: _change_of(layouts, key) > head)
    versions += store.purge(layout.foreign_folder, lambda _: False)
    store.remove_leftovers()
    return versions


def is_foreign_iceberg(layout: LakeLayout, key: str) -> bool:
    """Whether another program put an object into the folder of the Iceberg table."""
    in_folder = key.startswith(layout.iceberg_prefix) and key != layout.version_hint_key
    return in_folder and layout.iceberg_change(key) is None


def _change_of(layouts: Sequence[LakeLayout], key: str) -> int:
    """Number of the change that an object belongs to, from its name; 0 if the name has none.

    Args:
        layouts: The table's layout, then the layouts of its other Iceberg tables.
    """
    for one in layouts:
        if key.startswith(one.iceberg_prefix):
            return one.iceberg_change(key) or 0
    layout = layouts[0]
    return layout.run_change(key) if key.startswith(layout.run_folders) else change_of(key)
