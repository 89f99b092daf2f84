"""Which data files can hold a key, told by the snapshot's key ranges; and the cutting of sorted rows at bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cdclake.lake.storage.keys import LEADING_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.model.snapshot import DataFile, KeyValue


def candidates(route: pa.ChunkedArray, files: Sequence[DataFile]) -> Iterator[tuple[int, int, int]]:
    """Rows that each data file might hold.

    Args:
        route: Route of some rows, sorted ascending, no nulls.
        files: Live data files.

    Yields:
        Index of a file, and the half-open range of rows whose route lies in the file's key range. A file whose range is
        unknown might hold any row; a file that can hold none is left out.
    """
    rows = len(route)
    if not rows:
        return
    routes = _search_array(route)
    kind = int if pa.types.is_integer(route.type) else str
    known = [i for i, file in enumerate(files) if isinstance(file.key_min, kind) and isinstance(file.key_max, kind)]
    starts = np.searchsorted(routes, _bound_array([files[i].key_min for i in known], routes), "left")
    ends = np.searchsorted(routes, _bound_array([files[i].key_max for i in known], routes), "right")
    ranges = {i: (int(start), int(end)) for i, start, end in zip(known, starts, ends, strict=True)}
    for i in range(len(files)):
        start, end = ranges.get(i, (0, rows))
        if end > start:
            yield i, start, end


def without_key_ranges(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Data files that may hold any key: the bounds of a key compare with nothing once its type is another."""
    return tuple(replace(file, key_min=None, key_max=None) for file in files)


def overlapping(files: Sequence[DataFile]) -> frozenset[int]:
    """Indices of the files whose key range meets that of another, or is unknown."""
    unknown = {i for i, file in enumerate(files) if file.key_min is None or file.key_max is None}
    by_key = sorted(
        (i for i in range(len(files)) if i not in unknown), key=lambda i: (files[i].key_min, files[i].key_max)
    )
    found = set(unknown)
    furthest: int | None = None
    for i in by_key:
        if furthest is not None and files[i].key_min <= files[furthest].key_max:  # type: ignore[operator]  # one kind
            found |= {i, furthest}
        if furthest is None or files[i].key_max > files[furthest].key_max:  # type: ignore[operator]  # likewise
            furthest = i
    return frozenset(found)


def cut(table: pa.Table, bounds: Sequence[KeyValue]) -> Iterator[tuple[int, pa.Table]]:
    """Cut rows sorted by route at bounds.

    Args:
        table: Rows with a route column, sorted by it.
        bounds: Ascending; piece `i` takes the routes below `bounds[i]` and not below the bound before.

    Yields:
        Number of a piece, 0 to `len(bounds)`, and its rows; empty pieces are left out.
    """
    if not bounds:
        if table.num_rows:
            yield 0, table
        return
    routes = _search_array(table[LEADING_KEY])
    ends = [*np.searchsorted(routes, _bound_array(bounds, routes), "left").tolist(), table.num_rows]
    start = 0
    for piece, end in enumerate(ends):
        if end > start:
            yield piece, table.slice(start, end - start)
        start = max(start, end)


def quantiles(samples: Sequence[KeyValue], pieces: int) -> list[KeyValue]:
    """Bounds that cut a sorted sample into at most `pieces` parts of about equal size; fewer if keys repeat."""
    picked = [samples[len(samples) * i // pieces] for i in range(1, pieces)] if samples else []
    smallest = samples[0] if samples else None
    return sorted({bound for bound in picked if bound != smallest}, key=lambda bound: (bound is not None, bound))


def sample(route: pa.ChunkedArray, count: int) -> list[KeyValue]:
    """At most `count` evenly spaced values of sorted routes."""
    positions = np.unique(np.linspace(0, len(route) - 1, min(count, len(route))).astype(np.int64))
    values: list[KeyValue] = route.take(pa.array(positions)).to_pylist()
    return values


def _search_array(route: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    # Text is compared as Python compares it: by code point, which is the order of the bytes that Arrow sorts by.
    array: np.ndarray[Any, Any] = (
        route.to_numpy(zero_copy_only=False) if isinstance(route, pa.Array) else route.to_numpy()
    )
    return array


def _bound_array(bounds: Sequence[KeyValue], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(bounds), dtype=like.dtype)
    array[:] = bounds
    return array
