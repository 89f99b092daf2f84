"""Compares tables of any size: splits both by key into parts on disk, and compares one pair of parts at a time."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa

from cdclake_cli.sources.compare import compare_rows, in_lake_types, merge_comparisons, row_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake_cli.sources.compare import RowComparison

PART_ROWS = 200_000
PART_BYTES = 32 << 20
MAX_PARTS = 512
"""Each part is an open file while a table is split, and a process commonly may have 1,024 of them."""


def number_of_parts(rows: int, parquet_bytes: int) -> int:
    """Number of parts for a table of this size."""
    return min(1 + max(rows // PART_ROWS, parquet_bytes // PART_BYTES), MAX_PARTS)


def compare_in_parts(
    lake: Iterable[pa.Table],
    source: Iterable[pa.Table],
    key: Sequence[str],
    added: Sequence[str],
    parts: int,
    *,
    integers_alike: bool = False,
) -> RowComparison:
    """Compare a lake table with its source as `compare_rows` does, with one part of each in memory at a time.

    Args:
        lake: The rows of the lake table, in batches with the same columns; at least one batch, which may be empty.
        source: The rows of the source in such batches, with the types that DMS converts to. They are read first.
        key: Columns of the primary key; empty for none.
        added: Columns of the lake table that neither the source has nor cdclake adds.
        parts: Number of parts, which are stored compressed in the temporary folder.
        integers_alike: As in `compare_rows`.
    """
    our_schema, ours = _with_schema(lake)
    their_schema, theirs = _with_schema(source)
    shared = [name for name in their_schema.names if name in our_schema.names]
    split_by = [name for name in key or shared if name in shared]
    with tempfile.TemporaryDirectory(prefix="cdclake-compare-") as folder:
        their_parts = _split(theirs, split_by, [Path(folder) / f"source-{part}" for part in range(parts)])
        our_parts = _split(ours, split_by, [Path(folder) / f"lake-{part}" for part in range(parts)])
        pairs = zip(our_parts, their_parts, strict=True)
        return merge_comparisons(
            compare_rows(_read(mine), _read(other), key, added, integers_alike=integers_alike) for mine, other in pairs
        )


def _with_schema(batches: Iterable[pa.Table]) -> tuple[pa.Schema, Iterator[pa.Table]]:
    remaining = iter(batches)
    first = next(remaining)
    return first.schema, chain([first], remaining)


def _split(batches: Iterator[pa.Table], by: Sequence[str], paths: Sequence[Path]) -> Sequence[Path]:
    """Write each row to the file of its part. Equal values belong to the same part on both sides."""
    writers = list[pa.ipc.RecordBatchFileWriter]()
    with ExitStack() as stack:
        for batch in batches:
            if not writers:
                writers = [stack.enter_context(_writer(path, batch.schema)) for path in paths]
            parts = _part_of_each_row(batch, by, len(paths))
            rows = batch.take(np.argsort(parts, kind="stable"))
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
