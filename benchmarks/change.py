"""The changes to a table, their change files, and the expected checksum afterwards."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.checksum import Checksum, checksum
from benchmarks.rows import ORDERS, rows, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rows import Numbers, Source, Versions

CHANGES_BEGIN_UTC = datetime(2024, 3, 5, tzinfo=timezone.utc)
"""Time of the first change file; the next ones follow every minute."""
PAST_DIVISOR = 8
"""Earlier small changes inserted the last eighth of a table."""
_CHUNK_ROWS = 1 << 17


@dataclass(frozen=True)
class Change:
    """Disjoint numbers of rows to update, delete and insert.

    Attributes:
        updated: Existing rows that get a new version.
        deleted: Existing rows to delete.
        inserted: New rows.
        version: Version of the new rows.
        files: Number of change files, 1 or even. With several files, each updated row is updated twice: in a file of
            the first half, and in a file of the second half.
    """

    updated: Numbers
    deleted: Numbers
    inserted: Numbers
    files: int = 1
    version: int = 1

    @property
    def last_version(self) -> int:
        """Final version of the updated rows."""
        return self.version if self.files == 1 else self.version + 1

    @property
    def change_rows(self) -> int:
        """Number of rows in the change files."""
        return len(self.updated) * (1 + self.last_version - self.version) + len(self.deleted) + len(self.inserted)


def random_change(first: int, table_rows: int, count: int, seed: int, *, files: int = 1, version: int = 1) -> Change:
    """A change of random existing rows, with new rows after the last.

    Args:
        first: First row that may change; all later rows may change too.
        table_rows: Number of rows in the table; they are numbered from 0.
        count: Number of updates, of deletes and of inserts.
        files: See `Change`.
        version: See `Change`.
    """
    random = np.random.default_rng(seed)
    existing = first + random.choice(table_rows - first, 2 * count, replace=False)
    new = np.arange(table_rows, table_rows + count, dtype=np.int64)
    return Change(np.sort(existing[:count]), np.sort(existing[count:]), new, files, version)


def change_of_stores(source: Source, stores: int, table_rows: int, count: int, seed: int) -> Change:
    """A change of random rows of the first stores, with new rows of theirs.

    Args:
        stores: Number of stores that change.
        table_rows: As in `random_change`.
        count: As in `random_change`.
    """
    existing, new = (
        numbers[store_of(numbers, source) < stores]
        for numbers in (np.arange(table_rows), table_rows + np.arange(2 * count * source.stores // stores))
    )
    change = random_change(0, len(existing), count, seed)
    return replace(change, updated=existing[change.updated], deleted=existing[change.deleted], inserted=new[:count])


def past_of(table_rows: int, count: int) -> list[Change]:
    """Small changes that a table has behind it: they inserted its last eighth, and updated each two older rows.

    Args:
        table_rows: Number of rows after the changes.
        count: Number of changes.
    """
    old_rows = table_rows - table_rows // PAST_DIVISOR
    updated = np.random.default_rng(9).choice(old_rows, 2 * count, replace=False)
    parts = np.array_split(np.arange(old_rows, table_rows), count)
    return [Change(np.sort(updated[2 * i : 2 * i + 2]), updated[:0], part) for i, part in enumerate(parts)]


def write_change_files(
    change: Change, folder: Path, source: Source = ORDERS, begin_utc: datetime = CHANGES_BEGIN_UTC
) -> None:
    """Write the change as DMS does: files named by time, `Op` before the source's columns, deletes with all values."""
    random = np.random.default_rng(len(change.updated))
    numbers = np.concatenate([change.updated, change.deleted, change.inserted])
    operations = np.repeat(["U", "D", "I"], [len(change.updated), len(change.deleted), len(change.inserted)])
    order = random.permutation(len(numbers))
    halves = [(operations[order], numbers[order], change.version)]
    if change.files > 1:
        halves.append((np.full(len(change.updated), "U"), random.permutation(change.updated), change.last_version))
    minutes = itertools.count()
    for half_operations, half_numbers, version in halves:
        pieces = change.files // len(halves)
        split = zip(np.array_split(half_operations, pieces), np.array_split(half_numbers, pieces), strict=True)
        for piece_operations, piece_numbers in split:
            table = rows(piece_numbers, version, source)
            name = f"{begin_utc + timedelta(minutes=next(minutes)):%Y%m%d-%H%M}00000.parquet"
            pq.write_table(table.add_column(0, "Op", pa.array(piece_operations)), folder / name)


def checksum_of(numbers: Numbers, version: Versions, source: Source = ORDERS) -> Checksum:
    """Checksum of rows in a version."""
    total, versions = Checksum(), np.broadcast_to(version, numbers.shape)
    for start in range(0, len(numbers), _CHUNK_ROWS):
        piece = slice(start, start + _CHUNK_ROWS)
        total += checksum(rows(numbers[piece], versions[piece], source))
    return total


def checksum_after(before: Checksum, change: Change, source: Source = ORDERS, replaced: Versions = 0) -> Checksum:
    """The expected checksum of a table after the change, computed from row numbers.

    Args:
        replaced: Versions of the updated rows, then of the deleted ones, before the change.
    """
    removed = checksum_of(np.concatenate([change.updated, change.deleted]), replaced, source)
    updated = checksum_of(change.updated, change.last_version, source)
    return before - removed + updated + checksum_of(change.inserted, change.version, source)


def checksum_of_versions(before: Checksum, change: Change, source: Source = ORDERS) -> Checksum:
    """The expected checksum of a history after a first change, in one file.

    It has each row from before, each updated and inserted row, and each deleted row a second time, as it was.
    """
    new = np.concatenate([change.updated, change.inserted])
    return before + checksum_of(new, change.version, source) + checksum_of(change.deleted, 0, source)
