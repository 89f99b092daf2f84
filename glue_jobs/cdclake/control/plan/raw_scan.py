"""Lists the new files of a table's raw folder without listing the whole folder.

A scan of a large folder takes two requests:

* The tail holds the new files. DMS names change files by time, so the tail begins shortly before the watermark, at a
  key made from that time.
* The page finds everything else: late files, LOAD files with unusual names, change files after a switch to other date
  folders. Each scan lists the next 1,000 objects, and starts over after the last object. So every object is seen
  within one scan per 1,000 objects, even if no event reports it.

A folder that fits on one page takes one request and needs no stored position.

Transaction files are listed once for all tables that read them. Only change files matter there, so they need no page:
the listing begins at the tail, and once a day at the start of the late window.

A run, which decides, knows from the ledger what it need not list, see `run_begin`.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from cdclake.control.plan.full_load_gate import due_loads, partial_reload
from cdclake.control.plan.left_out import LeftOut
from cdclake.model.due_files import window_begin
from cdclake.model.raw.files import file_order, is_transactions_key, raw_files, start_after
from cdclake.model.snapshot import Snapshot
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from cdclake.model.raw.files import ListedObject, RawFile, RawFiles
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectReader

PAGE_OBJECTS = 1000
"""Number of objects that S3 lists in one request. https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html"""
LOOKBACK_HOURS = 12
"""720 files at DMS's default of one file per minute, so that a tail usually fits on one page."""
LOOKBACK_FILES = 800
"""Where DMS writes more often, the tail begins this many files back. That leaves room for LOAD files and late files."""
HOURS = 24
RECONCILED_EVERY = timedelta(days=1)
_STAMP_CHARACTERS = len("yyyymmdd-HHMMSS")


class RawScan(NamedTuple):
    """The raw files of a table that a scan listed.

    Attributes:
        page_end: Where the page of the next scan begins, for `TableState.last_page_end`.
        complete: Whether these are all files of the table.
    """

    files: RawFiles
    page_end: str
    complete: bool


def scan_raw(raw: ObjectReader, state: TableState, now: datetime) -> RawScan:
    """List a table's raw files that may be new, and a page of the others.

    All files are listed if a full load is due, because the change files that it covers then matter, and if the last run
    left files out, to show whether they are still there. All files are also listed if the start of the tail is unknown:
    before the first change, and in date folders that do not sort by time.

    Args:
        now: The time; it determines where the listing of transaction files begins.

    Raises:
        ConfigurationError: An attribute of the state is invalid; names it.
    """
    begin = _tail_begin(state)
    if not begin or LeftOut.parse(state.left_out).unaccepted:
        return scan_all(raw, state)
    listing = _page_and_tail(raw, state, begin)
    transactions: list[ListedObject] = []
    if state.transactions_prefix:
        transactions = list(raw.list(state.transactions_prefix, transactions_begin(state, now)))
    files = raw_files(chain(listing.objects, transactions), state.raw_prefix, state.settings.ignore_files)
    files = files._replace(no_transactions=bool(state.transactions_prefix) and not transactions)
    if due_loads(state, files.full_load) or partial_reload(state, files.full_load, now):
        return scan_all(raw, state)
    return RawScan(files, listing.page_end, complete=listing.complete and not state.transactions_prefix)


def scan_all(raw: ObjectReader, state: TableState) -> RawScan:
    """List all raw files of a table. The position of the page does not change.

    Raises:
        ConfigurationError: An attribute of the state is invalid; names it.
    """
    files = list_raw_files(raw, state.raw_prefix, state.settings)
    return RawScan(files, state.last_page_end, complete=True)


def transactions_begin(state: TableState, now: datetime) -> str:
    """Key after which this scan lists a table's transaction files; empty to list all.

    Args:
        now: The time. In one hour of the day, the listing begins at the start of the late window, before which no file
            is ever due. The hour is the same for all tables that share the files.

    Raises:
        ConfigurationError: An attribute of the state is invalid; names it.
    """
    if crc32(state.transactions_prefix.encode()) % HOURS == now.hour:
        stamp = window_begin(Snapshot(watermark=state.checked_watermark), state.settings.late_window_hours)
    else:
        stamp = _tail_stamp(state)
    return state.transactions_prefix + stamp.replace("-", "") if stamp else ""


