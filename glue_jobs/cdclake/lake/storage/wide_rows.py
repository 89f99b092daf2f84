"""Handles rows of any length: takes and cuts rows by bytes.

Arrow's text and binary arrays have 32-bit offsets, so one array holds at most 2 GB. Filters and concatenations of
tables leave the chunks as they are. `pyarrow.Table.take` first puts the chunks of a column into one array, and fails.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MAX_TAKEN_BYTES = 1 << 30
"""Most bytes of rows that Arrow takes at once, with room to the 2 GB."""
_VALUE_BYTES = 8
_OFFSET_BYTES = 4
_SLACK = 1.1
"""Parts of equal numbers of rows are cut this much smaller, because their bytes differ a little."""
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def take(rows: pa.Table, indices: pa.Array, max_bytes: int = MAX_TAKEN_BYTES) -> pa.Table:
    """The rows at these indices, like `pyarrow.Table.take`, for columns of any size; a null index yields null.

    Args:
        max_bytes: Most bytes of rows to take at once.
    """
    if not (rows.num_rows and len(indices)):
        return rows.take(indices)
    if rows.nbytes * len(indices) <= max_bytes:  # even if all are the longest row
        return rows.take(indices)
    sizes = row_bytes(rows)
    taken = sizes[pc.fill_null(indices, 0).to_numpy(zero_copy_only=False)]
    if max(sizes.sum(), taken.sum()) <= max_bytes:
        return rows.take(indices)
    large = rows.cast(pa.schema([field.with_type(_LARGE.get(field.type, field.type)) for field in rows.schema]))
    large, ends = large.combine_chunks(), _cuts(taken, max_bytes)
    pieces = (indices.slice(start, end - start) for start, end in zip([0, *ends], ends, strict=False))
    return pa.concat_tables([large.take(piece).cast(rows.schema) for piece in pieces])


def combined(rows: pa.Table, max_bytes: int = MAX_TAKEN_BYTES) -> pa.Table:
    """The rows with one chunk for each column, unless they are too large for that."""
    return rows.combine_chunks() if rows.nbytes <= max_bytes else rows


def where(rows: pa.Table, is_wanted: pa.Array) -> pa.Table:
    """The wanted rows, like `pyarrow.Table.filter`, but without a copy if all are."""
    return rows if pc.all(is_wanted, skip_nulls=False).as_py() else rows.filter(is_wanted)


def cut_by_bytes(rows: pa.Table, max_bytes: int) -> Iterator[pa.Table]:
    """Cut rows into slices of at most about `max_bytes` in Arrow, decoded, and at least one row."""
    all_bytes = decoded_bytes(rows)
    if rows.num_rows and all_bytes <= max_bytes:
        yield rows
        return
    size = ceil(rows.num_rows / max(1, ceil(all_bytes * _SLACK / max_bytes)))
    for first in range(0, rows.num_rows, max(1, size)):
        part, start = rows.slice(first, size), 0
        ends = [part.num_rows] if decoded_bytes(part) <= max_bytes else _cuts(row_bytes(part), max_bytes)
        for end in ends:
            yield part.slice(start, end - start)
            start = end


def row_bytes(rows: pa.Table) -> NDArray[np.int64]:
    """Bytes of each row, decoded."""
    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            sizes += np.concatenate([_decoded_lengths(chunk) for chunk in column.chunks] or [sizes])
        elif is_text(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
        sizes += _VALUE_BYTES
    return sizes


def decoded_bytes(rows: pa.Table) -> int:
    """Bytes of rows in Arrow, if no column were dictionary-encoded: a long text that repeats needs many times more."""
    return sum(_decoded_bytes(one) if pa.types.is_dictionary(one.type) else one.nbytes for one in rows.columns)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type have any length."""
    return kind in _LARGE or kind in _LARGE.values()


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    return _OFFSET_BYTES * len(column) + sum(int(_decoded_lengths(chunk).sum()) for chunk in column.chunks)


def _decoded_lengths(values: pa.DictionaryArray) -> NDArray[np.int64]:
    """Bytes of the text of each value; 0 for null and what is no text."""
    if not (is_text(values.dictionary.type) and len(values.dictionary)):
        return np.zeros(len(values), np.int64)
    lengths = pc.fill_null(pc.binary_length(values.dictionary), 0).to_numpy().astype(np.int64)
    found: NDArray[np.int64] = lengths[pc.fill_null(values.indices, 0).to_numpy()]
    if values.null_count:
        found[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _cuts(sizes: NDArray[np.int64], max_bytes: int) -> list[int]:
    """Ends of consecutive runs of rows, each of at most `max_bytes` or one row."""
    ends: list[int] = []
    sums, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = sums[start - 1] if start else 0
        start = max(start + 1, int(np.searchsorted(sums, before + max_bytes, "right")))
        ends.append(start)
    return ends
