"""The functions that Spark tasks run. They take and return plain values and Arrow IPC, and do not know Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.existing_rows import existing_rows_schema
from cdclake.lake.merge.key_updates import KeyMoves
from cdclake.lake.merge.merge_file import MergeSpec, merge
from cdclake.lake.merge.messages import FileEdit, Source, SourceRows
from cdclake.lake.merge.resolve import (
    KEPT_AS_DELETED,
    Counts,
    ResolvedBatch,
    resolve,
    resolve_without_key,
)
from cdclake.lake.merge.rewrite_plan import InsertStats, InsertTargets, RewritePlan
from cdclake.lake.raw.quarantine import Quarantine, quarantine_rows
from cdclake.lake.storage.arrow_ipc import concat_ipc, from_ipc, to_ipc
from cdclake.lake.storage.key_ranges import count_by_range, sample_by_bytes, split_at_bounds
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.partitions import by_partition
from cdclake.lake.storage.tombstones import TombstonePlan, find_tombstones, tombstone_schema, write_tombstones
from cdclake.lake.storage.wide_rows import combined, row_bytes, take

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyarrow.fs import FileSystem

    from cdclake.lake.merge.home_ranges import HomeBounds
    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.partitions import Partition
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile

SAMPLES_PER_FILE = 16
"""Keys of new rows that the driver gets for each data file to write, so that it can split them evenly."""


def rows_by_key_range(
    batch: Batch[Any], *, source: Source, bounds: Sequence[KeyValue]
) -> Iterator[tuple[int, SourceRows]]:
    """The rows of a batch by key range, so that one task gets all rows of a key."""
    if not bounds:
        yield 0, SourceRows(source, batch.rows)
        return
    for key_range, rows in split_at_bounds(from_ipc(batch.rows), bounds):
        yield key_range, SourceRows(source, to_ipc(rows))


def rows_by_source(entries: Iterable[SourceRows]) -> dict[Source, list[bytes]]:
    """The rows of each source."""
    by_source: dict[Source, list[bytes]] = {source: [] for source in Source}
    for source, rows in entries:
        by_source[source].append(rows)
    return by_source


@dataclass(frozen=True)
class Resolution:
    """A `ResolvedBatch` as it travels between tasks: counts for the driver, rows for the writers.

    Attributes:
        touched: Indices of the data files that lose rows.
        inserts: Statistics of the new rows of each partition.
        deletes: Number of tombstones.
        removals: By file index, see `ResolvedBatch.removals`; as Arrow IPC, as all rows here.
        replacements: Rows by file index.
        additions: New rows.
        tombstones: Deletes to remember.
        moves: What is known about updates that changed keys.
        needs_values: See `ResolvedBatch.needs_values`.
    """

    counts: Counts
    touched: frozenset[int] = frozenset()
    inserts: dict[Partition, InsertStats] = field(default_factory=dict)
    deletes: int = 0
    removals: dict[int, bytes] = field(default_factory=dict)
    replacements: dict[int, bytes] = field(default_factory=dict)
    additions: bytes = b""
    tombstones: bytes = b""
    moves: KeyMoves = KeyMoves()  # noqa: RUF009 - frozen
    needs_values: bool = False

    def summary(self) -> Resolution:
        """The same without rows, and without most of the moves: those of which the rest consists are rare."""
        return replace(
            self,
            removals={},
            replacements={},
            additions=b"",
            tombstones=b"",
            moves=replace(self.moves, displacing=frozenset()),
        )

    def __add__(self, other: Resolution) -> Resolution:
        """Add two summaries."""
        inserts = dict(self.inserts)
        for partition, stats in other.inserts.items():
            inserts[partition] = inserts[partition] + stats if partition in inserts else stats
        touched = self.touched | other.touched
        needs_values = self.needs_values or other.needs_values
        deletes, moves = self.deletes + other.deletes, self.moves + other.moves
        counts = self.counts + other.counts
        return Resolution(counts, touched, inserts, deletes, moves=moves, needs_values=needs_values)


def resolve_key_range(
    entries: Iterable[SourceRows],
    *,
    locations: Locations,
    shape: TableShape,
    tombstones: Sequence[TombstoneFile],
    forgotten: str,
    overlap_end: str,
    counting: InsertCounting,
    complete: bool,
) -> Iterator[Resolution]:
    """Resolve all rows of one key range.

    Args:
        entries: Rows of the change, and the table's rows of the same keys.
        complete: Whether the lake's rows have all columns.
        forgotten: See `Snapshot.forgotten`.
        overlap_end: See `resolve`.
        counting: How to count the new rows.
    """
    batches = rows_by_source(entries)
    if not batches[Source.CHANGE]:
        return
    rows = concat_ipc(batches[Source.CHANGE], shape.in_flight)
    existing_rows = concat_ipc(batches[Source.TABLE], existing_rows_schema(shape, complete=complete))
    remembered = find_tombstones(locations.lake.open(), tombstones, rows[LEADING_KEY], rows[KEY], shape)
    resolved = resolve(rows, existing_rows, remembered, shape, forgotten=forgotten, overlap_end=overlap_end)
    yield to_resolution(resolved, counting)


@dataclass(frozen=True)
class Inserts:
    """What is inserted of a batch, and the statistics of its rows."""

    stats: ReadStats
    resolution: Resolution

    def summary(self) -> Inserts:
        """The same without rows."""
        return Inserts(self.stats, self.resolution.summary())

    def __add__(self, other: Inserts) -> Inserts:
        """Add two summaries."""
        return Inserts(self.stats + other.stats, self.resolution + other.resolution)


def resolve_inserts(
    batch: Batch[ReadStats], *, shape: TableShape, full_load: bool, counting: InsertCounting
) -> Inserts:
    """Resolve rows without reading the lake: those of a full load, or changes of a table without a key."""
    rows = from_ipc(batch.rows)
    if full_load:
        counts = Counts(applied=rows.num_rows, inserted=rows.num_rows)
        resolved = ResolvedBatch(counts, inserts=dict(by_partition(rows, shape.partition_key)))
    else:
        resolved = resolve_without_key(rows, shape.partition_key)
    return Inserts(batch.stats, to_resolution(resolved, counting))


@dataclass(frozen=True)
class InsertCounting:
    """How tasks count new rows for the driver, which plans from the counts alone.

    Attributes:
        home_bounds: See `HomeBounds`.
    """

    home_bounds: HomeBounds
    target_file_bytes: int

    def stats(self, partition: Partition, rows: pa.Table, memory_bytes: int) -> InsertStats:
        """Count a partition's new rows, which are sorted by leading key if there is one."""
        if LEADING_KEY not in rows.column_names:
            return InsertStats(rows.num_rows, memory_bytes)
        keys, bounds = rows[LEADING_KEY].combine_chunks(), self.home_bounds.of(partition)
        samples = sample_by_bytes(keys, memory_bytes, self.target_file_bytes / SAMPLES_PER_FILE)
        by_range = count_by_range(keys, bounds) if bounds else {}
        return InsertStats(rows.num_rows, memory_bytes, tuple(samples), by_range)


