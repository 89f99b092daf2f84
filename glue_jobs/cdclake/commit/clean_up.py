"""Permanently deletes what no retained change needs (a vacuum).

`cdclake.model.retained` chooses which changes stay retained. Change records are never deleted: they are small, and they
document the table.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.commit.iceberg.tables import expire_snapshots, list_iceberg
from cdclake.commit.publish import KeepAlive, no_lease
from cdclake.commit.undo import undo_targets
from cdclake.concurrency import in_parallel
from cdclake.errors import PastRetentionError
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake.model.layout import LakeLayout, change_of, is_in_iceberg
from cdclake.model.retained import Retained, can_be_thinned, changes_to_keep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.raw.files import ListedObject

EXPIRY_GRACE = timedelta(hours=1)
"""How long files of an expired snapshot of an Iceberg table are kept at least, for readers that opened it before."""
COPY_LIFETIME = timedelta(days=1)
"""How long a copy of a retired file, made for reading, is kept."""
DELETE_BATCH_KEYS = 1000
_LOOK_AHEAD = 16
"""So many changes after a clean-up are searched for states that the next one can delete, and the newest."""
_DATA_KINDS = (ChangeKind.FULL_LOAD, ChangeKind.INCREMENTAL, ChangeKind.DIRECT, ChangeKind.RELEASE)
"""Changes whose record lists every data file that they made live."""


@dataclass(frozen=True)
class CleanUpPlan:
    """What a clean-up deletes. All fields but `data_files` hold keys of the lake bucket.

    Attributes:
        retained: The changes that a rollback can still reach afterwards.
        data_files: Relative paths of retired data files.
        snapshots: Snapshots of changes and of crashed runs.
        tombstones: Tombstone files.
        ledger: Segments of the ledger.
        quarantine: Quarantine files of crashed runs, which the run that followed wrote again; and those from before
            the table's `ColumnPolicy`, if their change is no longer retained.
        staging: Staged files of crashed runs.
        copies: Copies of retired files, made for reading.
        marks: Markers of published changes.
        iceberg: Files of the Iceberg tables, of the table and of its history: data, manifests and metadata, also of
            crashed runs.
    """

    retained: Retained
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
        """The oldest retained change, the one from which on all are, and numbers of objects, for JSON."""
        counts = {name: len(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        return {"first_retained": self.retained.first, "all_retained_from": self.retained.through + 1, **counts}


def has_leftovers(log: ChangeLog, head: int) -> bool:
    """Whether a run has written files for a later change than `head`: it crashed, or is still working."""
    layout = log.layout
    keys = (entry.key for folder in layout.run_folders for entry in log.store.list(folder))
    if any(layout.run_change(key) > head for key in keys):
        return True
    return any((one.iceberg_change(entry.key) or 0) > head for one, found in list_iceberg(log) for entry in found)


def plan_clean_up(
    log: ChangeLog,
    retention: timedelta,
    now: datetime,
    through: int | None = None,
    keep_every: timedelta | None = None,
    keep_alive: KeepAlive = no_lease,
) -> CleanUpPlan:
    """Decide what to delete.

    Reads the records since the last clean-up, and of the states that were kept then, records and snapshots.

    Args:
        log: The table's change log. The plan is valid as long as no other run works on the table.
        retention: How long earlier states of the table are kept.
        now: The current time.
        through: Number of the newest published change, read while this run held the lease. Files of later changes are
            kept: if this run was paused past its lease, they belong to another run. None: they are leftovers.
        keep_every: How long every state is kept, see `changes_to_keep`. None: as long as `retention`.
        keep_alive: Renews the lease: many states take many requests.

    Raises:
        IntegrityError: A change record or the snapshot of a retained change is missing.
    """
    head, layout = log.head() if through is None else through, log.layout
    if not head:
        return CleanUpPlan(Retained(), staging=_keys(log, layout.staging_folder, through))
    marked = log.retained()  # once, before the time of the mark: another clean-up may move it meanwhile
    cleaned = log.cleaned()
    newer = log.records(min(cleaned.through, marked.through) + 1, head)
    records = {record.change: record for record in (*log.records_of(marked.kept), *newer)}
    keep_alive()
    committed = {number: datetime.fromisoformat(records[number].created_utc) for number in marked.up_to(head)}
    retained = marked
    if committed:
        wanted = undo_targets(log, head)
        retained &= changes_to_keep(committed, now, retention, retention if keep_every is None else keep_every, wanted)
    needs = _Needs(unfinished=_unfinished_erasure(log, head, retained)).and_of(log, retained, head, records)
    keep_alive()
    parts = tuple(
        prefix
        for record in needs.writers
        for prefix in (
            layout.tombstones_key(record.change, record.run_id),
            layout.ledger_prefix(record.change, record.run_id),
        )
    )

    def unneeded(folder: str) -> tuple[str, ...]:
        keys = _keys(log, folder, through)
        return tuple(key for key in keys if not (key in needs.parts or (parts and key.startswith(parts))))

    candidates = _retired(log, cleaned, retained, records)
    snapshots = {records[number].snapshot_key for number in retained.up_to(head)}
    iceberg = list_iceberg(log)
    if any(entries for _, entries in iceberg):
        before = needs.and_of(log, marked, head, records)
    keep_alive()
    return CleanUpPlan(
        retained=retained,
        data_files=tuple(sorted(path for path in candidates - needs.files if not is_in_iceberg(path))),
        snapshots=tuple(key for key in _keys(log, layout.snapshots_folder, through) if key not in snapshots),
        tombstones=unneeded(layout.tombstones_folder),
        ledger=unneeded(layout.ledger_folder),
        quarantine=_unneeded_quarantine(log, head, _keys(log, layout.quarantine_folder, through), retained),
        staging=_keys(log, layout.staging_folder, through),
        copies=tuple(
            entry.key for entry in log.store.list(layout.as_of_folder) if entry.modified_utc < now - COPY_LIFETIME
        ),
        marks=tuple(
            entry.key
            for entry in log.store.list(layout.published_folder)
            if 0 < layout.published_change(entry.key) < head
        ),
        iceberg=tuple(
            key
            for one, entries in iceberg
            if entries
            for key in _expired_iceberg(log, one, entries, before, head, now, through)
        ),
    )


def _unfinished_erasure(log: ChangeLog, head: int, retained: Retained) -> tuple[ChangeRecord, ...]:
    """The last erasure that is not marked as done, if earlier states are kept: its run may still be at work on them."""
    if not retained.kept:
        return ()
    return tuple(log.record(one.change) for one in log.unfinished_erasures(log.snapshot(head))[-1:])


def _retired(log: ChangeLog, cleaned: Retained, retained: Retained, records: Mapping[int, ChangeRecord]) -> set[str]:
    """Paths of data files that changes which are no longer retained had, and that no clean-up has deleted."""
    newly = range(cleaned.through + 2, retained.through + 2)
    paths = {path for number in newly if number in records for path in records[number].retired}
    for number in cleaned.kept:
        if number not in retained:
            with suppress(PastRetentionError):  # a clean-up that crashed deletes it after its files
                paths.update(file.path for file in log.snapshot(number).all_files)
    return paths


@dataclass(frozen=True)
class _Needs:
    """What retained changes need.

    Attributes:
        changes: Numbers of those whose snapshots were read.
        files: Paths of their data files.
        parts: Keys of tombstones and of segments of the ledger, without those that the changes `following` wrote.
        manifests: Keys of manifests, likewise.
        following: Records of the changes after the first of those without a gap.
        unfinished: The record of an erasure whose run may yet let these changes need the files that it wrote.
    """

    changes: frozenset[int] = frozenset()
    files: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    manifests: frozenset[str] = frozenset()
    following: tuple[ChangeRecord, ...] = ()
    unfinished: tuple[ChangeRecord, ...] = ()

    @property
    def writers(self) -> tuple[ChangeRecord, ...]:
        """The records of changes of which all files are needed that they wrote."""
        return (*self.following, *self.unfinished)

    def and_of(self, log: ChangeLog, retained: Retained, head: int, records: Mapping[int, ChangeRecord]) -> _Needs:
        """The same, and what other retained changes need.

        Only snapshots are read that name what records do not. They may be large, so this holds one at a time.

        Args:
            head: Number of the newest change.
            records: Those of the retained changes.
        """
        first = retained.through + 1
        following = tuple(records[number] for number in range(first + 1, head + 1))
        others = (record.change for record in following if record.kind not in _DATA_KINDS)
        changes = {*retained.kept, *([first] if first <= head else []), *others} - self.changes
        files, parts, manifests = set(self.files), set(self.parts), set(self.manifests)
        for number in sorted(changes):
            snapshot = log.snapshot_of(records[number])
            files.update(file.path for file in snapshot.all_files)
            parts.update(snapshot.part_keys)
            manifests.update(snapshot.manifest_keys)
        files.update(file.path for record in following for file in record.added)
        files.update(path for one in self.unfinished for path in one.retired if change_of(path) == one.change)
        return _Needs(
            self.changes | changes,
            frozenset(files),
            frozenset(parts),
            frozenset(manifests),
            following,
            self.unfinished,
        )


def _expired_iceberg(
    log: ChangeLog,
    layout: LakeLayout,
    entries: Sequence[ListedObject],
    needs: _Needs,
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
        needs: What the changes need that the clean-up before retained.
    """
    marked_utc = max((entry.modified_utc for entry in log.store.list(log.layout.retained_key)), default=None)
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
        for entry in _unneeded_iceberg(log, layout, entries, needs, head)
        if (change := layout.iceberg_change(entry.key)) is not None  # another program made it
        and (through is None or change <= through)
        and (change < replaced_before or not layout.is_iceberg_metadata(entry.key))
    )


