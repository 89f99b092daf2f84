"""Simulates the source: which rows exist and what changes next. It keeps only numbers, a few bytes per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdclake_devkit.feed.values import INCARNATION_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cdclake_devkit.feed.options import FeedOptions

    I64 = NDArray[np.int64]

INSERT, UPDATE, DELETE = 0, 1, 2
"""Operations, as indices of `OPERATIONS`."""
OPERATIONS = ("I", "U", "D")
NO_ROW = -1
_BLOCKS_PER_FILE = 8
_INSERTS_PER_REINSERT = 4
"""One insert in this many reuses a deleted key."""
_MAX_REMEMBERED_DELETES = 1 << 16
"""Number of the most recently deleted keys that may be inserted again."""
_TRIES = 4


class DrawnRows(NamedTuple):
    """Random change rows in statement order, one value per row.

    Attributes:
        numbers: Row numbers.
        versions: Version of the row after the change; for a delete, before it.
        operations: `INSERT`, `UPDATE` or `DELETE`.
        old_numbers: Row number before an update of the key; otherwise `NO_ROW`.
        old_versions: Version of the row before an update; otherwise `NO_ROW`.
    """

    numbers: I64
    versions: I64
    operations: I64
    old_numbers: I64
    old_versions: I64


class FeedSource:
    """The simulated source table. Row numbers count from 0, in the order of first inserts."""

    def __init__(self, options: FeedOptions, rng: np.random.Generator) -> None:
        self._options, self._rng = options, rng
        max_rows = options.rows + options.changes
        self._version = np.full(max_rows, NO_ROW, np.int64)
        self._version[: options.rows] = 0
        self._exists = np.zeros(max_rows, np.bool_)
        self._exists[: options.rows] = True
        self._next = options.rows
        self._deleted = np.empty(0, np.int64)

    def change(self, count: int) -> DrawnRows:
        """The next `count` change rows.

        Rows are drawn in blocks. Within a block, a key is inserted, deleted or moved at most once, or updated any
        number of times. Several blocks produce every sequence of operations on one key.
        """
        sizes = [len(part) for part in np.array_split(np.arange(count), min(_BLOCKS_PER_FILE, max(count, 1)))]
        blocks = [self._block(size) for size in sizes]
        return DrawnRows(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))

    def _block(self, count: int) -> DrawnRows:
        counts = self._rng.multinomial(count, self._options.shares.all)
        _, updates, deletes, moves, untidy = (int(number) for number in counts)
        deleted = np.unique(self._present(deletes))
        moved = np.setdiff1d(self._present(moves), deleted)
        taken = np.union1d(deleted, moved)
        repeated = np.setdiff1d(self._present(untidy // 2), taken)
        absent = np.setdiff1d(self._absent(untidy - len(repeated)), taken)
        updated = self._updates(updates)
        updated = updated[~np.isin(updated, np.concatenate([taken, repeated]))]
        # Inserts fill the place of operations that found no row, so that the number of rows is exact.
        inserts = count - len(deleted) - len(moved) - len(repeated) - len(absent) - len(updated)
        returned = np.setdiff1d(self._absent(inserts // _INSERTS_PER_REINSERT), absent)
        inserted = np.concatenate([returned, self._new(inserts - len(returned))])
        return self._shuffled(deleted, moved, repeated, absent, updated, inserted)

    def _shuffled(self, deleted: I64, moved: I64, repeated: I64, absent: I64, updated: I64, inserted: I64) -> DrawnRows:
        targets = self._new(len(moved))
        parts = (deleted, absent, inserted, repeated, targets, updated)
        numbers = np.concatenate(parts)
        before = self._version[numbers]
        sizes = [len(part) for part in parts]
        operations = np.repeat(np.array([DELETE] * 2 + [INSERT] * 2 + [UPDATE] * 2), sizes)
        old = np.full(len(numbers), NO_ROW, np.int64)
        old[sum(sizes[:4]) : sum(sizes[:5])] = moved
        order = self._rng.permutation(len(numbers))
        numbers, before, operations, old = numbers[order], before[order], operations[order], old[order]
        versions = np.where(operations == INSERT, ((before >> INCARNATION_BITS) + 1) << INCARNATION_BITS, before)
        versions = np.where(old != NO_ROW, 0, versions)
        updates = (operations == UPDATE) & (old == NO_ROW)
        old_versions = np.where(old != NO_ROW, self._version[old], NO_ROW)
        versions[updates] += 1 + _occurrence(numbers[updates])
        old_versions[updates] = versions[updates] - 1
        self._exists[numbers] = operations != DELETE
        self._exists[moved] = False
        self._version[numbers] = versions
        self._deleted = np.concatenate([self._deleted, deleted, moved])[-_MAX_REMEMBERED_DELETES:]
        return DrawnRows(numbers, versions, operations, old, old_versions)

    def _new(self, count: int) -> I64:
        self._next += count
        return np.arange(self._next - count, self._next)

    def _present(self, count: int) -> I64:
        """About `count` existing rows, drawn with replacement; fewer if few rows exist."""
        if not self._next:
            return np.empty(0, np.int64)
        drawn = self._rng.integers(0, self._next, count * _TRIES)
        return drawn[self._exists[drawn]][:count]

    def _absent(self, count: int) -> I64:
        """At most `count` different rows that were deleted and do not exist now."""
        absent = self._deleted[~self._exists[self._deleted]]
        if not len(absent) or not count:
            return np.empty(0, np.int64)
        return np.unique(absent[self._rng.integers(0, len(absent), count)])

    def _updates(self, count: int) -> I64:
        """About `count` existing rows, some with hot keys."""
        hot_keys = min(self._options.hot_keys, self._options.rows)
        if not hot_keys:
            return self._present(count)
        hot = int(self._rng.binomial(count, self._options.hot_share))
        drawn: I64 = self._rng.integers(0, hot_keys, hot) * (self._options.rows // hot_keys)
        return np.concatenate([drawn[self._exists[drawn]], self._present(count - hot)])


def _occurrence(numbers: I64) -> I64:
    """For each element, the number of equal elements before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.bool_)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ordered)), 0))
    counts = np.empty(len(numbers), np.int64)
    counts[order] = np.arange(len(ordered)) - first
    return counts
