"""Finds due change files: those after the watermark (the checkpoint), and late ones before it, never applied.

A change file is late if its name sorts before an applied file. Within the late window, a snapshot lists every applied
file. This distinguishes a late file from one that is delivered again. Before the window it lists neither files nor
deletes, and a file that arrives there is too late. A longer window does not restore what was dropped, so a snapshot
keeps its horizon: files and deletes before this time were dropped.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import UnreadableFileError
from cdclake.model.raw.files import INVALID_TIME_REMEDY, file_order, stamp_time
from cdclake.model.table.state import TableState
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import Snapshot


class Pending(NamedTuple):
    """Change files that a lake table lacks.

    Attributes:
        due: Files to apply, late ones included, in the order of `RawFile.order`.
        too_late: Files to leave out, as they are before the late window, in the same order.
        overwritten: Files of the late window whose content has changed since they were applied or covered by a full
            load, in the same order.
    """

    due: list[RawFile]
    too_late: list[RawFile]
    overwritten: list[RawFile]


def pending_changes(
    snapshot: Snapshot, files: Sequence[RawFile], late_window_hours: int, modified_after: datetime | None = None
) -> Pending:
    """Find the change files that a lake table lacks.

    Args:
        snapshot: The lake table. Without applied change files and without a floor, it lacks all of them.
        files: Change files, any order.
        late_window_hours: How much older than the watermark a late file may be, by the times in their names.
        modified_after: Files before the window count as too late only if they were written at this time or later. Only
            this distinguishes them from files applied long ago. None: no file counts as too late.

    Raises:
        UnreadableFileError: A due file is stamped more than a day later than it was written. Once it is applied, all
            files before its stamp would be late.
    """
    watermark, floor = file_order(snapshot.watermark), file_order(snapshot.floor)
    horizon = window_begin(snapshot, late_window_hours)
    applied = {snapshot.watermark, *snapshot.applied_files}
    pending = Pending([], [], [])
    for file in sorted(files, key=lambda file: file.order):
        if file.order > watermark:
            pending.due.append(file)
        elif file.order <= floor or file.relative in applied:
            if snapshot.identities.get(file.relative, file.identity) != file.identity:
                pending.overwritten.append(file)
        elif file.order >= horizon:
            pending.due.append(file)
        elif modified_after is not None and file.modified_utc >= modified_after.replace(microsecond=0):
            pending.too_late.append(file)
    for file in pending.due:
        if file.stamped_ahead:
            written = iso_utc(file.modified_utc)
            message = f"A change file is stamped more than a day later than it was written ({written})"
            raise UnreadableFileError(message, remedy=INVALID_TIME_REMEDY, file=file.key)
    return pending


def first_batch(files: Sequence[RawFile], max_files: int, max_bytes: int) -> Sequence[RawFile]:
    """The oldest due files, as many as one change may take, and at least one if there is any.

    The planner and the Spark job both call this, so that they select the same files. Late files come first, and the
    watermark does not move before all of them are applied. So no file leaves the late window while it waits.

    Args:
        files: Change files in the order of `RawFile.order`.
        max_bytes: Maximum of their total size; a larger file is taken alone.
    """
    size_bytes = 0
    for count, file in enumerate(files):
        size_bytes += file.size_bytes
        if count and (count == max_files or size_bytes > max_bytes):
            return files[:count]
    return files


def mark_applied(snapshot: Snapshot, files: Sequence[RawFile], late_window_hours: int) -> Snapshot:
    """The snapshot with these change files marked as applied, and without those before the late window.

    Args:
        snapshot: The lake table before the change, or the one in preparation.
        files: Change files, any order.
        late_window_hours: As for `pending_changes`.

    Returns:
        The snapshot with new `watermark`, `applied_files`, `horizon` and `identities`; nothing else changes.
    """
    names = {*snapshot.applied_files, *(file.relative for file in files)}
    orders = {name: file_order(name) for name in {snapshot.watermark, *names}}  # parses thousands of names, once each
    after = replace(snapshot, watermark=max(orders, key=orders.__getitem__))
    horizon = window_begin(after, late_window_hours)
    kept = sorted((name for name in names if orders[name] >= horizon), key=orders.__getitem__)
    return with_identities(replace(after, applied_files=tuple(kept), horizon=horizon), files)


def with_identities(snapshot: Snapshot, files: Iterable[RawFile]) -> Snapshot:
    """The snapshot with the identities of these files, and without identities of files that it no longer lists.

    Args:
        files: Raw files that were just applied, loaded or covered by a full load.
    """
    listed = {*snapshot.applied_files, *snapshot.full_load_files}
    known = {**snapshot.identities, **{file.relative: file.identity for file in files if file.identity}}
    begin, floor = max(snapshot.horizon, "0"), file_order(snapshot.floor)
    kept = (name for name in sorted(known) if name in listed or begin <= file_order(name) <= floor)
    return replace(snapshot, identities={name: known[name] for name in kept})


def remember_applied(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The snapshot with these change files among the applied ones, even before the late window, until the next change.

    Without this, files that cdclake itself rewrites would count as arriving too late, or as overwritten by others.

    Args:
        names: Relative keys of the change files.
    """
    applied = {*snapshot.applied_files, *names}
    identities = {name: identity for name, identity in snapshot.identities.items() if name not in names}
    return replace(snapshot, applied_files=tuple(sorted(applied, key=file_order)), identities=identities)