def to_resolution(resolved: ResolvedBatch, counting: InsertCounting) -> Resolution:
    """Count and serialize the rows of a resolved batch."""
    # Of thousands of partitions with a few rows each: Arrow takes its time for each piece that it measures or sends.
    new = combined(pa.concat_tables(resolved.inserts.values())) if resolved.inserts else None
    parts = zip(resolved.inserts.items(), _memory_bytes(new, [rows.num_rows for rows in resolved.inserts.values()]))
    return replace(
        without_stored_rows(resolved),
        touched=frozenset(resolved.removals),
        inserts={partition: counting.stats(partition, rows, size) for (partition, rows), size in parts},
        removals={i: to_ipc(rows) for i, rows in resolved.removals.items()},
        replacements={i: to_ipc(rows) for i, rows in resolved.replacements.items()},
        additions=to_ipc(new) if new else b"",
        needs_values=resolved.needs_values,
    )


def _memory_bytes(rows: pa.Table | None, counts: Sequence[int]) -> list[int]:
    """Size in Arrow of consecutive parts of rows.

    Args:
        counts: Number of rows of each part.
    """
    if not rows:
        return [0] * len(counts)
    sums = np.concatenate([[0], np.cumsum(row_bytes(rows))])
    sizes = np.diff(sums[np.concatenate([[0], np.cumsum(counts)])])
    scaled: list[int] = np.rint(sizes * (rows.nbytes / sums[-1])).astype(np.int64).tolist()
    return scaled


