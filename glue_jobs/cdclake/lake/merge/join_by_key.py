"""Co-groups the rows of a change with the lake's rows of the same keys, one key range per task."""

from __future__ import annotations

from functools import partial, reduce
from math import ceil
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any

from cdclake.lake.merge import tasks
from cdclake.lake.merge.existing_rows import (
    find_existing_rows,
    grouped_by_file,
    keys_by_file,
    keys_of_files,
    sorted_keys,
)
from cdclake.lake.spark.in_process import InProcessRdd
from cdclake.lake.spark.task_errors import SparkTask
from cdclake.lake.storage.arrow_ipc import to_ipc
from cdclake.lake.storage.key_ranges import candidate_rows, quantiles
from cdclake.lake.storage.keys import LEADING_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.spark.backend import Backend, DistributedRows
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

ROWS_PER_KEY_RANGE = 250_000
BYTES_PER_KEY_RANGE = 256 << 20
"""In memory; a task holds the rows of a key range several times."""
PROBE_TASKS_PER_CORE = 2


def cogroup_by_key(
    spark: Backend,
    batches: DistributedRows,
    read: ReadStats,
    files: Sequence[DataFile],
    shape: TableShape,
    locations: Locations,
    *,
    complete: bool,
) -> DistributedRows:
    """Group rows of a change and the lake's rows of the same keys by key range.

    Args:
        batches: Pairs of any value and rows sorted by leading key. If they are an `InProcessRdd`, so is the result, and
            Spark only reads the data files.
        read: Statistics of the batches.
        files: Live data files.
        complete: Whether to read all columns of the lake's rows.

    Returns:
        `(key range, (whether the rows are the lake's, rows))`.
    """
    bounds = key_range_bounds(read)
    key_ranges = len(bounds) + 1
    split = partial(tasks.rows_by_key_range, bounds=bounds)
    entries = batches.flatMap(split).mapValues(partial(tagged, False)).partitionBy(key_ranges, int)
    if not files:
        return entries
    find = partial(find_existing_rows, locations=locations, shape=shape, files=files, bounds=bounds, complete=complete)
    existing_rows = probe_files(spark, batches, files, shape, find).mapValues(partial(tagged, True))
    # Both have the same partitioner, so the union needs no further shuffle.
    return entries.union(existing_rows.partitionBy(key_ranges, int))


def key_range_bounds(read: ReadStats) -> list[KeyValue]:
    """Bounds of the key ranges for some rows."""
    key_ranges = ceil(max(read.rows / ROWS_PER_KEY_RANGE, read.memory_bytes / BYTES_PER_KEY_RANGE, 1))
    return quantiles(read.samples, key_ranges)


def probe_files(
    spark: Backend,
    batches: DistributedRows,
    files: Sequence[DataFile],
    shape: TableShape,
    find: Callable[..., Iterator[Any]],
) -> DistributedRows:
    """Look up the keys of some rows in data files.

    Args:
        batches: As for `cogroup_by_key`; so is the result.
        files: The data files, at least one.
        find: The task, given pairs of a file's index and a table of the keys to look up in it.
    """
    count = probe_task_count(spark, files)
    if not isinstance(batches, InProcessRdd):
        wanted = batches.flatMap(partial(keys_by_file, files=files, shape=shape)).partitionBy(count, int)
        return wanted.mapPartitions(SparkTask(partial(_find, find=find, group=grouped_by_file)))
    pairs = batches.collect()
    keys = sorted_keys(pairs, shape) if pairs else None
    indices = [i for i, _, _ in candidate_rows(keys[LEADING_KEY], files)] if keys else []
    if not indices:
        return InProcessRdd([])
    # Each task gets all keys once, and not once for each file.
    group = partial(keys_of_files, keys=to_ipc(keys), files=files)
    find_in_files = SparkTask(partial(_find, find=find, group=group))
    return InProcessRdd(
        [spark.parallelize(indices, min(count, max(len(indices), 1))).mapPartitions(find_in_files).collect()]
    )


def _find(wanted: Iterable[Any], *, find: Callable[..., Iterator[Any]], group: Callable[..., Any]) -> Iterator[Any]:
    return find(group(wanted))


def probe_task_count(spark: Backend, files: Sequence[Any]) -> int:
    """Number of tasks that look up keys in these files."""
    return min(len(files), spark.defaultParallelism * PROBE_TASKS_PER_CORE)


def to_spark(spark: Backend, rows: DistributedRows) -> DistributedRows:
    """Send rows on the driver to tasks, keeping their partitions; rows already in tasks stay as they are."""
    if not isinstance(rows, InProcessRdd):
        return rows
    return spark.parallelize(rows.partitions, len(rows.partitions)).flatMap(list)


def sum_values(values: DistributedRows, zero: Any) -> Any:  # noqa: ANN401 - any type with +
    """Sum values; each task sums its own."""
    return reduce(add, values.mapPartitions(partial(_sum_partition, zero=zero)).collect(), zero)


def sum_stats(batches: DistributedRows, zero: Any) -> Any:  # noqa: ANN401 - any type with +
    """Sum the statistics of batches: the first of each pair."""
    return sum_values(batches.map(itemgetter(0)), zero)


def union_all(parts: Sequence[DistributedRows]) -> DistributedRows:
    """All rows of one or more parts. Parts with the same partitioner need no further shuffle."""
    return reduce(lambda left, right: left.union(right), parts)


def tagged(tag: Any, rows: bytes) -> tuple[Any, bytes]:  # noqa: ANN401 - any value
    """Rows with a tag, to tell rows of several sources apart."""
    return tag, rows


def _sum_partition(values: Iterable[Any], zero: Any) -> Iterator[Any]:  # noqa: ANN401 - any type with +
    yield reduce(add, values, zero)
