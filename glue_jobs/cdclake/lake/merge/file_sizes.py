"""How large data files are to be: small where changes fall, large elsewhere (adaptive compaction)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from cdclake.lake.merge.file_ranges import split_by_order
from cdclake.lake.storage.key_ranges import overlapping_files
from cdclake.model.layout import change_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cdclake.model.snapshot import DataFile

MAX_FILES = 1.5
"""A table has at most so many times the files that it would have if all settled neighbors were merged."""


@dataclass(frozen=True)
class FileSizes:
    """The sizes of a table's data files.

    Attributes:
        target_bytes: Size that files grow to; one of more than twice this size is split.
        hot_bytes: Size of the files that changes touch, at most the target. Equal to it: files are not cut.
        settled_before: Files of earlier changes are settled: no change has touched them for days.
    """

    target_bytes: int
    hot_bytes: int
    settled_before: int = 0

    @classmethod
    def of(cls, target_bytes: int, hot_bytes: int, settled_before: int = 0) -> FileSizes:
        """The sizes for settings and limits: a smaller target counts for all files."""
        return cls(target_bytes, min(hot_bytes, target_bytes), settled_before)

    @property
    def cuts(self) -> bool:
        """Whether files are smaller where changes fall."""
        return self.hot_bytes < self.target_bytes


def files_for(size_bytes: float, target_file_bytes: int) -> int:
    """Number of files to split rows of this size into: a file may have up to twice the target."""
    return ceil(size_bytes / target_file_bytes) if size_bytes > 2 * target_file_bytes else 1


def settled_groups(
    files: Sequence[DataFile],
    partitions: Iterable[Sequence[int]],
    excluded: Collection[int],
    sizes: FileSizes,
    own_bytes: float,
) -> list[list[int]]:
    """Groups of settled neighbors that a change merges beside its own work, each to one file of up to the target.

    The groups together are no larger than what the change rewrites anyway. Only if that leaves a table with more than
    `MAX_FILES` times the files that it needs, one group is.

    Args:
        files: Live data files.
        partitions: Indices of the files of each partition.
        excluded: Indices of the files that the change rewrites anyway.
        sizes: Their sizes.
        own_bytes: What the change rewrites anyway.
    """
    runs = [run for indices in partitions for run in _settled_runs(indices, files, excluded, sizes)]
    groups = _groups(runs, files, sizes, min(own_bytes, sizes.target_bytes))
    chosen: list[list[int]] = []
    for group in groups:
        size_bytes = _size(group, files)
        if size_bytes <= own_bytes:
            chosen.append(group)
            own_bytes -= size_bytes
    if not chosen:
        groups = _groups(runs, files, sizes, sizes.target_bytes)
        needed = len(files) - sum(len(group) - 1 for group in groups)
        chosen = groups[:1] if len(files) > MAX_FILES * needed else []
    return chosen


def _settled_runs(
    indices: Sequence[int], files: Sequence[DataFile], excluded: Collection[int], sizes: FileSizes
) -> list[list[int]]:
    """Settled files of a partition that follow each other by key; none if key ranges overlap, or are unknown."""
    small = sum(files[i].bytes < sizes.target_bytes for i in indices)
    if small < 2 or overlapping_files([files[i] for i in indices]):
        return []
    runs: list[list[int]] = [[]]
    for i in split_by_order(indices, files)[0]:
        if i not in excluded and change_of(files[i].path) < sizes.settled_before:
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _groups(
    runs: Sequence[Sequence[int]], files: Sequence[DataFile], sizes: FileSizes, max_bytes: float
) -> list[list[int]]:
    """Neighbors to merge, those first that save most files for the bytes; one file at least for half the target."""
    groups: list[list[int]] = []
    for run in runs:
        filled = max_bytes
        for i in run:
            filled += files[i].bytes
            if filled > max_bytes:
                groups.append([])
                filled = files[i].bytes
            groups[-1].append(i)

    def price(group: Sequence[int]) -> float:
        return _size(group, files) / (len(group) - 1)

    worthwhile = (group for group in groups if len(group) > 1 and 2 * price(group) <= sizes.target_bytes)
    return sorted(worthwhile, key=lambda group: (price(group), group))


def _size(group: Iterable[int], files: Sequence[DataFile]) -> int:
    return sum(files[i].bytes for i in group)