def begin_after(snapshot: Snapshot, relative: str) -> Snapshot:
    """The snapshot of a table that contains every change up to a change file and none after, as after a full load.

    Args:
        snapshot: The lake table before the change, or the one in preparation.
        relative: Relative key of the file; empty if the table contains no change file.
    """
    return replace(snapshot, watermark=relative, floor=relative, applied_files=(), horizon="", forgotten="", added={})


def covered_by_full_load(full_load_files: Sequence[RawFile], change_files: Sequence[RawFile]) -> str:
    """The last change file that a repeated full load covers, for `begin_after`.

    The full load contains every change file that was written before its own first file. A file written later may or may
    not be contained, so it must be applied, even if that applies it twice. A file stamped more than a day later than it
    was written is not covered, because it would cover all files before its stamp.

    Args:
        full_load_files: All files of the full load; at least one.
        change_files: Change files, any order.

    Returns:
        Relative key of the last covered file in order; empty if none is covered.
    """
    oldest = min(file.modified_utc for file in full_load_files)
    covered = (file for file in change_files if file.modified_utc < oldest and not file.stamped_ahead)
    return max((file.relative for file in covered), key=file_order, default="")


def full_load_facts(files: Sequence[RawFile]) -> tuple[tuple[str, ...], str]:
    """The fields of a snapshot for its full load: `full_load_files` and `full_load_utc`.

    Args:
        files: All files of the full load; at least one.
    """
    newest = max(file.modified_utc for file in files)
    return tuple(file.relative for file in files), newest.strftime(TableState.DATE_FORMAT)


def is_loaded(snapshot: Snapshot, files: Sequence[RawFile]) -> bool:
    """Whether a lake table was last loaded from exactly these files, by their identities if they are known.

    Args:
        files: All full-load files, by name; at least one.
    """
    names, newest = full_load_facts(files)
    if names != snapshot.full_load_files:
        return False
    known = snapshot.identities
    return all(
        known[f.relative] == f.identity if f.relative in known else newest == snapshot.full_load_utc for f in files
    )


def window_begin(snapshot: Snapshot, late_window_hours: int) -> str:
    """The smallest order that a late file may have: the start of the window, or the horizon if that is later.

    Returns:
        `yyyymmdd-HHMMSS`; empty if the window is unlimited.
    """
    newest = stamp_time(file_order(snapshot.watermark))
    if newest is None:
        return snapshot.horizon
    try:
        begin = newest - timedelta(hours=late_window_hours)
    except OverflowError:  # the window is longer than the calendar
        return snapshot.horizon
    return max(snapshot.horizon, f"{begin.year:04d}{begin:%m%d-%H%M%S}")
