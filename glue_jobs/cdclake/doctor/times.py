"""What names of change files tell of clocks: how often files come, in which zone, whether names go back. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.rawfiles import read_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.model.rawfiles import RawFile

_STEP = timedelta(minutes=15)
"""Offsets of zones are whole quarters of an hour."""
_NEAR = timedelta(minutes=4)
_GREATEST = timedelta(hours=14)
_MOST_BACK = timedelta(hours=2)
_LEAST_FILES = 3
_STAMP_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


class Shift(NamedTuple):
    """Names that went back.

    Attributes:
        by: How far.
        before: The last file named by the time before.
        after: The first one named by the time after.
    """

    by: timedelta
    before: RawFile
    after: RawFile


def seconds_between_files(files: Sequence[RawFile]) -> int | None:
    """How long DMS seems to wait before it writes a file: the lower quartile of the distances; None for few files."""
    times = [time for file in files if (time := read_time(file.order))]
    gaps = [(after - before).total_seconds() for before, after in zip(times, times[1:])]
    return round(quantiles(gaps, n=4)[0]) if len(gaps) >= _LEAST_FILES else None


def name_offsets(files: Sequence[RawFile], stamp_ends: Mapping[str, str]) -> list[tuple[RawFile, timedelta]]:
    """By how much the name of each file is ahead of UTC, as far as that can be told, in the order of writing.

    A file is written soon after its last commit, which the timestamp column tells in UTC, and put in the bucket right
    then. So the offset is the distance to either, where that is close to whole quarters of an hour. Files that were
    copied, or lay about at the source, tell nothing.

    Args:
        files: Change files, any order.
        stamp_ends: Latest commit by relative key, as the timestamp column has it; may be empty.
    """
    found = []
    for file in sorted(files, key=lambda file: (file.modified_utc, file.order)):
        name = read_time(file.order)
        if name is None:
            continue
        named = name.replace(tzinfo=timezone.utc)
        offset = _offset(named - file.modified_utc)
        if offset is None and file.relative in stamp_ends:
            offset = _offset(named - _parsed(stamp_ends[file.relative]))
        if offset is not None:
            found.append((file, offset))
    return found


def _offset(distance: timedelta) -> timedelta | None:
    steps = round(distance / _STEP)
    near = abs(distance - steps * _STEP) <= _NEAR
    return steps * _STEP if near and abs(distance) <= _GREATEST else None


def _parsed(stamp: str) -> datetime:
    return datetime.strptime(stamp, _STAMP_FORMAT).replace(tzinfo=timezone.utc)


def shift_back(offsets: Sequence[tuple[RawFile, timedelta]]) -> Shift | None:
    """The place where names went back for good; None if they did not.

    Args:
        offsets: As of `name_offsets`.
    """
    for i in range(1, len(offsets)):
        (before, was), (after, became) = offsets[i - 1], offsets[i]
        enough = min(i, len(offsets) - i) >= _LEAST_FILES
        back = timedelta(0) < was - became <= _MOST_BACK and after.order < before.order
        if back and enough and all(later == became for _, later in offsets[i:]):
            return Shift(was - became, before, after)
    return None


def usual_offset(offsets: Sequence[tuple[RawFile, timedelta]]) -> timedelta | None:
    """The offset that most files have; None if too few tell one, or they do not agree."""
    counts = Counter(offset for _, offset in offsets)
    if not counts:
        return None
    offset, count = counts.most_common(1)[0]
    return offset if count >= _LEAST_FILES and 2 * count > counts.total() else None
