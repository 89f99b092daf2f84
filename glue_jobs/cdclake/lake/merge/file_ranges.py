"""Finds the data file to which a new key belongs, so that the key ranges of files stay apart."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.lake.storage.key_ranges import key_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile, KeyValue


class Owner(NamedTuple):
    """Where the keys of a range belong.

    Attributes:
        file: Index of the data file that contains them, else of the one before them; before the first file, the first.
        inside: Whether they are in the file's key range.
    """

    file: int
    inside: bool


class FileRanges(NamedTuple):
    """Where the keys of a partition belong: keys of range `i`, as split at `bounds`, to the file of `owners[i]`."""

    bounds: tuple[KeyValue, ...]
    owners: tuple[Owner, ...]

    @classmethod
    def of(cls, indices: Sequence[int], files: Sequence[DataFile]) -> FileRanges:
        """The ranges of a partition's files that are in order; none if they are not, see `split_by_order`."""
        by_key, loose = split_by_order(indices, files)
        if not are_in_order(by_key, loose, files):
            return cls((), ())
        bounds: list[Any] = []
        owners: list[Owner] = []
        for i in by_key:
            start, end = files[i].key_min, key_after(files[i].key_max)
            if not bounds:
                owners.append(Owner(i, inside=False))
            elif start == bounds[-1]:  # there is no key after the file before
                del bounds[-1], owners[-1]
            bounds.append(start)
            owners.append(Owner(i, inside=True))
            if end is not None:
                bounds.append(end)
                owners.append(Owner(i, inside=False))
        return cls(tuple(bounds), tuple(owners))


class FileBounds:
    """`FileRanges.bounds` by partition, computed when they are asked for: a small change has rows for few partitions.

    Tasks of a large change get the bounds of all partitions instead of the files.

    Args:
        files: Live data files.
    """

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        self._indices = indices_by_partition(files, range(len(files)))
        self._known: dict[Partition, tuple[KeyValue, ...]] = {}

    def of(self, partition: Partition) -> tuple[KeyValue, ...]:
        """The bounds of a partition; none if it has no files or no file ranges."""
        if partition not in self._known:
            self._known[partition] = FileRanges.of(self._indices.get(partition, ()), self._files).bounds
        return self._known[partition]

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": (), "_indices": {}, "_known": {partition: self.of(partition) for partition in self._indices}}


def indices_by_partition(files: Sequence[DataFile], indices: Iterable[int]) -> dict[Partition, list[int]]:
    """Indices of data files by partition, in the same order."""
    by_partition: dict[Partition, list[int]] = defaultdict(list)
    for i in indices:
        by_partition[files[i].partition].append(i)
    return dict(by_partition)


def split_by_order(indices: Iterable[int], files: Sequence[DataFile]) -> tuple[list[int], list[int]]:
    """Indices of a partition's data files whose key ranges are apart, by key; and of the others, the loose files.

    Loose are files that span the beginnings of several which are larger together, and then the smaller of two that
    overlap. If a key range is unknown, no file is loose, though files may overlap.
    """
    by_key = sorted(indices, key=lambda i: (files[i].key_min is not None, files[i].key_min, i))
    if _have_unknown_ranges(by_key, files) or _are_apart(by_key, files):
        return by_key, []
    starts: list[Any] = [files[i].key_min for i in by_key]
    sizes = [0, *accumulate(files[i].bytes for i in by_key)]
    apart: list[int] = []
    loose: list[int] = []
    for i in by_key:
        first, end = bisect_right(starts, files[i].key_min), bisect_right(starts, files[i].key_max)
        if end - first > 1 and files[i].bytes < sizes[end] - sizes[first]:
            loose.append(i)
        elif not apart or _are_apart((apart[-1], i), files):
            apart.append(i)
        else:
            smaller, larger = sorted((i, apart[-1]), key=lambda one: files[one].bytes)
            loose.append(smaller)
            apart[-1] = larger
    return apart, loose


def are_in_order(by_key: Sequence[int], loose: Sequence[int], files: Sequence[DataFile]) -> bool:
    """Whether most files of a partition, as of `split_by_order`, are apart, so that a key belongs to one of them."""
    return len(loose) <= len(by_key) and not _have_unknown_ranges(by_key, files)


def _have_unknown_ranges(indices: Sequence[int], files: Sequence[DataFile]) -> bool:
    return any(files[i].key_min is None or files[i].key_max is None for i in indices)


def _are_apart(by_key: Sequence[int], files: Sequence[DataFile]) -> bool:
    return all(files[i].key_max < files[j].key_min for i, j in pairwise(by_key))  # type: ignore[operator]  # one kind
