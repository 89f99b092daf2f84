"""Brings the rows of a change together with what the lake holds of their keys, a range of keys in each task."""

from __future__ import annotations

from functools import partial, reduce
from math import ceil
from operator import add
from typing import TYPE_CHECKING, Any, cast

from cdclake.lake import tasks
from cdclake.lake.in_process import InProcessRdd
from cdclake.lake.routing import quantiles
from cdclake.lake.task_errors import Carried

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from cdclake.lake.data_file import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

ROWS_PER_BUCKET = 250_000
PROBES_PER_CORE = 2


def together(
    spark: SparkContext,
    batches: RDD[Any],
    rows: int,
    samples: Sequence[KeyValue],
    files: Sequence[DataFile],
    shape: TableShape,
    places: tasks.Places,
) -> RDD[Any]:
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
    bounds = quantiles(samples, ceil(rows / ROWS_PER_BUCKET) or 1)
    buckets = len(bounds) + 1
    to_bucket = partial(tasks.route_to_buckets, bounds=bounds)
    entries = batches.flatMap(to_bucket).mapValues(_of_change).partitionBy(buckets, int)
    if not files:
        return entries
    probe = Carried(partial(tasks.probe_files, places=places, shape=shape, files=files, bounds=bounds))
    probes = min(len(files), spark.defaultParallelism * PROBES_PER_CORE)
    wanted = batches.flatMap(partial(tasks.route_to_files, files=files)).partitionBy(probes, int)
    located = handed_out(spark, wanted).mapPartitions(probe).mapValues(_of_lake)
    located = gathered(located) if isinstance(wanted, InProcessRdd) else located
    # Both are partitioned alike, so the union shuffles nothing again.
    return entries.union(located.partitionBy(buckets, int))


def handed_out(spark: SparkContext, rows: RDD[Any]) -> RDD[Any]:
    """Rows that the driver holds, in tasks as they are partitioned; others as they are."""
    if not isinstance(rows, InProcessRdd):
        return rows
    return spark.parallelize(rows.partitions, len(rows.partitions)).flatMap(_items)


def summed(values: RDD[Any], zero: Any) -> Any:  # noqa: ANN401 - any type with +
    """Sum of values, of which each task adds up its own."""
    return reduce(add, values.mapPartitions(partial(_sum_partition, zero=zero)).collect(), zero)


def gathered(rows: RDD[Any]) -> RDD[Any]:
    """Rows that tasks hold, in the driver."""
    return cast("RDD[Any]", InProcessRdd([rows.collect()]))


def _sum_partition(values: Iterable[Any], zero: Any) -> Iterator[Any]:  # noqa: ANN401 - any type with +
    yield reduce(add, values, zero)


def _items(partition: list[Any]) -> list[Any]:
    return partition


def _of_change(blob: bytes) -> tuple[bool, bytes]:
    return False, blob


def _of_lake(blob: bytes) -> tuple[bool, bytes]:
    return True, blob
