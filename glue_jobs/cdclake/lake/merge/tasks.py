"""What runs inside Spark's tasks. Each function takes and gives plain values and blobs, and knows nothing of Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

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
from cdclake.lake.raw.parquet import BATCH_ROWS
from cdclake.lake.raw.quarantine import BadRowCollector, Quarantine, quarantine_rows
from cdclake.lake.raw.read_ahead import read_all
from cdclake.lake.storage.arrow_ipc import concat_ipc, from_ipc, to_ipc
from cdclake.lake.storage.bloom import filtered_column, row_group_filter
from cdclake.lake.storage.key_ranges import candidate_rows, overlapping_files, sample, split_at_bounds
from cdclake.lake.storage.keys import KEY, LEADING_KEY, matches
from cdclake.lake.storage.partitions import by_partition, partition_id
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import TableShape, is_deleted
from cdclake.lake.storage.tombstones import TombstonePlan, find_tombstones, write_tombstones
from cdclake.lake.storage.types import arrow_schema
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.raw.rows import ReadBatch
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile
    from cdclake.model.table import TableName, TableSettings

SAMPLES_PER_BATCH = 64


@dataclass(frozen=True)
class ReadStats:
    """What one batch of rows held.

    Attributes:
        inserts: Well-formed rows of that operation; likewise updates and deletes.
        derived: How many of the deletes no raw row asked for: they stand for the old keys of updates.
        quarantine: Rows that are not well-formed.
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
        """Rows to resolve."""
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
        table_prefix: Folder of the table's data files in it.
        staging: Folder for the new ones.
        tombstones: Key of the new tombstones, without its ending.
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
    """Read raw files into batches of rows, each sorted by route; bad rows are put aside."""
    raw = locations.raw.open()
    waiting: list[ReadBatch] = []
    bad_rows = BadRowCollector(settings.max_quarantined_rows)
    for batch in read_all(raw, chain.from_iterable(groups), shape, settings, table):
        bad_rows.add(batch.bad_rows)
        waiting.append(batch)
        if sum(one.rows.num_rows for one in waiting) >= BATCH_ROWS:
            yield _batch(waiting, shape)
            waiting = []
    if any(batch.rows.num_rows for batch in waiting):
        yield _batch(waiting, shape)
    aside = bad_rows.write(locations.lake.open(), f"{locations.quarantine}read-{task:05d}.jsonl")
    if aside.rows:
        yield ReadStats(quarantine=aside), to_ipc(shape.in_flight.empty_table())


def _batch(batches: list[ReadBatch], shape: TableShape) -> tuple[ReadStats, bytes]:
    rows = pa.concat_tables([batch.rows for batch in batches]).combine_chunks()
    if shape.primary_key:
        rows = rows.take(pc.sort_indices(rows, [(LEADING_KEY, "ascending")]))
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
    """The keys of a batch for each data file that might hold them."""
    rows = from_ipc(batch[1]).select([LEADING_KEY, KEY])
    for i, start, end in candidate_rows(rows[LEADING_KEY].combine_chunks(), files):
        yield i, to_ipc(rows.slice(start, end - start))


def rows_by_key_range(batch: tuple[ReadStats, bytes], *, bounds: Sequence[KeyValue]) -> Iterator[tuple[int, bytes]]:
    """The rows of a batch by range of route, so that all rows of a key meet in one task."""
    if not bounds:
        yield 0, batch[1]
        return
    for bucket, rows in split_at_bounds(from_ipc(batch[1]), bounds):
        yield bucket, to_ipc(rows)


def find_existing_rows(
    wanted: Iterable[tuple[int, bytes]],
    *,
    locations: Locations,
    shape: TableShape,
    files: Sequence[DataFile],
    bounds: Sequence[KeyValue],
) -> Iterator[tuple[int, bytes]]:
    """Look wanted keys up in the data files, reading their key columns alone if every change sends all columns.

    Where files span the same keys, and few are wanted, files that cannot hold one are skipped by their Bloom filters.

    Yields:
        Bucket of `rows_by_key_range`, and the lake's rows of these keys, see `existing_rows_schema`.
    """
    fs = locations.lake.open()
    by_file: dict[int, list[bytes]] = defaultdict(list)
    for i, blob in wanted:
        by_file[i].append(blob)
    columns = None if shape.partial else [*shape.key_columns_stored(), POSITION]
    doubtful = overlapping_files(files) if filtered_column(shape) else frozenset()
    for i, blobs in by_file.items():
        asked = concat_ipc(blobs, pa.schema([]))
        keys = pc.unique(asked[KEY])
        chosen = row_group_filter(shape, keys, asked[LEADING_KEY]) if i in doubtful else None
        wanted_columns = [*columns, OP_COLUMN] if columns and files[i].deleted else columns
        batches = read_batches(fs, locations.table_prefix + files[i].path, shape, wanted_columns, row_groups=chosen)
        hits = [_found(batch, i, files[i], shape, keys) for batch in batches]
        found = pa.concat_tables([existing_rows_schema(shape).empty_table(), *hits])  # a file may have no row groups
        rows = found.take(pc.sort_indices(found, [(LEADING_KEY, "ascending")])).combine_chunks()
        for bucket, piece in split_at_bounds(rows, bounds):
            yield bucket, to_ipc(piece)


