"""What changes in a table, and what the table must be afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.checksum import Checksum, checksum
from benchmarks.rows import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.rows import Numbers

_ROWS_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class Change:
    """Rows that are updated, deleted and inserted, by their numbers; no number is in two of them.

    Attributes:
        updated: Present rows that get a new version.
        deleted: Present rows that go.
        inserted: New rows.
        files: How many change files tell of it, an even number or 1. If there are several, every updated row is updated
            twice: in a file of the first half, and in one of the second.
    """

    updated: Numbers
    deleted: Numbers
    inserted: Numbers
    files: int = 1

    @property
    def last_version(self) -> int:
        """Version of the updated rows afterwards."""
        return 1 if self.files == 1 else 2

    @property
    def change_rows(self) -> int:
        """Rows in the change files."""
        return len(self.updated) * self.last_version + len(self.deleted) + len(self.inserted)


def drawn_change(first: int, present: int, count: int, seed: int, files: int = 1) -> Change:
    """A change of present rows drawn at random, and of new rows behind the last.

    Args:
        first: Number of the first row that may change; all up to the last present one may.
        present: Rows of the table, which are numbered from 0.
        count: Updates, deletes and inserts, each.
        seed: Of the draw.
        files: See `Change`.
    """
    dice = np.random.default_rng(seed)
    known = first + dice.choice(present - first, 2 * count, replace=False)
    new = np.arange(present, present + count, dtype=np.int64)
    return Change(np.sort(known[:count]), np.sort(known[count:]), new, files)


def write_change_files(change: Change, folder: Path, *, uuid_keys: bool) -> None:
    """Write the change as DMS does: files named by time, `Op` before the source's columns, deletes with all values."""
    dice = np.random.default_rng(len(change.updated))
    numbers = np.concatenate([change.updated, change.deleted, change.inserted])
    operations = np.repeat(["U", "D", "I"], [len(change.updated), len(change.deleted), len(change.inserted)])
    order = dice.permutation(len(numbers))
    halves = [(operations[order], numbers[order], 1)]
    if change.files > 1:
        halves.append((np.full(len(change.updated), "U"), dice.permutation(change.updated), 2))
    minutes = iter(range(24 * 60))
    for half_operations, half_numbers, version in halves:
        pieces = change.files // len(halves)
        split = zip(np.array_split(half_operations, pieces), np.array_split(half_numbers, pieces), strict=True)
        for piece_operations, piece_numbers in split:
            table = rows(piece_numbers, version, uuid_keys=uuid_keys)
            hour, minute = divmod(next(minutes), 60)
            name = f"20240305-{hour:02d}{minute:02d}00000.parquet"
            pq.write_table(table.add_column(0, "Op", pa.array(piece_operations)), folder / name)


def checksum_of(numbers: Numbers, version: int, *, uuid_keys: bool) -> Checksum:
    """Checksum of these rows in that version."""
    total = Checksum()
    for piece in _pieces(numbers):
        total += checksum(rows(piece, version, uuid_keys=uuid_keys))
    return total


def checksum_after(before: Checksum, change: Change, *, uuid_keys: bool) -> Checksum:
    """What a table with the checksum `before` must come to after the change, told by the rows' numbers alone."""
    gone = checksum_of(np.concatenate([change.updated, change.deleted]), 0, uuid_keys=uuid_keys)
    updated = checksum_of(change.updated, change.last_version, uuid_keys=uuid_keys)
    return before - gone + updated + checksum_of(change.inserted, 1, uuid_keys=uuid_keys)


def _pieces(numbers: Numbers) -> Iterator[Numbers]:
    for start in range(0, len(numbers), _ROWS_AT_ONCE):
        yield numbers[start : start + _ROWS_AT_ONCE]
