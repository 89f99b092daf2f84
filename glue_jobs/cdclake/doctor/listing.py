"""A table's raw folder as it is listed: counts of all of it, and a sample of its files. Memory stays bounded."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from cdclake.model.rawfiles import RawFile, RawKind, file_order, parse_raw_file, read_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.model.rawfiles import ListedObject

SMALL_FILE_BYTES = 100_000
_MOST_NAMED = 5
_MOST_TIMES = 5_000
_CONTROL_FOLDERS = ("s3_validation_failures/", "awsdms_")

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Listing:
    """What a listing tells.

    Attributes:
        loads: All full-load files, by name.
        change_count: Change files.
        change_bytes: Their size.
        small_count: Those of fewer than `SMALL_FILE_BYTES` bytes.
        sample: Change files to look into, in the order they are applied: the oldest, the newest and some between.
        times: Change files from one end to the other in that order, at most some thousands.
        pending: Those after the watermark, if they were asked for.
        empty: Raw files without a byte, the first few.
        empty_count: How many there are.
        timeless: Change files whose names tell a time that there is not, the first few.
        timeless_count: How many there are.
        other: Objects that are no raw files, the first few; folder marks and DMS's own tables do not count.
        other_count: How many there are.
    """

    loads: tuple[RawFile, ...]
    change_count: int
    change_bytes: int
    small_count: int
    sample: tuple[RawFile, ...]
    times: tuple[RawFile, ...]
    pending: tuple[RawFile, ...]
    empty: tuple[RawFile, ...]
    empty_count: int
    timeless: tuple[RawFile, ...]
    timeless_count: int
    other: tuple[str, ...]
    other_count: int


def read_listing(
    objects: Iterable[ListedObject], raw_prefix: str, most_files: int, pending_after: str | None = None
) -> Listing:
    """Go through a listing of a table's raw folder, and of the transaction files' folder if there is one.

    Args:
        objects: Listing, any order, of any length.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
        most_files: Size of the sample of change files; 0: all.
        pending_after: Keep the files after this watermark; None: keep none.
    """
    loads: list[RawFile] = []
    sample = _Sample(most_files)
    times = Spread[RawFile](_MOST_TIMES)
    pending: list[RawFile] = []
    empty, timeless, other = _FirstFew[RawFile](), _FirstFew[RawFile](), _FirstFew[str]()
    count = size_bytes = small = 0
    watermark = file_order(pending_after or "")
    for entry in objects:
        file = parse_raw_file(entry, raw_prefix)
        if file is None:
            if _is_foreign(entry.key, raw_prefix):
                other.add(entry.key)
            continue
        if not file.size_bytes:
            empty.add(file)
        if file.kind is RawKind.FULL_LOAD:
            loads.append(file)
            continue
        count, size_bytes, small = count + 1, size_bytes + file.size_bytes, small + (file.size_bytes < SMALL_FILE_BYTES)
        if not read_time(file.order):
            timeless.add(file)
        sample.add(file)
        times.add(file)
        if pending_after is not None and file.order > watermark:
            pending.append(file)
    return Listing(
        loads=tuple(sorted(loads, key=lambda file: file.relative)),
        change_count=count,
        change_bytes=size_bytes,
        small_count=small,
        sample=sample.files(),
        times=tuple(sorted(times.items, key=lambda file: file.order)),
        pending=tuple(sorted(pending, key=lambda file: file.order)),
        empty=tuple(empty.items),
        empty_count=empty.count,
        timeless=tuple(timeless.items),
        timeless_count=timeless.count,
        other=tuple(other.items),
        other_count=other.count,
    )


def spread_over(items: Sequence[_Item], most: int) -> list[_Item]:
    """Some of many: the first, the last and those at equal distances between; 0: all."""
    if not most or len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    places = sorted({round(i * (len(items) - 1) / (most - 1)) for i in range(most)})
    return [items[place] for place in places]


class Spread(Generic[_Item]):
    """Keeps every so many-th of what comes, so that at most twice `most` are kept however many come."""

    def __init__(self, most: int) -> None:
        self.items: list[_Item] = []
        self._most, self._step, self._count = most, 1, 0

    def add(self, item: _Item) -> None:
        """Take note of one."""
        if self._count % self._step == 0:
            self.items.append(item)
        self._count += 1
        if len(self.items) >= 2 * self._most:
            self.items = self.items[::2]
            self._step *= 2


class _Sample:
    """Oldest, newest and some files between, a third each."""

    def __init__(self, most: int) -> None:
        self._all = most == 0
        self._most = most
        self._each = max(1, most // 3)
        self._files: list[RawFile] = []
        self._between = Spread[RawFile](max(most, 1))

    def add(self, file: RawFile) -> None:
        self._files.append(file)
        if self._all:
            return
        self._between.add(file)
        if len(self._files) > 100 * self._most:
            self._files = self._ends()

    def _ends(self) -> list[RawFile]:
        oldest = heapq.nsmallest(self._each, self._files, key=lambda file: file.order)
        newest = heapq.nlargest(self._each, self._files, key=lambda file: file.order)
        return list({file.key: file for file in [*oldest, *newest]}.values())

    def files(self) -> tuple[RawFile, ...]:
        known = {file.key: file for file in [*self._files, *self._between.items]}
        if not self._all and len(known) > self._most:
            ends = {file.key: file for file in self._ends()}
            inner = sorted((file for file in known.values() if file.key not in ends), key=lambda file: file.order)
            room = self._most - len(ends)
            known = {**ends, **{file.key: file for file in (spread_over(inner, room) if room > 0 else [])}}
        return tuple(sorted(known.values(), key=lambda file: file.order))


class _FirstFew(Generic[_Item]):
    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.count = 0

    def add(self, item: _Item) -> None:
        self.count += 1
        if self.count <= _MOST_NAMED:
            self.items.append(item)


def _is_foreign(key: str, raw_prefix: str) -> bool:
    relative = key[len(raw_prefix) :] if key.startswith(raw_prefix) else ""
    return bool(relative) and not relative.endswith("/") and not relative.lower().startswith(_CONTROL_FOLDERS)
