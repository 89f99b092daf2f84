"""The functions that Spark tasks run. They take and return plain values and Arrow IPC, and do not know Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.key_updates import KeyMoves
from cdclake.lake.merge.merge_file import MergeSpec, merge
from cdclake.lake.merge.resolve import (
    FILE_INDEX,
    KEPT_AS_DELETED,
    PARTITION_ID,
    SOFT_DELETED,
    Counts,
    ResolvedBatch,
    resolve,
    resolve_without_key,
)
from cdclake.lake.merge.rewrite_plan import InsertStats, InsertTargets, RewritePlan
from cdclake.lake.raw.parquet import BATCH_BYTES, BATCH_ROWS
from cdclake.lake.raw.quarantine import BadRowCollector, Quarantine, quarantine_rows
from cdclake.lake.raw.read_ahead import read_all
from cdclake.lake.storage.arrow_ipc import concat_ipc, from_ipc, to_ipc
from cdclake.lake.storage.bloom import filtered_column, row_group_filter
from cdclake.lake.storage.key_ranges import (
    candidate_rows,
    count_by_range,
    overlapping_files,
    sample,
    sample_by_bytes,
    split_at_bounds,
)
from cdclake.lake.storage.keys import KEY, LEADING_KEY, matches
from cdclake.lake.storage.partitions import by_partition, partition_id
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import TableShape, is_deleted
from cdclake.lake.storage.tombstones import TombstonePlan, find_tombstones, tombstone_schema, write_tombstones
from cdclake.lake.storage.types import arrow_schema
from cdclake.lake.storage.wide_rows import take
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.raw.rows import ReadBatch
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile
    from cdclake.model.table import TableName, TableSettings

SAMPLES_PER_BATCH = 64
SAMPLES_PER_FILE = 16
"""Keys of new rows that the driver gets for each data file to write, so that it can split them evenly."""


@dataclass(frozen=True)
class ReadStats:
    """Statistics of one batch of rows, or the sum of several.

    Attributes:
        inserts: Number of good rows with this operation; likewise updates and deletes.
        derived: Number of deletes that are not in the raw files: those of the old keys of updates.
        memory_bytes: Size of the rows in Arrow.
        samples: Some leading keys, ascending.
        quarantine: Bad rows.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    derived: int = 0
    memory_bytes: int = 0
    samples: tuple[KeyValue, ...] = ()
    quarantine: Quarantine = Quarantine()  # noqa: RUF009 - frozen

    @property
    def rows(self) -> int:
        """Number of rows to resolve."""
        return self.inserts + self.updates + self.deletes

    def __add__(self, other: ReadStats) -> ReadStats:
        samples = tuple(sorted(self.samples + other.samples))  # type: ignore[type-var]  # one kind in a table
        return ReadStats(
            self.inserts + other.inserts,
            self.updates + other.updates,
            self.deletes + other.deletes,
            self.derived + other.derived,
            self.memory_bytes + other.memory_bytes,
            samples,
            self.quarantine + other.quarantine,
        )


@dataclass(frozen=True)
class Locations:
    """Where tasks read and write.

    Attributes:
        raw: The raw bucket.
        lake: The lake bucket.
        table_prefix: Folder of the table's data files in the lake bucket.
        staging: Folder for new data files.
        tombstones: Object key of the new tombstone file, without its suffix.
        quarantine: Folder for bad rows.
    """

    raw: FileSystemSpec
    lake: FileSystemSpec
    table_prefix: str
    staging: str
    tombstones: str
    quarantine: str


