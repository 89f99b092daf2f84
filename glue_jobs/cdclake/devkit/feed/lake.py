"""What a lake table holds after the files that came: the last change of each key, kept as numbers.

Given row by row this is what `cdclake.oracle` says; here it is done a file at a time, in a few bytes a key. A property
test holds the two equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdclake.devkit.feed.source import DELETE, INSERT, NO_ROW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

LOADED = -1
"""Order of a loaded row: below every change."""
NO_TIME = np.iinfo(np.int64).min


class Delivery(NamedTuple):
    """Good change rows of one file.

    Attributes:
        order: Orders them among all rows of the feed; a file that comes again has the same.
        numbers, versions, operations, old_numbers: As of `Drawn`. Old numbers only if the file tells them.
        stamps_us: Commit times, in microseconds since 1970.
        times_us: Since when the history says that a row is so, likewise.
        schemas: Index of the file's columns among those of the feed, a row each.
    """

    order: I64
    numbers: I64
    versions: I64
    operations: I64
    old_numbers: I64
    stamps_us: I64
    times_us: I64
    schemas: I64

    def with_derived(self) -> Delivery:
        """The same with a delete of each old key, of which nothing but the key is known: its version is `NO_ROW`."""
        moved = np.flatnonzero(self.old_numbers != NO_ROW)
        if not len(moved):
            return self
        nothing = np.full(len(moved), NO_ROW, np.int64)
        derived = self.take(moved)._replace(
            numbers=self.old_numbers[moved],
            versions=nothing,
            operations=np.full(len(moved), DELETE),
            old_numbers=nothing,
        )
        return together([self, derived])

    def take(self, places: I64 | NDArray[np.bool_]) -> Delivery:
        """The rows at some places, in that order; or those for which a boolean is true."""
        return Delivery(*(values[places] for values in self))


def together(deliveries: Iterable[Delivery]) -> Delivery:
    """Rows of several deliveries, one at least."""
    return Delivery(*(np.concatenate(columns) for columns in zip(*deliveries, strict=True)))


class LakeRows(NamedTuple):
    """Rows of the lake table; attributes as of `Delivery`, one value a row."""

    numbers: I64
    versions: I64
    operations: I64
    stamps_us: I64
    schemas: I64


class Lake:
    """The lake table by number.

    Args:
        most: Numbers there can be.
        operations_told: Whether files tell operations; else all are inserts.
        soft_delete: Whether a deleted row stays as the last insert or update made it, but for its operation.
    """

    def __init__(self, most: int, *, operations_told: bool, soft_delete: bool = False) -> None:
        self._told, self._soft = operations_told, soft_delete
        self._last = np.full(most, LOADED - 1, np.int64)
        self._deleted = np.zeros(most, np.bool_)
        # What the last insert or update made; none came if its order is below that of a loaded row.
        self._order = np.full(most, LOADED - 1, np.int64)
        self._versions = np.full(most, NO_ROW, np.int64)
        self._operations = np.zeros(most, np.int8)
        self._stamps = np.zeros(most, np.int64)
        self._schemas = np.zeros(most, np.int16)

    def load(self, first: int, end: int, stamp_us: int) -> None:
        """Rows of a full-load file."""
        self._last[first:end] = LOADED
        self._order[first:end] = LOADED
        self._versions[first:end] = 0
        self._operations[first:end] = INSERT
        self._stamps[first:end] = stamp_us

    def apply(self, delivery: Delivery) -> None:
        """The rows of a change file: of each key the last counts, if no later one came before."""
        rows = delivery.with_derived()
        last = _later(rows, self._last)
        self._last[last.numbers] = last.order
        self._deleted[last.numbers] = last.operations == DELETE
        made = _later(rows.take(rows.operations != DELETE), self._order)
        self._order[made.numbers] = made.order
        self._versions[made.numbers] = made.versions
        self._operations[made.numbers] = made.operations if self._told else INSERT
        self._stamps[made.numbers] = made.stamps_us
        self._schemas[made.numbers] = made.schemas

    def numbers(self) -> I64:
        """Numbers of the rows that are there, ascending."""
        made = self._order >= LOADED
        return np.flatnonzero(made if self._soft else made & ~self._deleted)

    def rows(self, numbers: I64) -> LakeRows:
        """Some rows that are there."""
        operations = np.where(self._deleted[numbers], DELETE, self._operations[numbers])
        columns = (self._versions[numbers], operations, self._stamps[numbers], self._schemas[numbers])
        return LakeRows(numbers, *(column.astype(np.int64) for column in columns))


def _later(rows: Delivery, known: I64) -> Delivery:
    """Of each number the last row, if it is later than what is known."""
    by_key = np.lexsort((rows.order, rows.numbers))
    numbers = rows.numbers[by_key]
    is_last = np.ones(len(numbers), np.bool_)
    is_last[:-1] = numbers[1:] != numbers[:-1]
    last = rows.take(by_key[is_last])
    return last.take(last.order > known[last.numbers])
