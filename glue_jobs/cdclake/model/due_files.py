"""Which change files are due: those after the watermark, and late ones before it that were never applied.

A change file is late when its name sorts before one that was applied. Within the late window a snapshot remembers every
file applied, so a late file is told from one delivered again. Behind the window it remembers neither files nor deletes,
and a file that comes then is too late. What was forgotten stays so when the window is made longer, which is why a
snapshot keeps the horizon behind which it forgot.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.rawfiles import file_order, stamp_time
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from cdclake.model.rawfiles import RawFile
    from cdclake.model.snapshot import Snapshot


class Pending(NamedTuple):
    """Change files that a lake table lacks.

    Attributes:
        due: Those to apply, late ones included, in the order of `RawFile.order`.
        too_late: Those to leave out, as they lie behind the late window, in the same order.
    """

    due: list[RawFile]
    too_late: list[RawFile]


def pending_changes(
    snapshot: Snapshot, files: Sequence[RawFile], late_window_hours: int, modified_after: datetime | None = None
) -> Pending:
    """Tell which change files a lake table lacks.

    Args:
        snapshot: The lake table. One that no change file was applied to, and without floor, lacks them all.
        files: Change files, any order.
        late_window_hours: How much older than the watermark a late file may be, by the times in their names.
        modified_after: Files behind the window count as too late only if they were written at this time or later: a
            file applied long ago looks the same but for that. None: no file counts as too late.
    """
    watermark, floor = file_order(snapshot.watermark), file_order(snapshot.floor)
    horizon = window_begin(snapshot, late_window_hours)
    applied = {snapshot.watermark, *snapshot.applied_files}
    pending = Pending([], [])
    for file in sorted(files, key=lambda file: file.order):
        if file.order > watermark:
            pending.due.append(file)
        elif file.order <= floor or file.relative in applied:
            continue
        elif file.order >= horizon:
            pending.due.append(file)
        elif modified_after is not None and file.modified_utc >= modified_after.replace(microsecond=0):
            pending.too_late.append(file)
    return pending


def first_batch(files: Sequence[RawFile], most_files: int, most_bytes: int) -> Sequence[RawFile]:
    """The oldest of the files that are due, as many as one change may take, and at least one if there is any.

    Planning and the Spark job both ask this, so that they mean the same files. Late files come first, and the
    watermark does not move before all of them are applied: so none falls behind the late window by waiting.

    Args:
        files: Change files in the order of `RawFile.order`.
        most_files: So many at most.
        most_bytes: Their size together at most; a larger file is taken alone.
    """
    size_bytes = 0
    for count, file in enumerate(files):
        size_bytes += file.size_bytes
        if count and (count == most_files or size_bytes > most_bytes):
            return files[:count]
    return files


def mark_applied(snapshot: Snapshot, files: Sequence[RawFile], late_window_hours: int) -> Snapshot:
    """The snapshot with these change files counted as applied, and forgotten what lies behind the late window.

    Args:
        snapshot: The lake table before, or what is to become of it.
        files: Change files, any order.
        late_window_hours: As for `pending_changes`.

    Returns:
        The snapshot with `watermark`, `applied_files` and `horizon` brought up to date; nothing else is changed.
    """
    applied = {*snapshot.applied_files, *(file.relative for file in files)}
    after = replace(snapshot, watermark=max({snapshot.watermark, *applied}, key=file_order))
    horizon = window_begin(after, late_window_hours)
    kept = (relative for relative in applied if file_order(relative) >= horizon)
    return replace(after, applied_files=tuple(sorted(kept, key=file_order)), horizon=horizon)


def remember_applied(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The snapshot with these change files among those applied, also behind the late window, up to the next change.

    So files that we write anew ourselves, and that are in the table, are not taken for files that come too late.

    Args:
        snapshot: The lake table.
        names: Relative keys of the change files.
    """
    applied = {*snapshot.applied_files, *names}
    return replace(snapshot, applied_files=tuple(sorted(applied, key=file_order)))


def begin_after(snapshot: Snapshot, relative: str) -> Snapshot:
    """The snapshot of a table that holds every change up to a change file, and none after, as a full load leaves it.

    Args:
        snapshot: The lake table before, or what is to become of it.
        relative: Relative key of the file; empty if no change file is in the table.
    """
    return replace(snapshot, watermark=relative, floor=relative, applied_files=(), horizon="")


def covered_by_full_load(full_load_files: Sequence[RawFile], change_files: Sequence[RawFile]) -> str:
    """The change file up to which a full load that replaces an earlier one holds every change, for `begin_after`.

    A change file written before the first file of the full load was is in it already. One written since may be or not,
    and must be applied, again if need be.

    Args:
        full_load_files: All files of the full load; at least one.
        change_files: Change files, any order.

    Returns:
        Relative key of the latest in order of those that are in the full load; empty if none is.
    """
    oldest = min(file.modified_utc for file in full_load_files)
    return max((file.relative for file in change_files if file.modified_utc < oldest), key=file_order, default="")


def full_load_facts(files: Sequence[RawFile]) -> tuple[tuple[str, ...], str]:
    """What a snapshot keeps of the full load it was made from: `full_load_files` and `full_load_utc`.

    Args:
        files: All files of the full load; at least one.
    """
    newest = max(file.modified_utc for file in files)
    return tuple(file.relative for file in files), newest.strftime(TableState.DATE_FORMAT)


def window_begin(snapshot: Snapshot, late_window_hours: int) -> str:
    """What a late file's order must reach: where the window begins now, or where something was forgotten before.

    Returns:
        `yyyymmdd-HHMMSS`; empty if the window reaches back without end.
    """
    newest = stamp_time(file_order(snapshot.watermark))
    if newest is None:
        return snapshot.horizon
    try:
        begin = newest - timedelta(hours=late_window_hours)
    except OverflowError:  # the window is longer than the calendar
        return snapshot.horizon
    return max(snapshot.horizon, f"{begin.year:04d}{begin:%m%d-%H%M%S}")