def read_slices(
    task: int,
    groups: Iterable[Sequence[Slice]],
    *,
    locations: Locations,
    shape: TableShape,
    settings: TableSettings,
    table: TableName,
) -> Iterator[tuple[ReadStats, bytes]]:
    """Read raw files into batches of rows, each sorted by leading key, and quarantine bad rows."""
    raw = locations.raw.open()
    pending: list[ReadBatch] = []
    pending_rows = pending_bytes = 0
    bad_rows = BadRowCollector(settings.max_quarantined_rows)
    for batch in read_all(raw, chain.from_iterable(groups), shape, settings, table):
        bad_rows.add(batch.bad_rows)
        pending.append(batch)
        pending_rows += batch.rows.num_rows
        pending_bytes += batch.rows.nbytes
        if pending_rows >= BATCH_ROWS or pending_bytes >= BATCH_BYTES:
            yield _combine(pending, shape)
            pending, pending_rows, pending_bytes = [], 0, 0
    if any(batch.rows.num_rows for batch in pending):
        yield _combine(pending, shape)
    quarantine = bad_rows.write(locations.lake.open(), f"{locations.quarantine}read-{task:05d}.jsonl")
    if quarantine.rows:
        yield ReadStats(quarantine=quarantine), to_ipc(shape.in_flight.empty_table())


def _combine(batches: list[ReadBatch], shape: TableShape) -> tuple[ReadStats, bytes]:
    rows = pa.concat_tables([batch.rows for batch in batches]).combine_chunks()
    if shape.primary_key:
        rows = take(rows, pc.sort_indices(rows, [(LEADING_KEY, "ascending")]))
    updates = pc.sum(pc.equal(rows[OP_COLUMN], UPDATE)).as_py() or 0
    deletes = pc.sum(pc.equal(rows[OP_COLUMN], DELETE)).as_py() or 0
    stats = ReadStats(
        inserts=rows.num_rows - updates - deletes,
        updates=updates,
        deletes=deletes,
        derived=sum(batch.derived for batch in batches),
        memory_bytes=rows.nbytes,
        samples=tuple(sample(rows[LEADING_KEY], SAMPLES_PER_BATCH)) if shape.primary_key else (),
    )
    return stats, to_ipc(rows)


def keys_by_file(batch: tuple[ReadStats, bytes], *, files: Sequence[DataFile]) -> Iterator[tuple[int, bytes]]:
    """The keys of a batch by index of each data file that may contain them."""
    rows = from_ipc(batch[1]).select([LEADING_KEY, KEY])
    for i, start, end in candidate_rows(rows[LEADING_KEY].combine_chunks(), files):
        yield i, to_ipc(rows.slice(start, end - start))


def grouped_by_file(wanted: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, pa.Table]]:
    """The keys of `keys_by_file` of several batches, file by file."""
    by_file: dict[int, list[bytes]] = defaultdict(list)
    for i, data in wanted:
        by_file[i].append(data)
    for i, batches in by_file.items():
        yield i, concat_ipc(batches, pa.schema([]))


def sorted_keys(batches: Iterable[tuple[ReadStats, bytes]]) -> pa.Table:
    """The leading keys and keys of batches, at least one, in one table sorted by leading key."""
    keys = pa.concat_tables([from_ipc(data).select([LEADING_KEY, KEY]) for _, data in batches])
    return keys.take(pc.sort_indices(keys, [(LEADING_KEY, "ascending")])).combine_chunks()


def keys_of_files(indices: Iterable[int], *, keys: bytes, files: Sequence[DataFile]) -> Iterator[tuple[int, pa.Table]]:
    """The keys that each data file may contain.

    Args:
        indices: Indices of the files.
        keys: `sorted_keys`.
    """
    rows = from_ipc(keys)
    for i in indices:
        for _, start, end in candidate_rows(rows[LEADING_KEY], [files[i]]):
            yield i, rows.slice(start, end - start)


def rows_by_key_range(batch: tuple[ReadStats, bytes], *, bounds: Sequence[KeyValue]) -> Iterator[tuple[int, bytes]]:
    """The rows of a batch by key range, so that one task gets all rows of a key."""
    if not bounds:
        yield 0, batch[1]
        return
    for key_range, rows in split_at_bounds(from_ipc(batch[1]), bounds):
        yield key_range, to_ipc(rows)


