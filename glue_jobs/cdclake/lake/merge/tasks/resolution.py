"""What a batch of rows becomes, as it travels between tasks: counts for the driver, rows for those that write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.merge.key_updates import KeyMoves
from cdclake.lake.merge.rewrite_plan import InsertStatsByPartition
from cdclake.lake.merge.unknown_keys import UnknownKeys
from cdclake.lake.storage.arrow_ipc import Rows, kept
from cdclake.lake.storage.key_ranges import count_by_range, sample_by_bytes
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.wide_rows import combined, row_bytes

if TYPE_CHECKING:
    from cdclake.lake.merge.file_ranges import FileBounds
    from cdclake.lake.merge.resolve import Counts, ResolvedBatch
    from cdclake.lake.storage.partitions import Partition, PartitionedRows
    from cdclake.model.snapshot import KeyValue


@dataclass(frozen=True)
class Resolution:
    """A `ResolvedBatch` as it travels between tasks: counts for the driver, rows for the writers.

    Attributes:
        touched: Indices of the data files that lose rows.
        inserts: Statistics of the new rows of each partition, in their order in `additions`.
        deletes: Number of tombstones.
        removals: By file index, see `ResolvedBatch.removals`.
        replacements: Rows by file index.
        additions: New rows, by partition; None for none.
        tombstones: Deletes to remember; None for none.
        moves: What is known about updates that changed keys.
        unknown: Updates of keys that the table lacks, if they may have changed them.
        needs_values: See `ResolvedBatch.needs_values`.
    """

    counts: Counts
    touched: frozenset[int] = frozenset()
    inserts: InsertStatsByPartition = field(default_factory=InsertStatsByPartition)
    deletes: int = 0
    removals: dict[int, Rows] = field(default_factory=dict)
    replacements: dict[int, Rows] = field(default_factory=dict)
    additions: Rows | None = None
    tombstones: Rows | None = None
    moves: KeyMoves = KeyMoves()  # noqa: RUF009 - frozen
    unknown: UnknownKeys = UnknownKeys()  # noqa: RUF009 - frozen
    needs_values: bool = False

    def summary(self) -> Resolution:
        """The same without rows, and without most of the moves: the others are rare."""
        return replace(
            self,
            removals={},
            replacements={},
            additions=None,
            tombstones=None,
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


@dataclass(frozen=True)
class InsertCounting:
    """How tasks count new rows for the driver, which plans from the counts alone.

    Attributes:
        file_bounds: See `FileBounds`.
        samples_per_file: See `EngineLimits.samples_per_file`.
    """

    file_bounds: FileBounds
    target_file_bytes: int
    samples_per_file: int = DEFAULT_LIMITS.samples_per_file

    def stats(self, new: PartitionedRows) -> InsertStatsByPartition:
        """Count the new rows of each partition, which are sorted by leading key if there is one."""
        partitions, counts, sizes = list(new.counts), list(new.counts.values()), _memory_bytes(new)
        samples: dict[Partition, tuple[KeyValue, ...]] = {}
        by_range: dict[Partition, dict[int, int]] = {}
        has_key = not partitions or LEADING_KEY in new.rows.column_names
        if partitions and has_key:
            keys = new.rows[LEADING_KEY].combine_chunks()
            bytes_per_sample = self.target_file_bytes / self.samples_per_file
            for number, values in sample_by_bytes(keys, counts, sizes, bytes_per_sample):
                samples[partitions[number]] = tuple(values)
            start = 0
            for partition, count in new.counts.items():
                bounds = self.file_bounds.of(partition)
                if bounds:
                    by_range[partition] = count_by_range(keys.slice(start, count), bounds)
                start += count
        return InsertStatsByPartition(new.counts, dict(zip(partitions, sizes)), samples, by_range, has_key)


def to_resolution(resolved: ResolvedBatch, counting: InsertCounting) -> Resolution:
    """Count the rows of a resolved batch."""
    new = resolved.inserts._replace(rows=combined(resolved.inserts.rows))
    return replace(
        without_stored_rows(resolved),
        touched=frozenset(resolved.removals),
        inserts=counting.stats(new),
        removals=kept(resolved.removals),
        replacements=kept(resolved.replacements),
        additions=Rows.to_keep(new.rows) if new.counts else None,
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
        tombstones=Rows.to_keep(tombstones) if tombstones else None,
        moves=resolved.moves,
        unknown=resolved.unknown,
    )