def _found(batch: pa.Table, i: int, file: DataFile, shape: TableShape, keys: pa.Array) -> pa.Table:
    route, key = shape.keys_of(batch, file.partition)
    hit = matches(key, keys)
    rows = batch.filter(hit)
    columns = {
        LEADING_KEY: route.filter(hit),
        KEY: key.filter(hit),
        POSITION: rows[POSITION],
        FILE_INDEX: pa.repeat(pa.scalar(i, pa.int32()), rows.num_rows),
        PARTITION_ID: pa.repeat(partition_id(file.partition), rows.num_rows),
        SOFT_DELETED: is_deleted(rows) if file.deleted else pa.repeat(False, rows.num_rows),
    }
    if shape.partial:
        columns.update(shape.source_columns(rows, file.partition))
    return pa.table(columns, schema=existing_rows_schema(shape))


def existing_rows_schema(shape: TableShape) -> pa.Schema:
    """Schema of what `find_existing_rows` yields.

    Route, key, position, file index, partition id, whether the row is dead, and if changes may leave columns out, all
    source columns.
    """
    flight = shape.in_flight
    own = [flight.field(LEADING_KEY), flight.field(KEY), flight.field(POSITION)]
    added = [pa.field(FILE_INDEX, pa.int32()), pa.field(PARTITION_ID, pa.string()), pa.field(SOFT_DELETED, pa.bool_())]
    return pa.schema([*own, *added, *(arrow_schema(shape.schema) if shape.partial else [])])


def tombstone_schema(shape: TableShape) -> pa.Schema:
    """Schema of tombstones: route, key, position."""
    return pa.schema([shape.in_flight.field(name) for name in (LEADING_KEY, KEY, POSITION)])


@dataclass(frozen=True)
class Resolution:
    """Outcome of one resolve task: counts for the driver, rows for the writers.

    Attributes:
        touched: Data files that lose rows.
        inserts: New rows of each partition, in numbers.
        removals: `(file index, keys)`; see `ResolvedBatch.removals`.
        replacements: `(file index, rows)`.
        additions: `(partition, rows)`.
        deletes: Number of tombstones.
        tombstones: Them.
    """

    counts: Counts
    touched: frozenset[int] = frozenset()
    inserts: dict[Partition, InsertStats] = field(default_factory=dict)
    deletes: int = 0
    removals: tuple[tuple[int, bytes], ...] = ()
    replacements: tuple[tuple[int, bytes], ...] = ()
    additions: tuple[tuple[Partition, bytes], ...] = ()
    tombstones: bytes = b""

    def summary(self) -> Resolution:
        """The same without rows."""
        return Resolution(self.counts, self.touched, self.inserts, self.deletes)

    def __add__(self, other: Resolution) -> Resolution:
        """Two summaries in one."""
        inserts = dict(self.inserts)
        for partition, stats in other.inserts.items():
            inserts[partition] = inserts[partition] + stats if partition in inserts else stats
        touched = self.touched | other.touched
        return Resolution(self.counts + other.counts, touched, inserts, self.deletes + other.deletes)


def resolve_key_range(
    entries: Iterable[tuple[int, tuple[bool, bytes]]],
    *,
    locations: Locations,
    shape: TableShape,
    tombstones: Sequence[TombstoneFile],
) -> Iterator[Resolution]:
    """Decide what becomes of all rows of one bucket.

    Args:
        entries: `(bucket, (whether these are the lake's rows, blob))`.
        tombstones: All tombstones of the table.
    """
    blobs: dict[bool, list[bytes]] = {True: [], False: []}
    for _, (from_lake, blob) in entries:
        blobs[from_lake].append(blob)
    if not blobs[False]:
        return
    rows = concat_ipc(blobs[False], shape.in_flight)
    buried = find_tombstones(locations.lake.open(), tombstones, rows[LEADING_KEY], rows[KEY], tombstone_schema(shape))
    yield to_resolution(resolve(rows, concat_ipc(blobs[True], existing_rows_schema(shape)), buried, shape))


def resolve_inserts(blob: bytes, *, shape: TableShape, full_load: bool) -> Resolution:
    """Outcome of rows that need no look at the lake: a full load's, or changes of a table without a key."""
    rows = from_ipc(blob)
    if not full_load:
        return to_resolution(resolve_without_key(rows, shape.partition_key))
    counts = Counts(applied=rows.num_rows, inserted=rows.num_rows)
    return to_resolution(ResolvedBatch(counts, inserts=dict(by_partition(rows, shape.partition_key))))


def to_resolution(resolved: ResolvedBatch) -> Resolution:
    """An outcome with its rows as blobs."""
    buried = resolved.tombstones
    return Resolution(
        resolved.counts,
        frozenset(resolved.removals),
        {partition: _insert_stats(rows) for partition, rows in resolved.inserts.items()},
        buried.num_rows if buried else 0,
        tuple((i, to_ipc(rows)) for i, rows in resolved.removals.items()),
        tuple((i, to_ipc(rows)) for i, rows in resolved.replacements.items()),
        tuple((partition, to_ipc(rows)) for partition, rows in resolved.inserts.items()),
        to_ipc(buried) if buried else b"",
    )


