"""Lists what is new in a table's raw folder without reading all that was ever written there.

DMS's change files are named by time, so the listing of a large folder goes on shortly before the watermark, at a key
made of that time. That passes over whatever else has a key in between. So a folder with no more than a page of objects
is read as a whole, of a larger one the first page, and once a day everything. Late files older than the look back, LOAD
files in folders with odd names, and change files after a switch to other date folders are found within a day, even if
no event tells of them. ProcessTable, which decides, always reads everything.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from cdclake.control.full_load_gate import due_loads
from cdclake.model.late import window_begin
from cdclake.model.rawfiles import raw_files, start_after
from cdclake.model.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from cdclake.model.rawfiles import ListedObject, RawFile
    from cdclake.model.table import TableState
    from cdclake.ports import ObjectReader

PAGE_OBJECTS = 1000
"""So many objects S3 lists at once. https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html"""
LOOK_BACK_HOURS = 12
"""720 files at DMS's default of one a minute, so that these and what is new are mostly one page."""
HOURS = 24


class Look(NamedTuple):
    """What was seen of a table's raw files.

    Attributes:
        full_load_files: By name.
        change_files: In the order they are applied.
    """

    full_load_files: list[RawFile]
    change_files: list[RawFile]


def look_at_raw(raw: ObjectReader, state: TableState, now: datetime) -> Look:
    """List a table's LOAD files, and its change files from shortly before the watermark on, perhaps with older ones.

    If a full load is due, all files are listed, as the change files that it passes over count then.

    Args:
        raw: The raw bucket.
        state: The table.
        now: The time, which says whose turn it is to be read from the beginning.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    stamp = "" if _has_its_turn(state.path, now) else _look_begin(state)
    looked = _look(raw, state, stamp)
    return _look(raw, state, "") if stamp and due_loads(state, looked.full_load_files) else looked


def transactions_begin(state: TableState) -> str:
    """Key after which a table's transaction files matter; empty if all do.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    stamp = _look_begin(state)
    return state.transactions_prefix + stamp.replace("-", "") if stamp else ""


def _look(raw: ObjectReader, state: TableState, stamp: str) -> Look:
    """List a table's raw files of this time or later; all if it is empty."""
    begin = start_after(state.checked_watermark, stamp) if stamp else ""
    found: Iterable[ListedObject] = _from_front(raw, state.raw_prefix, state.raw_prefix + begin)
    if state.transactions_prefix:
        after = transactions_begin(state) if stamp else ""
        found = chain(found, raw.list(state.transactions_prefix, after))
    return Look(*raw_files(found, state.raw_prefix))


def _from_front(raw: ObjectReader, prefix: str, begin: str) -> Iterator[ListedObject]:
    """The first page of a folder, and what follows it; what comes after `begin` if that is further on."""
    listed = raw.list(prefix)
    count, last = 0, ""
    for entry in islice(listed, PAGE_OBJECTS):
        count, last = count + 1, entry.key
        yield entry
    yield from raw.list(prefix, begin) if count == PAGE_OBJECTS and last < begin else listed


def _look_begin(state: TableState) -> str:
    """Where the look begins, `yyyymmdd-HHMMSS`; empty if no change was applied, or the window has no end."""
    hours = min(state.settings.late_window_hours, LOOK_BACK_HOURS)
    return window_begin(Snapshot(watermark=state.checked_watermark), hours)


def _has_its_turn(path: str, now: datetime) -> bool:
    """True in one hour of the day, evenly spread over the tables."""
    return crc32(path.encode()) % HOURS == now.hour
