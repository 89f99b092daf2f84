"""Co-groups the rows of a change with the lake's rows of the same keys, one key range per task."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

from cdclake.lake.merge import tasks
from cdclake.lake.merge.existing_rows import (
    find_existing_rows,
    grouped_by_file,
    keys_by_file,
    keys_of_files,
    sorted_keys,
)
from cdclake.lake.merge.messages import Source
from cdclake.lake.spark.backend import moved, split_evenly
from cdclake.lake.storage.arrow_ipc import to_ipc
from cdclake.lake.storage.key_ranges import candidate_rows, quantiles
from cdclake.lake.storage.keys import LEADING_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cdclake.lake.merge.messages import Batch, SourceRows
    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.spark.backend import Backend, Partitions
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

Stats = TypeVar("Stats")
ROWS_PER_KEY_RANGE = 250_000
BYTES_PER_KEY_RANGE = 256 << 20
"""In memory; a task holds the rows of a key range several times."""
PROBE_TASKS_PER_CORE = 2


def cogroup_by_key(
    backend: Backend,
    batches: Partitions[Batch[Stats]],
    read: ReadStats,
    files: Sequence[DataFile],
    shape: TableShape,
    locations: Locations,
    *,
    complete: bool,
) -> Partitions[SourceRows]:
    """Group rows of a change and the lake's rows of the same keys by key range.

    Args:
        backend: Where to read the data files.
        batches: Rows sorted by leading key.
        read: Statistics of the batches.
        files: Live data files.
        complete: Whether to read all columns of the lake's rows.

    Returns:
        Rows of the change and of the table, where the batches are, each key range in a partition of its own.
    """
    bounds = key_range_bounds(read)
    key_ranges = len(bounds) + 1
    entries = batches.flat_map(partial(tasks.rows_by_key_range, source=Source.CHANGE, bounds=bounds))
    if not files:
        return entries.shuffle(key_ranges)
    find = partial(find_existing_rows, locations=locations, shape=shape, bounds=bounds, complete=complete)
    return entries.shuffle(key_ranges, probe_files(backend, batches, files, shape, find))


def key_range_bounds(read: ReadStats) -> list[KeyValue]:
    """Bounds of the key ranges for some rows."""
    key_ranges = ceil(max(read.rows / ROWS_PER_KEY_RANGE, read.memory_bytes / BYTES_PER_KEY_RANGE, 1))
    return quantiles(read.samples, key_ranges)


def probe_files(
    backend: Backend,
    batches: Partitions[Batch[Stats]],
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
    """
    count = probe_task_count(backend, files)
    if batches.backend is backend:
        wanted = batches.flat_map(partial(keys_by_file, files=files, shape=shape)).shuffle(count)
        find = partial(find, files=dict(enumerate(files)))
        return wanted.map_partitions(partial(_find, find=find, group=grouped_by_file))
    on_driver = batches.collect()
    keys = sorted_keys(on_driver, shape) if on_driver else None
    candidates = {i: files[i] for i, _, _ in candidate_rows(keys[LEADING_KEY], files)} if keys else {}
    if not candidates:
        return batches.backend.distribute([])
    # Each task gets all keys once, and not once for each file.
    group = partial(keys_of_files, keys=to_ipc(keys), files=candidates)
    find_rows = partial(_find, find=partial(find, files=candidates), group=group)
    found = backend.distribute(split_evenly(list(candidates), count)).map_partitions(find_rows)
    return moved(found, batches.backend)


def _find(wanted: Iterable[Any], *, find: Callable[..., Iterator[Any]], group: Callable[..., Any]) -> Iterator[Any]:
    return find(group(wanted))


def probe_task_count(backend: Backend, files: Sequence[Any]) -> int:
    """Number of tasks that look up keys in these files."""
    return min(len(files), backend.parallelism * PROBE_TASKS_PER_CORE)
