"""Reads and writes the segments of tables' ledgers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Callable

from cdclake.concurrency import in_parallel
from cdclake.model.raw.ledger import Segment, pieces, read_segment, segment_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.raw.files import RawFile
    from cdclake.model.raw.ledger import Entry, Ledger, Recorded


def recorded(log: ChangeLog, ledger: Ledger, files: Sequence[RawFile], missing: Collection[str] = ()) -> Recorded:
    """Which of some change files a table contains, see `Ledger.recorded`.

    Args:
        missing: Relative keys of others, which are not there. If the table contains one, it is among the names.
    """
    seen = ledger.recorded(files, partial(_read, log))
    return seen._replace(names=seen.names | entries(log, ledger, missing).keys()) if missing else seen


def entries(log: ChangeLog, ledger: Ledger, names: Collection[str]) -> dict[str, Entry]:
    """The entries of those of some change files that a table contains.

    Args:
        names: Relative keys.
    """
    return ledger.entries(names, partial(_read, log))


def identified(log: ChangeLog, ledger: Ledger, files: Iterable[RawFile], seen: Recorded) -> Ledger:
    """The ledger with the identities that change files of unknown identity have now, if the store tells them.

    Args:
        files: The files of a listing.
        seen: Those of them that it contains.
    """
    now = {file.relative: file.identity for file in files if file.relative in seen.unidentified and file.identity}
    found = entries(log, ledger, now) if now else {}
    return ledger.with_entries({name: entry._replace(identity=now[name]) for name, entry in found.items()})


def forgetting(log: ChangeLog, names: Collection[str]) -> Callable[[Ledger], Ledger]:
    """Makes ledgers forget the identities of some change files, which an erasure rewrites.

    Args:
        names: Relative keys; those that a ledger lacks do not matter.

    Returns:
        A function of a ledger. It reads each segment once, whatever the number of ledgers.
    """
    wanted = frozenset(names)

    @cache
    def found_in(segment: Segment) -> Mapping[str, Entry]:
        (stored,) = _read(log, [segment])
        return {name: entry for name, entry in stored.items() if name in wanted}

    def forget(ledger: Ledger) -> Ledger:
        found = ledger.entries(wanted, lambda segments: list(map(found_in, segments)))
        return ledger.with_entries({name: entry._replace(identity="") for name, entry in found.items()})

    return forget


def all_entries(log: ChangeLog, ledger: Ledger) -> dict[str, Entry]:
    """All change files that a table contains. Reads all segments."""
    return ledger.all_entries(partial(_read, log))


def seal(log: ChangeLog, ledger: Ledger, change: int, run_id: str, files: int) -> Ledger:
    """Move the oldest files into segments if there are too many for the snapshot.

    Args:
        ledger: Of the table after a change that is not committed yet.
        change: Number of that change.
        files: See `Ledger.to_seal`.
    """
    rest, moved = ledger.to_seal(files)
    outdated = [segment for segment, _ in moved if segment]
    before = dict(zip(outdated, _read(log, outdated)))
    added = [
        piece for segment, newer in moved for piece in pieces({**(before[segment] if segment else {}), **newer}, files)
    ]
    keys = [log.layout.ledger_key(change, run_id, number) for number in range(1, len(added) + 1)]
    in_parallel(
        lambda one: log.store.put(one[0], segment_bytes(one[1])), list(zip(keys, added)), log.store.calls_at_once
    )
    kept = (segment for segment in ledger.segments if segment not in before)
    segments = sorted([*kept, *map(Segment.of, keys, added)], key=lambda segment: segment.first)
    return replace(rest, segments=tuple(segments))


def _read(log: ChangeLog, segments: Sequence[Segment]) -> list[dict[str, Entry]]:
    """The entries of each segment.

    Raises:
        IntegrityError: A segment is missing.
    """

    def read(segment: Segment) -> dict[str, Entry]:
        return read_segment(log.read(segment.key), segment.key)

    return in_parallel(read, segments, log.store.calls_at_once)