def _unneeded_iceberg(
    log: ChangeLog, layout: LakeLayout, entries: Sequence[ListedObject], needs: _Needs, head: int
) -> list[ListedObject]:
    """Files of an Iceberg table that no retained change needs: of earlier changes, crashed runs, old metadata.

    Args:
        As `_expired_iceberg`.
    """
    needed = {log.layout.data_key(path) for path in needs.files}
    needed |= {*needs.manifests, layout.iceberg_metadata_key(head), layout.version_hint_key}
    own = [layout.manifest_prefix(record.change, record.run_id) for record in needs.writers]
    # Snapshots of earlier changes need the files that an erasure wrote for them, or will need them when it ends.
    erasures = (record for record in needs.writers if record.kind is ChangeKind.ERASURE)
    own += [layout.iceberg_data_prefix(record.change, record.run_id) for record in erasures]
    return [one for one in entries if one.key not in needed and not (own and one.key.startswith(tuple(own)))]


def clean_up(log: ChangeLog, plan: CleanUpPlan, keep_alive: KeepAlive = no_lease) -> None:
    """Delete what a plan lists. Repeatable: the next clean-up finishes one that crashed.

    No other run may work on the table at the same time, and no earlier run may still be able to commit.
    """
    layout = log.layout
    keep_alive()  # the plan is valid only under the lease
    # Before the mark, whose time begins their files' grace.
    expired, marked = expire_snapshots(log, log.head(), plan.retained), log.retained()
    # A run that was paused past its lease published them again after another clean-up had expired them.
    is_reoffered = any(change not in marked for change in expired)
    if marked & plan.retained != marked or is_reoffered:
        log.mark_retained(plan.retained)  # first: no reader may start on a change that is half deleted
    if plan.iceberg and not is_reoffered:
        unneeded = frozenset(plan.iceberg)
        for one in (layout, layout.history):
            if any(key.startswith(one.iceberg_prefix) for key in unneeded):
                log.store.remove(one.iceberg_prefix, lambda key: key not in unneeded)
    keep_alive()
    discards = log.store.begin_discarding(layout.file_keys(plan.data_files))
    in_parallel(lambda discard: discard(), discards, log.store.calls_at_once, keep_alive)
    for start in range(0, len(plan.objects), DELETE_BATCH_KEYS):
        log.store.delete(list(plan.objects[start : start + DELETE_BATCH_KEYS]))
        keep_alive()
    if plan.retained != log.cleaned():
        log.mark_cleaned(plan.retained)


