"""The functions that Spark tasks run. They take and return plain values and Arrow IPC, and do not know Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge import sorted_rows
from cdclake.lake.merge.existing_rows import existing_rows_schema
from cdclake.lake.merge.key_updates import KeyMoves
from cdclake.lake.merge.merge_file import MergeSpec, merge
from cdclake.lake.merge.messages import FileEdit, Source, SourceRows
from cdclake.lake.merge.read_changes import read_rows
from cdclake.lake.merge.resolve import (
    KEPT_AS_DELETED,
    Counts,
    ResolvedBatch,
    resolve,
    resolve_full_load,
    resolve_without_key,
)
from cdclake.lake.merge.rewrite_plan import InsertStatsByPartition, InsertTargets, RewritePlan
from cdclake.lake.merge.sorted_rows import SortedRows, parts_of
from cdclake.lake.merge.unknown_keys import UnknownKeys
from cdclake.lake.raw.quarantine import Quarantine, quarantine_rows
from cdclake.lake.storage.arrow_ipc import concat_ipc, from_ipc, to_ipc
from cdclake.lake.storage.key_ranges import count_by_range, sample_by_bytes, split_at_bounds
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.reader import fetched_together
from cdclake.lake.storage.tombstones import TombstonePlan, find_tombstones, tombstone_schema, write_tombstones
from cdclake.lake.storage.wide_rows import combined, row_bytes, take

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.merge.home_ranges import HomeBounds
    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.read_changes import Locations, Reading, ReadStats
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.partitions import Partition, PartitionedRows
    from cdclake.lake.storage.shape import TableShape
    from cdclake.lake.storage.writer import Encodings
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
        inserts: Statistics of the new rows of each partition, in their order in `additions`.
        deletes: Number of tombstones.
        removals: By file index, see `ResolvedBatch.removals`; as Arrow IPC, as all rows here.
        replacements: Rows by file index.
        additions: New rows, by partition.
        tombstones: Deletes to remember.
        moves: What is known about updates that changed keys.
        unknown: Updates of keys that the table lacks, if they may have changed them.
        needs_values: See `ResolvedBatch.needs_values`.
    """

    counts: Counts
    touched: frozenset[int] = frozenset()
    inserts: InsertStatsByPartition = field(default_factory=InsertStatsByPartition)
    deletes: int = 0
    removals: dict[int, bytes] = field(default_factory=dict)
    replacements: dict[int, bytes] = field(default_factory=dict)
    additions: bytes = b""
    tombstones: bytes = b""
    moves: KeyMoves = KeyMoves()  # noqa: RUF009 - frozen
    unknown: UnknownKeys = UnknownKeys()  # noqa: RUF009 - frozen
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
        touched, inserts = self.touched | other.touched, self.inserts + other.inserts
        needs_values = self.needs_values or other.needs_values
        return Resolution(
            self.counts + other.counts,
            touched,
            inserts,
            self.deletes + other.deletes,
            moves=self.moves + other.moves,
            unknown=self.unknown + other.unknown,
            needs_values=needs_values,
        )


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
    del batches, existing_rows
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


def read_inserts(
    task: Task,
    slices: Iterable[Slice],
    *,
    reading: Reading,
    full_load: bool,
    counting: InsertCounting,
    numbered: bool,
) -> Iterator[Inserts]:
    """Read rows of a full load, or changes of a table without a key. Nothing of the lake is needed to resolve them.

    Args:
        numbered: As for `normalize`.
    """
    shape = reading.shape
    parts = (replace(part, unnumbered=not numbered) for part in slices)
    for stats, rows in read_rows(task, parts, reading):
        resolved = resolve_full_load(rows, shape) if full_load else resolve_without_key(rows, shape.partition_key)
        yield Inserts(stats, to_resolution(resolved, counting))


def resolve_loaded(batch: Batch[ReadStats], *, shape: TableShape, counting: InsertCounting) -> Resolution:
    """Resolve rows of a full load that are read already."""
    return to_resolution(resolve_full_load(from_ipc(batch.rows), shape), counting)


