"""Finds where to cut a data file, so that the rows that change are in a small file and the others in large ones."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.file_sizes import files_for
from cdclake.lake.storage.key_ranges import count_by_range, quantiles
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.reader import read_batches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.merge.file_sizes import FileSizes
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

SAMPLES_PER_CELL = 64
_CELL = 0.75
"""Size of a cell, relative to the hot size. No cell has less than half of it, and a cell may grow before it is cut."""
_GROWING_CELLS = 8
"""Cells of a file of two cells that grows at its end: what stays behind is not touched again, and is better large."""


def cuts_around(
    fs: FileSystem,
    bases: Sequence[DataFile],
    shape: TableShape,
    added: pa.Table,
    removals: Sequence[pa.Table | None],
    sizes: FileSizes,
) -> list[KeyValue]:
    """Where to cut the result of a rewrite; none to leave it whole.

    It reads the keys of large data files once more, which is a small part of reading the files.

    Args:
        bases: The data files that are rewritten, `path` being the object key.
        added: Rows that are added, with leading keys.
        removals: Leading keys of rows that are removed or marked.
    """
    changed = pa.concat_tables([rows.select([LEADING_KEY]) for rows in (added, *removals) if rows is not None])[
        LEADING_KEY
    ]
    rows = sum(base.rows for base in bases)
    size_bytes = sum(base.bytes for base in bases) * (1 + added.num_rows / max(rows, 1))
    if size_bytes <= sizes.hot_bytes or not len(changed) or 2 * len(changed) > rows:
        return []
    step = max(1, int(rows * sizes.hot_bytes / size_bytes / SAMPLES_PER_CELL))
    samples = [*_keys(fs, bases, shape, step), *added[LEADING_KEY].to_pylist()[::step]]
    ordered = pc.take(changed, pc.sort_indices(changed))
    return cuts(sorted(samples), ordered, size_bytes, sizes)


def _keys(fs: FileSystem, bases: Sequence[DataFile], shape: TableShape, step: int) -> Iterator[KeyValue]:
    """Evenly spaced leading keys of the rows of data files."""
    columns = shape.key_columns_stored() or shape.stored.names[:1]  # partition columns may be the key
    for base in bases:
        for rows in read_batches(fs, base.path, shape, columns, file=base, encoded=True):
            few = rows.take(pa.array(np.arange(0, rows.num_rows, step)))
            yield from shape.leading_key_of(few, base.partition).to_pylist()


def cuts(samples: Sequence[KeyValue], changed: pa.ChunkedArray, size_bytes: float, sizes: FileSizes) -> list[KeyValue]:
    """Bounds of the pieces of a file.

    The file is thought of as cells of equal size, about three quarters of the hot size. Cells that the change touches
    and those that it does not become pieces by turns. That pays if the next such change rewrites as many times fewer
    bytes as there are pieces. Otherwise touched cells that are close together become one piece, until it pays.

    If rows follow the last of a file of two cells, what precedes the touched rows stays behind as one piece, of up to
    seven eighths of the file.

    Args:
        samples: Evenly spaced leading keys of the file, ascending.
        changed: Leading keys of the rows that change, ascending.
    """
    count = max(2, round(size_bytes / (_CELL * sizes.hot_bytes)))
    grows = count == 2 and 1 in count_by_range(changed, samples[-1:])
    bounds = quantiles(samples, _GROWING_CELLS if grows else count)
    cells = len(bounds) + 1
    touched = set(count_by_range(changed, bounds))
    pieces = _pieces(range(min(touched), cells) if grows else touched, cells)
    starts = [start for piece in pieces for start in _starts(piece, size_bytes / cells, sizes.target_bytes)]
    return [bounds[start - 1] for start in starts[1:]]


def _pieces(touched: Collection[int], cells: int) -> list[range]:
    """Pieces of consecutive cells, touched and not by turns."""
    hot = set(touched)
    while True:
        runs: list[list[int]] = [list(run) for _, run in groupby(range(cells), key=hot.__contains__)]
        if len(runs) * len(hot) <= cells:
            return [range(run[0], run[-1] + 1) for run in runs]
        _, closed = min((len(run), run) for run in runs if run[0] not in hot)
        hot.update(closed)


def _starts(piece: range, cell_bytes: float, target: int) -> list[int]:
    """Where a piece begins, and where it is split because it is large."""
    count = min(files_for(len(piece) * cell_bytes, target), len(piece))  # a row may be larger than the target
    return [piece[len(piece) * i // count] for i in range(count)]
