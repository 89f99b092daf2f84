"""Co-groups the rows of a change with the existing versions of the same keys, one key range per task."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cdclake.lake.merge.join_by_key import by_key_range, find_batches, read_in_tasks
from cdclake.lake.merge.messages import Batch, Source
from cdclake.lake.scd2.tasks import find_open_versions, merge_key_range, read_open_versions, read_table_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.merge.tasks.resolution import InsertCounting
    from cdclake.lake.scd2.tasks import HistoryPlan, VersionMerge
    from cdclake.lake.spark.backend import Backend, Partitions
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile


def merge_into_history(
    backend: Backend,
    batches: Partitions[Batch[ReadStats]],
    read: ReadStats,
    plan: HistoryPlan,
    shape: TableShape,
    locations: Locations,
    live_files: Sequence[DataFile],
    counting: InsertCounting,
    kept: list[Partitions[Any]],
    *,
    full_load: bool,
) -> Partitions[VersionMerge]:
    """Compute what a change does to the history.

    Args:
        backend: Where to read the data files.
        batches: Rows in flight, sorted by leading key.
        plan: What the change does to the history.
        locations: Where the table's own files are.
        live_files: Data files of the table before the change; ignored for a full load.
        counting: How to count new open versions.
        kept: Receives rows that are kept, and to be discarded.
        full_load: Whether the rows are all rows of the table.

    Returns:
        Outcomes with the rows to write, where the batches are.

    Raises:
        NeedsSparkError: All rows are compared, and are too many for this process.
    """
    sources = [(Source.TABLE if full_load else Source.CHANGE, batches)]
    if plan.compare_all:
        shape.limits.check_rewritten([*(() if full_load else live_files), *plan.open_files], "compares")
        reads = (
            (Source.TABLE, [] if full_load else live_files, partial(read_table_rows, locations=locations, shape=shape)),
            (Source.HISTORY, list(enumerate(plan.open_files)), partial(read_open_versions, plan=plan, shape=shape)),
        )
        for source, files, function in reads:
            if files:
                rows, stats = read_in_tasks(backend, files, function, shape.limits)
                sources.append((source, rows))
                read += stats
    if plan.open_files and not plan.compare_all:
        find = partial(find_open_versions, plan=plan, shape=shape)
        found, stats = find_batches(backend, batches, plan.open_files, shape, find)
        kept.append(found)
        sources.append((Source.HISTORY, found))
        read += stats
    merge = partial(merge_key_range, plan=plan, shape=shape, counting=counting, full_load=full_load)
    return by_key_range(sources, read, shape.limits).map_partitions(merge)
