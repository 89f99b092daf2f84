"""Finds the data files that may contain a key, by the snapshot's key ranges (pruning); splits sorted rows at bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from cdclake.lake.storage.keys import LEADING_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.model.snapshot import DataFile, KeyValue

MAX_INTEGER = 2**63 - 1


def candidate_rows(leading_keys: pa.ChunkedArray, files: Sequence[DataFile]) -> Iterator[tuple[int, int, int]]:
    """Find the rows whose key each data file may contain.

    Args:
        leading_keys: Leading keys of the rows, sorted ascending, no nulls.
        files: Live data files.

    Yields:
        Index of a file, and the half-open range of rows whose leading key is in the file's key range. A file without a
        known range may contain every row. A file that contains none is left out.
    """
    rows = len(leading_keys)
    if not rows:
        return
    values = _search_array(leading_keys)
    kind = int if pa.types.is_integer(leading_keys.type) else str
    known = [i for i, file in enumerate(files) if isinstance(file.key_min, kind) and isinstance(file.key_max, kind)]
    starts = np.searchsorted(values, np.array([files[i].key_min for i in known], values.dtype), "left")
    ends = np.searchsorted(values, np.array([files[i].key_max for i in known], values.dtype), "right")
    unknown = set(range(len(files))).difference(known) if len(known) < len(files) else ()
    ranges = dict.fromkeys(unknown, (0, rows))
    for n in np.flatnonzero(ends > starts).tolist():
        ranges[known[n]] = int(starts[n]), int(ends[n])
    for i, (start, end) in sorted(ranges.items()):
        yield i, start, end


def without_key_ranges(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The same files without key ranges: after a type change, old bounds do not compare with new keys."""
    return tuple(replace(file, key_min=None, key_max=None) for file in files)


def overlapping_files(files: Sequence[DataFile]) -> frozenset[int]:
    """Indices of the files whose key range is unknown or overlaps another file's."""
    unknown = {i for i, file in enumerate(files) if file.key_min is None or file.key_max is None}
    by_key = sorted(
        (i for i in range(len(files)) if i not in unknown), key=lambda i: (files[i].key_min, files[i].key_max)
    )
    overlapping = set(unknown)
    furthest: int | None = None
    for i in by_key:
        if furthest is not None and files[i].key_min <= files[furthest].key_max:  # type: ignore[operator]  # one kind
            overlapping |= {i, furthest}
        if furthest is None or files[i].key_max > files[furthest].key_max:  # type: ignore[operator]  # likewise
            furthest = i
    return frozenset(overlapping)


def split_at_bounds(table: pa.Table, bounds: Sequence[KeyValue]) -> Iterator[tuple[int, pa.Table]]:
    """Split rows by key range.

    Args:
        table: Rows with a leading key, sorted by it.
        bounds: Ascending; range `i` goes from `bounds[i - 1]` (inclusive) to `bounds[i]` (exclusive).

    Yields:
        Index of a range, 0 to `len(bounds)`, and its rows; empty ranges are left out.
    """
    if not bounds:
        if table.num_rows:
            yield 0, table
        return
    values = _search_array(table[LEADING_KEY])
    ends = [*np.searchsorted(values, np.array(bounds, values.dtype), "left").tolist(), table.num_rows]
    start = 0
    for index, end in enumerate(ends):
        if end > start:
            yield index, table.slice(start, end - start)
        start = max(start, end)


def split_unsorted(
    rows: pa.Table, leading_keys: pa.Array, bounds: Sequence[KeyValue]
) -> Iterator[tuple[int, pa.Table]]:
    """As `split_at_bounds`, of rows in any order, which they keep.

    Args:
        leading_keys: Of the rows.
        bounds: At least one.
    """
    values = _search_array(leading_keys)
    numbers = np.searchsorted(np.array(bounds, values.dtype), values, "right")
    for number in np.unique(numbers).tolist():
        is_own = numbers == number
        yield number, rows if is_own.all() else rows.filter(pa.array(is_own))


def count_by_range(leading_keys: pa.ChunkedArray, bounds: Sequence[KeyValue]) -> dict[int, int]:
    """Number of sorted leading keys in each range, as in `split_at_bounds`; empty ranges are left out."""
    values = _search_array(leading_keys)
    ends = np.searchsorted(values, np.array(bounds, values.dtype), "left").tolist()
    counts = np.diff([0, *ends, len(values)]).tolist()
    return {number: rows for number, rows in enumerate(counts) if rows}


def quantiles(samples: Sequence[KeyValue], parts: int) -> list[KeyValue]:
    """Bounds that split sorted samples into at most `parts` ranges of about equal size; fewer if keys repeat."""
    picked = [samples[len(samples) * i // parts] for i in range(1, parts)] if samples else []
    smallest = samples[0] if samples else None
    return sorted({bound for bound in picked if bound != smallest}, key=lambda bound: (bound is not None, bound))


def sample_by_bytes(
    leading_keys: pa.Array, counts: Sequence[int], sizes: Sequence[int], bytes_per_sample: float
) -> Iterator[tuple[int, list[KeyValue]]]:
    """Evenly spaced values of each of consecutive parts of leading keys, about one for a number of bytes.

    Rows that need fewer bytes give one sample with the corresponding probability. So samples of many small batches
    together are as many as samples of one large batch. The choice depends on the keys alone, so a repeated task chooses
    the same.

    Args:
        leading_keys: Leading keys, sorted within each part.
        counts: Number of keys of each part, at least one.
        sizes: Bytes of the rows of each part, in Arrow.

    Yields:
        Number of a part, and its samples; parts without samples are left out.
    """
    starts = np.cumsum([0, *counts])[:-1]
    firsts = leading_keys.take(pa.array(starts)).to_pylist()
    chances = np.array([crc32(str(first).encode()) for first in firsts]) / 2**32
    steps = np.maximum(1.0, np.array(counts) * bytes_per_sample / np.maximum(sizes, 1))
    offsets = chances * steps
    for part in np.flatnonzero(offsets < counts).tolist():
        positions = starts[part] + np.arange(offsets[part], counts[part], steps[part]).astype(np.int64)
        yield part, leading_keys.take(pa.array(positions)).to_pylist()


def sample(leading_keys: pa.ChunkedArray, count: int) -> list[KeyValue]:
    """At most `count` evenly spaced values of sorted leading keys."""
    positions = np.unique(np.linspace(0, len(leading_keys) - 1, min(count, len(leading_keys))).astype(np.int64))
    values: list[KeyValue] = leading_keys.take(pa.array(positions)).to_pylist()
    return values


def key_after(key: KeyValue) -> KeyValue:
    """The smallest leading key above this one; None if there is none."""
    if isinstance(key, str):
        return key + "\0"
    return None if key is None or key == MAX_INTEGER else key + 1


def _search_array(values: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    # Python compares text by code point, Arrow sorts it by UTF-8 bytes: the same order.
    array: np.ndarray[Any, Any] = values.to_numpy(zero_copy_only=False)
    return array