class DeletableSince(NamedTuple):
    """Since when there are files that a clean-up will delete one day. None: there are none.

    Attributes:
        retired_utc: When the oldest files were retired that no clean-up has deleted yet.
        repeated_utc: When the first state was replaced that is not to be kept for long.
    """

    retired_utc: datetime | None
    repeated_utc: datetime | None


def deletable_since(log: ChangeLog, head: int, *, just_cleaned: bool = False) -> DeletableSince:
    """Find out when the next clean-up is worth its requests.

    Args:
        head: Number of the newest published change.
        just_cleaned: Look also for files of the Iceberg tables' expired snapshots, which a clean-up leaves to the next
            one. Without other changes than the newest one, this is done each time.
    """
    retained = log.retained()
    first, last = retained.through + 1, max(head - 1, 1)
    looked_at = [*range(first, min(first + _LOOK_AHEAD, head)), *(last, head)]
    times = {record.change: datetime.fromisoformat(record.created_utc) for record in log.records_of(set(looked_at))}
    pairs = ((number, number + 1) for number in sorted(times) if number >= first and number + 1 in times)
    repeated = next((times[after] for one, after in pairs if can_be_thinned(times[one], times[after])), None)
    retired = None
    if retained.first < head:
        retired = datetime.fromisoformat(log.record(retained.first + 1).created_utc)
    looks = (just_cleaned or first >= head) and not (retired and repeated)
    if looks and _has_expired_iceberg(log, retained, head):
        retired, repeated = retired or times[head], repeated or times[head]
    return DeletableSince(retired, repeated)