def without_stored_rows(resolved: ResolvedBatch) -> Resolution:
    """Counts, tombstones and moves of a resolved batch, without the rows that are written and removed."""
    tombstones = resolved.tombstones
    return Resolution(
        resolved.counts,
        deletes=tombstones.num_rows if tombstones else 0,
        tombstones=to_ipc(tombstones) if tombstones else b"",
        moves=resolved.moves,
    )


def rows_by_write_task(
    resolution: Resolution, *, plan: RewritePlan, shape: TableShape, group_of: Sequence[int]
) -> Iterator[tuple[int, FileEdit]]:
    """Send rows to the tasks that write them, and those of small tasks together.

    Args:
        shape: The rows' shape.
        group_of: Number of the group of each task.

    Yields:
        Number of the group, and rows; tombstones go to the task after the plan's last.
    """
    for i, keys in resolution.removals.items():
        task = plan.task_of_file[i]
        yield group_of[task], FileEdit(((task, 0),), removals=keys)
    for i, rows in resolution.replacements.items():
        task = plan.task_of_file[i]
        yield group_of[task], FileEdit(((task, from_ipc(rows).num_rows),), rows=rows)
    yield from _additions(resolution.additions, plan, shape, group_of)
    if resolution.tombstones:
        task = len(plan.tasks)
        rows_count = from_ipc(resolution.tombstones).num_rows
        yield group_of[task], FileEdit(((task, rows_count),), rows=resolution.tombstones)


def _additions(
    additions: bytes, plan: RewritePlan, shape: TableShape, group_of: Sequence[int]
) -> Iterator[tuple[int, FileEdit]]:
    parts: dict[int, list[tuple[int, pa.Table]]] = defaultdict(list)
    rows = from_ipc(additions) if additions else shape.in_flight.empty_table()
    for ordinal, (partition, part) in enumerate(by_partition(rows, shape.partition_key)):
        for task, piece in split_by_task(part, plan.insert_targets[partition], ordinal):
            parts[group_of[task]].append((task, piece))
    for group, pieces in parts.items():
        together = combined(pa.concat_tables([piece for _, piece in pieces]))
        yield group, FileEdit(tuple((task, piece.num_rows) for task, piece in pieces), rows=to_ipc(together))


