"""Tells the fate of each raw file of a table: whether it is in the lake, and if not, why. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.full_load_gate import due_loads
from cdclake.control.plan.left_out import LeftOut
from cdclake.control.plan.lost_files import vanished
from cdclake.model.due_files import begin_after, is_contained, sorted_out
from cdclake.model.raw.files import file_order
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from cdclake.model.raw.files import RawFile, RawFiles
    from cdclake.model.raw.ledger import Entry, Recorded
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState

_UNREAD = "no LOAD or change file has such a name"
_VANISHED = "it was due, and is no longer there"


class Fate(str, Enum):
    """What became of a raw file."""

    APPLIED = "applied"
    """A change applied this change file."""
    LOADED = "loaded"
    """This LOAD file is part of the last full load."""
    COVERED = "covered"
    """The full load contains the changes of this change file, or the table began after it."""
    DUE = "due"
    """The next run loads or applies it."""
    WAITING = "waiting"
    """It is due, but something stops the table."""
    LATE = "late"
    """It came too late, and is left out."""
    OVERWRITTEN = "overwritten"
    """The table contains its rows as they were before it got other content."""
    IGNORED = "ignored"
    """`IgnoreFiles` covers it, or `LastFullLoadDate` skips it."""
    UNREAD = "unread"
    """No LOAD or change file has such a name."""
    GONE = "gone"
    """The table contains it, but the raw bucket does not."""
    VANISHED = "vanished"
    """A run found it due, but it is neither in the raw bucket nor in the table: the table is frozen."""


class FileFate(NamedTuple):
    """A raw file and its fate.

    Attributes:
        file: Its key, relative to the table's raw folder.
        change: Number of the change that applied or loaded it, or whose full load covers it; None if there is none.
        reason: Why it is not in the lake, or only as it was; empty if it is.
        size_bytes: None if it is gone or unread.
        modified_utc: When it was last written; None as for `size_bytes`.
    """

    file: str
    fate: Fate
    change: int | None = None
    reason: str = ""
    size_bytes: int | None = None
    modified_utc: datetime | None = None

    @property
    def written(self) -> str:
        """When it was last written, `yyyy-mm-dd HH:MM:SS` in UTC; empty if unknown."""
        return f"{self.modified_utc:%Y-%m-%d %H:%M:%S}" if self.modified_utc else ""


def fates(
    state: TableState,
    files: RawFiles,
    lake: Snapshot,
    entries: Mapping[str, Entry],
    recorded: Recorded,
    stopped_by: str = "",
) -> list[FileFate]:
    """The fate of each raw file that is there, and of each that the lake table contains.

    Args:
        files: What is in the raw folder.
        lake: The lake table after its newest change.
        entries: All change files in its ledger.
        recorded: Those of `files` that its ledger contains.
        stopped_by: Why no run applies what is due; empty if the next one does.

    Returns:
        Change files in order, LOAD files before them, unread ones after them.
    """
    known = lake if lake.exists else begin_after(lake, state.checked_watermark)
    is_due = not state.full_load_date_by_hand or bool(due_loads(state, files.full_load))
    found = [
        *(_of_load(file, lake, stopped_by, is_due=is_due) for file in files.full_load),
        *_of_changes(state, files, known, entries, recorded, stopped_by),
        *(_of_ignored(file, lake, entries) for file in files.ignored),
    ]
    there = {one.file for one in found}
    in_lake = dict.fromkeys(lake.ledger.loads, lake.ledger.loaded_by)
    in_lake.update((name, entry.change) for name, entry in entries.items())
    found += [FileFate(name, Fate.GONE, change or None) for name, change in in_lake.items() if name not in there]
    lost = vanished(state, files, known, recorded)
    found += [FileFate(name, Fate.VANISHED, None, _VANISHED) for name in lost.names]
    found.sort(key=lambda one: (file_order(one.file), one.file))
    return [*found, *(FileFate(name, Fate.UNREAD, None, _UNREAD) for name in files.unread)]


def _listed(file: RawFile, fate: Fate, change: int | None = None, reason: str = "") -> FileFate:
    return FileFate(file.relative, fate, change or None, reason, file.size_bytes, file.modified_utc)


def _not_yet(file: RawFile, stopped_by: str) -> FileFate:
    return _listed(file, Fate.WAITING if stopped_by else Fate.DUE, None, stopped_by)


def _of_load(file: RawFile, lake: Snapshot, stopped_by: str, *, is_due: bool) -> FileFate:
    if is_contained(lake, file):
        return _listed(file, Fate.LOADED, lake.ledger.loaded_by)
    skipped = f"{Attribute.LAST_FULL_LOAD_DATE} skips it"
    return _not_yet(file, stopped_by) if is_due else _listed(file, Fate.IGNORED, None, skipped)


def _of_changes(
    state: TableState,
    files: RawFiles,
    known: Snapshot,
    entries: Mapping[str, Entry],
    recorded: Recorded,
    stopped_by: str,
) -> Iterator[FileFate]:
    hours, floor = state.settings.late_window_hours, file_order(known.floor)
    due, late, changed = map(set, sorted_out(known, files.changes, hours, recorded))
    accepted = LeftOut.parse(state.left_out).accepted

    def left_out(file: RawFile, fate: Fate, reason: str) -> FileFate:
        seen = ", acknowledged" if accepted.get(file.relative) == file.identity else ""
        return _listed(file, fate, _change_of(file, entries), reason + seen)

    for file in files.changes:
        if file in due:
            yield _not_yet(file, stopped_by)
        elif file in late and file.order <= floor:
            yield left_out(file, Fate.LATE, "the full load covers its time, but may lack its changes")
        elif file in late:
            yield left_out(file, Fate.LATE, f"came after {known.watermark}, and is more than {hours} hours older")
        elif file in changed:
            yield left_out(file, Fate.OVERWRITTEN, "got other content after it was read")
        else:
            yield _contained(file, floor, entries)


def _of_ignored(file: RawFile, lake: Snapshot, entries: Mapping[str, Entry]) -> FileFate:
    """An ignored file that is in the lake stays there."""
    covers = f"{Attribute.IGNORE_FILES} covers it"
    if file.relative in lake.ledger.loads:
        return _listed(file, Fate.LOADED, lake.ledger.loaded_by, covers)
    if file.relative not in entries:
        return _listed(file, Fate.IGNORED, None, covers)
    return _contained(file, file_order(lake.floor), entries, covers)


def _contained(file: RawFile, floor: str, entries: Mapping[str, Entry], reason: str = "") -> FileFate:
    fate = Fate.COVERED if file.order <= floor else Fate.APPLIED
    return _listed(file, fate, _change_of(file, entries), reason)


def _change_of(file: RawFile, entries: Mapping[str, Entry]) -> int | None:
    return entries[file.relative].change if file.relative in entries else None
