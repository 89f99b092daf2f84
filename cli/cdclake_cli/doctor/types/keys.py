"""Finds columns that are unique in a full load, and may be its key. Pure."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MAX_SEEN = 1_000_000
"""A column's values are compared with each other up to so many rows."""
MAX_KEYS = 3
_MAX_KEY_BYTES = 256
"""Longer texts are no keys, and are not kept."""
_TRIED = 6
"""Columns of which pairs are tried as keys."""
_NAMES = ("id", "key", "code", "no")
"""What names of keys end with."""


class KeyCandidate(NamedTuple):
    """Columns that may be the key.

    Attributes:
        names: The columns.
        distinct: Number of their distinct values.
        rows: Number of rows that were compared.
    """

    names: tuple[str, ...]
    distinct: int
    rows: int

    @property
    def is_unique(self) -> bool:
        """Whether no two rows have the same values."""
        return self.distinct == self.rows


class KeyStatistics:
    """Collects values of the first rows of a full load.

    Attributes:
        rows: Number of rows.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._values: dict[str, list[pa.Array]] | None = None

    def add(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        """Add the columns of the next rows."""
        if not rows or self.rows >= MAX_SEEN:
            return
        self.rows += rows
        before = {name: [] for name in columns} if self._values is None else self._values
        self._values = {
            name: [*parts, columns[name]]
            for name, parts in before.items()
            if name in columns and "," not in name and name == name.strip() and _may_be_key(columns[name])
        }

    def candidates(self, typed: Callable[[str, pa.ChunkedArray], pa.Array | None]) -> list[KeyCandidate]:
        """Columns without nulls and their number of distinct values: unique ones, else the nearest.

        If no column is unique, pairs of columns are tried, and the nearest column is also given.

        Args:
            typed: The values of a column as its type, because 1.0 and 1.00 are one decimal; None if it is no key.
        """
        columns: dict[str, pa.Array] = {}
        for name, parts in (self._values or {}).items():
            values = typed(name, pa.chunked_array(parts)) if len({part.type for part in parts}) == 1 else None
            if values is not None and not values.null_count:
                columns[name] = values
        distinct = {name: len(values.unique()) for name, values in columns.items()}
        unique = [name for name, count in distinct.items() if count == self.rows]
        if unique:
            return [KeyCandidate((name,), self.rows, self.rows) for name in unique]
        nearest = sorted(distinct, key=lambda name: -distinct[name])[:_TRIED]
        rows = pa.table({name: columns[name].dictionary_encode().indices for name in nearest})
        pairs = [
            KeyCandidate((first, second), self.rows, self.rows)
            for first, second in combinations([name for name in columns if name in nearest], 2)
            if distinct[first] * distinct[second] >= self.rows
            and rows.group_by([first, second]).aggregate([]).num_rows == self.rows
        ]
        return [*pairs, *(KeyCandidate((name,), distinct[name], self.rows) for name in nearest[:1])]


def likeliest(candidates: Iterable[KeyCandidate], simple: Iterable[str], order: Sequence[str]) -> list[KeyCandidate]:
    """Up to `MAX_KEYS` candidates, the likeliest first.

    Unique keys come first, of few columns, of numbers or text, called like one, as early in the file as possible.

    Args:
        simple: Columns of whole numbers or text.
        order: All columns, in the order of the files.
    """
    ordinary = set(simple)

    def rank(key: KeyCandidate) -> tuple[bool, int, bool, bool, int]:
        return (
            not key.is_unique,
            len(key.names),
            not ordinary.issuperset(key.names),
            not any(name.lower().rstrip("s").endswith(_NAMES) for name in key.names),
            min(order.index(name) for name in key.names),
        )

    return sorted(candidates, key=rank)[:MAX_KEYS]


def _may_be_key(values: pa.Array) -> bool:
    if values.null_count:
        return False
    if not (pa.types.is_binary(values.type) or pa.types.is_string(values.type)):
        return bool(pa.types.is_integer(values.type) or pa.types.is_decimal(values.type))
    lengths = pc.min_max(pc.binary_length(values)).as_py()
    return bool(lengths["min"] > 0 and lengths["max"] <= _MAX_KEY_BYTES)
