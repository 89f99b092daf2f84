"""Reads any contestant's table and computes its checksum."""

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
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from benchmarks.rows import Numbers
    from benchmarks.task import TableFiles

_BATCH_ROWS = 1 << 17
_THREADS = 2


def table_checksum(files: TableFiles, schema: pa.Schema) -> Checksum:
    """Checksum of a table over the source's columns; columns that a contestant added are ignored.

    Raises:
        KeyError: A file lacks a column.
        pa.ArrowInvalid: A value cannot be cast to the source's type.
    """
    deleted = _deleted_positions(files.position_deletes)
    with ThreadPoolExecutor(_THREADS) as pool:
        sums = list(pool.map(lambda path: _file_checksum(path, schema, deleted.get(path)), map(_local, files.data)))
    return sum(sums, Checksum())


def files_per_key(paths: Sequence[str], column: str, keys: Numbers) -> float:
    """The mean number of files whose range of keys, by their footers, contains a key.

    Args:
        column: The key column, of integers without nulls.
    """
    count = 0
    for path in paths:
        footer = pq.read_metadata(path)
        index = footer.schema.names.index(column)
        groups = [footer.row_group(i).column(index).statistics for i in range(footer.num_row_groups)]
        lowest, highest = min(group.min for group in groups), max(group.max for group in groups)
        count += int(np.count_nonzero((keys >= lowest) & (keys <= highest)))
    return count / len(keys)


def _file_checksum(path: str, schema: pa.Schema, deleted: NDArray[np.int64] | None) -> Checksum:
    total, start = Checksum(), 0
    for batch in _batches(path, schema):
        kept = batch
        if deleted is not None:
            mask = np.ones(batch.num_rows, bool)
            mask[deleted[(deleted >= start) & (deleted < start + batch.num_rows)] - start] = False
            kept = batch.filter(pa.array(mask))
        start += batch.num_rows
        total += checksum(kept)
    return total


def _batches(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    folders = dict(part.split("=", 1) for part in Path(path).parent.parts if "=" in part)
    # INT96, Spark's legacy timestamp type, has no unit.
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as parquet:
        stored = [name for name in schema.names if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=stored, use_threads=False):
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
    """The path of a path or of a `file:` URL, which table formats write."""
    return urlsplit(path).path if path.startswith("file:") else path
