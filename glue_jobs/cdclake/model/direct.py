"""Direct changes: what a person inserts, updates or deletes in a lake table by hand.

One is read like a change file of DMS: it has a name with a time, the time of the call, and its rows have positions. So
direct changes and those of the source are ordered by one rule, whichever comes first.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.model.rawfiles import RawFile, RawFormat, RawKind, read_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

ORDERING = "_cdc_ordering"
"""Column of a direct change file: the encoded ordering value of a row; null: the time of the call orders it."""
_FOLDER = "direct/"
_TICK = timedelta(milliseconds=1)


def call_stamp(now: datetime, known: Iterable[str]) -> str:
    """The time that a direct change is named by: that of the call, but later than everything it must come after.

    The clock of whoever calls may be behind, and DMS may write its times in a zone ahead of UTC.

    Args:
        now: The time in UTC.
        known: What it must come after: the orders of files and ordering values of rows. One that does not begin with a
            time is passed over.

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
    """A file of a direct change. All files of one change count as one, with the rows numbered through.

    Args:
        key: Where it lies in the lake bucket, for as long as the change is not committed.
        stamp: Of `call_stamp`.
    """
    relative = f"{_FOLDER}{stamp}.parquet"
    return RawFile(key, relative, RawKind.CHANGE, RawFormat.PARQUET, stamp, size_bytes, modified_utc, direct=True)
