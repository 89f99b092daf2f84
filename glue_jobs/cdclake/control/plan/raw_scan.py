"""Lists what is new in a table's raw folder without reading all that was ever written there.

A look at a large folder is two requests. One page goes round the folder: it begins where that of the last pass ended,
and at the front again after the last object. So whatever there is, late files, LOAD files under odd names, change files
after a switch to other date folders, is seen within a pass for every 1,000 objects, even if no event tells of it. The
other request is for what is new: DMS's change files are named by time, so it begins shortly before the watermark, at a
key made of that time. A folder of one page is one request, and nothing is remembered of it.

Transaction files are listed once for all tables that read them, and only their change files matter, so no page goes
round there: they are read from the look back on, and once a day from where the late window begins.

ProcessTable, which decides, always reads everything.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from cdclake.control.plan.full_load_gate import due_loads
from cdclake.model.due_files import window_begin
from cdclake.model.rawfiles import file_order, is_transactions_key, raw_files, start_after
from cdclake.model.snapshot import Snapshot
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from cdclake.model.rawfiles import ListedObject, RawFile
    from cdclake.model.table import TableState
    from cdclake.ports import ObjectReader

PAGE_OBJECTS = 1000
"""So many objects S3 lists at once. https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html"""
LOOKBACK_HOURS = 12
"""720 files at DMS's default of one a minute, so that these and what is new are mostly one page."""
LOOKBACK_FILES = 800
"""Where DMS writes more often, the look goes back so many files, which leaves room for LOAD files and late ones."""
HOURS = 24
_STAMP_CHARACTERS = len("yyyymmdd-HHMMSS")


class Look(NamedTuple):
    """What was seen of a table's raw files.

    Attributes:
        full_load_files: By name.
        change_files: In the order they are applied.
        page_end: Where the page of the next pass begins, for `TableState.last_page_end`.
        whole: Whether these are all files there are.
    """

    full_load_files: list[RawFile]
    change_files: list[RawFile]
    page_end: str
    whole: bool


def scan_raw(raw: ObjectReader, state: TableState, now: datetime) -> Look:
    """List a table's raw files that may be new, and a page of the others.

    All files are listed if a full load is due, as the change files that it passes over count then, and if no key can
    be told at which what is new begins: before the first change, and in date folders whose names do not sort by time.

    Args:
        raw: The raw bucket.
        state: The table.
        now: The time, which says whether transaction files are to be read from the late window on.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    begin = _tail_begin(state)
    if not begin:
        return scan_all(raw, state)
    found = _page_and_tail(raw, state, begin)
    transactions: Iterable[ListedObject] = ()
    if state.transactions_prefix:
        transactions = raw.list(state.transactions_prefix, transactions_begin(state, now))
    loads, changes = raw_files(chain(found.objects, transactions), state.raw_prefix)
    if due_loads(state, loads):
        return scan_all(raw, state)
    return Look(loads, changes, found.page_end, whole=False)


def scan_all(raw: ObjectReader, state: TableState) -> Look:
    """List all of a table's raw files; the page stays where it is.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    loads, changes = list_raw_files(raw, state.raw_prefix, state.settings.cdc_path)
    return Look(loads, changes, state.last_page_end, whole=True)


def transactions_begin(state: TableState, now: datetime) -> str:
    """Key after which a table's transaction files matter in this pass; empty if all do.

    Args:
        state: The table.
        now: The time. In one hour of the day, the same for all tables that share the files, it is the late window's
            begin, before which no file is ever due.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    if crc32(state.transactions_prefix.encode()) % HOURS == now.hour:
        stamp = window_begin(Snapshot(watermark=state.checked_watermark), state.settings.late_window_hours)
    else:
        stamp = _look_begin(state)
    return state.transactions_prefix + stamp.replace("-", "") if stamp else ""


def scan_start(change_files: Sequence[RawFile], watermark: str) -> str:
    """Where a look is to begin so that it goes back no more than `LOOKBACK_FILES`, for `TableState.last_look_from`.

    Args:
        change_files: All of a table's, in the order they are applied.
        watermark: As `RawFile.relative`; empty if no change was applied.

    Returns:
        `yyyymmdd-HHMMSS`; empty if there are no more files up to the watermark.
    """
    end = file_order(watermark)
    applied = [file for file in change_files if file.order <= end]
    return applied[-LOOKBACK_FILES].order[:_STAMP_CHARACTERS] if len(applied) > LOOKBACK_FILES else ""


def _look_begin(state: TableState) -> str:
    """Where the look begins, `yyyymmdd-HHMMSS`; empty if no change was applied."""
    watermark = state.checked_watermark
    hours = min(state.settings.late_window_hours, LOOKBACK_HOURS)
    begin, noted = window_begin(Snapshot(watermark=watermark), hours), state.last_look_from
    return max(begin, noted) if noted <= file_order(watermark) else begin


def _tail_begin(state: TableState) -> str:
    """Key within the table's folder at which what is new begins; empty if that is not known."""
    stamp = _look_begin(state)
    if not stamp or _reads_transactions(state):
        return stamp  # the folder's own change files, if there are any, are older than the transaction files
    return start_after(state.checked_watermark, stamp)


def _reads_transactions(state: TableState) -> bool:
    return bool(state.transactions_prefix) and is_transactions_key(state.checked_watermark)


class _Found(NamedTuple):
    objects: Iterable[ListedObject]
    page_end: str


def _page_and_tail(raw: ObjectReader, state: TableState, begin: str) -> _Found:
    """A page from where the last one ended, and what comes after `begin`, a key within the table's folder."""
    prefix, page_begin = state.raw_prefix, state.last_page_end
    listed = raw.list(prefix, prefix + page_begin if page_begin else "")
    page = list(islice(listed, PAGE_OBJECTS))
    is_last = len(page) < PAGE_OBJECTS
    if is_last and page_begin <= begin:
        return _Found(page, "")
    page_end = "" if is_last else page[-1].key[len(prefix) :]
    goes_on = page_begin <= begin <= page_end
    tail, ended = _tail(state, listed if goes_on else raw.list(prefix, prefix + begin))
    objects = {entry.key: entry for entry in chain(page, tail)}  # they may overlap
    return _Found(objects.values(), "" if goes_on and ended else page_end)


def _tail(state: TableState, listed: Iterator[ListedObject]) -> tuple[list[ListedObject], bool]:
    """Read on as long as there is something new; tells as well whether the folder's end was reached.

    Change files come first, in the order of time, and then, as a rule, the LOAD files. Of thousands of those it reads
    no more than a page if none is new.
    """
    found: list[ListedObject] = []
    last_applied = state.raw_prefix + ("" if _reads_transactions(state) else state.checked_watermark)
    while True:
        page = list(islice(listed, PAGE_OBJECTS))
        found += page
        if len(page) < PAGE_OBJECTS:
            return found, True
        if page[-1].key > last_applied and not _has_news(state, page):
            return found, False


def _has_news(state: TableState, page: Sequence[ListedObject]) -> bool:
    loads, changes = raw_files(page, state.raw_prefix)
    end = file_order(state.checked_watermark)
    return bool(due_loads(state, loads)) or any(file.order > end for file in changes)
