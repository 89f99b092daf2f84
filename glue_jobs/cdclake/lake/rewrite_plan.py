"""Which data files a change writes: decided on the driver from counts alone, executed by tasks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from cdclake.lake.routing import quantiles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cdclake.lake.decide import Partition
    from cdclake.model.snapshot import DataFile, KeyValue

PARQUET_SHARE_OF_MEMORY = 0.4
"""Rough size of rows in Parquet against the same rows in Arrow, for a table that has no files yet to learn from."""


@dataclass(frozen=True)
class InsertStats:
    """New rows of one partition.

    Attributes:
        rows: How many.
        memory_bytes: Their size in Arrow.
        samples: Routes of some of them, ascending; empty if the table has no key.
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
        number: 0, 1, 2, ...
        base: Index of the data file it replaces; None if its rows are all new.
        partition: Partition of everything it writes.
        pieces: How many files to cut the result into.
    """

    number: int
    base: int | None
    partition: Partition
    pieces: int = 1


@dataclass(frozen=True)
class InsertRoute:
    """Where the inserts of a partition go: piece `i` of `routing.cut(bounds)` to `tasks[i]`.

    For a table without a key `bounds` is empty, and batches go to the tasks in turn.
    """

    bounds: tuple[KeyValue, ...]
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class RewritePlan:
    """The tasks of a rewrite, and the way of each row to its task."""

    tasks: tuple[WriteTask, ...]
    task_of_file: Mapping[int, int]
    inserts: Mapping[Partition, InsertRoute]


def plan_rewrite(
    files: Sequence[DataFile],
    touched: Collection[int],
    inserts: Mapping[Partition, InsertStats],
    target_file_bytes: int,
) -> RewritePlan:
    """Plan which files to write.

    Every touched file is rewritten. New rows go into touched files of their partition, by key, so that ranges stay
    apart; if none is touched, into the partition's smallest file while that is under the target size; else into new
    files.
    Nothing here depends on the order of the mappings.

    Args:
        files: Live data files.
        touched: Indices of those that lose or replace rows.
        inserts: New rows of each partition.
        target_file_bytes: Size that data files grow to; one of more than twice that is cut.
    """
    in_partition: dict[Partition, list[int]] = defaultdict(list)
    for i, file in enumerate(files):
        in_partition[file.partition].append(i)
    row_bytes = _mean_row_bytes(files)
    tasks: list[WriteTask] = []
    task_of_file: dict[int, int] = {}
    routes: dict[Partition, InsertRoute] = {}

    def add(base: int | None, partition: Partition, expected_bytes: float) -> int:
        pieces = ceil(expected_bytes / target_file_bytes) if expected_bytes > 2 * target_file_bytes else 1
        tasks.append(WriteTask(len(tasks), base, partition, pieces))
        if base is not None:
            task_of_file[base] = tasks[-1].number
        return tasks[-1].number

    for partition in sorted({files[i].partition for i in touched} | set(inserts), key=_partition_order):
        stats = inserts.get(partition, InsertStats(0, 0))
        new_bytes = stats.rows * row_bytes if row_bytes else stats.memory_bytes * PARQUET_SHARE_OF_MEMORY
        bases = [i for i in in_partition[partition] if i in touched]
        if not bases and stats.rows:
            bases = _smallest_open(in_partition[partition], files, target_file_bytes)
        if bases:
            bases.sort(key=lambda i: (files[i].key_min is not None, files[i].key_min, i))
            numbers = tuple(add(i, partition, files[i].bytes + new_bytes / len(bases)) for i in bases)
            bounds = tuple(files[i].key_min for i in bases[1:])
            routes[partition] = _distinct(InsertRoute(bounds, numbers))
        elif stats.rows:
            wanted = max(1, round(new_bytes / target_file_bytes))
            bounds = tuple(quantiles(stats.samples, wanted))
            count = len(bounds) + 1 if stats.samples else wanted
            routes[partition] = InsertRoute(
                bounds, tuple(add(None, partition, new_bytes / count) for _ in range(count))
            )
    return RewritePlan(tuple(tasks), task_of_file, routes)


def _smallest_open(indices: Sequence[int], files: Sequence[DataFile], target_file_bytes: int) -> list[int]:
    under = [i for i in indices if files[i].bytes < target_file_bytes]
    return [min(under, key=lambda i: (files[i].bytes, i))] if under else []


def _distinct(route: InsertRoute) -> InsertRoute:
    """Bounds must ascend; of files with one lower bound, or none known, the first takes the rows."""
    bounds: list[KeyValue] = []
    tasks = [route.tasks[0]]
    for bound, task in zip(route.bounds, route.tasks[1:], strict=True):
        if bound is not None and (not bounds or bound != bounds[-1]):
            bounds.append(bound)
            tasks.append(task)
    return InsertRoute(tuple(bounds), tuple(tasks))


def _mean_row_bytes(files: Sequence[DataFile]) -> float:
    rows = sum(file.rows for file in files)
    return sum(file.bytes for file in files) / rows if rows else 0.0


def _partition_order(partition: Partition) -> list[tuple[bool, str]]:
    return [(value is not None, value or "") for value in partition]
