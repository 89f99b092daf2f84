"""Finds due change files: those after the watermark (the checkpoint), and late ones before it, never applied.

A change file is late if its name sorts before an applied file. The ledger tells it from one that was applied. Before
the late window, a table remembers no deletes, and a file that arrives there is too late. A longer window does not
restore what was dropped, so a snapshot keeps its horizon: deletes before this time were dropped.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import UnreadableFileError
from cdclake.model.raw.files import INVALID_TIME_REMEDY, file_order, stamp_time
from cdclake.model.raw.ledger import Ledger
from cdclake.model.table.state import TableState
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.raw.files import RawFile
    from cdclake.model.raw.ledger import Recorded
    from cdclake.model.snapshot import Snapshot


class Pending(NamedTuple):
    """Change files of which a lake table lacks the content that they have now, each in the order of `RawFile.order`.

    Attributes:
        due: Files to apply, late ones included.
        too_late: Files to leave out: before the late window, or up to the floor and written after the full load.
        overwritten: Files whose content has changed since they were applied or covered by a full load.
    """

    due: list[RawFile]
    too_late: list[RawFile]
    overwritten: list[RawFile]


def pending_changes(
    snapshot: Snapshot, files: Sequence[RawFile], late_window_hours: int, recorded: Recorded
) -> Pending:
    """Find the change files that a lake table lacks.

    Args:
        snapshot: The lake table. With an empty ledger, and without a watermark and a floor, it lacks all files.
        files: Change files, any order.
        late_window_hours: How much older than the watermark a late file may be, by the times in their names.
        recorded: Those of the files that the table's ledger contains.

    Raises:
        UnreadableFileError: A due file is stamped more than a day later than it was written. Once it is applied, all
            files before its stamp would be late.
    """
    pending = sorted_out(snapshot, files, late_window_hours, recorded)
    for file in pending.due:
        if file.stamped_ahead:
            written = iso_utc(file.modified_utc)
            message = f"A change file is stamped more than a day later than it was written ({written})"
            raise UnreadableFileError(message, remedy=INVALID_TIME_REMEDY, file=file.key)
    return pending


def sorted_out(snapshot: Snapshot, files: Sequence[RawFile], late_window_hours: int, recorded: Recorded) -> Pending:
    """The same as `pending_changes`, without its check."""
    watermark, floor = file_order(snapshot.watermark), file_order(snapshot.floor)
    horizon = window_begin(snapshot, late_window_hours)
    pending = Pending([], [], [])
    for file in sorted(files, key=lambda file: file.order):
        if file.order > watermark:
            pending.due.append(file)
        elif file.relative in recorded.names:
            if file.relative in recorded.overwritten:
                pending.overwritten.append(file)
        elif file.order <= floor:
            if snapshot.ledger.covers_floor:
                pending.too_late.append(file)
        elif file.order >= horizon:
            pending.due.append(file)
        else:
            pending.too_late.append(file)
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
    """The snapshot with these change files marked as applied by the next change.

    Args:
        snapshot: The lake table before the change.
        files: Change files, any order.
        late_window_hours: As for `pending_changes`.

    Returns:
        The snapshot with new `watermark`, `horizon` and `ledger`; nothing else changes.
    """
    watermark = max([snapshot.watermark, *(file.relative for file in files)], key=file_order)
    after = replace(snapshot, watermark=watermark, ledger=snapshot.ledger.with_files(files, snapshot.change + 1))
    return replace(after, horizon=window_begin(after, late_window_hours))


def mark_loaded(
    snapshot: Snapshot,
    full_load_files: Sequence[RawFile],
    change_files: Sequence[RawFile],
    covered_to: str,
    recorded: Recorded,
    *,
    by_hand: bool = False,
) -> Snapshot:
    """The snapshot of a table that the next change loads.

    A change file up to `covered_to` that was written after the full load began is not in the ledger, so it is too late.

    Args:
        snapshot: The lake table before the change.
        full_load_files: All files of the full load, by name; at least one.
        change_files: All change files, any order, also those to leave out: the full load contains their changes.
        covered_to: Relative key of the last of them that the full load contains; empty if it contains none.
        recorded: Those of the change files that the table's ledger contains.
        by_hand: Whether an operator said that it contains all of them up to there.
    """
    end, oldest = file_order(covered_to), min(file.modified_utc for file in full_load_files)
    is_copy = is_copied(snapshot, full_load_files)

    def is_contained(file: RawFile) -> bool:
        return by_hand or (file.relative in recorded.names if is_copy else file.modified_utc < oldest)

    change = snapshot.change + 1
    ledger = Ledger({file.relative: file.identity for file in full_load_files}, change, covers_floor=True)
    covered = ledger.with_files((file for file in change_files if file.order <= end and is_contained(file)), change)
    newest = max(file.modified_utc for file in full_load_files).strftime(TableState.DATE_FORMAT)
    return replace(begin_after(snapshot, covered_to), full_load_utc=newest, ledger=covered)


def mark_seen(snapshot: Snapshot, change_files: Sequence[RawFile]) -> Snapshot:
    """The snapshot with a ledger of all files up to the floor, if it lacks them.

    Args:
        snapshot: The lake table.
        change_files: All change files, any order, also those to leave out.
    """
    if snapshot.ledger.covers_floor:
        return snapshot
    floor = file_order(snapshot.floor)
    there = (file for file in change_files if file.order <= floor)
    ledger = snapshot.ledger.with_files(there, snapshot.change)
    return replace(snapshot, ledger=replace(ledger, covers_floor=True))


def begin_after(snapshot: Snapshot, relative: str) -> Snapshot:
    """The snapshot of a table that contains every change up to a change file and none after, as after a full load.

    Args:
        snapshot: The lake table before the change, or the one in preparation.
        relative: Relative key of the file; empty if the table contains no change file.
    """
    return replace(snapshot, watermark=relative, floor=relative, ledger=Ledger(), horizon="", forgotten="", added={})


def covered_by_reload(snapshot: Snapshot, full_load_files: Sequence[RawFile], change_files: Sequence[RawFile]) -> str:
    """The last change file that a full load covers which replaces a lake table, see `covered_by_full_load`.

    Copies of the files that it was loaded from contain what they contained before, whatever the time of the copies. A
    newer load also contains what the table contains of files that are gone, such as by a lifecycle rule. Otherwise a
    file from before them that arrives after the load would change its rows back.
    """
    if is_copied(snapshot, full_load_files):
        return snapshot.floor
    covered = covered_by_full_load(full_load_files, change_files)
    oldest = min(file.modified_utc for file in full_load_files).strftime(TableState.DATE_FORMAT)
    if oldest <= snapshot.full_load_utc or any(file.relative == snapshot.watermark for file in change_files):
        return covered
    return max(covered, snapshot.watermark, key=file_order)


def covered_by_full_load(full_load_files: Sequence[RawFile], change_files: Sequence[RawFile]) -> str:
    """The last change file that a repeated full load covers, for `begin_after`.

    The full load contains every change file that was written before its own first file. A file written later may or may
    not be contained, so it must be applied, even if that applies it twice; but not before a covered one, see
    `mark_loaded`. A file stamped more than a day later than it was written is not covered, because it would cover all
    files before its stamp.

    Args:
        full_load_files: All files of the full load; at least one.
        change_files: Change files, any order.

    Returns:
        Relative key of the last covered file in order; empty if none is covered.
    """
    oldest = min(file.modified_utc for file in full_load_files)
    covered = (file for file in change_files if file.modified_utc < oldest and not file.stamped_ahead)
    return max((file.relative for file in covered), key=file_order, default="")


def is_loaded(snapshot: Snapshot, files: Sequence[RawFile]) -> bool:
    """Whether a lake table was last loaded from exactly these files, by their identities if they are known.

    Args:
        files: All full-load files, by name; at least one.
    """
    loads = snapshot.ledger.loads
    if [file.relative for file in files] != list(loads):
        return False
    newest = max(file.modified_utc for file in files).strftime(TableState.DATE_FORMAT)
    same_time = newest == snapshot.full_load_utc
    return all(loads[file.relative] == file.identity if loads[file.relative] else same_time for file in files)


def is_contained(snapshot: Snapshot, load: RawFile) -> bool:
    """Whether a lake table contains a LOAD file as it is now: it was loaded from it, or adopted after it was there."""
    loads = snapshot.ledger.loads
    identity = loads.get(load.relative)
    if identity:
        return identity == load.identity
    before_load = load.modified_utc.strftime(TableState.DATE_FORMAT) <= snapshot.full_load_utc
    return snapshot.exists and before_load and (not loads or load.relative in loads)


def is_copied(snapshot: Snapshot, files: Sequence[RawFile]) -> bool:
    """Whether these are the files that a lake table was last loaded from, and all of them were written again since.

    Args:
        files: All full-load files, by name; at least one.
    """
    oldest = min(file.modified_utc for file in files).strftime(TableState.DATE_FORMAT)
    return is_loaded(snapshot, files) and oldest > snapshot.full_load_utc


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
