"""Holds a table of any size against its source: both are cut by their keys into parts on disk that fit in memory."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa

from cdclake.devkit.replicate.compare import compare_rows, in_lake_types, merged, row_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.devkit.replicate.compare import RowComparison

PART_ROWS = 200_000
PART_BYTES = 32 << 20
MOST_PARTS = 512
"""Each is an open file while a table is cut, and a process may commonly have 1,024 of them."""


def number_of_parts(rows: int, parquet_bytes: int) -> int:
    """How many parts to cut a table into that has so many rows, and takes so many bytes as Parquet."""
    return min(1 + max(rows // PART_ROWS, parquet_bytes // PART_BYTES), MOST_PARTS)


def compare_in_parts(
    lake: Iterable[pa.Table], source: Iterable[pa.Table], key: Sequence[str], added: Sequence[str], parts: int
) -> RowComparison:
    """Set a lake table beside its source as `compare_rows` does, with one part of both in memory at a time.

    Args:
        lake: The rows of the lake table, in pieces with the same columns; at least one piece, which may be empty.
        source: The rows of the source in such pieces, with the types that DMS gives them. They are read first.
        key: Columns of the primary key; empty if there is none.
        added: Columns that the lake table has besides the source's and cdclake's own.
        parts: How many parts; they lie in the temporary folder meanwhile, compressed.
    """
    our_schema, ours = _with_schema(lake)
    their_schema, theirs = _with_schema(source)
    shared = [name for name in their_schema.names if name in our_schema.names]
    by = [name for name in key or shared if name in shared]
    with tempfile.TemporaryDirectory(prefix="cdclake-compare-") as folder:
        their_parts = _cut(theirs, by, [Path(folder) / f"source-{part}" for part in range(parts)])
        our_parts = _cut(ours, by, [Path(folder) / f"lake-{part}" for part in range(parts)])
        pairs = zip(our_parts, their_parts, strict=True)
        return merged(compare_rows(_read(mine), _read(other), key, added) for mine, other in pairs)


def _with_schema(pieces: Iterable[pa.Table]) -> tuple[pa.Schema, Iterator[pa.Table]]:
    remaining = iter(pieces)
    first = next(remaining)
    return first.schema, chain([first], remaining)


def _cut(pieces: Iterator[pa.Table], by: Sequence[str], paths: Sequence[Path]) -> Sequence[Path]:
    """Write rows to the file of their part, which is the same for the same values whatever side they are on."""
    writers = list[pa.ipc.RecordBatchFileWriter]()
    with ExitStack() as opened:
        for piece in pieces:
            if not writers:
                writers = [opened.enter_context(_writer(path, piece.schema)) for path in paths]
            parts = _part_of_each_row(piece, by, len(paths))
            rows = piece.take(np.argsort(parts, kind="stable"))
            ends = np.cumsum(np.bincount(parts, minlength=len(paths)))
            for writer, begin, end in zip(writers, [0, *ends[:-1]], ends, strict=True):
                if end > begin:
                    writer.write_table(rows.slice(begin, end - begin))
    return paths


def _writer(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
    return pa.ipc.new_file(path, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))


def _part_of_each_row(rows: pa.Table, by: Sequence[str], parts: int) -> np.ndarray:
    if not by:
        return np.zeros(rows.num_rows, np.int64)
    keys = row_keys(in_lake_types(rows.select(list(by))), by).to_pylist()
    return np.fromiter((crc32(key) % parts for key in keys), np.int64, len(keys))


def _read(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()
