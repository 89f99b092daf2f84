"""Plans which data files a change writes. The driver plans from counts alone, tasks execute."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from cdclake.lake.storage.key_ranges import quantiles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile, KeyValue

PARQUET_SHARE_OF_MEMORY = 0.4
"""Estimated size of rows in Parquet relative to Arrow, for a table without files to measure."""


@dataclass(frozen=True)
class InsertStats:
    """New rows of one partition.

    Attributes:
        rows: Number of rows.
        memory_bytes: Their size in Arrow.
        samples: Leading keys of some of them, ascending; empty if the table has no key.
    """

    rows: int
    memory_bytes: int
    samples: tuple[KeyValue, ...] = ()

    def __add__(self, other: InsertStats) -> InsertStats:
        samples = tuple(sorted(self.samples + other.samples))  # type: ignore[type-var]  # one kind in a table
        return InsertStats(self.rows + other.rows, self.memory_bytes + other.memory_bytes, samples)


@dataclass(frozen=True)
class WriteTask:
    """One task of the rewrite.

    Attributes:
        number: Index of the task.
        bases: Indices of the data files it replaces; empty if all its rows are new.
        partition: Partition that it writes.
        file_count: Number of files to split the result into.
    """

    number: int
    bases: tuple[int, ...]
    partition: Partition
    file_count: int = 1


@dataclass(frozen=True)
class InsertTargets:
    """The tasks for the inserts of a partition: key range `i`, as split at `bounds`, goes to `tasks[i]`.

    For a table without a key, `bounds` is empty and batches go to the tasks in turn.
    """

    bounds: tuple[KeyValue, ...]
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class RewritePlan:
    """The tasks of a rewrite, and which rows go to which task."""

    tasks: tuple[WriteTask, ...]
    task_of_file: Mapping[int, int]
    insert_targets: Mapping[Partition, InsertTargets]


def plan_rewrite(
    files: Sequence[DataFile],
    touched: Collection[int],
    inserts: Mapping[Partition, InsertStats],
    target_file_bytes: int,
) -> RewritePlan:
    """Plan which files to write.

    Every touched file is rewritten. New rows go into touched files of their partition, by key, so that key ranges do
    not overlap. If none is touched, they go into the partition's smallest file if it is below the target size, else
    into new files. A rewritten file absorbs its neighbors by key, touched or not, up to the target size. So two
    rewritten neighbors together exceed the target size: there are never many more than twice the necessary files, and
    tables need no compaction. The result does not depend on the order of the mappings.

    Args:
        files: Live data files.
        touched: Indices of files that lose or replace rows.
        inserts: New rows of each partition.
        target_file_bytes: Size that data files grow to; a file of more than twice this size is split.
    """
    in_partition: dict[Partition, list[int]] = defaultdict(list)
    for i, file in enumerate(files):
        in_partition[file.partition].append(i)
    row_bytes = mean_row_bytes(files)
    tasks: list[WriteTask] = []
    task_of_file: dict[int, int] = {}
    targets: dict[Partition, InsertTargets] = {}

    def add(bases: Sequence[int], partition: Partition, new_bytes: float) -> int:
        all_bytes = sum(files[i].bytes for i in bases) + new_bytes
        file_count = ceil(all_bytes / target_file_bytes) if all_bytes > 2 * target_file_bytes else 1
        tasks.append(WriteTask(len(tasks), tuple(bases), partition, file_count))
        task_of_file.update(dict.fromkeys(bases, tasks[-1].number))
        return tasks[-1].number

    for partition in sorted({files[i].partition for i in touched} | set(inserts), key=partition_sort_key):
        stats = inserts.get(partition, InsertStats(0, 0))
        new_bytes = expected_bytes(stats, row_bytes)
        by_key = sorted(in_partition[partition], key=lambda i: (files[i].key_min is not None, files[i].key_min, i))
        bases = {i for i in by_key if i in touched}
        if not bases and stats.rows:
            bases = _smallest_below_target(by_key, files, target_file_bytes)
        if bases:
            groups = _with_neighbors(bases, by_key, files, target_file_bytes)
            numbers = tuple(add(group, partition, new_bytes / len(groups)) for group in groups)
            bounds = tuple(files[group[0]].key_min for group in groups[1:])
            targets[partition] = _with_distinct_bounds(InsertTargets(bounds, numbers))
        elif stats.rows:
            count = max(1, round(new_bytes / target_file_bytes))
            bounds = tuple(quantiles(stats.samples, count))
            count = len(bounds) + 1 if stats.samples else count
            targets[partition] = InsertTargets(
                bounds, tuple(add((), partition, new_bytes / count) for _ in range(count))
            )
    return RewritePlan(tuple(tasks), task_of_file, targets)


def unchanged_files(files: Sequence[DataFile], rewritten: Collection[int]) -> tuple[DataFile, ...]:
    """Data files that a rewrite leaves as they are.

    Args:
        rewritten: Indices of the rewritten files.
    """
    excluded = set(rewritten)
    return tuple(file for i, file in enumerate(files) if i not in excluded)


def _smallest_below_target(indices: Sequence[int], files: Sequence[DataFile], target_file_bytes: int) -> set[int]:
    small = [i for i in indices if files[i].bytes < target_file_bytes]
    return {min(small, key=lambda i: (files[i].bytes, i))} if small else set()


def _with_neighbors(
    bases: Collection[int], by_key: Sequence[int], files: Sequence[DataFile], target_file_bytes: int
) -> list[list[int]]:
    """Groups of neighboring files, each to become one file; groups and their files are in key order.

    Args:
        bases: Files that must be rewritten.
        by_key: All files of the partition.
    """
    groups: list[list[int]] = []
    end = 0  # of the last group, in `by_key`
    for index, i in enumerate(by_key):
        if index < end or i not in bases:
            continue
        first, min_first, end = index, end, index + 1
        room = target_file_bytes - files[i].bytes
        while end < len(by_key) and files[by_key[end]].bytes <= room:
            room -= files[by_key[end]].bytes
            end += 1
        while first > min_first and files[by_key[first - 1]].bytes <= room:
            first -= 1
            room -= files[by_key[first]].bytes
        groups.append(list(by_key[first:end]))
    return groups


def _with_distinct_bounds(targets: InsertTargets) -> InsertTargets:
    """Make bounds ascend: of files with equal or unknown lower bounds, the first takes the rows."""
    bounds: list[KeyValue] = []
    tasks = [targets.tasks[0]]
    for bound, task in zip(targets.bounds, targets.tasks[1:], strict=True):
        if bound is not None and (not bounds or bound != bounds[-1]):
            bounds.append(bound)
            tasks.append(task)
    return InsertTargets(tuple(bounds), tuple(tasks))


def expected_bytes(stats: InsertStats, row_bytes: float) -> float:
    """Expected size of new rows in Parquet, given the size of a row, or 0 if unknown."""
    return stats.rows * row_bytes if row_bytes else stats.memory_bytes * PARQUET_SHARE_OF_MEMORY


def mean_row_bytes(files: Sequence[DataFile]) -> float:
    """Mean size of a row in data files; 0 if they have no rows."""
    rows = sum(file.rows for file in files)
    return sum(file.bytes for file in files) / rows if rows else 0.0


def partition_sort_key(partition: Partition) -> list[tuple[bool, str]]:
    """Sort key of a partition."""
    return [(value is not None, value or "") for value in partition]
