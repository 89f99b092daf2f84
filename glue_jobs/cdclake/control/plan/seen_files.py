"""Notes what a run saw of a table's raw files, and finds out whether a listing has others. Pure.

The time at which a file was written does not tell whether it is new: S3 reports the begin of a multipart upload, and
copies may keep the time of their original. The lake's ledger has all files by name, but the planner does not read it.
So each run stores digests in the table's item. If one differs, a run must find out why.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from cdclake.control.plan.raw_scan import is_in_tail, scan_start
from cdclake.model.raw.files import file_order
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from cdclake.model.raw.files import RawFile, RawFiles
    from cdclake.model.table.seen import Seen
    from cdclake.model.table.state import TableState

_DIGEST_BYTES = 8


def seen_by_run(state: TableState, files: RawFiles, listed_utc: datetime, *, accounted: bool) -> Seen:
    """What runs saw after another one, to store in the item.

    Args:
        state: The table's item after the run.
        files: What it listed.
        listed_utc: When it began to.
        accounted: Whether it left nothing to apply. Otherwise what the last good run saw stays.
    """
    seen, tail_from = state.seen, scan_start(files.changes, state.checked_watermark)
    if tail_from or not files.begin:
        seen = seen._replace(tail_from=tail_from)
    if not files.begin:
        seen = seen._replace(all_listed_utc=listed_utc)
    if accounted:
        tail, whole = _digests(state.with_attributes(**{Attribute.LAST_SEEN: str(seen)}), files.changes)
        seen = seen._replace(listed_utc=listed_utc, tail=tail, whole="" if files.begin else whole)
    return seen


def are_others(state: TableState, changes: Sequence[RawFile], *, complete: bool) -> bool:
    """Whether the change files up to the watermark are others than the last good run saw; False if that is unknown.

    Args:
        changes: Change files in the order to apply them: those that every scan lists, or more.
        complete: Whether these are all.
    """
    seen, (tail, whole) = state.seen, _digests(state, changes)
    return bool((seen.tail and tail != seen.tail) or (complete and seen.whole and whole != seen.whole))


def _digests(state: TableState, changes: Iterable[RawFile]) -> tuple[str, str]:
    """Of the change files up to the watermark that every scan lists, see `raw_scan.is_in_tail`, and of all of them."""
    after, in_tail = state.checked_watermark, is_in_tail(state)
    known = [file for file in changes if file.order <= file_order(after)]
    of = "\n".join((after, *state.settings.ignore_files))  # no scan lists all files that they may cover no more
    return _digest(of, filter(in_tail, known)), _digest(of, known)


def _digest(of: str, files: Iterable[RawFile]) -> str:
    digest = blake2b(of.encode(), digest_size=_DIGEST_BYTES)
    for file in files:
        digest.update(f"\n{file.relative}\0{file.size_bytes}".encode())
    return digest.hexdigest()
