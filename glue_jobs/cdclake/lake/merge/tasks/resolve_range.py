"""Resolves the rows of one key range, and rows that need nothing of the lake to be resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdclake.lake.merge.existing_rows import existing_rows_schema
from cdclake.lake.merge.messages import Source, SourceRows
from cdclake.lake.merge.read_changes import read_rows
from cdclake.lake.merge.resolve import resolve, resolve_difference, resolve_full_load, resolve_without_key
from cdclake.lake.merge.tasks.resolution import InsertCounting, Resolution, to_resolution
from cdclake.lake.merge.tasks.route import rows_by_source
from cdclake.lake.storage.arrow_ipc import concat
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.tombstones import find_tombstones

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.read_changes import Locations, Reading, ReadStats
    from cdclake.lake.raw.rows import Slice
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import TombstoneFile


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
    rows = concat(batches[Source.CHANGE], shape.in_flight)
    existing_rows = concat(batches[Source.TABLE], existing_rows_schema(shape, complete=complete))
    remembered = find_tombstones(locations.lake.open(), tombstones, rows[LEADING_KEY], rows[KEY], shape)
    resolved = resolve(rows, existing_rows, remembered, shape, forgotten=forgotten, overlap_end=overlap_end)
    del batches, existing_rows
    yield to_resolution(resolved, counting)


def resolve_compared(
    entries: Iterable[SourceRows], *, shape: TableShape, counting: InsertCounting
) -> Iterator[Resolution]:
    """Resolve all rows of one key range of a full load that is compared with the table.

    Args:
        entries: These rows, and all of the table's in the range.
        counting: How to count the new rows.
    """
    batches = rows_by_source(entries)
    rows = concat(batches[Source.CHANGE], shape.in_flight)
    existing_rows = concat(batches[Source.TABLE], existing_rows_schema(shape, complete=True))
    yield to_resolution(resolve_difference(rows, existing_rows, shape), counting)


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
    return to_resolution(resolve_full_load(batch.rows.table, shape), counting)
