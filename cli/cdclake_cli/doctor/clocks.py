"""What the names of change files reveal: how often files arrive, in which time zone, and clock shifts. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.raw.files import read_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.model.raw.files import RawFile

_STEP = timedelta(minutes=15)
"""Time zone offsets are multiples of a quarter of an hour."""
_TOLERANCE = timedelta(minutes=4)
_MAX_OFFSET = timedelta(hours=14)
_MAX_SHIFT = timedelta(hours=2)
_MIN_FILES = 3
_STAMP_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


class ClockShift(NamedTuple):
    """The place where file names went backwards.

    Attributes:
        by: How far.
        before: The last file named by the earlier clock setting.
        after: The first file named by the later clock setting.
    """

    by: timedelta
    before: RawFile
    after: RawFile


def seconds_between_files(files: Sequence[RawFile]) -> int | None:
    """The interval at which DMS seems to write files: the lower quartile of the gaps; None for too few files."""
    times = [time for file in files if (time := read_time(file.order))]
    gaps = [(after - before).total_seconds() for before, after in zip(times, times[1:])]
    return round(quantiles(gaps, n=4)[0]) if len(gaps) >= _MIN_FILES else None


def name_offsets(files: Sequence[RawFile], latest_timestamps: Mapping[str, str]) -> list[tuple[RawFile, timedelta]]:
    """How far each file name is ahead of UTC, in the order of writing; files without a known offset are left out.

    DMS writes and uploads a file soon after its last commit, whose UTC time is in the timestamp column. So the offset
    is the distance to either time, if it is close to a multiple of a quarter of an hour. Files that were copied or
    delayed have no known offset.

    Args:
        files: Change files, any order.
        latest_timestamps: Text of the latest commit time by relative key; may be empty.
    """
    offsets = []
    for file in sorted(files, key=lambda file: (file.modified_utc, file.order)):
        name = read_time(file.order)
        if name is None:
            continue
        named = name.replace(tzinfo=timezone.utc)
        offset = _offset(named - file.modified_utc)
        if offset is None and file.relative in latest_timestamps:
            offset = _offset(named - _parsed(latest_timestamps[file.relative]))
        if offset is not None:
            offsets.append((file, offset))
    return offsets


def _offset(distance: timedelta) -> timedelta | None:
    steps = round(distance / _STEP)
    near = abs(distance - steps * _STEP) <= _TOLERANCE
    return steps * _STEP if near and abs(distance) <= _MAX_OFFSET else None


def _parsed(stamp: str) -> datetime:
    return datetime.strptime(stamp, _STAMP_FORMAT).replace(tzinfo=timezone.utc)


def find_clock_shift(offsets: Sequence[tuple[RawFile, timedelta]]) -> ClockShift | None:
    """The place from which all later names are behind; None if there is none.

    Args:
        offsets: From `name_offsets`.
    """
    for i in range(1, len(offsets)):
        (before, was), (after, became) = offsets[i - 1], offsets[i]
        enough = min(i, len(offsets) - i) >= _MIN_FILES
        back = timedelta(0) < was - became <= _MAX_SHIFT and after.order < before.order
        if back and enough and all(later == became for _, later in offsets[i:]):
            return ClockShift(was - became, before, after)
    return None


def usual_offset(offsets: Sequence[tuple[RawFile, timedelta]]) -> timedelta | None:
    """The offset of most files; None if too few files have one, or no offset has a majority."""
    counts = Counter(offset for _, offset in offsets)
    if not counts:
        return None
    offset, count = counts.most_common(1)[0]
    return offset if count >= _MIN_FILES and 2 * count > counts.total() else None