def split_by_task(rows: pa.Table, targets: InsertTargets, ordinal: int = 0) -> Iterator[tuple[int, pa.Table]]:
    """Rows of a batch by number of the task that writes them.

    Args:
        rows: Rows, sorted by leading key if there is one.
        ordinal: Number of the batch, if the table has no key: the tasks take rows in turn.
    """
    if len(targets.tasks) == 1:
        yield targets.tasks[0], rows
    elif targets.bounds:
        for key_range, part in split_at_bounds(rows, targets.bounds):
            yield targets.tasks[key_range], part
    else:
        size = -(-rows.num_rows // len(targets.tasks))
        for i in range(len(targets.tasks)):
            part = rows.slice(i * size, size)
            if part.num_rows:
                yield targets.tasks[(i + ordinal) % len(targets.tasks)], part


class TaskEdits(NamedTuple):
    """What one task removes from data files, and adds to them.

    Attributes:
        removals: See `ResolvedBatch.removals`.
        rows: Rows to write; None for none.
    """

    removals: Sequence[pa.Table] = ()
    rows: pa.Table | None = None


@dataclass(frozen=True)
class WriteResult:
    """What a task wrote.

    Attributes:
        files: Data files; `path` is the staged key.
        tombstones: A tombstone file.
        forgotten: Greatest position of a tombstone that it dropped; empty if it dropped none.
    """

    files: tuple[DataFile, ...] = ()
    tombstones: tuple[TombstoneFile, ...] = ()
    forgotten: str = ""
    quarantine: Quarantine = Quarantine()  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class WriteContext:
    """What all tasks of a rewrite share.

    Attributes:
        plan: The rewrite's tasks.
        tombstone_plan: The plan for the tombstone files; the task after the plan's last executes it.
        files: The data files that the tasks replace, by index.
        full_load: Whether the rows are a full load's.
        max_bad_rows: Number of bad rows that the change may quarantine.
        repeated: See `MergeSpec.repeated`.
    """

    plan: RewritePlan
    tombstone_plan: TombstonePlan
    files: Mapping[int, DataFile]
    shape: TableShape
    locations: Locations
    full_load: bool
    max_bad_rows: int
    repeated: frozenset[str] = frozenset()


def edits_by_task(edits: Iterable[FileEdit]) -> dict[int, TaskEdits]:
    """What each task removes and adds, given the edits of a group of tasks."""
    removals: dict[int, list[pa.Table]] = defaultdict(list)
    tables: list[pa.Table] = []
    numbers: list[NDArray[np.int64]] = []
    for edit in edits:
        tasks, counts = zip(*edit.counts)
        if edit.removals:
            removals[tasks[0]].append(from_ipc(edit.removals))
        else:
            tables.append(from_ipc(edit.rows))
            numbers.append(np.repeat(tasks, counts))
    rows = dict(_rows_by_number(tables, np.concatenate(numbers))) if tables else {}
    return {number: TaskEdits(removals[number], rows.get(number)) for number in {*removals, *rows}}


def _rows_by_number(tables: Sequence[pa.Table], numbers: NDArray[np.int64]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each number. Cutting rows costs more than sorting them, if the pieces are many and small."""
    rows = pa.concat_tables(tables)
    if (numbers != numbers[0]).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = take(rows, pa.array(order)), numbers[order]
    tasks, starts = np.unique(numbers, return_index=True)
    for task, start, end in zip(tasks.tolist(), starts.tolist(), [*starts[1:].tolist(), len(numbers)]):
        yield task, rows.slice(start, end - start)


def write_files(task: Task, edits: TaskEdits, *, context: WriteContext) -> WriteResult:
    """Write the files of one task of the rewrite."""
    locations, shape = context.locations, context.shape
    fs = locations.lake.open()
    if task.number == len(context.plan.tasks):
        key = f"{locations.tombstones}-{task.attempt}.parquet"
        new = edits.rows or tombstone_schema(shape).empty_table()
        file, forgotten = write_tombstones(fs, key, context.tombstone_plan, new, shape)
        return WriteResult(tombstones=(file,), forgotten=forgotten)
    removed, soft_deleted = removed_keys(edits.removals, shape)
    file_count = context.plan.tasks[task.number].file_count
    added = edits.rows or shape.in_flight.empty_table()
    return rewrite_files(fs, task, context, removed, added, soft_deleted, file_count)


def rewrite_files(
    fs: FileSystem,
    task: Task,
    context: WriteContext,
    removed: pa.Table | None,
    added: pa.Table,
    soft_deleted: pa.Table | None,
    file_count: int,
) -> WriteResult:
    """Write the data files of a task without removed rows and with added ones, see `merge`."""
    locations, shape = context.locations, context.shape
    target = context.plan.tasks[task.number]
    bases = [context.files[i] for i in target.bases]
    spec = MergeSpec(
        bases=tuple(replace(base, path=locations.table_prefix + base.path) for base in bases),
        partition=target.partition,
        file_count=file_count,
        staged_keys=tuple(
            f"{locations.staging}{task.number:05d}-{file:03d}-{task.attempt}.parquet" for file in range(file_count)
        ),
        full_load=context.full_load,
        repeated=context.repeated,
        purge_soft_deleted=not shape.soft_delete and any(base.deleted for base in bases),
    )
    merged = merge(fs, spec, shape, removed, added, soft_deleted)
    quarantine_key = f"{locations.quarantine}write-{task.number:05d}.jsonl"
    quarantine = quarantine_rows(fs, quarantine_key, merged.duplicates, context.max_bad_rows)
    return WriteResult(merged.files, quarantine=quarantine)


def removed_keys(removals: Sequence[pa.Table], shape: TableShape) -> tuple[pa.Table | None, pa.Table | None]:
    """Leading keys and keys of rows to remove from their files, and of rows to soft-delete there.

    Args:
        removals: See `ResolvedBatch.removals`.
    """
    if not removals:
        return None, None
    keys = pa.concat_tables(removals)
    if not shape.soft_delete:
        return keys, None
    return keys.filter(pc.invert(keys[KEPT_AS_DELETED])), keys.filter(keys[KEPT_AS_DELETED])
