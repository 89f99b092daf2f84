"""Brings the rows of a change together with the versions that the history holds, a range of keys in each task."""

from __future__ import annotations

from functools import partial, reduce
from math import ceil
from operator import add
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

from cdclake.lake import tasks
from cdclake.lake.in_process import InProcessRdd
from cdclake.lake.locate import PROBES_PER_CORE, ROWS_PER_BUCKET, gathered, handed_out, summed
from cdclake.lake.routing import quantiles
from cdclake.lake.task_errors import Carried
from cdclake.lake.version_tasks import Source, find_open, read_live, read_open, weave_bucket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import RDD, SparkContext

    from cdclake.lake.data_file import TableShape
    from cdclake.lake.version_tasks import HistoryWork
    from cdclake.model.snapshot import DataFile, KeyValue


def woven(
    spark: SparkContext,
    batches: RDD[Any],
    read: tasks.ReadStats,
    work: HistoryWork,
    shape: TableShape,
    places: tasks.Places,
    live_files: Sequence[DataFile],
    *,
    full_load: bool,
) -> RDD[Any]:
    """Decide what a change does to the history.

    Args:
        batches: `(stats, blob)` of rows in flight, each sorted by route. Of an `InProcessRdd` the result is one too.
        read: Sum of their stats.
        work: What is to be done.
        shape: Shape of the table.
        places: Where the table's own files lie.
        live_files: Data files of the table before the change; with a full load none of them counts.
        full_load: Whether the rows are all rows of the table.

    Returns:
        `Weaving`s, whose rows are to be written.
    """
    sources = [(Source.LIVE if full_load else Source.CHANGE, batches)]
    if work.compares:
        reads = (
            (Source.LIVE, [] if full_load else live_files, partial(read_live, places=places, shape=shape)),
            (Source.KNOWN, list(enumerate(work.open_files)), partial(read_open, work=work, shape=shape)),
        )
        sources += [(source, _in_tasks(spark, files, function)) for source, files, function in reads if files]
        read = reduce(add, (summed(rows.map(_first), tasks.ReadStats()) for _, rows in sources[1:]), read)
    bounds = quantiles(read.samples, ceil(read.rows / ROWS_PER_BUCKET) or 1)
    buckets = len(bounds) + 1
    to_bucket = partial(tasks.route_to_buckets, bounds=bounds)
    entries = [_told(rows.flatMap(to_bucket), source, buckets) for source, rows in sources]
    if work.open_files and not work.compares:
        entries.append(_told(_open_of(spark, batches, work, shape, bounds), Source.KNOWN, buckets))
    weave = Carried(partial(weave_bucket, work=work, shape=shape, full_load=full_load))
    # All are partitioned alike, so the union shuffles nothing again.
    return reduce(_union, entries).mapPartitions(weave)


def _in_tasks(spark: SparkContext, files: Sequence[Any], function: Any) -> RDD[Any]:  # noqa: ANN401 - a task
    count = min(len(files), spark.defaultParallelism * PROBES_PER_CORE)
    return spark.parallelize(files, count).mapPartitions(Carried(function)).persist(StorageLevel.DISK_ONLY)


def _open_of(
    spark: SparkContext, batches: RDD[Any], work: HistoryWork, shape: TableShape, bounds: Sequence[KeyValue]
) -> RDD[Any]:
    """The open versions of the keys of some rows, by bucket."""
    find = Carried(partial(find_open, work=work, shape=shape, bounds=bounds))
    count = min(len(work.open_files), spark.defaultParallelism * PROBES_PER_CORE)
    wanted = batches.flatMap(partial(tasks.route_to_files, files=work.open_files)).partitionBy(count, int)
    found = handed_out(spark, wanted).mapPartitions(find)
    return gathered(found) if isinstance(wanted, InProcessRdd) else found


def _told(rows: RDD[Any], source: Source, buckets: int) -> RDD[Any]:
    return rows.mapValues(partial(_from, source)).partitionBy(buckets, int)


def _from(source: Source, blob: bytes) -> tuple[Source, bytes]:
    return source, blob


def _union(one: RDD[Any], other: RDD[Any]) -> RDD[Any]:
    return one.union(other)


def _first(pair: tuple[Any, Any]) -> Any:  # noqa: ANN401 - either
    return pair[0]
