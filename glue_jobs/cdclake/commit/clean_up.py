"""Permanently deletes what no retained change needs (a vacuum).

A change is retained if it was the newest at any time within the retention time. Change records are never deleted: they
are small, and they document the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cdclake.commit.iceberg.tables import expire_snapshots, list_iceberg
from cdclake.commit.publish import KeepAlive, no_lease
from cdclake.concurrency import in_parallel
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake.model.layout import CHANGE_DIGITS, LakeLayout, is_in_iceberg

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.raw.files import ListedObject
    from cdclake.model.snapshot import Snapshot

EXPIRY_GRACE = timedelta(hours=1)
"""How long files of an expired snapshot of an Iceberg table are kept at least, for readers that opened it before."""
COPY_LIFETIME = timedelta(days=1)
"""How long a copy of a retired file, made for reading, is kept."""
DELETE_BATCH_KEYS = 1000
_DATA_KINDS = (ChangeKind.FULL_LOAD, ChangeKind.INCREMENTAL, ChangeKind.DIRECT, ChangeKind.RELEASE)
"""Changes whose record lists every data file that they made live."""


@dataclass(frozen=True)
class CleanUpPlan:
    """What a clean-up deletes. All fields but `data_files` hold keys of the lake bucket.

    Attributes:
        first_retained: Number of the oldest change that a rollback can still reach afterwards.
        data_files: Relative paths of retired data files.
        snapshots: Snapshots of changes and of crashed runs.
        tombstones: Tombstone files.
        ledger: Segments of the ledger.
        quarantine: Quarantine files of crashed runs. The run that followed wrote them again.
        staging: Staged files of crashed runs.
        copies: Copies of retired files, made for reading.
        marks: Markers of published changes.
        iceberg: Files of the Iceberg tables, of the table and of its history: data, manifests and metadata, also of
            crashed runs.
    """

    first_retained: int
    data_files: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    tombstones: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    staging: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    iceberg: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of objects to delete."""
        return len(self.data_files) + len(self.iceberg) + len(self.objects)

    @property
    def objects(self) -> tuple[str, ...]:
        """Keys of all objects except data files and files of the Iceberg tables."""
        return (
            *self.snapshots,
            *self.tombstones,
            *self.ledger,
            *self.quarantine,
            *self.staging,
            *self.copies,
            *self.marks,
        )

    def without_iceberg(self) -> CleanUpPlan:
        """The same, but the Iceberg tables' files stay, as while the catalog may still name older metadata."""
        return replace(self, iceberg=())

    def to_json(self) -> dict[str, int]:
        """Numbers of objects, for JSON."""
        counts = {name: len(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        return {"first_retained": self.first_retained, **counts}


def has_leftovers(log: ChangeLog, head: int) -> bool:
    """Whether a run has written files for a later change than `head`: it crashed, or is still working."""
    layout = log.layout
    if any(_number(entry.key, folder) > head for folder in layout.run_folders for entry in log.store.list(folder)):
        return True
    return any((one.iceberg_change(entry.key) or 0) > head for one, found in list_iceberg(log) for entry in found)


def plan_clean_up(log: ChangeLog, retention: timedelta, now: datetime, through: int | None = None) -> CleanUpPlan:
    """Decide what to delete.

    Args:
        log: The table's change log. The plan is valid as long as no other run works on the table.
        retention: How long earlier states of the table are kept.
        now: The current time.
        through: Number of the newest published change, read while this run held the lease. Files of later changes are
            kept: if this run was paused past its lease, they belong to another run. None: they are leftovers.

    Raises:
        IntegrityError: A change record or the snapshot of a retained change is missing.
    """
    head, layout = log.head() if through is None else through, log.layout
    if not head:
        return CleanUpPlan(1, staging=_keys(log, layout.staging_folder, through))
    marked = log.first_retained()  # once, before the time of the mark: another clean-up may move it meanwhile
    first = max(marked, log.newest_before(now - retention, head), 1)
    retained, needed = _retained(log, first, head)
    needed_files = _needed_files(retained, needed)
    needed_parts = {key for snapshot in needed for key in snapshot.part_keys}
    new_parts = tuple(
        prefix
        for record in retained[1:]
        for prefix in (
            layout.tombstones_key(record.change, record.run_id),
            layout.ledger_prefix(record.change, record.run_id),
        )
    )
    retired = (path for record in log.records(log.cleaned_through() + 1, first) for path in record.retired)
    snapshots = {record.snapshot_key for record in retained}

    def unneeded(folder: str) -> tuple[str, ...]:
        keys = _keys(log, folder, through)
        return tuple(key for key in keys if not (key in needed_parts or (new_parts and key.startswith(new_parts))))

    return CleanUpPlan(
        first_retained=first,
        data_files=tuple(sorted(path for path in set(retired) - needed_files if not is_in_iceberg(path))),
        snapshots=tuple(key for key in _keys(log, layout.snapshots_folder, through) if key not in snapshots),
        tombstones=unneeded(layout.tombstones_folder),
        ledger=unneeded(layout.ledger_folder),
        quarantine=orphaned_quarantine(log, head, through),
        staging=_keys(log, layout.staging_folder, through),
        copies=tuple(
            entry.key for entry in log.store.list(layout.as_of_folder) if entry.modified_utc < now - COPY_LIFETIME
        ),
        marks=_keys(log, layout.published_folder, head - 1),
        iceberg=tuple(
            key
            for one, found in list_iceberg(log)
            for key in _expired_iceberg(log, one, found, marked, head, now, through)
        ),
    )


def _retained(log: ChangeLog, first: int, head: int) -> tuple[list[ChangeRecord], list[Snapshot]]:
    """The records of the changes from `first` on, and the snapshots among theirs that name what the records do not."""
    records = log.records(first, head)
    others = (record.change for record in records[1:] if record.kind not in _DATA_KINDS)
    return records, [log.snapshot(change) for change in (first, *others)]


def _needed_files(records: Sequence[ChangeRecord], snapshots: Iterable[Snapshot]) -> set[str]:
    """Paths of the data files of the retained changes, see `_retained`."""
    added = {file.path for record in records[1:] for file in record.added}
    return added | {file.path for snapshot in snapshots for file in snapshot.all_files}


def _expired_iceberg(
    log: ChangeLog,
    layout: LakeLayout,
    entries: Sequence[ListedObject],
    first: int,
    head: int,
    now: datetime,
    through: int | None,
) -> tuple[str, ...]:
    """Keys of an Iceberg table's files that no reader needs.

    Readers may still use snapshots that this clean-up expires. So it deletes what only changes need that the clean-up
    before expired.

    Args:
        layout: The layout of the table, or of its history.
        entries: All files in the folder of the Iceberg table.
        first: Number of the first change that the clean-up before retained.
    """
    if not entries:
        return ()
    marked_utc = max((entry.modified_utc for entry in log.store.list(log.layout.first_retained_key)), default=None)
    if marked_utc and marked_utc > now - EXPIRY_GRACE:
        return ()
    # Readers may open metadata until the next one is written, or the table is withdrawn.
    written_utc = {
        layout.iceberg_change(entry.key) or 0: entry.modified_utc
        for entry in entries
        if layout.is_iceberg_metadata(entry.key)
    }
    aged = max((change for change, utc in written_utc.items() if utc < now - EXPIRY_GRACE), default=0)
    replaced_before = aged if head in written_utc else aged + 1
    return tuple(
        entry.key
        for entry in _unneeded_iceberg(log, layout, entries, first, head)
        if (change := layout.iceberg_change(entry.key)) is not None  # another program made it
        and (through is None or change <= through)
        and (change < replaced_before or not layout.is_iceberg_metadata(entry.key))
    )


def _unneeded_iceberg(
    log: ChangeLog, layout: LakeLayout, entries: Sequence[ListedObject], first: int, head: int
) -> list[ListedObject]:
    """Files of an Iceberg table that no retained change needs: of earlier changes, crashed runs, old metadata.

    Args:
        As `_expired_iceberg`.
    """
    if not entries:
        return []
    records, snapshots = _retained(log, first, head)
    needed = {log.layout.data_key(path) for path in _needed_files(records, snapshots)}
    needed.update(key for snapshot in snapshots for key in snapshot.manifest_keys)
    needed |= {layout.iceberg_metadata_key(head), layout.version_hint_key}
    own = [layout.manifest_prefix(record.change, record.run_id) for record in records[1:]]
    # Snapshots of earlier changes need the files that an erasure wrote for them, or will need them when it ends.
    erasures = (record for record in records[1:] if record.kind is ChangeKind.ERASURE)
    own += [layout.iceberg_data_prefix(record.change, record.run_id) for record in erasures]
    return [one for one in entries if one.key not in needed and not (own and one.key.startswith(tuple(own)))]


def clean_up(log: ChangeLog, plan: CleanUpPlan, keep_alive: KeepAlive = no_lease) -> None:
    """Delete what a plan lists. Repeatable: the next clean-up finishes one that crashed.

    No other run may work on the table at the same time, and no earlier run may still be able to commit.
    """
    layout = log.layout
    keep_alive()  # the plan is valid only under the lease
    # Before the mark, whose time begins their files' grace.
    oldest, marked = expire_snapshots(log, log.head(), plan.first_retained), log.first_retained()
    # A run that was paused past its lease published them again after another clean-up had expired them.
    is_reoffered = oldest is not None and oldest < marked
    if plan.first_retained > marked or is_reoffered:
        log.mark_first_retained(plan.first_retained)  # first: no reader may start on a change that is half deleted
    if plan.iceberg and not is_reoffered:
        expired = frozenset(plan.iceberg)
        for one in (layout, layout.history):
            if any(key.startswith(one.iceberg_prefix) for key in expired):
                log.store.remove(one.iceberg_prefix, lambda key: key not in expired)
    keep_alive()
    discards = log.store.begin_discarding(layout.file_keys(plan.data_files))
    in_parallel(lambda discard: discard(), discards, log.store.calls_at_once, keep_alive)
    for start in range(0, len(plan.objects), DELETE_BATCH_KEYS):
        log.store.delete(list(plan.objects[start : start + DELETE_BATCH_KEYS]))
        keep_alive()
    if plan.first_retained > log.cleaned_through():
        log.mark_cleaned_through(plan.first_retained)


def retired_since(log: ChangeLog, head: int) -> datetime | None:
    """When the oldest files were retired that no clean-up has deleted yet; None if there are none.

    Args:
        head: Number of the newest published change.
    """
    first = log.first_retained()
    if first < head:
        return datetime.fromisoformat(log.record(first + 1).created_utc)
    # A clean-up leaves files of the Iceberg tables' expired snapshots to the next one.
    left = any(_unneeded_iceberg(log, layout, entries, first, head) for layout, entries in list_iceberg(log))
    return datetime.fromisoformat(log.record(head).created_utc) if left else None


def orphaned_quarantine(log: ChangeLog, head: int, through: int | None) -> tuple[str, ...]:
    """Keys of quarantine files that no change names: their runs crashed, and later ones wrote the bad rows again.

    Args:
        head: Number of the newest published change.
        through: As for `plan_clean_up`.
    """
    keys = _keys(log, log.layout.quarantine_folder, through)
    numbers = {_number(key, log.layout.quarantine_folder) for key in keys}
    known = {key for number in numbers if number <= head for key in log.record(number).quarantine}
    return tuple(key for key in keys if key not in known)


def _keys(log: ChangeLog, folder: str, through: int | None) -> tuple[str, ...]:
    """Keys in a folder; if `through` is set, only keys of changes up to it."""
    keys = (entry.key for entry in log.store.list(folder))
    return tuple(key for key in keys if through is None or _number(key, folder) <= through)


def _number(key: str, folder: str) -> int:
    """Number of the change that an object belongs to: its name, or its folder's name, begins with it."""
    return int(key[len(folder) : len(folder) + CHANGE_DIGITS])
