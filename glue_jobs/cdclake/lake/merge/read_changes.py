"""Reads raw files into batches of rows. The functions run in Spark tasks, and do not know Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.counts import summed
from cdclake.lake.merge.messages import Batch, BatchByRange
from cdclake.lake.raw.quarantine import BadRowCollector, Quarantine
from cdclake.lake.raw.read_ahead import one_ahead, read_all
from cdclake.lake.storage.arrow_ipc import Rows, concat, kept
from cdclake.lake.storage.key_ranges import sample, split_at_bounds
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.wide_rows import take
from cdclake.model.schema import DELETE, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.raw.rows import ReadBatch, Slice
    from cdclake.lake.raw.suppression import Suppression
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import KeyValue
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings

SAMPLES_PER_BATCH = 64


@dataclass(frozen=True)
class ReadStats:
    """Statistics of one batch of rows, or the sum of several.

    Attributes:
        inserts: Number of good rows with this operation; likewise updates and deletes.
        derived: Number of deletes that are not in the raw files: updates delete their old keys.
        memory_bytes: Size of the rows in Arrow.
        samples: Some leading keys, ascending.
        by_range: Number of rows in each of the table's `FileRanges`, if they were asked for; empty ranges are left out.
        quarantine: Bad rows.
        suppressed: Number of rows of erased keys that were left out.
        by_file: Number of rows that were read, bad ones included, by raw file.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    derived: int = 0
    memory_bytes: int = 0
    samples: tuple[KeyValue, ...] = ()
    by_range: Mapping[int, int] = field(default_factory=dict)
    quarantine: Quarantine = Quarantine()  # noqa: RUF009 - frozen
    suppressed: int = 0
    by_file: Mapping[str, int] = field(default_factory=dict)

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
            summed(self.by_range, other.by_range),
            self.quarantine + other.quarantine,
            self.suppressed + other.suppressed,
            summed(self.by_file, other.by_file),
        )


@dataclass(frozen=True)
class Locations:
    """Where tasks read and write.

    Attributes:
        raw: The raw bucket.
        lake: The lake bucket.
        layout: Keys of the table in the lake bucket.
        staging: Folder for new data files.
        tombstones: Object key of the new tombstone file, without its suffix.
        quarantine: Folder for bad rows.
    """

    raw: FileSystemSpec
    lake: FileSystemSpec
    layout: LakeLayout
    staging: str
    tombstones: str
    quarantine: str


@dataclass(frozen=True)
class Reading:
    """What tasks that read raw files need to know."""

    locations: Locations
    shape: TableShape
    settings: TableSettings
    table: TableName
    suppression: Suppression | None = None


def read_slices(
    task: Task,
    slices: Iterable[Slice],
    *,
    reading: Reading,
    file_bounds: Sequence[KeyValue] = (),
    ahead: bool = False,
) -> Iterator[BatchByRange[ReadStats]]:
    """Read raw files, see `read_rows`, and sort each batch by leading key.

    Args:
        file_bounds: Bounds of the key ranges into which to split the rows; none for one range.
        ahead: Whether a thread reads the next batch meanwhile.
    """
    unsorted_batches = read_rows(task, slices, reading)
    for read, unsorted in one_ahead(unsorted_batches) if ahead else unsorted_batches:
        stats, rows = read, unsorted
        if reading.shape.primary_key:
            rows = take(rows, pc.sort_indices(rows, [(LEADING_KEY, "ascending")]))
            stats = replace(stats, samples=tuple(sample(rows[LEADING_KEY], SAMPLES_PER_BATCH)))
        parts = dict(split_at_bounds(rows, file_bounds))
        by_range = {number: part.num_rows for number, part in parts.items()} if file_bounds else {}
        yield BatchByRange(replace(stats, by_range=by_range), kept(parts))


def read_rows(task: Task, slices: Iterable[Slice], reading: Reading) -> Iterator[tuple[ReadStats, pa.Table]]:
    """Read raw files into batches of rows, in the order of the files, and quarantine bad rows.

    Small batches are combined; so none has more than one and a half times what is read at once.

    Yields:
        Statistics of each batch, without samples, and its rows. The last may have no rows, only what is quarantined.

    Raises:
        NeedsSparkError: Its rows need more memory than `EngineLimits.held_bytes`.
    """
    locations, shape, settings = reading.locations, reading.shape, reading.settings
    pending: list[ReadBatch] = []
    pending_rows = pending_bytes = all_bytes = 0
    min_rows, min_bytes = shape.limits.batch_rows // 2, shape.limits.batch_bytes // 2
    bad_rows = BadRowCollector(settings.max_quarantined_rows)
    for batch in read_all(locations.raw.open(), slices, shape, settings, reading.table, reading.suppression):
        bad_rows.add(batch.bad_rows)
        pending.append(batch)
        pending_rows += batch.rows.num_rows
        pending_bytes += batch.rows.nbytes
        all_bytes += batch.rows.nbytes
        shape.limits.check_held(all_bytes)
        if pending_rows >= min_rows or pending_bytes >= min_bytes:
            combined = _combine(pending)
            pending, pending_rows, pending_bytes = [], 0, 0  # so that their memory is free while others use the rows
            yield combined
    if any(batch.by_file for batch in pending):
        yield _combine(pending)
    quarantine = bad_rows.write(locations.lake.open(), f"{locations.quarantine}read-{task.number:05d}.jsonl")
    if quarantine.rows:
        yield ReadStats(quarantine=quarantine), shape.in_flight.empty_table()


def sorted_batch(rows: pa.Table) -> Batch[ReadStats]:
    """Rows with a leading key as a batch."""
    rows = take(rows, pc.sort_indices(rows, [(LEADING_KEY, "ascending")])).combine_chunks()
    samples = tuple(sample(rows[LEADING_KEY], SAMPLES_PER_BATCH)) if rows.num_rows else ()
    return Batch(ReadStats(inserts=rows.num_rows, memory_bytes=rows.nbytes, samples=samples), Rows.to_keep(rows))


def united(batch: BatchByRange[ReadStats], *, shape: TableShape) -> Batch[ReadStats]:
    """The rows of all key ranges together."""
    parts = list(batch.rows.values())
    return Batch(batch.stats, parts[0] if len(parts) == 1 else Rows.to_keep(concat(parts, shape.in_flight)))


def _combine(batches: list[ReadBatch]) -> tuple[ReadStats, pa.Table]:
    rows = pa.concat_tables([batch.rows for batch in batches]).combine_chunks()
    updates = pc.sum(pc.equal(rows[OP_COLUMN], UPDATE)).as_py() or 0
    deletes = pc.sum(pc.equal(rows[OP_COLUMN], DELETE)).as_py() or 0
    stats = ReadStats(
        inserts=rows.num_rows - updates - deletes,
        updates=updates,
        deletes=deletes,
        derived=sum(batch.derived for batch in batches),
        memory_bytes=rows.nbytes,
        suppressed=sum(batch.suppressed for batch in batches),
        by_file=_rows_by_file(batches),
    )
    return stats, rows


def _rows_by_file(batches: Iterable[ReadBatch]) -> Mapping[str, int]:
    """Number of rows that were read for these batches, see `ReadBatch.by_file`."""
    counts = Counter[str]()
    for batch in batches:
        counts.update(batch.by_file)
    return counts