@dataclass(frozen=True)
class InsertCounting:
    """How tasks count new rows for the driver, which plans from the counts alone.

    Attributes:
        home_bounds: See `HomeBounds`.
    """

    home_bounds: HomeBounds
    target_file_bytes: int

    def stats(self, new: PartitionedRows) -> InsertStatsByPartition:
        """Count the new rows of each partition, which are sorted by leading key if there is one."""
        partitions, counts, sizes = list(new.counts), list(new.counts.values()), _memory_bytes(new)
        samples: dict[Partition, tuple[KeyValue, ...]] = {}
        by_range: dict[Partition, dict[int, int]] = {}
        if partitions and LEADING_KEY in new.rows.column_names:
            keys = new.rows[LEADING_KEY].combine_chunks()
            bytes_per_sample = self.target_file_bytes / SAMPLES_PER_FILE
            for number, values in sample_by_bytes(keys, counts, sizes, bytes_per_sample):
                samples[partitions[number]] = tuple(values)
            start = 0
            for partition, count in new.counts.items():
                bounds = self.home_bounds.of(partition)
                if bounds:
                    by_range[partition] = count_by_range(keys.slice(start, count), bounds)
                start += count
        return InsertStatsByPartition(new.counts, dict(zip(partitions, sizes)), samples, by_range)


def to_resolution(resolved: ResolvedBatch, counting: InsertCounting) -> Resolution:
    """Count and serialize the rows of a resolved batch."""
    new = resolved.inserts._replace(rows=combined(resolved.inserts.rows))
    return replace(
        without_stored_rows(resolved),
        touched=frozenset(resolved.removals),
        inserts=counting.stats(new),
        removals={i: to_ipc(rows) for i, rows in resolved.removals.items()},
        replacements={i: to_ipc(rows) for i, rows in resolved.replacements.items()},
        additions=to_ipc(new.rows) if new.counts else b"",
        needs_values=resolved.needs_values,
    )


def _memory_bytes(rows: PartitionedRows) -> list[int]:
    """Size in Arrow of the rows of each partition."""
    if not rows.counts:
        return []
    sums = np.concatenate([[0], np.cumsum(row_bytes(rows.rows))])
    sizes = np.diff(sums[np.concatenate([[0], np.cumsum(list(rows.counts.values()))])])
    scaled: list[int] = np.rint(sizes * (rows.rows.nbytes / sums[-1])).astype(np.int64).tolist()
    return scaled


def without_stored_rows(resolved: ResolvedBatch) -> Resolution:
    """Counts, tombstones, moves and unknown keys of a resolved batch, without the rows that are written and removed."""
    tombstones = resolved.tombstones
    return Resolution(
        resolved.counts,
        deletes=tombstones.num_rows if tombstones else 0,
        tombstones=to_ipc(tombstones) if tombstones else b"",
        moves=resolved.moves,
        unknown=resolved.unknown,
    )


def rows_by_write_task(
    resolution: Resolution, *, plan: RewritePlan, group_of: Sequence[int]
) -> Iterator[tuple[int, FileEdit]]:
    """Send rows to the tasks that write them, and those of small tasks together.

    Args:
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
    if resolution.additions:
        yield from _additions(resolution, plan, group_of)
    if resolution.tombstones:
        task = len(plan.tasks)
        rows_count = from_ipc(resolution.tombstones).num_rows
        yield group_of[task], FileEdit(((task, rows_count),), rows=resolution.tombstones)


def _additions(resolution: Resolution, plan: RewritePlan, group_of: Sequence[int]) -> Iterator[tuple[int, FileEdit]]:
    rows = from_ipc(resolution.additions)
    pieces = list(_pieces(rows, resolution.inserts.rows, plan))
    if any(group_of[before[0]] > group_of[after[0]] for before, after in zip(pieces, pieces[1:])):
        groups = np.repeat([group_of[task] for task, _ in pieces], [count for _, count in pieces])
        rows = take(rows, pa.array(np.argsort(groups, kind="stable")))
        pieces.sort(key=lambda piece: group_of[piece[0]])
    start = 0
    for group, counts in groupby(pieces, lambda piece: group_of[piece[0]]):
        own_counts = tuple(counts)
        size = sum(count for _, count in own_counts)
        yield group, FileEdit(own_counts, rows=to_ipc(rows.slice(start, size)))
        start += size


def _pieces(rows: pa.Table, counts: Mapping[Partition, int], plan: RewritePlan) -> Iterator[tuple[int, int]]:
    """Numbers of tasks, each with its number of consecutive rows.

    Args:
        counts: Number of rows of each partition.
    """
    start = 0
    for partition, count in counts.items():
        targets = plan.insert_targets[partition]
        if len(targets.tasks) == 1:  # quicker for thousands of partitions
            yield targets.tasks[0], count
        else:
            for task, part in split_by_task(rows.slice(start, count), targets):
                yield task, part.num_rows
        start += count


def split_by_task(rows: pa.Table, targets: InsertTargets) -> Iterator[tuple[int, pa.Table]]:
    """Rows of a batch by number of the task that writes them.

    Args:
        rows: Rows, sorted by leading key if there is one.
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
                yield targets.tasks[i], part


