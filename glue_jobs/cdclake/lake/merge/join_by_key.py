"""Co-groups the rows of a change with the lake's rows of the same keys, one key range per task."""

from __future__ import annotations

from functools import partial
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from cdclake.lake.merge.existing_rows import (
    find_existing_rows,
    grouped_by_file,
    keys_by_file,
    keys_of_files,
    read_existing_rows,
    sorted_keys,
)
from cdclake.lake.merge.messages import Source, SourceRows
from cdclake.lake.merge.read_changes import ReadStats, sorted_batch
from cdclake.lake.merge.tasks.route import rows_by_key_range
from cdclake.lake.spark.backend import moved, split_evenly
from cdclake.lake.storage.arrow_ipc import Rows, kept
from cdclake.lake.storage.key_ranges import candidate_rows, quantiles, split_at_bounds
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.wide_rows import take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.read_changes import Locations
    from cdclake.lake.spark.backend import Backend, Partitions
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

PROBE_TASKS_PER_CORE = 2


def cogroup_by_key(
    backend: Backend,
    batches: Partitions[Batch[Any]],
    read: ReadStats,
    files: Sequence[DataFile],
    shape: TableShape,
    locations: Locations,
    kept: list[Partitions[Any]],
    *,
    complete: bool,
) -> Partitions[SourceRows]:
    """Group rows of a change and the lake's rows of the same keys by key range.

    Args:
        backend: Where to read the data files.
        batches: Rows sorted by leading key.
        read: Statistics of the batches.
        files: Live data files.
        kept: Receives rows that are kept, and to be discarded.
        complete: Whether to read all columns of the lake's rows.

    Returns:
        Rows of the change and of the table, where the batches are, each key range in a partition of its own.
    """
    find = partial(find_existing_rows, locations=locations, shape=shape, complete=complete)
    if files and complete:
        found, stats = find_batches(backend, batches, files, shape, find)
        kept.append(found)
        return by_key_range([(Source.CHANGE, batches), (Source.TABLE, found)], read + stats, shape.limits)
    bounds = key_range_bounds(read, shape.limits)
    entries = batches.flat_map(partial(rows_by_key_range, source=Source.CHANGE, bounds=bounds))
    if not files:
        return entries.shuffle(len(bounds) + 1)
    split = partial(_split, find=find, bounds=bounds)
    return entries.shuffle(len(bounds) + 1, probe_files(backend, batches, files, shape, split))


def cogroup_all(
    backend: Backend,
    batches: Partitions[Batch[Any]],
    read: ReadStats,
    files: Sequence[DataFile],
    shape: TableShape,
    locations: Locations,
    kept: list[Partitions[Any]],
) -> Partitions[SourceRows]:
    """Group rows of a full load and all of the lake's rows by key range; see `cogroup_by_key`.

    Raises:
        NeedsSparkError: The lake's files have more bytes than `EngineLimits.rewritten_bytes`, or as `read_in_tasks`.
    """
    shape.limits.check_rewritten(files, "compares")
    sources = [(Source.CHANGE, batches)]
    if files:
        function = partial(read_existing_rows, locations=locations, shape=shape)
        rows, stats = read_in_tasks(backend, list(enumerate(files)), function, shape.limits)
        kept.append(rows)
        sources.append((Source.TABLE, rows))
        read += stats
    return by_key_range(sources, read, shape.limits)


def read_in_tasks(
    backend: Backend,
    files: Sequence[Any],
    function: Callable[[Iterable[Any]], Iterator[Batch[ReadStats]]],
    limits: EngineLimits,
) -> tuple[Partitions[Batch[ReadStats]], ReadStats]:
    """Read files; returns their rows, and the sum of the statistics.

    Raises:
        NeedsSparkError: The rows of a task need more memory than its share of `EngineLimits.held_bytes`.
    """
    groups = split_evenly(files, probe_task_count(backend, files))
    read = partial(_within_limits, function=function, limits=limits, tasks=len(groups))
    return backend.distribute(groups).map_partitions(read).keep(attrgetter("stats"), ReadStats())


def _within_limits(
    files: Iterable[Any],
    *,
    function: Callable[[Iterable[Any]], Iterator[Batch[ReadStats]]],
    limits: EngineLimits,
    tasks: int,
) -> Iterator[Batch[ReadStats]]:
    memory_bytes = 0
    for batch in function(files):
        memory_bytes += batch.stats.memory_bytes
        limits.check_held(memory_bytes * tasks)  # they read at once, and may all read as much
        yield batch


