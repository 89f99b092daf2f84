"""Reads a contestant's table, the same way for all, and sums it up."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.checksum import Checksum, checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from benchmarks.task import TableFiles

_ROWS_AT_ONCE = 1 << 17
_THREADS = 2


def table_checksum(files: TableFiles, schema: pa.Schema) -> Checksum:
    """Checksum of a table over the source's columns; columns that a contestant added are left out.

    Raises:
        KeyError: A file lacks a column.
        pa.ArrowInvalid: A value cannot be of the source's type.
    """
    gone = _deleted_positions(files.position_deletes)
    with ThreadPoolExecutor(_THREADS) as pool:
        sums = list(pool.map(lambda path: _file_checksum(path, schema, gone.get(path)), map(_local, files.data)))
    return sum(sums, Checksum())


def _file_checksum(path: str, schema: pa.Schema, gone: NDArray[np.int64] | None) -> Checksum:
    total, start = Checksum(), 0
    for batch in _batches(path, schema):
        kept = batch
        if gone is not None:
            mask = np.ones(batch.num_rows, bool)
            mask[gone[(gone >= start) & (gone < start + batch.num_rows)] - start] = False
            kept = batch.filter(pa.array(mask))
        start += batch.num_rows
        total += checksum(kept)
    return total


def _batches(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    folders = dict(part.split("=", 1) for part in Path(path).parent.parts if "=" in part)
    # Timestamps in Spark's older form, INT96, have no unit of their own.
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as parquet:
        stored = [name for name in schema.names if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=stored, use_threads=False):
            in_folder = partial(pa.repeat, size=batch.num_rows)
            yield pa.table(
                [
                    (batch[field.name] if field.name in stored else in_folder(unquote(folders[field.name]))).cast(
                        field.type
                    )
                    for field in schema
                ],
                schema=schema,
            )


def _deleted_positions(paths: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    positions: dict[str, list[NDArray[np.int64]]] = defaultdict(list)
    for path in paths:
        deletes = pq.read_table(_local(path), columns=["file_path", "pos"])
        files = deletes["file_path"].combine_chunks().dictionary_encode()
        rows = deletes["pos"].to_numpy()
        for code, file in enumerate(files.dictionary.to_pylist()):
            positions[_local(file)].append(rows[files.indices.to_numpy() == code])
    return {file: np.concatenate(pieces) for file, pieces in positions.items()}


def _local(path: str) -> str:
    """A path, or a `file:` URL as table formats write them, as a path."""
    return urlsplit(path).path if path.startswith("file:") else path
