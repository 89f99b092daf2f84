"""What runs inside Spark's tasks. Each function takes and gives plain values and blobs, and knows nothing of Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.blobs import from_blob, from_blobs, to_blob
from cdclake.lake.data_file import TableShape, matches, read_batches
from cdclake.lake.decide import (
    FILE,
    PARTITION_ID,
    Counts,
    by_partition,
    decide,
    decide_without_key,
    partition_id,
)
from cdclake.lake.keys import KEY, ROUTE
from cdclake.lake.merge_file import MergeJob, merge
from cdclake.lake.raw_reader import BATCH_ROWS, DELETE, UPDATE, Slice, read
from cdclake.lake.rewrite_plan import InsertRoute, InsertStats, RewritePlan
from cdclake.lake.routing import candidates, cut, sample
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.decide import Decided, Partition
    from cdclake.model.snapshot import DataFile, KeyValue
    from cdclake.model.table import TableSettings

SAMPLES_PER_BATCH = 64


@dataclass(frozen=True)
class ReadStats:
    """What one batch of rows held."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    memory_bytes: int = 0
    samples: tuple[KeyValue, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of any operation."""
        return self.inserts + self.updates + self.deletes

    def __add__(self, other: ReadStats) -> ReadStats:
        samples = tuple(sorted(self.samples + other.samples))  # type: ignore[type-var]  # one kind in a table
        return ReadStats(
            self.inserts + other.inserts,
            self.updates + other.updates,
            self.deletes + other.deletes,
            self.memory_bytes + other.memory_bytes,
            samples,
        )


def read_slices(
    parts: Iterable[Slice], *, raw: FileSystemSpec, shape: TableShape, settings: TableSettings
) -> Iterator[tuple[ReadStats, bytes]]:
    """Read raw files into batches of rows, each sorted by route."""
    fs = raw.open()
    waiting: list[pa.Table] = []
    for part in parts:
        for batch in read(fs, part, shape, settings):
            if batch.bad_rows:
                raise batch.bad_rows[0].error()
            waiting.append(batch.rows)
            if sum(t.num_rows for t in waiting) >= BATCH_ROWS:
                yield _batch(waiting, shape)
                waiting = []
    if any(table.num_rows for table in waiting):
        yield _batch(waiting, shape)


def _batch(tables: list[pa.Table], shape: TableShape) -> tuple[ReadStats, bytes]:
    rows = pa.concat_tables(tables).combine_chunks()
    if shape.primary_key:
        rows = rows.take(pc.sort_indices(rows, [(ROUTE, "ascending")]))
    updates = pc.sum(pc.equal(rows[OP_COLUMN], UPDATE)).as_py() or 0
    deletes = pc.sum(pc.equal(rows[OP_COLUMN], DELETE)).as_py() or 0
    samples = tuple(sample(rows[ROUTE], SAMPLES_PER_BATCH)) if shape.primary_key else ()
    return ReadStats(rows.num_rows - updates - deletes, updates, deletes, rows.nbytes, samples), to_blob(rows)


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
    lake: FileSystemSpec,
    table_prefix: str,
    shape: TableShape,
    files: Sequence[DataFile],
    bounds: Sequence[KeyValue],
) -> Iterator[tuple[int, bytes]]:
    """Look wanted keys up in the data files' key columns.

    Yields:
        Bucket of `route_to_buckets`, and the lake's rows of these keys: route, key, position, file index, partition id.
    """
    fs = lake.open()
    by_file: dict[int, list[bytes]] = defaultdict(list)
    for i, blob in wanted:
        by_file[i].append(blob)
    for i, blobs in by_file.items():
        keys = pc.unique(from_blob(blobs[0])[KEY] if len(blobs) == 1 else from_blobs(blobs, pa.schema([]))[KEY])
        found = [
            _found(batch, i, files[i].partition, shape, keys)
            for batch in read_batches(fs, table_prefix + files[i].path, [*shape.key_columns_stored(), POSITION])
        ]
        rows = pa.concat_tables(found).combine_chunks()
        rows = rows.take(pc.sort_indices(rows, [(ROUTE, "ascending")]))
        for bucket, piece in cut(rows, bounds):
            yield bucket, to_blob(piece)


def _found(batch: pa.Table, i: int, partition: Partition, shape: TableShape, keys: pa.Array) -> pa.Table:
    route, key = shape.keys_of(batch, partition)
    rows = pa.table({ROUTE: route, KEY: key, POSITION: batch[POSITION]}).filter(matches(key, keys))
    return rows.append_column(FILE, pa.repeat(pa.scalar(i, pa.int32()), rows.num_rows)).append_column(
        PARTITION_ID, pa.repeat(partition_id(partition), rows.num_rows)
    )


def found_schema(shape: TableShape) -> pa.Schema:
    """Schema of what `probe_files` yields."""
    flight = shape.in_flight
    return pa.schema(
        [
            flight.field(ROUTE),
            flight.field(KEY),
            (POSITION, pa.string()),
            (FILE, pa.int32()),
            (PARTITION_ID, pa.string()),
        ]
    )


@dataclass(frozen=True)
class Decision:
    """Outcome of one decide task: counts for the driver, rows for the writers.

    Attributes:
        touched: Data files that lose rows.
        inserts: New rows of each partition, in numbers.
        removals: `(file index, keys)`.
        replacements: `(file index, rows)`.
        additions: `(partition, rows)`.
    """

    counts: Counts
    touched: frozenset[int] = frozenset()
    inserts: dict[Partition, InsertStats] = field(default_factory=dict)
    removals: tuple[tuple[int, bytes], ...] = ()
    replacements: tuple[tuple[int, bytes], ...] = ()
    additions: tuple[tuple[Partition, bytes], ...] = ()

    def summary(self) -> Decision:
        """The same without rows."""
        return Decision(self.counts, self.touched, self.inserts)

    def __add__(self, other: Decision) -> Decision:
        """Two summaries in one."""
        inserts = dict(self.inserts)
        for partition, stats in other.inserts.items():
            inserts[partition] = inserts[partition] + stats if partition in inserts else stats
        return Decision(self.counts + other.counts, self.touched | other.touched, inserts)


def decide_bucket(entries: Iterable[tuple[int, tuple[bool, bytes]]], *, shape: TableShape) -> Iterator[Decision]:
    """Decide what becomes of all rows of one bucket.

    Args:
        entries: `(bucket, (whether these are the lake's rows, blob))`.
    """
    blobs: dict[bool, list[bytes]] = {True: [], False: []}
    for _, (from_lake, blob) in entries:
        blobs[from_lake].append(blob)
    if blobs[False]:
        rows = from_blobs(blobs[False], shape.in_flight)
        yield _packed(decide(rows, from_blobs(blobs[True], found_schema(shape)), shape.partition_key))


def take_inserts(batch: tuple[ReadStats, bytes], *, shape: TableShape, full_load: bool) -> Decision:
    """Outcome of a batch that needs no look at the lake: a full load, or changes of a table without a key."""
    rows = from_blob(batch[1])
    if not full_load:
        return _packed(decide_without_key(rows, shape.partition_key))
    counts = Counts(applied=rows.num_rows, inserted=rows.num_rows)
    return _pack(counts, {}, {}, dict(by_partition(rows, shape.partition_key)))


def _packed(decided: Decided) -> Decision:
    return _pack(decided.counts, decided.removals, decided.replacements, decided.inserts)


def _pack(
    counts: Counts,
    removals: dict[int, pa.Table],
    replacements: dict[int, pa.Table],
    inserts: dict[Partition, pa.Table],
) -> Decision:
    stats = {
        partition: InsertStats(
            rows.num_rows,
            rows.nbytes,
            tuple(sample(rows[ROUTE].combine_chunks(), SAMPLES_PER_BATCH)) if ROUTE in rows.column_names else (),
        )
        for partition, rows in inserts.items()
    }
    return Decision(
        counts,
        frozenset(removals),
        stats,
        tuple((i, to_blob(rows)) for i, rows in removals.items()),
        tuple((i, to_blob(rows)) for i, rows in replacements.items()),
        tuple((partition, to_blob(rows)) for partition, rows in inserts.items()),
    )


def route_to_writers(decision: Decision, *, plan: RewritePlan) -> Iterator[tuple[int, tuple[bool, bytes]]]:
    """Send rows to the tasks that write them.

    Yields:
        `(task number, (whether these are keys to remove, blob))`.
    """
    for i, blob in decision.removals:
        yield plan.task_of_file[i], (True, blob)
    for i, blob in decision.replacements:
        yield plan.task_of_file[i], (False, blob)
    for ordinal, (partition, blob) in enumerate(decision.additions):
        route = plan.inserts[partition]
        yield from ((task, (False, piece)) for task, piece in _split(blob, route, ordinal))


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
class Staging:
    """Where writers put files, and from where they take those they replace."""

    lake: FileSystemSpec
    table_prefix: str
    prefix: str


def write_files(
    task: int,
    entries: Iterable[tuple[int, tuple[bool, bytes]]],
    *,
    plan: RewritePlan,
    files: Sequence[DataFile],
    shape: TableShape,
    staging: Staging,
    attempt: str,
) -> list[DataFile]:
    """Write what one task of the rewrite writes; `path` of the files is their staged key."""
    removals: list[bytes] = []
    additions: list[bytes] = []
    for _, (is_removal, blob) in entries:
        (removals if is_removal else additions).append(blob)
    target = plan.tasks[task]
    base = files[target.base] if target.base is not None else None
    job = MergeJob(
        base_key=staging.table_prefix + base.path if base else None,
        base_rows=base.rows if base else 0,
        partition=target.partition,
        pieces=target.pieces,
        staged_keys=tuple(
            f"{staging.prefix}{task:05d}-{piece:03d}-{attempt}.parquet" for piece in range(target.pieces)
        ),
    )
    keys = from_blobs(removals, pa.schema([]))[KEY] if removals else None
    return list(merge(staging.lake.open(), job, shape, keys, from_blobs(additions, shape.in_flight)))
