"""Loads a full load without a shuffle of its rows: sorted by key, or in the order of the source.

DMS usually unloads a table in the order of its primary key. Then all rows of one slice of a raw file come before those
of the next, and a task can turn a few neighboring slices into data files by itself, with the tightest key ranges.

Text keys such as UUIDs often have no order. Then data files keep the order of the raw files, in which rows that were
inserted together are together, so that later changes of recent rows touch few files. Bloom filters find the keys. Only
hashes of the keys are shuffled, to prove that no key occurs twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.merge_file import MergeSpec, merge
from cdclake.lake.merge.read_changes import ReadStats
from cdclake.lake.merge.repeated_keys import hashes_by_bucket
from cdclake.lake.merge.resolve import in_order, is_last_of_key
from cdclake.lake.raw.quarantine import BadRowCollector
from cdclake.lake.raw.read_ahead import read_all
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.partitions import by_partition
from cdclake.lake.storage.shape import conform
from cdclake.lake.storage.writer import Encodings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.merge.read_changes import Reading
    from cdclake.lake.raw.rows import Slice
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue


def sorted_groups(
    slices: Sequence[Slice],
    *,
    by_key: bool,
    partitioned: bool,
    target_file_bytes: int,
    parallelism: int,
    limits: EngineLimits,
) -> list[list[Slice]] | None:
    """Group slices so that, by the raw files' footers, each group's rows come before the next group's.

    Args:
        slices: All slices of a full load, in file order.
        by_key: Whether to group by key; if not, any order is valid.
        partitioned: Whether the table has partitions. Then there is at most one group: several groups would each write
            a small file to every partition.
        target_file_bytes: Size that data files grow to.
        parallelism: Number of tasks that Spark runs at once.

    Returns:
        The groups, or None if the rows need a shuffle.
    """
    max_bytes, max_memory_bytes = limits.load_task_targets * target_file_bytes, limits.load_task_memory_bytes
    total = sum(part.size_bytes for part in slices)

    def fits(group: Sequence[Slice]) -> bool:
        return _bytes(group) <= max_bytes and sum(part.memory_bytes for part in group) <= max_memory_bytes

    if partitioned:
        return [list(slices)] if slices and total <= target_file_bytes and fits(slices) else None
    runs = _runs(slices) if by_key else [[part] for part in slices]
    if runs is None or not all(map(fits, runs)):
        return None
    count = _task_count(total, target_file_bytes, parallelism, limits.min_load_task_bytes)
    groups: dict[int, list[Slice]] = {}
    done = 0
    for run in runs:
        middle = done + _bytes(run) // 2
        groups.setdefault(min(middle * count // max(total, 1), count - 1), []).extend(run)
        done += _bytes(run)
    return list(groups.values()) if all(map(fits, groups.values())) else None


@dataclass(frozen=True)
class LoadResult:
    """What a task read and wrote.

    Attributes:
        written: Data files; `path` is the staged key.
        is_refused: Whether nothing was written, because rows repeat a key, or need more memory than their footers say.
    """

    read: ReadStats
    written: tuple[DataFile, ...]
    is_refused: bool = False


@dataclass(frozen=True)
class LoadedSlices:
    """A `LoadResult`, and hashes of the keys if the rows kept their order.

    Attributes:
        hashes: See `hashes_by_bucket`.
    """

    result: LoadResult
    hashes: tuple[bytes, ...] = ()


def load_slices(task: Task, slices: Iterable[Slice], *, reading: Reading, buckets: int = 0) -> Iterator[LoadedSlices]:
    """Write the rows of some slices of a full load, one data file per partition.

    Args:
        buckets: Number of buckets for hashes of the keys; 0 to sort the rows by key.
    """
    locations, shape, settings = reading.locations, reading.shape, reading.settings
    raw, lake = locations.raw.open(), locations.lake.open()
    batches: list[pa.Table] = []
    bad_rows = BadRowCollector(settings.max_quarantined_rows)
    unnumbered = (replace(part, unnumbered=True, encoded=True) for part in slices)
    suppressed = memory_bytes = 0
    by_file = Counter[str]()
    for batch in read_all(raw, unnumbered, shape, settings, reading.table, reading.suppression):
        bad_rows.add(batch.bad_rows)
        batches.append(batch.rows)
        memory_bytes += batch.rows.nbytes
        suppressed += batch.suppressed
        by_file.update(batch.by_file)
        if memory_bytes > shape.limits.load_task_memory_bytes:
            yield LoadedSlices(LoadResult(ReadStats(), (), is_refused=True))
            return
    quarantine = bad_rows.write(lake, f"{locations.quarantine}read-{task.number:05d}.jsonl")
    rows = _concat(batches, shape)
    stats = ReadStats(inserts=rows.num_rows, quarantine=quarantine, suppressed=suppressed, by_file=by_file)
    if quarantine.rows > settings.max_quarantined_rows:  # the change will be refused
        yield LoadedSlices(LoadResult(stats, ()))
        return
    if shape.primary_key and not buckets:
        rows = in_order(rows, (LEADING_KEY, KEY))
    if shape.primary_key and _repeats_key(rows, is_sorted=not buckets):
        yield LoadedSlices(LoadResult(stats, (), is_refused=True))
        return
    files: list[DataFile] = []
    encodings = Encodings()
    for number, (partition, part_rows) in enumerate(by_partition(rows, shape.partition_key).parts()):
        key = f"{locations.staging}{task.number:05d}-{number:05d}-{task.attempt}.parquet"
        spec = MergeSpec((), partition, 1, (key,), full_load=True, keeps_order=True)
        files += merge(lake, spec, shape, None, part_rows, encodings=encodings).files
    hashes = hashes_by_bucket(rows[KEY], buckets) if buckets else ()
    yield LoadedSlices(LoadResult(stats, tuple(files)), hashes)


def _concat(batches: list[pa.Table], shape: TableShape) -> pa.Table:
    """Batches as one table. A column whose texts only some batches have encoded is decoded."""
    if not batches:
        return shape.in_flight.empty_table()
    if any(batch.schema != batches[0].schema for batch in batches):
        batches = [conform(batch, shape.in_flight) for batch in batches]
    return pa.concat_tables(batches).unify_dictionaries()


def _repeats_key(rows: pa.Table, *, is_sorted: bool) -> bool:
    if is_sorted:
        return not pc.all(is_last_of_key(rows[KEY].combine_chunks())).as_py()
    return bool(pc.count_distinct(rows[KEY]).as_py() < rows.num_rows)


def _runs(slices: Sequence[Slice]) -> list[list[Slice]] | None:
    """Slices by key, overlapping and touching ones together; None if a key range is unknown."""
    if any(part.key_range[0] is None or part.key_range[1] is None for part in slices):
        return None
    runs: list[list[Slice]] = []
    end: KeyValue = None
    for part in sorted(slices, key=lambda part: part.key_range[0]):  # type: ignore[arg-type, return-value]  # no None
        low, high = part.key_range
        if end is None or low > end:  # type: ignore[operator]  # one kind in a table
            runs.append([])
        runs[-1].append(part)
        end = high if end is None or high > end else end  # type: ignore[operator]  # likewise
    return runs


def _task_count(total_bytes: int, target_file_bytes: int, parallelism: int, min_bytes: int) -> int:
    """One task per data file to write, but enough to keep all cores busy to the end."""
    count = max(ceil(total_bytes / target_file_bytes), min(parallelism, total_bytes // min_bytes), 1)
    return ceil(count / parallelism) * parallelism if count > 1 else 1


def _bytes(slices: Sequence[Slice]) -> int:
    return sum(part.size_bytes for part in slices)