def by_key_range(
    sources: Sequence[tuple[Source, Partitions[Batch[Any]]]], read: ReadStats, limits: EngineLimits
) -> Partitions[SourceRows]:
    """Rows of several sources, each key range in a partition of its own.

    Args:
        read: Statistics of all of them.
    """
    bounds = key_range_bounds(read, limits)
    entries = [rows.flat_map(partial(rows_by_key_range, source=source, bounds=bounds)) for source, rows in sources]
    return entries[0].shuffle(len(bounds) + 1, *entries[1:])


def key_range_bounds(read: ReadStats, limits: EngineLimits) -> list[KeyValue]:
    """Bounds of the key ranges for some rows."""
    key_ranges = ceil(max(read.rows / limits.key_range_rows, read.memory_bytes / limits.key_range_bytes, 1))
    return quantiles(read.samples, key_ranges)


def find_batches(
    backend: Backend,
    batches: Partitions[Batch[Any]],
    files: Sequence[DataFile],
    shape: TableShape,
    find: Callable[..., Iterator[pa.Table]],
) -> tuple[Partitions[Batch[ReadStats]], ReadStats]:
    """Look up the keys of some rows in data files, see `probe_files`.

    Few keys, as of deletes, may have much longer rows in the data files. Returns these, and their statistics.
    """
    found = probe_files(backend, batches, files, shape, partial(_as_batches, find=find))
    return found.keep(attrgetter("stats"), ReadStats())


def _as_batches(
    wanted: Iterable[Any], *, find: Callable[..., Iterator[pa.Table]], files: Mapping[int, DataFile]
) -> Iterator[Batch[ReadStats]]:
    return map(sorted_batch, find(wanted, files=files))


def _split(
    wanted: Iterable[Any],
    *,
    find: Callable[..., Iterator[pa.Table]],
    files: Mapping[int, DataFile],
    bounds: Sequence[KeyValue],
) -> Iterator[tuple[int, SourceRows]]:
    for part in find(wanted, files=files):
        rows = take(part, pc.sort_indices(part, [(LEADING_KEY, "ascending")])).combine_chunks()
        for key_range, own in kept(dict(split_at_bounds(rows, bounds))).items():
            yield key_range, SourceRows(Source.TABLE, own)


def probe_files(
    backend: Backend,
    batches: Partitions[Batch[Any]],
    files: Sequence[DataFile],
    shape: TableShape,
    find: Callable[..., Iterator[Any]],
) -> Partitions[Any]:
    """Look up the keys of some rows in data files. The result is where the rows are.

    Args:
        backend: Where to read the data files. If the rows are elsewhere, they are few: each task gets all keys.
        batches: As for `cogroup_by_key`.
        files: The data files, at least one.
        find: The task, given pairs of a file's index and a table of the keys to look up in it, and `files`: those that
            may contain keys, by index.

    Raises:
        NeedsSparkError: The files that may contain keys are more than `EngineLimits.looked_up_files`.
    """
    count = probe_task_count(backend, files)
    if batches.backend is backend:
        by_file = batches.flat_map(partial(keys_by_file, files=files, shape=shape))
        if shape.limits.looked_up_files is not None:
            shape.limits.check_looked_up(len({i for i, _ in by_file.collect()}))
        wanted = by_file.shuffle(count)
        find = partial(find, files=dict(enumerate(files)))
        return wanted.map_partitions(partial(_find, find=find, group=grouped_by_file))
    on_driver = batches.collect()
    keys = sorted_keys(on_driver, shape) if on_driver else None
    candidates = {i: files[i] for i, _, _ in candidate_rows(keys[LEADING_KEY], files)} if keys else {}
    if not candidates:
        return batches.backend.distribute([])
    shape.limits.check_looked_up(len(candidates))
    # Each task gets all keys once, and not once for each file.
    group = partial(keys_of_files, keys=Rows(keys), files=candidates)
    find_rows = partial(_find, find=partial(find, files=candidates), group=group)
    found = backend.distribute(split_evenly(list(candidates), count)).map_partitions(find_rows)
    return moved(found, batches.backend)


def _find(wanted: Iterable[Any], *, find: Callable[..., Iterator[Any]], group: Callable[..., Any]) -> Iterator[Any]:
    return find(group(wanted))


def probe_task_count(backend: Backend, files: Sequence[Any]) -> int:
    """Number of tasks that look up keys in these files."""
    return min(len(files), backend.parallelism * PROBE_TASKS_PER_CORE)
