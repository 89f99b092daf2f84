"""How large data files are to be: small where changes fall, large elsewhere (adaptive compaction)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from cdclake.lake.merge.file_ranges import are_in_order, split_by_order
from cdclake.lake.storage.keys import may_contain
from cdclake.model.layout import change_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cdclake.model.snapshot import DataFile, KeyValue

MAX_FILES = 1.5
"""A table has at most so many times the files that it would have if all settled neighbors were merged."""
MANY_ROWS = 128
"""Rows are many enough to be put where their keys belong if that rewrites at most so many times their bytes."""


@dataclass(frozen=True)
class FileSizes:
    """The sizes of a table's data files.

    Attributes:
        target_bytes: Size that files grow to; one of more than twice this size is split.
        hot_bytes: Size of the files that changes touch, at most the target. Equal to it: files are not cut.
        settled_before: Files of earlier changes are settled: no change has touched them for days.
        loose_before: Loose files of earlier changes are settled.
    """

    target_bytes: int
    hot_bytes: int
    settled_before: int = 0
    loose_before: int = 0

    @classmethod
    def of(cls, target_bytes: int, hot_bytes: int, settled_before: int = 0, loose_before: int = 0) -> FileSizes:
        """The sizes for settings and limits: a smaller target counts for all files."""
        return cls(target_bytes, min(hot_bytes, target_bytes), settled_before, loose_before)

    @property
    def cuts(self) -> bool:
        """Whether files are smaller where changes fall."""
        return self.hot_bytes < self.target_bytes


def files_for(size_bytes: float, target_file_bytes: int) -> int:
    """Number of files to split rows of this size into: a file may have up to twice the target."""
    return ceil(size_bytes / target_file_bytes) if size_bytes > 2 * target_file_bytes else 1


def are_many(size_bytes: float, home_bytes: float) -> bool:
    """Whether rows are many enough to rewrite the files where their keys belong."""
    return size_bytes * MANY_ROWS >= home_bytes


class Homecoming(NamedTuple):
    """Rows of a loose file that are put where their keys belong.

    Attributes:
        loose: Index of the file.
        start: Place of the first file, by key, that takes its rows.
        end: Place after the last.
        cuts: See `WriteTask.cuts`: into a file for each home, and one for rows that stay loose.
        pieces: Number of these files.
    """

    loose: int
    start: int
    end: int
    cuts: tuple[KeyValue, ...]
    pieces: int


def rows_going_home(
    files: Sequence[DataFile],
    by_key: Sequence[int],
    loose: Sequence[int],
    excluded: Collection[int],
    sizes: FileSizes,
    own_bytes: float,
) -> Homecoming | None:
    """Choose the loose rows of a partition that a change puts where their keys belong; None for none.

    Those of a small loose file whose homes together are no larger than what the change rewrites anyway, or as soon as
    they are many, or settled. The homes that no change has rewritten for longest are first, up to the target.

    Args:
        files: Live data files.
        by_key: Indices of the partition's files that are apart, see `split_by_order`.
        loose: Indices of its loose files.
        excluded: Indices of files that new files follow.
        sizes: Their sizes.
        own_bytes: What the change rewrites anyway.
    """
    for i in sorted(loose, key=lambda i: (-files[i].bytes, i)):
        homes = [j for j in by_key if may_contain(files[j], files[i].key_min, files[i].key_max)]
        free, home_bytes = set(homes).difference(excluded), _size(homes, files)
        is_due = (
            home_bytes <= min(own_bytes, sizes.target_bytes)
            or are_many(files[i].bytes, home_bytes)
            or change_of(files[i].path) < sizes.loose_before
        )
        if is_due and free and 2 * files[i].bytes <= sizes.target_bytes:
            start, end = _oldest_run(by_key, free, files, sizes.target_bytes)
            cuts = tuple(files[j].key_min for j in by_key[max(start, 1) : end + 1])
            return Homecoming(i, start, end, cuts, end - start + (end - start < len(by_key)))
    return None


def _oldest_run(
    by_key: Sequence[int], chosen: Collection[int], files: Sequence[DataFile], max_bytes: float
) -> tuple[int, int]:
    """The places of the oldest of chosen files and of chosen neighbors, together up to a size."""
    places = [n for n, i in enumerate(by_key) if i in chosen]
    start = min(places, key=lambda n: (change_of(files[by_key[n]].path), n))
    end, room = start + 1, max_bytes - files[by_key[start]].bytes
    while end < len(by_key) and by_key[end] in chosen and files[by_key[end]].bytes <= room:
        room -= files[by_key[end]].bytes
        end += 1
    while start and by_key[start - 1] in chosen and files[by_key[start - 1]].bytes <= room:
        start -= 1
        room -= files[by_key[start]].bytes
    return start, end


def settled_groups(
    files: Sequence[DataFile],
    partitions: Collection[Sequence[int]],
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
    chosen: list[list[int]] = []
    for group in _groups(files, partitions, excluded, sizes, min(own_bytes, sizes.target_bytes)):
        size_bytes = _size(group, files)
        if size_bytes <= own_bytes:
            chosen.append(group)
            own_bytes -= size_bytes
    if not chosen and len(files) > MAX_FILES * len(partitions):
        groups = _groups(files, partitions, excluded, sizes, sizes.target_bytes)
        needed = len(files) - sum(len(group) - 1 for group in groups)
        chosen = groups[:1] if len(files) > MAX_FILES * needed else []
    return chosen


def _settled_runs(
    indices: Sequence[int], files: Sequence[DataFile], excluded: Collection[int], sizes: FileSizes, max_bytes: float
) -> list[list[int]]:
    """Settled files of a partition that follow each other by key; none if they are not in order.

    To tell that no two are small and settled is quick, so that it can be done for thousands of partitions.
    """
    if len(indices) < 2 or sum(sorted(files[i].bytes for i in indices)[:2]) > max_bytes:
        return []
    settled = {i for i in indices if i not in excluded and change_of(files[i].path) < sizes.settled_before}
    by_key, loose = split_by_order(indices, files) if len(settled) > 1 else ([], [])
    if not are_in_order(by_key, loose, files):
        return []
    runs = (list(run) for is_settled, run in groupby(by_key, settled.__contains__) if is_settled)
    return [run for run in runs if len(run) > 1]


def _groups(
    files: Sequence[DataFile],
    partitions: Iterable[Sequence[int]],
    excluded: Collection[int],
    sizes: FileSizes,
    max_bytes: float,
) -> list[list[int]]:
    """Neighbors to merge, those first that save most files for the bytes; one file at least for half the target."""
    groups: list[list[int]] = []
    for run in (run for indices in partitions for run in _settled_runs(indices, files, excluded, sizes, max_bytes)):
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
