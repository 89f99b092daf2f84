"""Brings the rows of a change together with the versions that the history holds, a range of keys in each task."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from cdclake.lake.merge import tasks
from cdclake.lake.merge.join_by_key import key_range_bounds, probe_files, probe_task_count, sum_stats, union_all
from cdclake.lake.scd2.tasks import Source, find_open_versions, merge_key_range, read_open_versions, read_table_rows
from cdclake.lake.spark.backend import keep_on_disk
from cdclake.lake.spark.task_errors import SparkTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.scd2.tasks import HistoryPlan
    from cdclake.lake.spark.backend import Backend, DistributedRows
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile


def merge_into_history(
    spark: Backend,
    batches: DistributedRows,
    read: tasks.ReadStats,
    work: HistoryPlan,
    shape: TableShape,
    locations: tasks.Locations,
    live_files: Sequence[DataFile],
    *,
    full_load: bool,
) -> DistributedRows:
    """Decide what a change does to the history.

    Args:
        batches: `(stats, blob)` of rows in flight, each sorted by route. Of an `InProcessRdd` the result is one too.
        read: Sum of their stats.
        work: What is to be done.
        shape: Shape of the table.
        locations: Where the table's own files lie.
        live_files: Data files of the table before the change; with a full load none of them counts.
        full_load: Whether the rows are all rows of the table.

    Returns:
        `VersionMerge`s, whose rows are to be written.
    """
    sources = [(Source.LIVE if full_load else Source.CHANGE, batches)]
    if work.compares:
        reads = (
            (Source.LIVE, [] if full_load else live_files, partial(read_table_rows, locations=locations, shape=shape)),
            (Source.KNOWN, list(enumerate(work.open_files)), partial(read_open_versions, work=work, shape=shape)),
        )
        sources += [(source, _in_tasks(spark, files, function)) for source, files, function in reads if files]
        read = reduce(add, (sum_stats(rows, tasks.ReadStats()) for _, rows in sources[1:]), read)
    bounds = key_range_bounds(read.rows, read.samples)
    buckets = len(bounds) + 1
    to_bucket = partial(tasks.rows_by_key_range, bounds=bounds)
    entries = [_from(source, rows.flatMap(to_bucket), buckets) for source, rows in sources]
    if work.open_files and not work.compares:
        find = partial(find_open_versions, work=work, shape=shape, bounds=bounds)
        entries.append(_from(Source.KNOWN, probe_files(spark, batches, work.open_files, find), buckets))
    merge = SparkTask(partial(merge_key_range, work=work, shape=shape, full_load=full_load))
    return union_all(entries).mapPartitions(merge)


def _in_tasks(spark: Backend, files: Sequence[Any], function: Any) -> DistributedRows:  # noqa: ANN401 - a task
    return keep_on_disk(spark.parallelize(files, probe_task_count(spark, files)).mapPartitions(SparkTask(function)))


def _from(source: Source, rows: DistributedRows, buckets: int) -> DistributedRows:
    return rows.mapValues(partial(_marked, source)).partitionBy(buckets, int)


def _marked(source: Source, blob: bytes) -> tuple[Source, bytes]:
    return source, blob
