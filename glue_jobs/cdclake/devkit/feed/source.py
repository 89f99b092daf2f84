"""The made-up source: which rows there are, and what changes next. Numbers alone, in a few bytes a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdclake.devkit.feed.values import INCARNATION_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cdclake.devkit.feed.options import FeedOptions

    I64 = NDArray[np.int64]

INSERT, UPDATE, DELETE = 0, 1, 2
"""Operations, as indices of `OPERATIONS`."""
OPERATIONS = ("I", "U", "D")
NO_ROW = -1
_BLOCKS_OF_A_FILE = 8
_ONE_BACK_IN = 4
"""One insert in so many is of a key that was deleted."""
_REMEMBERED = 1 << 16
"""So many deleted keys may come back: those that were deleted last."""
_TRIES = 4


class Drawn(NamedTuple):
    """Change rows in the order of the statements.

    Attributes:
        numbers: Numbers of rows.
        versions: Of the row after the change; of a delete, as it was.
        operations: `INSERT`, `UPDATE` or `DELETE`.
        old_numbers: Of an update of the key, the row's number before; else `NO_ROW`.
        old_versions: Of an update, the row's version before; else `NO_ROW`.
    """

    numbers: I64
    versions: I64
    operations: I64
    old_numbers: I64
    old_versions: I64


class Source:
    """Rows by number: 0 and up, in the order of their first insert.

    Args:
        options: Of the feed.
        dice: What everything is drawn with.
    """

    def __init__(self, options: FeedOptions, dice: np.random.Generator) -> None:
        self._options, self._dice = options, dice
        most = options.rows + options.changes
        self._version = np.full(most, NO_ROW, np.int64)
        self._version[: options.rows] = 0
        self._there = np.zeros(most, np.bool_)
        self._there[: options.rows] = True
        self._next = options.rows
        self._gone = np.empty(0, np.int64)

    def change(self, count: int) -> Drawn:
        """The next change rows, exactly so many.

        They are drawn in blocks. In a block a key is inserted, deleted or moved once at most, or updated any number of
        times; so several blocks give every sequence of operations on one key.
        """
        sizes = [len(part) for part in np.array_split(np.arange(count), min(_BLOCKS_OF_A_FILE, max(count, 1)))]
        blocks = [self._block(size) for size in sizes]
        return Drawn(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))

    def _block(self, count: int) -> Drawn:
        wanted = self._dice.multinomial(count, self._options.shares.all)
        _, updates, deletes, moves, untidy = (int(number) for number in wanted)
        deleted = np.unique(self._present(deletes))
        moved = np.setdiff1d(self._present(moves), deleted)
        taken = np.union1d(deleted, moved)
        again = np.setdiff1d(self._present(untidy // 2), taken)
        absent = np.setdiff1d(self._absent(untidy - len(again)), taken)
        updated = self._updates(updates)
        updated = updated[~np.isin(updated, np.concatenate([taken, again]))]
        # What found no row to act on becomes an insert, so that the number of rows is what was asked for.
        inserts = count - len(deleted) - len(moved) - len(again) - len(absent) - len(updated)
        returned = np.setdiff1d(self._absent(inserts // _ONE_BACK_IN), absent)
        inserted = np.concatenate([returned, self._new(inserts - len(returned))])
        return self._shuffled(deleted, moved, again, absent, updated, inserted)

    def _shuffled(self, deleted: I64, moved: I64, again: I64, absent: I64, updated: I64, inserted: I64) -> Drawn:
        targets = self._new(len(moved))
        numbers = np.concatenate([deleted, absent, inserted, again, targets, updated])
        before = self._version[numbers]
        made = [DELETE] * 2 + [INSERT] * 2 + [UPDATE] * 2
        sizes = [len(part) for part in (deleted, absent, inserted, again, targets, updated)]
        operations = np.repeat(np.array(made), sizes)
        old = np.full(len(numbers), NO_ROW, np.int64)
        old[sum(sizes[:4]) : sum(sizes[:5])] = moved
        order = self._dice.permutation(len(numbers))
        numbers, before, operations, old = numbers[order], before[order], operations[order], old[order]
        versions = np.where(operations == INSERT, ((before >> INCARNATION_BITS) + 1) << INCARNATION_BITS, before)
        versions = np.where(old != NO_ROW, 0, versions)
        updates = (operations == UPDATE) & (old == NO_ROW)
        old_versions = np.where(old != NO_ROW, self._version[old], NO_ROW)
        versions[updates] += 1 + _occurrence(numbers[updates])
        old_versions[updates] = versions[updates] - 1
        self._there[numbers] = operations != DELETE
        self._there[moved] = False
        self._version[numbers] = versions
        self._gone = np.concatenate([self._gone, deleted, moved])[-_REMEMBERED:]
        return Drawn(numbers, versions, operations, old, old_versions)

    def _new(self, count: int) -> I64:
        self._next += count
        return np.arange(self._next - count, self._next)

    def _present(self, count: int) -> I64:
        """About so many rows that are there, drawn with replacement; fewer if hardly any are."""
        if not self._next:
            return np.empty(0, np.int64)
        drawn = self._dice.integers(0, self._next, count * _TRIES)
        return drawn[self._there[drawn]][:count]

    def _absent(self, count: int) -> I64:
        """At most so many different rows that were there once and are not now."""
        gone = self._gone[~self._there[self._gone]]
        if not len(gone) or not count:
            return np.empty(0, np.int64)
        return np.unique(gone[self._dice.integers(0, len(gone), count)])

    def _updates(self, count: int) -> I64:
        """About so many rows that are there, of which some are hot."""
        hot_keys = min(self._options.hot_keys, self._options.rows)
        if not hot_keys:
            return self._present(count)
        hot = int(self._dice.binomial(count, self._options.hot_share))
        drawn: I64 = self._dice.integers(0, hot_keys, hot) * (self._options.rows // hot_keys)
        return np.concatenate([drawn[self._there[drawn]], self._present(count - hot)])


def _occurrence(numbers: I64) -> I64:
    """For each element, how many equal ones come before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.bool_)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ordered)), 0))
    counts = np.empty(len(numbers), np.int64)
    counts[order] = np.arange(len(ordered)) - first
    return counts