def find_existing_rows(
    wanted: Iterable[tuple[int, pa.Table]],
    *,
    locations: Locations,
    shape: TableShape,
    files: Sequence[DataFile],
    bounds: Sequence[KeyValue],
    complete: bool,
) -> Iterator[tuple[int, bytes]]:
    """Look up keys in data files. Unless `complete`, only key columns and positions are read.

    Where the key ranges of files overlap and the keys are few, Bloom filters rule out files.

    Args:
        wanted: Index of a data file, and the leading keys and keys to look up in it.
        complete: Whether to read all columns.

    Yields:
        Key range, as in `rows_by_key_range`, and the existing rows, see `existing_rows_schema`.
    """
    fs = locations.lake.open()
    columns = None if complete else [*shape.key_columns_stored(), POSITION]
    overlapping = overlapping_files(files) if filtered_column(shape) else frozenset()
    for i, wanted_rows in wanted:
        keys = pc.unique(wanted_rows[KEY])
        row_groups = row_group_filter(shape, keys, wanted_rows[LEADING_KEY]) if i in overlapping else None
        file_columns = [*columns, OP_COLUMN] if columns and files[i].deleted else columns
        path = locations.table_prefix + files[i].path
        stored = read_batches(fs, path, shape, file_columns, row_groups=row_groups)
        matching = [_existing_rows(batch, i, files[i], shape, keys, complete=complete) for batch in stored]
        # A file may have no row groups.
        found = pa.concat_tables([existing_rows_schema(shape, complete=complete).empty_table(), *matching])
        rows = take(found, pc.sort_indices(found, [(LEADING_KEY, "ascending")])).combine_chunks()
        for key_range, part in split_at_bounds(rows, bounds):
            yield key_range, to_ipc(part)


def _existing_rows(
    batch: pa.Table, i: int, file: DataFile, shape: TableShape, keys: pa.Array, *, complete: bool
) -> pa.Table:
    rows = batch.filter(matches(shape.key_of(batch, file.partition), keys))
    leading_key, key = shape.keys_of(rows, file.partition)
    columns = {
        LEADING_KEY: leading_key,
        KEY: key,
        POSITION: rows[POSITION],
        FILE_INDEX: pa.repeat(pa.scalar(i, pa.int32()), rows.num_rows),
        PARTITION_ID: pa.repeat(partition_id(file.partition), rows.num_rows),
        SOFT_DELETED: is_deleted(rows) if file.deleted else pa.repeat(False, rows.num_rows),
    }
    if complete:
        columns.update(shape.source_columns(rows, file.partition))
    return pa.table(columns, schema=existing_rows_schema(shape, complete=complete))


def existing_rows_schema(shape: TableShape, *, complete: bool) -> pa.Schema:
    """Schema of rows that the lake already has.

    Leading key, key, position, file index, partition id, whether the row is soft-deleted, and, if `complete`, all
    source columns.
    """
    added = [pa.field(FILE_INDEX, pa.int32()), pa.field(PARTITION_ID, pa.string()), pa.field(SOFT_DELETED, pa.bool_())]
    return pa.schema([*tombstone_schema(shape), *added, *(arrow_schema(shape.schema) if complete else [])])


@dataclass(frozen=True)
class Resolution:
    """A `ResolvedBatch` as it travels between tasks: counts for the driver, rows for the writers.

    Attributes:
        touched: Indices of the data files that lose rows.
        inserts: Statistics of the new rows of each partition.
        deletes: Number of tombstones.
        removals: `(file index, keys)`, see `ResolvedBatch.removals`.
        replacements: `(file index, rows)`.
        additions: `(partition, rows)`.
        tombstones: Deletes to remember, as Arrow IPC.
        moves: What is known about updates that changed keys.
        needs_values: See `ResolvedBatch.needs_values`.
    """

    counts: Counts
    touched: frozenset[int] = frozenset()
    inserts: dict[Partition, InsertStats] = field(default_factory=dict)
    deletes: int = 0
    removals: tuple[tuple[int, bytes], ...] = ()
    replacements: tuple[tuple[int, bytes], ...] = ()
    additions: tuple[tuple[Partition, bytes], ...] = ()
    tombstones: bytes = b""
    moves: KeyMoves = KeyMoves()  # noqa: RUF009 - frozen
    needs_values: bool = False

    def summary(self) -> Resolution:
        """The same without rows."""
        return Resolution(self.counts, self.touched, self.inserts, self.deletes, needs_values=self.needs_values)

    def __add__(self, other: Resolution) -> Resolution:
        """Add two summaries."""
        inserts = dict(self.inserts)
        for partition, stats in other.inserts.items():
            inserts[partition] = inserts[partition] + stats if partition in inserts else stats
        touched = self.touched | other.touched
        needs_values = self.needs_values or other.needs_values
        deletes = self.deletes + other.deletes
        return Resolution(self.counts + other.counts, touched, inserts, deletes, needs_values=needs_values)


