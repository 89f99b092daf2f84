"""Deletes for good what no retained change needs.

A change is retained while its table was the newest at any time within the retention time. Change records stay for ever:
they are small, and they are the table's history.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, in_parallel, no_lease
from cdclake.commit.timeline import newest_before
from cdclake.model.change import ChangeKind
from cdclake.model.layout import CHANGE_DIGITS

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.commit.log import ChangeLog

COPIES_KEPT = timedelta(days=1)
"""How long a copy made for reading stays after it was made."""
KEYS_AT_ONCE = 1000
_DATA_KINDS = (ChangeKind.FULL_LOAD, ChangeKind.INCREMENTAL, ChangeKind.DIRECT, ChangeKind.RELEASE)
"""Changes whose record names every data file that they brought into sight."""


@dataclass(frozen=True)
class CleanUpPlan:
    """What a clean-up deletes. Everything but the data files are keys of the lake bucket.

    Attributes:
        first_retained: Number of the oldest change that can be gone back to from then on.
        data_files: Relative paths of retired data files.
        snapshots: Snapshots, of changes and of runs that died.
        tombstones: Files of remembered deletes.
        quarantine: Bad rows put aside by runs that died: the run that came after put them aside again.
        staging: What runs that died left.
        copies: Copies of retired files made for reading.
        marks: Notes that a change is published.
    """

    first_retained: int
    data_files: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    tombstones: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    staging: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of objects to delete."""
        return len(self.data_files) + len(self.objects)

    @property
    def objects(self) -> tuple[str, ...]:
        """Keys of everything but the data files."""
        return (
            *self.snapshots,
            *self.tombstones,
            *self.quarantine,
            *self.staging,
            *self.copies,
            *self.marks,
        )

    def to_json(self) -> dict[str, int]:
        """Counts of objects, good for JSON."""
        counts = {name: len(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        return {"first_retained": self.first_retained, **counts}


def has_leftovers(log: ChangeLog, head: int) -> bool:
    """Whether some run wrote for the change after the newest, and has not committed it: it died, or is at work."""
    layout = log.layout
    folders = (layout.staging_folder, layout.snapshots_folder, layout.tombstones_folder, layout.quarantine_folder)
    return any(_number(entry.key, folder) > head for folder in folders for entry in log.store.list(folder))


def plan_clean_up(log: ChangeLog, retention: timedelta, now: datetime, through: int | None = None) -> CleanUpPlan:
    """Decide what to delete.

    Args:
        log: The table's change log. The plan is right for as long as nobody else works on the table.
        retention: How long what the table was is kept.
        now: The time.
        through: Number of the newest change, published, when this run had the table for itself. What is written for
            later ones is left alone: if this run was paused past its lease, it is another run's. None: what lies there
            for a change to come is taken to be left over.

    Raises:
        IntegrityError: A change record or the snapshot of a retained change is missing.
    """
    head, layout = log.head() if through is None else through, log.layout
    if not head:
        return CleanUpPlan(1, staging=_keys(log, layout.staging_folder, through))
    first = max(log.first_retained(), newest_before(log, now - retention, head), 1)
    retained = log.records(first, head)
    kept = [log.snapshot(first), *(log.snapshot(one.change) for one in retained[1:] if one.kind not in _DATA_KINDS)]
    needed_files = {file.path for snapshot in kept for file in snapshot.all_files}
    needed_files.update(file.path for one in retained[1:] for file in one.added)
    needed_tombstones = {file.key for snapshot in kept for file in snapshot.tombstones}
    made = tuple(layout.tombstones_key(one.change, one.run_id) for one in retained[1:])
    retired = (path for one in log.records(log.cleaned_through() + 1, first) for path in one.retired)
    snapshots = {one.snapshot_key for one in retained}
    return CleanUpPlan(
        first_retained=first,
        data_files=tuple(sorted(set(retired) - needed_files)),
        snapshots=tuple(key for key in _keys(log, layout.snapshots_folder, through) if key not in snapshots),
        tombstones=tuple(
            key
            for key in _keys(log, layout.tombstones_folder, through)
            if not (key in needed_tombstones or (made and key.startswith(made)))
        ),
        quarantine=_orphaned_quarantine(log, head, through),
        staging=_keys(log, layout.staging_folder, through),
        copies=tuple(
            entry.key for entry in log.store.list(layout.as_of_folder) if entry.modified_utc < now - COPIES_KEPT
        ),
        marks=_keys(log, layout.published_folder, head - 1),
    )


def clean_up(log: ChangeLog, plan: CleanUpPlan, keep_alive: KeepAlive = no_lease) -> None:
    """Delete what a plan says. It may be repeated, and one that died is finished by the next.

    Nobody else may work on the table meanwhile, and no run that began before may be able to commit.
    """
    layout = log.layout
    keep_alive()  # the plan is only as good as the lease
    if plan.first_retained > log.first_retained():
        log.mark_first_retained(plan.first_retained)  # first, so that nobody is sent to what is half gone
    in_parallel(
        lambda path: log.store.discard(layout.data_key(path), layout.retired_key(path)), plan.data_files, keep_alive
    )
    for start in range(0, len(plan.objects), KEYS_AT_ONCE):
        log.store.delete(list(plan.objects[start : start + KEYS_AT_ONCE]))
        keep_alive()
    if plan.first_retained > log.cleaned_through():
        log.mark_cleaned_through(plan.first_retained)


def _orphaned_quarantine(log: ChangeLog, head: int, through: int | None) -> tuple[str, ...]:
    keys = _keys(log, log.layout.quarantine_folder, through)
    numbers = {_number(key, log.layout.quarantine_folder) for key in keys}
    known = {key for number in numbers if number <= head for key in log.record(number).quarantine}
    return tuple(key for key in keys if key not in known)


def _keys(log: ChangeLog, folder: str, through: int | None) -> tuple[str, ...]:
    """Keys in a folder; with a number, only those that were written for changes up to that one."""
    keys = (entry.key for entry in log.store.list(folder))
    return tuple(key for key in keys if through is None or _number(key, folder) <= through)


def _number(key: str, folder: str) -> int:
    """Number of the change that an object was written for: its name, or its folder's, begins with it."""
    return int(key[len(folder) : len(folder) + CHANGE_DIGITS])
