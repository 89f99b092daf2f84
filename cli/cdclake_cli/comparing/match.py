"""Matches the rows of two tables by key, and tells which of their values differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Matched:
    """The rows of two tables.

    Attributes:
        only_left: Rows of the left table whose key the right one does not have.
        only_right: Rows of the right table whose key the left one does not have.
        left: Rows of the left table whose key the right one has.
        right: The right table's rows of these keys, in the same order.
        differs: For each column, whether the values of these rows differ.
        repeated_left: Rows of the left table that do not count, because another one with their key does.
        repeated_right: Such rows of the right table.
    """

    only_left: pa.Table
    only_right: pa.Table
    left: pa.Table
    right: pa.Table
    differs: Mapping[str, pa.ChunkedArray]
    repeated_left: pa.Table
    repeated_right: pa.Table

    @cached_property
    def differing(self) -> pa.ChunkedArray:
        """For each pair of rows, whether any of their values differ."""
        result = pa.chunked_array([pa.repeat(pa.scalar(value=False), self.left.num_rows)])
        for mask in self.differs.values():
            result = pc.or_(result, mask)
        return result

    @property
    def repeated(self) -> int:
        """Number of rows that do not count."""
        return int(self.repeated_left.num_rows + self.repeated_right.num_rows)


def match(left: pa.Table, right: pa.Table, key: Sequence[str]) -> Matched:
    """Match the rows of two tables with the same columns.

    If several rows of a table have one key, one that the other table has as well counts, or else the first; the others
    are repeated. Without a key, each row must occur as often in one table as in the other.
    """
    by = list(key) or left.column_names
    left_keys, right_keys = row_keys(left, by), row_keys(right, by)
    left_again, right_again = left.slice(0, 0), right.slice(0, 0)
    if key:
        left_counting = _counting(left, left_keys, right)
        if left_counting is not None:
            left_again, left = left.filter(pc.invert(left_counting)), left.filter(left_counting)
            left_keys = left_keys.filter(left_counting)
        right_counting = _counting(right, right_keys, left)  # of several rows that both have, the one that counts left
        if right_counting is not None:
            right_again, right = right.filter(pc.invert(right_counting)), right.filter(right_counting)
            right_keys = right_keys.filter(right_counting)
    else:
        left_keys, right_keys = _numbered(left_keys), _numbered(right_keys)
    indices = pc.index_in(right_keys, value_set=left_keys)
    in_both = pc.is_valid(indices)
    left_matches, right_matches = left.take(indices.filter(in_both)), right.filter(in_both)
    return Matched(
        only_left=left.filter(pc.invert(pc.is_in(left_keys, value_set=right_keys))),
        only_right=right.filter(pc.is_null(indices)),
        left=left_matches,
        right=right_matches,
        differs={name: _differs(left_matches[name], right_matches[name]) for name in right.column_names},
        repeated_left=left_again,
        repeated_right=right_again,
    )


def row_keys(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """One value per row, unique for the combination of the columns' values: each value after its length."""
    batches = []
    for name in names:
        column = rows[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        value = as_bytes(column)
        length = pc.binary_length(value).cast(pa.string()).cast(pa.binary())
        batches.append(pc.fill_null(pc.binary_join_element_wise(length, value, b":"), b"-"))
    return pc.binary_join_element_wise(*batches, b"")


def _counting(rows: pa.Table, keys: pa.ChunkedArray, other: pa.Table) -> pa.Array | None:
    """Which rows count, one for each key; None if all do."""
    if pc.count_distinct(keys).as_py() == len(keys):
        return None
    whole = row_keys(rows, rows.column_names)
    is_in_other = pc.is_in(whole, value_set=row_keys(other, rows.column_names)).to_numpy()
    best_first = np.argsort(~is_in_other, kind="stable")
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first_of_each = np.unique(codes[best_first], return_index=True)
    counting = np.zeros(len(keys), bool)
    counting[best_first[first_of_each]] = True
    return pa.array(counting)


def _numbered(keys: pa.ChunkedArray) -> pa.Array:
    """Number equal keys, so that each one is unique."""
    seen: dict[bytes, int] = {}
    numbered = []
    for key in keys.to_pylist():
        seen[key] = seen.get(key, 0) + 1
        numbered.append(b"%d|%s" % (seen[key], key))
    return pa.array(numbered, pa.binary())


def _differs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each row, whether the values differ; two nulls are equal, and two NaN."""
    one_is_null = pc.xor(left.is_valid(), right.is_valid())
    if left.type != right.type:
        left, right = as_bytes(left), as_bytes(right)
    differs = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        differs = pc.and_not(differs, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return pc.fill_null(pc.or_kleene(differs, one_is_null), False)


def as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of any type as bytes; binary values are kept, even if they are not valid text."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