def resolve_key_range(
    entries: Iterable[tuple[int, tuple[bool, bytes]]],
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
        entries: `(key range, (whether the rows are the lake's, rows))`.
        complete: Whether the lake's rows have all columns.
        forgotten: See `Snapshot.forgotten`.
        overlap_end: See `resolve`.
        counting: How to count the new rows.
    """
    batches: dict[bool, list[bytes]] = {True: [], False: []}
    for _, (from_lake, data) in entries:
        batches[from_lake].append(data)
    if not batches[False]:
        return
    rows = concat_ipc(batches[False], shape.in_flight)
    existing_rows = concat_ipc(batches[True], existing_rows_schema(shape, complete=complete))
    remembered = find_tombstones(locations.lake.open(), tombstones, rows[LEADING_KEY], rows[KEY], shape)
    resolved = resolve(rows, existing_rows, remembered, shape, forgotten=forgotten, overlap_end=overlap_end)
    yield to_resolution(resolved, counting)


def resolve_inserts(data: bytes, *, shape: TableShape, full_load: bool, counting: InsertCounting) -> Resolution:
    """Resolve rows without reading the lake: those of a full load, or changes of a table without a key."""
    rows = from_ipc(data)
    if not full_load:
        return to_resolution(resolve_without_key(rows, shape.partition_key), counting)
    counts = Counts(applied=rows.num_rows, inserted=rows.num_rows)
    return to_resolution(ResolvedBatch(counts, inserts=dict(by_partition(rows, shape.partition_key))), counting)


@dataclass(frozen=True)
class InsertCounting:
    """How tasks count new rows for the driver, which plans from the counts alone.

    Attributes:
        home_bounds: By partition, see `home_ranges.home_bounds`.
    """

    home_bounds: Mapping[Partition, Sequence[KeyValue]]
    target_file_bytes: int

    def stats(self, partition: Partition, rows: pa.Table) -> InsertStats:
        """Count a partition's new rows, which are sorted by leading key if there is one."""
        if LEADING_KEY not in rows.column_names:
            return InsertStats(rows.num_rows, rows.nbytes)
        keys, bounds = rows[LEADING_KEY].combine_chunks(), self.home_bounds.get(partition, ())
        samples = sample_by_bytes(keys, rows.nbytes, self.target_file_bytes / SAMPLES_PER_FILE)
        by_range = count_by_range(keys, bounds) if bounds else {}
        return InsertStats(rows.num_rows, rows.nbytes, tuple(samples), by_range)


def to_resolution(resolved: ResolvedBatch, counting: InsertCounting) -> Resolution:
    """Count and serialize the rows of a resolved batch."""
    tombstones = resolved.tombstones
    return Resolution(
        resolved.counts,
        frozenset(resolved.removals),
        {partition: counting.stats(partition, rows) for partition, rows in resolved.inserts.items()},
        tombstones.num_rows if tombstones else 0,
        tuple((i, to_ipc(rows)) for i, rows in resolved.removals.items()),
        tuple((i, to_ipc(rows)) for i, rows in resolved.replacements.items()),
        tuple((partition, to_ipc(rows)) for partition, rows in resolved.inserts.items()),
        to_ipc(tombstones) if tombstones else b"",
        resolved.moves,
        resolved.needs_values,
    )


def rows_by_write_task(resolution: Resolution, *, plan: RewritePlan) -> Iterator[tuple[int, tuple[bool, bytes]]]:
    """Send rows to the tasks that write them.

    Yields:
        `(task number, (whether these are keys to remove, rows))`; tombstones go to the task after the plan's last.
    """
    for i, data in resolution.removals:
        yield plan.task_of_file[i], (True, data)
    for i, data in resolution.replacements:
        yield plan.task_of_file[i], (False, data)
    for ordinal, (partition, data) in enumerate(resolution.additions):
        targets = plan.insert_targets[partition]
        yield from ((task, (False, part)) for task, part in _split(data, targets, ordinal))
    if resolution.tombstones:
        yield len(plan.tasks), (False, resolution.tombstones)


def _split(data: bytes, targets: InsertTargets, ordinal: int) -> Iterator[tuple[int, bytes]]:
    if len(targets.tasks) == 1:
        yield targets.tasks[0], data
    elif targets.bounds:
        for key_range, rows in split_at_bounds(from_ipc(data), targets.bounds):
            yield targets.tasks[key_range], to_ipc(rows)
    else:
        rows = from_ipc(data)
        size = -(-rows.num_rows // len(targets.tasks))
        for i in range(len(targets.tasks)):
            part = rows.slice(i * size, size)
            if part.num_rows:
                yield targets.tasks[(i + ordinal) % len(targets.tasks)], to_ipc(part)


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
        files: Live data files.
        full_load: Whether the rows are a full load's.
        max_bad_rows: Number of bad rows that the change may quarantine.
    """

    plan: RewritePlan
    tombstone_plan: TombstonePlan
    files: tuple[DataFile, ...]
    shape: TableShape
    locations: Locations
    full_load: bool
    max_bad_rows: int


def write_files(
    task: int, entries: Iterable[tuple[int, tuple[bool, bytes]]], *, context: WriteContext, attempt: str
) -> WriteResult:
    """Write the files of one task of the rewrite."""
    removals: list[bytes] = []
    additions: list[bytes] = []
    for _, (is_removal, data) in entries:
        (removals if is_removal else additions).append(data)
    locations, shape = context.locations, context.shape
    fs = locations.lake.open()
    if task == len(context.plan.tasks):
        key = f"{locations.tombstones}-{attempt}.parquet"
        new = concat_ipc(additions, tombstone_schema(shape))
        file, forgotten = write_tombstones(fs, key, context.tombstone_plan, new, shape)
        return WriteResult(tombstones=(file,), forgotten=forgotten)
    target = context.plan.tasks[task]
    bases = [context.files[i] for i in target.bases]
    spec = MergeSpec(
        base_keys=tuple(locations.table_prefix + base.path for base in bases),
        base_rows=sum(base.rows for base in bases),
        partition=target.partition,
        file_count=target.file_count,
        staged_keys=tuple(
            f"{locations.staging}{task:05d}-{file:03d}-{attempt}.parquet" for file in range(target.file_count)
        ),
        full_load=context.full_load,
        purge_soft_deleted=not shape.soft_delete and any(base.deleted for base in bases),
    )
    removed, soft_deleted = removed_keys(removals, shape)
    merged = merge(fs, spec, shape, removed, concat_ipc(additions, shape.in_flight), soft_deleted)
    quarantine_key = f"{locations.quarantine}write-{task:05d}.jsonl"
    quarantine = quarantine_rows(fs, quarantine_key, merged.duplicates, context.max_bad_rows)
    return WriteResult(merged.files, quarantine=quarantine)


def removed_keys(removals: Sequence[bytes], shape: TableShape) -> tuple[pa.ChunkedArray | None, pa.ChunkedArray | None]:
    """Keys of rows to remove from their files, and of rows to soft-delete there, see `ResolvedBatch.removals`."""
    if not removals:
        return None, None
    keys = concat_ipc(removals, pa.schema([]))
    if not shape.soft_delete:
        return keys[KEY], None
    return keys.filter(pc.invert(keys[KEPT_AS_DELETED]))[KEY], keys.filter(keys[KEPT_AS_DELETED])[KEY]
