"""What runs inside Spark's tasks. Each function takes and gives plain values and blobs, and knows nothing of Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.merge_file import MergeJob, merge
from cdclake.lake.merge.resolve import DEAD, FILE, PARTITION_ID, STAYS, Counts, Decided, decide, decide_without_key
from cdclake.lake.merge.rewrite_plan import InsertRoute, InsertStats, RewritePlan
from cdclake.lake.raw.parquet import BATCH_ROWS
from cdclake.lake.raw.quarantine import BadRows, Quarantine, put_aside
from cdclake.lake.raw.read_ahead import read_all
from cdclake.lake.storage.arrow_ipc import from_blob, from_blobs, to_blob
from cdclake.lake.storage.bloom import filtered_column, groups_to_read
from cdclake.lake.storage.key_ranges import candidates, cut, overlapping, sample
from cdclake.lake.storage.keys import KEY, ROUTE, matches
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
        """Rows to decide about."""
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
class Places:
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
    places: Places,
    shape: TableShape,
    settings: TableSettings,
    table: TableName,
) -> Iterator[tuple[ReadStats, bytes]]:
    """Read raw files into batches of rows, each sorted by route; bad rows are put aside."""
    raw = places.raw.open()
    waiting: list[ReadBatch] = []
    bad_rows = BadRows(settings.max_quarantined_rows)
    for batch in read_all(raw, chain.from_iterable(groups), shape, settings, table):
        bad_rows.add(batch.bad_rows)
        waiting.append(batch)
        if sum(one.rows.num_rows for one in waiting) >= BATCH_ROWS:
            yield _batch(waiting, shape)
            waiting = []
    if any(batch.rows.num_rows for batch in waiting):
        yield _batch(waiting, shape)
    aside = bad_rows.put_aside(places.lake.open(), f"{places.quarantine}read-{task:05d}.jsonl")
    if aside.rows:
        yield ReadStats(quarantine=aside), to_blob(shape.in_flight.empty_table())


def _batch(batches: list[ReadBatch], shape: TableShape) -> tuple[ReadStats, bytes]:
    rows = pa.concat_tables([batch.rows for batch in batches]).combine_chunks()
    if shape.primary_key:
        rows = rows.take(pc.sort_indices(rows, [(ROUTE, "ascending")]))
    updates = pc.sum(pc.equal(rows[OP_COLUMN], UPDATE)).as_py() or 0
    deletes = pc.sum(pc.equal(rows[OP_COLUMN], DELETE)).as_py() or 0
    stats = ReadStats(
        inserts=rows.num_rows - updates - deletes,
        updates=updates,
        deletes=deletes,
        derived=sum(batch.derived for batch in batches),
        memory_bytes=rows.nbytes,
        samples=tuple(sample(rows[ROUTE], SAMPLES_PER_BATCH)) if shape.primary_key else (),
    )
    return stats, to_blob(rows)


def route_to_files(batch: tuple[ReadStats, bytes], *, files: Sequence[DataFile]) -> Iterator[tuple[int, bytes]]:
    """The keys of a batch for each data file that might hold them."""
    rows = from_blob(batch[1]).select([ROUTE, KEY])
    for i, start, end in candidates(rows[ROUTE].combine_chunks(), files):
        yield i, to_blob(rows.slice(start, end - start))


def route_to_buckets(batch: tuple[ReadStats, bytes], *, bounds: Sequence[KeyValue]) -> Iterator[tuple[int, bytes]]:
    """The rows of a batch by range of route, so that all rows of a key meet in one task."""
    if not bounds:
        yield 0, batch[1]
        return
    for bucket, rows in cut(from_blob(batch[1]), bounds):
        yield bucket, to_blob(rows)


def probe_files(
    wanted: Iterable[tuple[int, bytes]],
    *,
    places: Places,
    shape: TableShape,
    files: Sequence[DataFile],
    bounds: Sequence[KeyValue],
) -> Iterator[tuple[int, bytes]]:
    """Look wanted keys up in the data files, reading their key columns alone if every change sends all columns.

    Where files span the same keys, and few are wanted, files that cannot hold one are told by their Bloom filters.

    Yields:
        Bucket of `route_to_buckets`, and the lake's rows of these keys, see `found_schema`.
    """
    fs = places.lake.open()
    by_file: dict[int, list[bytes]] = defaultdict(list)
    for i, blob in wanted:
        by_file[i].append(blob)
    columns = None if shape.partial else [*shape.key_columns_stored(), POSITION]
    doubtful = overlapping(files) if filtered_column(shape) else frozenset()
    for i, blobs in by_file.items():
        asked = from_blobs(blobs, pa.schema([]))
        keys = pc.unique(asked[KEY])
        chosen = groups_to_read(shape, keys, asked[ROUTE]) if i in doubtful else None
        wanted_columns = [*columns, OP_COLUMN] if columns and files[i].deleted else columns
        batches = read_batches(fs, places.table_prefix + files[i].path, shape, wanted_columns, chosen=chosen)
        hits = [_found(batch, i, files[i], shape, keys) for batch in batches]
        found = pa.concat_tables([found_schema(shape).empty_table(), *hits])  # a file may have no row groups
        rows = found.take(pc.sort_indices(found, [(ROUTE, "ascending")])).combine_chunks()
        for bucket, piece in cut(rows, bounds):
            yield bucket, to_blob(piece)


def _found(batch: pa.Table, i: int, file: DataFile, shape: TableShape, keys: pa.Array) -> pa.Table:
    route, key = shape.keys_of(batch, file.partition)
    hit = matches(key, keys)
    rows = batch.filter(hit)
    columns = {
        ROUTE: route.filter(hit),
        KEY: key.filter(hit),
        POSITION: rows[POSITION],
        FILE: pa.repeat(pa.scalar(i, pa.int32()), rows.num_rows),
        PARTITION_ID: pa.repeat(partition_id(file.partition), rows.num_rows),
        DEAD: is_deleted(rows) if file.deleted else pa.repeat(False, rows.num_rows),
    }
    if shape.partial:
        columns.update(shape.source_columns(rows, file.partition))
    return pa.table(columns, schema=found_schema(shape))


def found_schema(shape: TableShape) -> pa.Schema:
    """Schema of what `probe_files` yields.

    Route, key, position, file index, partition id, whether the row is dead, and if changes may leave columns out, all
    source columns.
    """
    flight = shape.in_flight
    own = [flight.field(ROUTE), flight.field(KEY), flight.field(POSITION)]
    told = [pa.field(FILE, pa.int32()), pa.field(PARTITION_ID, pa.string()), pa.field(DEAD, pa.bool_())]
    return pa.schema([*own, *told, *(arrow_schema(shape.schema) if shape.partial else [])])


def tombstone_schema(shape: TableShape) -> pa.Schema:
    """Schema of tombstones: route, key, position."""
    return pa.schema([shape.in_flight.field(name) for name in (ROUTE, KEY, POSITION)])


@dataclass(frozen=True)
class Decision:
    """Outcome of one decide task: counts for the driver, rows for the writers.

    Attributes:
        touched: Data files that lose rows.
        inserts: New rows of each partition, in numbers.
        removals: `(file index, keys)`; see `Decided.removals`.
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

    def summary(self) -> Decision:
        """The same without rows."""
        return Decision(self.counts, self.touched, self.inserts, self.deletes)

    def __add__(self, other: Decision) -> Decision:
        """Two summaries in one."""
        inserts = dict(self.inserts)
        for partition, stats in other.inserts.items():
            inserts[partition] = inserts[partition] + stats if partition in inserts else stats
        touched = self.touched | other.touched
        return Decision(self.counts + other.counts, touched, inserts, self.deletes + other.deletes)


