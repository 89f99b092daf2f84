"""Lists a table's raw folder: counts of all files, and a sample of them. Memory stays bounded."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from cdclake.model.raw.files import RawFile, RawKind, is_covered, is_data, parse_raw_file, read_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.model.raw.files import ListedObject

SMALL_FILE_BYTES = 100_000
_MAX_NAMED = 5
_MAX_TIMELINE = 5_000

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Listing:
    """The contents of a raw folder.

    Attributes:
        loads: All full-load files, by name.
        change_count: Number of change files.
        change_bytes: Total size of the change files.
        small_count: Number of change files smaller than `SMALL_FILE_BYTES`.
        sample: Change files to open, in the order they are applied: the oldest, the newest and some between.
        timeline: Evenly spaced change files in that order, at most some thousands.
        pending: The newest change files, if requested.
        empty: The first few raw files of zero bytes.
        empty_count: Number of raw files of zero bytes.
        invalid_times: The first few change files whose names contain no time, or one in their future.
        invalid_time_count: Number of such change files.
        other: The first few data files that are not raw files, see `is_data`.
        other_count: Number of data files that are not raw files.
    """

    loads: tuple[RawFile, ...]
    change_count: int
    change_bytes: int
    small_count: int
    sample: tuple[RawFile, ...]
    timeline: tuple[RawFile, ...]
    pending: tuple[RawFile, ...]
    empty: tuple[RawFile, ...]
    empty_count: int
    invalid_times: tuple[RawFile, ...]
    invalid_time_count: int
    other: tuple[str, ...]
    other_count: int


def read_listing(
    objects: Iterable[ListedObject],
    raw_prefix: str,
    max_files: int,
    pending_from: str | None = None,
    ignore: Sequence[str] = (),
) -> Listing:
    """Sort the objects of a table's raw folder, and of its transaction folder if it has one.

    Args:
        objects: Listed objects, in any order.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
        max_files: Number of change files to sample; 0: all.
        pending_from: Keep the files from this one on, by `RawFile.order`; None: keep none.
        ignore: Globs of relative keys to leave out.
    """
    loads: list[RawFile] = []
    sample = _ChangeFileSample(max_files)
    timeline = EvenSample[RawFile](_MAX_TIMELINE)
    pending: list[RawFile] = []
    empty, invalid_times, other = _FirstFew[RawFile](), _FirstFew[RawFile](), _FirstFew[str]()
    count = size_bytes = small = 0
    for entry in objects:
        file = parse_raw_file(entry, raw_prefix)
        relative = file.relative if file else entry.key[len(raw_prefix) :]
        if is_covered(relative, ignore):
            continue
        if file is None:
            if entry.key.startswith(raw_prefix) and is_data(relative, entry.size_bytes):
                other.add(entry.key)
            continue
        if not file.size_bytes:
            empty.add(file)
        if file.kind is RawKind.FULL_LOAD:
            loads.append(file)
            continue
        count, size_bytes, small = count + 1, size_bytes + file.size_bytes, small + (file.size_bytes < SMALL_FILE_BYTES)
        if not read_time(file.order) or file.stamped_ahead:
            invalid_times.add(file)
        sample.add(file)
        timeline.add(file)
        if pending_from is not None and file.order >= pending_from:
            pending.append(file)
    return Listing(
        loads=tuple(sorted(loads, key=lambda file: file.relative)),
        change_count=count,
        change_bytes=size_bytes,
        small_count=small,
        sample=sample.files(),
        timeline=tuple(sorted(timeline.items, key=lambda file: file.order)),
        pending=tuple(sorted(pending, key=lambda file: file.order)),
        empty=tuple(empty.items),
        empty_count=empty.count,
        invalid_times=tuple(invalid_times.items),
        invalid_time_count=invalid_times.count,
        other=tuple(other.items),
        other_count=other.count,
    )


def evenly_spaced(items: Sequence[_Item], count: int) -> list[_Item]:
    """At most `count` items at equal distances, including the first and the last; the last for 1; all for 0."""
    if not count or len(items) <= count:
        return list(items)
    if count == 1:
        return [items[-1]]
    indices = sorted({round(i * (len(items) - 1) / (count - 1)) for i in range(count)})
    return [items[index] for index in indices]


class EvenSample(Generic[_Item]):
    """Keeps every n-th item of a stream; n doubles as needed, so that at most twice `size` items are kept."""

    def __init__(self, size: int) -> None:
        self.items: list[_Item] = []
        self._size, self._step, self._count = size, 1, 0

    def add(self, item: _Item) -> None:
        """Take in the next item."""
        if self._count % self._step == 0:
            self.items.append(item)
        self._count += 1
        if len(self.items) >= 2 * self._size:
            self.items = self.items[::2]
            self._step *= 2


class _ChangeFileSample:
    """The oldest files, the newest and some between; a third each."""

    def __init__(self, size: int) -> None:
        self._all = size == 0
        self._size = size
        self._third = max(1, size // 3)
        self._files: list[RawFile] = []
        self._between = EvenSample[RawFile](max(size, 1))

    def add(self, file: RawFile) -> None:
        self._files.append(file)
        if self._all:
            return
        self._between.add(file)
        if len(self._files) > 100 * self._size:
            self._files = self._ends()

    def _ends(self) -> list[RawFile]:
        oldest = heapq.nsmallest(self._third, self._files, key=lambda file: file.order)
        newest = heapq.nlargest(self._third, self._files, key=lambda file: file.order)
        return list({file.key: file for file in [*oldest, *newest]}.values())

    def files(self) -> tuple[RawFile, ...]:
        known = {file.key: file for file in [*self._files, *self._between.items]}
        if not self._all and len(known) > self._size:
            ends = {file.key: file for file in self._ends()}
            inner = sorted((file for file in known.values() if file.key not in ends), key=lambda file: file.order)
            room = self._size - len(ends)
            known = {**ends, **{file.key: file for file in (evenly_spaced(inner, room) if room > 0 else [])}}
        return tuple(sorted(known.values(), key=lambda file: file.order))


class _FirstFew(Generic[_Item]):
    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.count = 0

    def add(self, item: _Item) -> None:
        self.count += 1
        if self.count <= _MAX_NAMED:
            self.items.append(item)