def _has_expired_iceberg(log: ChangeLog, retained: Retained, head: int) -> bool:
    iceberg = [(layout, entries) for layout, entries in list_iceberg(log) if entries]
    if not iceberg:
        return False
    records = {record.change: record for record in log.records_of(retained.up_to(head))}
    needs = _Needs().and_of(log, retained, head, records)
    unneeded = (
        (layout, one) for layout, entries in iceberg for one in _unneeded_iceberg(log, layout, entries, needs, head)
    )
    # The next clean-up leaves files of other programs, and what a dead run left of a later change.
    return any((layout.iceberg_change(one.key) or head + 1) <= head for layout, one in unneeded)


def orphaned_quarantine(log: ChangeLog, head: int, through: int | None) -> tuple[str, ...]:
    """Keys of quarantine files that no change names: their runs crashed, and later ones wrote the bad rows again.

    Args:
        head: Number of the newest published change.
        through: As for `plan_clean_up`.
    """
    return _orphaned(log, head, _keys(log, log.layout.quarantine_folder, through))


def _orphaned(log: ChangeLog, head: int, keys: tuple[str, ...]) -> tuple[str, ...]:
    numbers = {log.layout.run_change(key) for key in keys}
    known = {key for number in numbers if number <= head for key in log.record(number).quarantine}
    return tuple(key for key in keys if key not in known)


def _unneeded_quarantine(log: ChangeLog, head: int, keys: tuple[str, ...], retained: Retained) -> tuple[str, ...]:
    """Keys of quarantine files of crashed runs, and of those from before the table's `ColumnPolicy`."""
    orphaned = _orphaned(log, head, keys)
    old = {key: number for key in keys if (number := log.layout.run_change(key)) not in retained}
    since = log.snapshot(head).policy.since if old else 0
    return (*orphaned, *(key for key, number in old.items() if number < since and key not in orphaned))


def _keys(log: ChangeLog, folder: str, through: int | None) -> tuple[str, ...]:
    """Keys that runs wrote into a folder; if `through` is set, only keys of changes up to it."""
    numbers = ((entry.key, log.layout.run_change(entry.key)) for entry in log.store.list(folder))
    return tuple(key for key, number in numbers if number and (through is None or number <= through))