def decide_bucket(
    entries: Iterable[tuple[int, tuple[bool, bytes]]],
    *,
    places: Places,
    shape: TableShape,
    tombstones: Sequence[TombstoneFile],
) -> Iterator[Decision]:
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
    rows = from_blobs(blobs[False], shape.in_flight)
    buried = find_tombstones(places.lake.open(), tombstones, rows[ROUTE], rows[KEY], tombstone_schema(shape))
    yield packed(decide(rows, from_blobs(blobs[True], found_schema(shape)), buried, shape))


def take_inserts(blob: bytes, *, shape: TableShape, full_load: bool) -> Decision:
    """Outcome of rows that need no look at the lake: a full load's, or changes of a table without a key."""
    rows = from_blob(blob)
    if not full_load:
        return packed(decide_without_key(rows, shape.partition_key))
    counts = Counts(applied=rows.num_rows, inserted=rows.num_rows)
    return packed(Decided(counts, inserts=dict(by_partition(rows, shape.partition_key))))


def packed(decided: Decided) -> Decision:
    """An outcome with its rows as blobs."""
    buried = decided.tombstones
    return Decision(
        decided.counts,
        frozenset(decided.removals),
        {partition: _insert_stats(rows) for partition, rows in decided.inserts.items()},
        buried.num_rows if buried else 0,
        tuple((i, to_blob(rows)) for i, rows in decided.removals.items()),
        tuple((i, to_blob(rows)) for i, rows in decided.replacements.items()),
        tuple((partition, to_blob(rows)) for partition, rows in decided.inserts.items()),
        to_blob(buried) if buried else b"",
    )