def run_begin(state: TableState, lake: Snapshot, now: datetime) -> str:
    """Key within the table's folder after which a run lists the raw files; empty to list all.

    Before it are only files that the newest segment of the ledger, and those before it, cover, and that are too old to
    be applied. Once a day a run lists all, and compares them with the ledger. So does each run that finds nothing to
    load, as something else led to it.

    Args:
        lake: The newest snapshot.
        now: The time.

    Raises:
        ConfigurationError: An attribute of the state is invalid; names it.
    """
    ledger, listed_utc = lake.ledger, state.seen.all_listed_utc
    if state.transactions_prefix or not (lake.exists and ledger.segments and ledger.covers_floor):
        return ""
    if not listed_utc or not listed_utc <= now < listed_utc + RECONCILED_EVERY:
        return ""
    stamp = min(ledger.segments[-1].last[:_STAMP_CHARACTERS], window_begin(lake, state.settings.late_window_hours))
    return start_after(lake.watermark, stamp) if stamp else ""


def scan_start(change_files: Sequence[RawFile], watermark: str) -> str:
    """Where the tail must begin to go back at most `LOOKBACK_FILES`, for `Seen.tail_from`.

    Args:
        change_files: All change files of a table, in the order to apply them.
        watermark: As `RawFile.relative`; empty if no change was applied.

    Returns:
        `yyyymmdd-HHMMSS`; empty if there are no more than `LOOKBACK_FILES` up to the watermark.
    """
    end = file_order(watermark)
    applied = [file for file in change_files if file.order <= end]
    return applied[-LOOKBACK_FILES].order[:_STAMP_CHARACTERS] if len(applied) > LOOKBACK_FILES else ""


def _tail_stamp(state: TableState) -> str:
    """Time at which the tail begins, `yyyymmdd-HHMMSS`; empty if no change was applied."""
    watermark = state.checked_watermark
    hours = min(state.settings.late_window_hours, LOOKBACK_HOURS)
    begin, noted = window_begin(Snapshot(watermark=watermark), hours), state.seen.tail_from
    return max(begin, noted) if noted <= file_order(watermark) else begin


def _tail_begin(state: TableState) -> str:
    """Key within the table's folder at which the tail begins; empty if unknown."""
    stamp = _tail_stamp(state)
    if not stamp or _reads_transactions(state):
        return stamp  # change files in the table's own folder are older than the transaction files
    return start_after(state.checked_watermark, stamp)


def is_in_tail(state: TableState) -> Callable[[RawFile], bool]:
    """Whether every scan lists a change file up to the watermark. Depends on nothing but the table's item.

    Raises:
        ConfigurationError: An attribute of the state is invalid; names it.
    """
    begin, stamp = _tail_begin(state), _tail_stamp(state)
    end = "" if _reads_transactions(state) else state.checked_watermark

    def in_tail(file: RawFile) -> bool:
        if file.transactions:
            return file.order >= stamp
        return not begin or begin < file.relative <= end

    return in_tail


def _reads_transactions(state: TableState) -> bool:
    return bool(state.transactions_prefix) and is_transactions_key(state.checked_watermark)


class _PageAndTail(NamedTuple):
    objects: Iterable[ListedObject]
    page_end: str
    complete: bool = False


def _page_and_tail(raw: ObjectReader, state: TableState, begin: str) -> _PageAndTail:
    """List the next page, and the tail after `begin`, a key within the table's folder."""
    prefix, page_begin = state.raw_prefix, state.last_page_end
    listed = raw.list(prefix, prefix + page_begin if page_begin else "")
    page = list(islice(listed, PAGE_OBJECTS))
    is_last = len(page) < PAGE_OBJECTS
    if is_last and page_begin <= begin:
        return _PageAndTail(page, "", complete=not page_begin)
    page_end = "" if is_last else page[-1].key[len(prefix) :]
    joined = page_begin <= begin <= page_end  # the tail continues the page
    tail, ended = _tail(state, listed if joined else raw.list(prefix, prefix + begin))
    objects = {entry.key: entry for entry in chain(page, tail)}  # they may overlap
    return _PageAndTail(objects.values(), "" if joined and ended else page_end)


def _tail(state: TableState, listed: Iterator[ListedObject]) -> tuple[list[ListedObject], bool]:
    """Read pages as long as they hold new files. Returns the objects, and whether the folder ended.

    Change files come first, by time, and then usually the LOAD files. Of thousands of LOAD files, only one page is read
    if none of them is new. Date folders without leading zeros are an exception: old files come between new ones, so the
    reading does not end among them.
    """
    objects: list[ListedObject] = []
    last_applied = state.raw_prefix + ("" if _reads_transactions(state) else state.checked_watermark)
    while True:
        page = list(islice(listed, PAGE_OBJECTS))
        objects += page
        if len(page) < PAGE_OBJECTS:
            return objects, True
        if page[-1].key > last_applied and not _may_precede_new_files(state, page):
            return objects, False


def _may_precede_new_files(state: TableState, page: Sequence[ListedObject]) -> bool:
    files = raw_files(page, state.raw_prefix, state.settings.ignore_files)
    end = file_order(state.checked_watermark)
    return bool(due_loads(state, files.full_load)) or any(file.order > end or file.unpadded for file in files.changes)
