"""Models a lake table as numbers: the last change of each key in the delivered files.

The result equals the oracle's (`cdclake_devkit.oracle`), but is computed a file at a time and in a few bytes per key.
A property test checks that both are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdclake_devkit.feed.source import DELETE, INSERT, NO_ROW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

LOADED = -1
"""Order of a full-load row: before every change."""
NO_TIME = np.iinfo(np.int64).min


class DeliveredRows(NamedTuple):
    """The good change rows of one file, one value per row.

    Attributes:
        order: Order among all rows of the feed; a repeated file has the same values. Odd only for rows that a resumed
            task sends again with their change sequence: one more than before.
        numbers, versions, operations, old_numbers: As in `DrawnRows`. `NO_ROW` if the file lacks the old key.
        stamps_us: Commit times, in microseconds since 1970.
        times_us: Start of the version's validity in the history, in microseconds since 1970.
        schemas: Index of the file's columns among the feed's schemas.
    """

    order: I64
    numbers: I64
    versions: I64
    operations: I64
    old_numbers: I64
    stamps_us: I64
    times_us: I64
    schemas: I64

    def with_derived(self) -> DeliveredRows:
        """These rows and a delete of each old key. Only the key of such a row is known: its version is `NO_ROW`."""
        moved = np.flatnonzero(self.old_numbers != NO_ROW)
        if not len(moved):
            return self
        unknown = np.full(len(moved), NO_ROW, np.int64)
        derived = self.take(moved)._replace(
            numbers=self.old_numbers[moved],
            versions=unknown,
            operations=np.full(len(moved), DELETE),
            old_numbers=unknown,
        )
        return concat_rows([self, derived])

    def take(self, indices: I64 | NDArray[np.bool_]) -> DeliveredRows:
        """The rows at these indices, in that order, or the rows where a mask is true."""
        return DeliveredRows(*(values[indices] for values in self))


def concat_rows(deliveries: Iterable[DeliveredRows]) -> DeliveredRows:
    """The rows of one or more deliveries."""
    return DeliveredRows(*(np.concatenate(columns) for columns in zip(*deliveries, strict=True)))


class LakeRows(NamedTuple):
    """Rows of the lake table; attributes as in `DeliveredRows`, one value per row."""

    numbers: I64
    versions: I64
    operations: I64
    stamps_us: I64
    schemas: I64


class LakeModel:
    """The lake table by row number.

    Args:
        max_rows: Upper bound of row numbers, exclusive.
        has_operations: Whether files have the column `Op`; otherwise all rows are inserts.
        soft_delete: Whether a deleted row stays, with the values of the last insert or update and the operation `D`.
    """

    def __init__(self, max_rows: int, *, has_operations: bool, soft_delete: bool = False) -> None:
        self._has_operations, self._soft = has_operations, soft_delete
        self._last = np.full(max_rows, LOADED - 1, np.int64)
        self._deleted = np.zeros(max_rows, np.bool_)
        # Of the last insert or update; an order below LOADED means that there was none.
        self._order = np.full(max_rows, LOADED - 1, np.int64)
        self._versions = np.full(max_rows, NO_ROW, np.int64)
        self._operations = np.zeros(max_rows, np.int8)
        self._stamps = np.zeros(max_rows, np.int64)
        self._schemas = np.zeros(max_rows, np.int16)

    def load(self, first: int, end: int, stamp_us: int) -> None:
        """Apply the rows of a full-load file."""
        self._last[first:end] = LOADED
        self._order[first:end] = LOADED
        self._versions[first:end] = 0
        self._operations[first:end] = INSERT
        self._stamps[first:end] = stamp_us

    def apply(self, delivery: DeliveredRows) -> None:
        """Apply the rows of a change file: the last row of each key wins, unless a later one was applied before."""
        rows = delivery.with_derived()
        last = _later(rows, self._last)
        self._last[last.numbers] = last.order
        self._deleted[last.numbers] = last.operations == DELETE
        written = _later(rows.take(rows.operations != DELETE), self._order)
        self._order[written.numbers] = written.order
        self._versions[written.numbers] = written.versions
        self._operations[written.numbers] = written.operations if self._has_operations else INSERT
        self._stamps[written.numbers] = written.stamps_us
        self._schemas[written.numbers] = written.schemas

    def numbers(self) -> I64:
        """Numbers of the existing rows, ascending."""
        written = self._order >= LOADED
        return np.flatnonzero(written if self._soft else written & ~self._deleted)

    def rows(self, numbers: I64) -> LakeRows:
        """The existing rows with these numbers."""
        operations = np.where(self._deleted[numbers], DELETE, self._operations[numbers])
        columns = (self._versions[numbers], operations, self._stamps[numbers], self._schemas[numbers])
        return LakeRows(numbers, *(column.astype(np.int64) for column in columns))


def _later(rows: DeliveredRows, known: I64) -> DeliveredRows:
    """The last row of each number, if it is later than the known order."""
    by_key = np.lexsort((rows.order, rows.numbers))
    numbers = rows.numbers[by_key]
    is_last = np.ones(len(numbers), np.bool_)
    is_last[:-1] = numbers[1:] != numbers[:-1]
    last = rows.take(by_key[is_last])
    return last.take(last.order > known[last.numbers])