def _insert_stats(rows: pa.Table) -> InsertStats:
    routes = sample(rows[LEADING_KEY].combine_chunks(), SAMPLES_PER_BATCH) if LEADING_KEY in rows.column_names else ()
    return InsertStats(rows.num_rows, rows.nbytes, tuple(routes))


def rows_by_write_task(resolution: Resolution, *, plan: RewritePlan) -> Iterator[tuple[int, tuple[bool, bytes]]]:
    """Send rows to the tasks that write them.

    Yields:
        `(task number, (whether these are keys to remove, blob))`; tombstones go to the task after the plan's last.
    """
    for i, blob in resolution.removals:
        yield plan.task_of_file[i], (True, blob)
    for i, blob in resolution.replacements:
        yield plan.task_of_file[i], (False, blob)
    for ordinal, (partition, blob) in enumerate(resolution.additions):
        route = plan.inserts[partition]
        yield from ((task, (False, piece)) for task, piece in _split(blob, route, ordinal))
    if resolution.tombstones:
        yield len(plan.tasks), (False, resolution.tombstones)


def _split(blob: bytes, route: InsertTargets, ordinal: int) -> Iterator[tuple[int, bytes]]:
    if len(route.tasks) == 1:
        yield route.tasks[0], blob
    elif route.bounds:
        for piece, rows in split_at_bounds(from_ipc(blob), route.bounds):
            yield route.tasks[piece], to_ipc(rows)
    else:
        rows = from_ipc(blob)
        size = -(-rows.num_rows // len(route.tasks))
        for i in range(len(route.tasks)):
            piece = rows.slice(i * size, size)
            if piece.num_rows:
                yield route.tasks[(i + ordinal) % len(route.tasks)], to_ipc(piece)


@dataclass(frozen=True)
class WriteResult:
    """What one task wrote: data files (`path` is the staged key), a file of tombstones, and rows put aside."""

    files: tuple[DataFile, ...] = ()
    tombstones: tuple[TombstoneFile, ...] = ()
    quarantine: Quarantine = Quarantine()  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class WriteContext:
    """What all tasks of a rewrite go by.

    Attributes:
        plan: The rewrite's tasks.
        tombstone_plan: What becomes of the tombstones; they are written by the task after the plan's last.
        files: Live data files.
        full_load: Whether the rows are a full load's.
        most_bad_rows: How many bad rows the change may put aside.
    """

    plan: RewritePlan
    tombstone_plan: TombstonePlan
    files: tuple[DataFile, ...]
    shape: TableShape
    locations: Locations
    full_load: bool
    most_bad_rows: int


def write_files(
    task: int, entries: Iterable[tuple[int, tuple[bool, bytes]]], *, writing: WriteContext, attempt: str
) -> WriteResult:
    """Write what one task of the rewrite writes."""
    removals: list[bytes] = []
    additions: list[bytes] = []
    for _, (is_removal, blob) in entries:
        (removals if is_removal else additions).append(blob)
    locations, shape = writing.locations, writing.shape
    fs = locations.lake.open()
    if task == len(writing.plan.tasks):
        key = f"{locations.tombstones}-{attempt}.parquet"
        new = concat_ipc(additions, tombstone_schema(shape))
        return WriteResult(tombstones=(write_tombstones(fs, key, writing.tombstone_plan, new),))
    target = writing.plan.tasks[task]
    bases = [writing.files[i] for i in target.bases]
    job = MergeSpec(
        base_keys=tuple(locations.table_prefix + base.path for base in bases),
        base_rows=sum(base.rows for base in bases),
        partition=target.partition,
        pieces=target.pieces,
        staged_keys=tuple(
            f"{locations.staging}{task:05d}-{piece:03d}-{attempt}.parquet" for piece in range(target.pieces)
        ),
        full_load=writing.full_load,
        purge_soft_deleted=not shape.soft_delete and any(base.deleted for base in bases),
    )
    gone, deleted = removed_keys(removals, shape)
    merged = merge(fs, job, shape, gone, concat_ipc(additions, shape.in_flight), deleted)
    aside_key = f"{locations.quarantine}write-{task:05d}.jsonl"
    return WriteResult(merged.files, quarantine=quarantine_rows(fs, aside_key, merged.repeated, writing.most_bad_rows))


def removed_keys(removals: Sequence[bytes], shape: TableShape) -> tuple[pa.ChunkedArray | None, pa.ChunkedArray | None]:
    """Keys of the rows that leave their files, and of those that are deleted there; see `ResolvedBatch.removals`."""
    if not removals:
        return None, None
    keys = concat_ipc(removals, pa.schema([]))
    if not shape.soft_delete:
        return keys[KEY], None
    return keys.filter(pc.invert(keys[KEPT_AS_DELETED]))[KEY], keys.filter(keys[KEPT_AS_DELETED])[KEY]
