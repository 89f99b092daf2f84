"""The changes to a table, their change files, and the expected checksum afterwards."""

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

_CHUNK_ROWS = 1 << 17


@dataclass(frozen=True)
class Change:
    """Disjoint numbers of rows to update, delete and insert.

    Attributes:
        updated: Existing rows that get a new version.
        deleted: Existing rows to delete.
        inserted: New rows.
        files: Number of change files, 1 or even. With several files, each updated row is updated twice: in a file of
            the first half, and in a file of the second half.
    """

    updated: Numbers
    deleted: Numbers
    inserted: Numbers
    files: int = 1

    @property
    def last_version(self) -> int:
        """Final version of the updated rows."""
        return 1 if self.files == 1 else 2

    @property
    def change_rows(self) -> int:
        """Number of rows in the change files."""
        return len(self.updated) * self.last_version + len(self.deleted) + len(self.inserted)


def random_change(first: int, table_rows: int, count: int, seed: int, files: int = 1) -> Change:
    """A change of random existing rows, with new rows after the last.

    Args:
        first: First row that may change; all later rows may change too.
        table_rows: Number of rows in the table; they are numbered from 0.
        count: Number of updates, of deletes and of inserts.
        files: See `Change`.
    """
    random = np.random.default_rng(seed)
    existing = first + random.choice(table_rows - first, 2 * count, replace=False)
    new = np.arange(table_rows, table_rows + count, dtype=np.int64)
    return Change(np.sort(existing[:count]), np.sort(existing[count:]), new, files)


def write_change_files(change: Change, folder: Path, *, uuid_keys: bool) -> None:
    """Write the change as DMS does: files named by time, `Op` before the source's columns, deletes with all values."""
    random = np.random.default_rng(len(change.updated))
    numbers = np.concatenate([change.updated, change.deleted, change.inserted])
    operations = np.repeat(["U", "D", "I"], [len(change.updated), len(change.deleted), len(change.inserted)])
    order = random.permutation(len(numbers))
    halves = [(operations[order], numbers[order], 1)]
    if change.files > 1:
        halves.append((np.full(len(change.updated), "U"), random.permutation(change.updated), 2))
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
    """Checksum of rows in a version."""
    total = Checksum()
    for piece in _chunks(numbers):
        total += checksum(rows(piece, version, uuid_keys=uuid_keys))
    return total


def checksum_after(before: Checksum, change: Change, *, uuid_keys: bool) -> Checksum:
    """The expected checksum of a table after the change, computed from row numbers."""
    removed = checksum_of(np.concatenate([change.updated, change.deleted]), 0, uuid_keys=uuid_keys)
    updated = checksum_of(change.updated, change.last_version, uuid_keys=uuid_keys)
    return before - removed + updated + checksum_of(change.inserted, 1, uuid_keys=uuid_keys)


def _chunks(numbers: Numbers) -> Iterator[Numbers]:
    for start in range(0, len(numbers), _CHUNK_ROWS):
        yield numbers[start : start + _CHUNK_ROWS]