def _insert_stats(rows: pa.Table) -> InsertStats:
    routes = sample(rows[ROUTE].combine_chunks(), SAMPLES_PER_BATCH) if ROUTE in rows.column_names else ()
    return InsertStats(rows.num_rows, rows.nbytes, tuple(routes))


def route_to_writers(decision: Decision, *, plan: RewritePlan) -> Iterator[tuple[int, tuple[bool, bytes]]]:
    """Send rows to the tasks that write them.

    Yields:
        `(task number, (whether these are keys to remove, blob))`; tombstones go to the task after the plan's last.
    """
    for i, blob in decision.removals:
        yield plan.task_of_file[i], (True, blob)
    for i, blob in decision.replacements:
        yield plan.task_of_file[i], (False, blob)
    for ordinal, (partition, blob) in enumerate(decision.additions):
        route = plan.inserts[partition]
        yield from ((task, (False, piece)) for task, piece in _split(blob, route, ordinal))
    if decision.tombstones:
        yield len(plan.tasks), (False, decision.tombstones)


def _split(blob: bytes, route: InsertRoute, ordinal: int) -> Iterator[tuple[int, bytes]]:
    if len(route.tasks) == 1:
        yield route.tasks[0], blob
    elif route.bounds:
        for piece, rows in cut(from_blob(blob), route.bounds):
            yield route.tasks[piece], to_blob(rows)
    else:
        rows = from_blob(blob)
        size = -(-rows.num_rows // len(route.tasks))
        for i in range(len(route.tasks)):
            piece = rows.slice(i * size, size)
            if piece.num_rows:
                yield route.tasks[(i + ordinal) % len(route.tasks)], to_blob(piece)


@dataclass(frozen=True)
class Written:
    """What one task wrote: data files (`path` is the staged key), a file of tombstones, and rows put aside."""

    files: tuple[DataFile, ...] = ()
    tombstones: tuple[TombstoneFile, ...] = ()
    quarantine: Quarantine = Quarantine()  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class Writing:
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
    places: Places
    full_load: bool
    most_bad_rows: int


def write_files(
    task: int, entries: Iterable[tuple[int, tuple[bool, bytes]]], *, writing: Writing, attempt: str
) -> Written:
    """Write what one task of the rewrite writes."""
    removals: list[bytes] = []
    additions: list[bytes] = []
    for _, (is_removal, blob) in entries:
        (removals if is_removal else additions).append(blob)
    places, shape = writing.places, writing.shape
    fs = places.lake.open()
    if task == len(writing.plan.tasks):
        key = f"{places.tombstones}-{attempt}.parquet"
        new = from_blobs(additions, tombstone_schema(shape))
        return Written(tombstones=(write_tombstones(fs, key, writing.tombstone_plan, new),))
    target = writing.plan.tasks[task]
    bases = [writing.files[i] for i in target.bases]
    job = MergeJob(
        base_keys=tuple(places.table_prefix + base.path for base in bases),
        base_rows=sum(base.rows for base in bases),
        partition=target.partition,
        pieces=target.pieces,
        staged_keys=tuple(
            f"{places.staging}{task:05d}-{piece:03d}-{attempt}.parquet" for piece in range(target.pieces)
        ),
        full_load=writing.full_load,
        purges=not shape.soft_delete and any(base.deleted for base in bases),
    )
    gone, deleted = leaving(removals, shape)
    merged = merge(fs, job, shape, gone, from_blobs(additions, shape.in_flight), deleted)
    aside_key = f"{places.quarantine}write-{task:05d}.jsonl"
    return Written(merged.files, quarantine=put_aside(fs, aside_key, merged.repeated, writing.most_bad_rows))


def leaving(removals: Sequence[bytes], shape: TableShape) -> tuple[pa.ChunkedArray | None, pa.ChunkedArray | None]:
    """Keys of the rows that leave their files, and of those that are deleted there; see `Decided.removals`."""
    if not removals:
        return None, None
    keys = from_blobs(removals, pa.schema([]))
    if not shape.soft_delete:
        return keys[KEY], None
    return keys.filter(pc.invert(keys[STAYS]))[KEY], keys.filter(keys[STAYS])[KEY]
