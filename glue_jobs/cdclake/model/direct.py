"""Direct changes: rows that an operator inserts, updates or deletes in a lake table by hand.

A direct change is read like a change file of DMS: its name contains the time of the call, and its rows have positions.
So one rule orders direct changes and changes of the source.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.model.raw.files import RawFile, RawFormat, RawKind, read_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

ORDERING = "_cdc_ordering"
"""Column of a direct change file with a row's encoded ordering value; null: the time of the call orders the row."""
FOLDER = "direct/"
"""Folder in the name of a direct change."""
_TICK = timedelta(milliseconds=1)


def call_stamp(now: datetime, known: Iterable[str]) -> str:
    """The time in the name of a direct change: the time of the call, or later to come after all known changes.

    The clock of the caller may be behind, and DMS may write its times in a time zone ahead of UTC.

    Args:
        now: The time in UTC.
        known: Orders of files and ordering values of rows that it must come after. Those that do not begin with a time
            are ignored.

    Returns:
        `yyyymmdd-HHMMSSfff`.

    Example:
        >>> call_stamp(datetime(2024, 3, 5, 10, 15), ["20240305-101500123.parquet"])
        '20240305-101500124'
    """
    times = [time + _TICK for text in known if (time := read_time(text))]
    moment = max([now.replace(tzinfo=None), *times])
    return f"{moment.year:04d}{moment:%m%d-%H%M%S}{moment.microsecond // 1000:03d}"


def direct_file(key: str, stamp: str, size_bytes: int, modified_utc: datetime) -> RawFile:
    """A file of a direct change. All files of one change count as one file, and their rows are numbered through.

    Args:
        key: Its key in the lake bucket, which exists until the change is committed.
        stamp: From `call_stamp`.
    """
    relative = f"{FOLDER}{stamp}.parquet"
    return RawFile(key, relative, RawKind.CHANGE, RawFormat.PARQUET, stamp, size_bytes, modified_utc, direct=True)