class TaskEdits(NamedTuple):
    """What one task removes from data files, and adds to them.

    Attributes:
        removals: See `ResolvedBatch.removals`.
        rows: Rows to write; None for none.
    """

    removals: Sequence[pa.Table] = ()
    rows: pa.Table | SortedRows | None = None


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

    def bases(self, task: Task) -> tuple[DataFile, ...]:
        """The data files that a task replaces, `path` being the object key."""
        files = (self.files[i] for i in self.plan.tasks[task.number].bases)
        return tuple(replace(file, path=self.locations.layout.data_key(file.path)) for file in files)


def edits_by_task(edits: Iterable[FileEdit]) -> dict[int, TaskEdits]:
    """What each task removes and adds, given the edits of a group of tasks."""
    removals: dict[int, list[pa.Table]] = defaultdict(list)
    rows: list[tuple[FileEdit, pa.Table]] = []
    on_disk: dict[int, SortedRows] = defaultdict(lambda: SortedRows(max_bytes=0))
    size_bytes = 0
    for edit in edits:
        if edit.removals:
            removals[edit.counts[0][0]].append(from_ipc(edit.removals))
            continue
        rows.append((edit._replace(rows=b""), from_ipc(edit.rows)))
        size_bytes += rows[-1][1].nbytes
        while size_bytes > sorted_rows.MAX_BYTES and rows:
            for task, part in _by_task(*rows.pop()):
                on_disk[task].add(part)
    added: Mapping[int, pa.Table | SortedRows] = on_disk or dict(_rows_by_number(rows))
    return {number: TaskEdits(removals[number], added.get(number)) for number in {*removals, *added}}


def _by_task(edit: FileEdit, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    start = 0
    for task, count in edit.counts:
        yield task, rows.slice(start, count)
        start += count


def _rows_by_number(edits: Sequence[tuple[FileEdit, pa.Table]]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each task, sorted by leading key if there is one.

    Cutting rows costs more than sorting them, if the pieces are many and small, and so does sorting them by themselves.
    """
    if not edits:
        return
    rows = pa.concat_tables([table for _, table in edits])
    pieces = [piece for edit, _ in edits for piece in edit.counts]
    numbers = np.repeat([task for task, _ in pieces], [count for _, count in pieces])
    if (numbers != numbers[0]).any():
        columns = {"number": numbers, **({LEADING_KEY: rows[LEADING_KEY]} if LEADING_KEY in rows.column_names else {})}
        order = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])
        rows, numbers = take(rows, order), numbers[order.to_numpy()]
    tasks, starts = np.unique(numbers, return_index=True)
    for task, start, end in zip(tasks.tolist(), starts.tolist(), [*starts[1:].tolist(), len(numbers)]):
        yield task, rows.slice(start, end - start)


def write_files(
    fs: FileSystem, task: Task, edits: TaskEdits, *, context: WriteContext, encodings: Encodings
) -> WriteResult:
    """Write the files of one task of the rewrite.

    Args:
        encodings: Shared with other tasks of the rewrite.
    """
    locations, shape = context.locations, context.shape
    if task.number == len(context.plan.tasks):
        key = f"{locations.tombstones}-{task.attempt}.parquet"
        new = pa.concat_tables([tombstone_schema(shape).empty_table(), *(parts_of(edits.rows) if edits.rows else ())])
        file, forgotten = write_tombstones(fs, key, context.tombstone_plan, new, shape)
        return WriteResult(tombstones=(file,), forgotten=forgotten)
    removed, soft_deleted = removed_keys(edits.removals, shape)
    file_count = context.plan.tasks[task.number].file_count
    added = edits.rows or shape.in_flight.empty_table()
    source = fetched_together(fs, context.bases(task))
    return rewrite_files(fs, task, context, removed, added, soft_deleted, file_count, source, encodings)


def rewrite_files(
    fs: FileSystem,
    task: Task,
    context: WriteContext,
    removed: pa.Table | None,
    added: pa.Table | SortedRows,
    soft_deleted: pa.Table | None,
    file_count: int,
    source: FileSystem,
    encodings: Encodings | None = None,
) -> WriteResult:
    """Write the data files of a task without removed rows and with added ones, see `merge`."""
    locations, shape = context.locations, context.shape
    target, bases = context.plan.tasks[task.number], context.bases(task)
    spec = MergeSpec(
        bases=bases,
        partition=target.partition,
        file_count=file_count,
        staged_keys=tuple(
            f"{locations.staging}{task.number:05d}-{file:03d}-{task.attempt}.parquet" for file in range(file_count)
        ),
        full_load=context.full_load,
        repeated=context.repeated,
        purge_soft_deleted=not shape.soft_delete and any(base.deleted for base in bases),
    )
    merged = merge(fs, spec, shape, removed, added, soft_deleted, source, encodings)
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
