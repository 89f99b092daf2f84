"""Brings the rows of a change together with what the lake holds of their keys, a range of keys in each task."""

from __future__ import annotations

from functools import partial, reduce
from math import ceil
from operator import add
from typing import TYPE_CHECKING, Any

from cdclake.lake.merge import tasks
from cdclake.lake.spark.in_process import InProcessRdd
from cdclake.lake.spark.task_errors import SparkTask
from cdclake.lake.storage.key_ranges import quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cdclake.lake.spark.backend import Backend, DistributedRows
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

ROWS_PER_KEY_RANGE = 250_000
PROBES_PER_CORE = 2


def cogroup_by_key(
    spark: Backend,
    batches: DistributedRows,
    rows: int,
    samples: Sequence[KeyValue],
    files: Sequence[DataFile],
    shape: TableShape,
    locations: tasks.Locations,
) -> DistributedRows:
    """Rows, and the lake's rows of the same keys, partitioned by range of key.

    Args:
        batches: Pairs of anything and a blob of rows sorted by route. Of an `InProcessRdd` the result is one too, and
            only the look at the data files is Spark's.
        rows: How many rows they are.
        samples: Some of their routes, sorted.
        files: Live data files.

    Returns:
        `(bucket, (whether these are the lake's rows, blob))`.
    """
    bounds = key_range_bounds(rows, samples)
    buckets = len(bounds) + 1
    to_bucket = partial(tasks.rows_by_key_range, bounds=bounds)
    entries = batches.flatMap(to_bucket).mapValues(_of_change).partitionBy(buckets, int)
    if not files:
        return entries
    probe = partial(tasks.find_existing_rows, locations=locations, shape=shape, files=files, bounds=bounds)
    located = probe_files(spark, batches, files, probe).mapValues(_of_lake)
    # Both are partitioned alike, so the union shuffles nothing again.
    return entries.union(located.partitionBy(buckets, int))


def key_range_bounds(rows: int, samples: Sequence[KeyValue]) -> list[KeyValue]:
    """Bounds of the ranges of key that so many rows are resolved in.

    Args:
        samples: Some of their routes, sorted.
    """
    return quantiles(samples, ceil(rows / ROWS_PER_KEY_RANGE) or 1)


def probe_files(
    spark: Backend, batches: DistributedRows, files: Sequence[DataFile], find: Callable[..., Iterator[Any]]
) -> DistributedRows:
    """What data files hold of the keys of some rows.

    Args:
        batches: As for `cogroup_by_key`; so is the result.
        files: The data files, one or more.
        find: A task, given pairs of the index of a file and a blob of routes and keys.
    """
    wanted = batches.flatMap(partial(tasks.keys_by_file, files=files)).partitionBy(probe_task_count(spark, files), int)
    found = to_spark(spark, wanted).mapPartitions(SparkTask(find))
    return InProcessRdd([found.collect()]) if isinstance(wanted, InProcessRdd) else found


def probe_task_count(spark: Backend, files: Sequence[Any]) -> int:
    """How many tasks look into so many files."""
    return min(len(files), spark.defaultParallelism * PROBES_PER_CORE)


def to_spark(spark: Backend, rows: DistributedRows) -> DistributedRows:
    """Rows that the driver holds, in tasks as they are partitioned; others as they are."""
    if not isinstance(rows, InProcessRdd):
        return rows
    return spark.parallelize(rows.partitions, len(rows.partitions)).flatMap(_items)


def sum_values(values: DistributedRows, zero: Any) -> Any:  # noqa: ANN401 - any type with +
    """Sum of values, of which each task adds up its own."""
    return reduce(add, values.mapPartitions(partial(_sum_partition, zero=zero)).collect(), zero)


def sum_stats(batches: DistributedRows, zero: Any) -> Any:  # noqa: ANN401 - any type with +
    """Sum of what batches tell of their rows: the first of each pair."""
    return sum_values(batches.map(_first), zero)


def union_all(parts: Sequence[DistributedRows]) -> DistributedRows:
    """All rows of one or more parts. Parts that are partitioned alike are not shuffled again."""
    return reduce(_union, parts)


def _sum_partition(values: Iterable[Any], zero: Any) -> Iterator[Any]:  # noqa: ANN401 - any type with +
    yield reduce(add, values, zero)


def _union(one: DistributedRows, other: DistributedRows) -> DistributedRows:
    return one.union(other)


def _first(pair: tuple[Any, Any]) -> Any:  # noqa: ANN401 - either
    return pair[0]


def _items(partition: list[Any]) -> list[Any]:
    return partition


def _of_change(blob: bytes) -> tuple[bool, bytes]:
    return False, blob


def _of_lake(blob: bytes) -> tuple[bool, bytes]:
    return True, blob
