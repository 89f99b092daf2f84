"""Splits two tables of any size by key into parts on disk, and reads one pair of parts at a time."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa

from cdclake_cli.comparing.match import row_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PART_ROWS = 200_000
PART_BYTES = 32 << 20
MAX_PARTS = 512
"""Each part is an open file while a table is split, and a process commonly may have 1,024 of them."""
LARGEST_PART_BYTES = 64 << 20
"""Size in memory of the largest part of one table. A larger one is split again, unless all its rows have one key."""
_HASHES = 1 << 32
_BATCH_BYTES = 16 << 20


def number_of_parts(rows: int, parquet_bytes: int) -> int:
    """Number of parts for a table of this size."""
    return min(1 + max(rows // PART_ROWS, parquet_bytes // PART_BYTES), MAX_PARTS)


def pairs_of_parts(
    left: Iterable[pa.Table],
    right: Iterable[pa.Table],
    by: Callable[[pa.Table], pa.Table],
    parts: int,
    largest_bytes: int = LARGEST_PART_BYTES,
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Split two tables, and read the parts with the same keys together.

    Args:
        left: Rows in batches with the same columns; at least one batch, which may be empty.
        right: Rows in such batches. They are read first.
        by: The columns that tell a row's part, which are the same if the values are; without columns there is one part.
        parts: Number of parts, which are stored compressed in the temporary folder.
        largest_bytes: Size in memory from which a part is split again.
    """
    with tempfile.TemporaryDirectory(prefix="cdclake-compare-") as folder:
        yield from _Split(by, largest_bytes).pairs(Path(folder), iter(left), iter(right), parts)


@dataclass(frozen=True)
class _Part:
    """One part of one table, in a file."""

    path: Path
    bytes: int

    def read(self) -> pa.Table:
        with pa.ipc.open_file(self.path) as file:
            return file.read_all()

    def batches(self) -> Iterator[pa.Table]:
        """The rows, in batches that are not as small as those that were written."""
        with pa.ipc.open_file(self.path) as file:
            waiting, size = [pa.Table.from_batches([], file.schema)], 0
            for number in range(file.num_record_batches):
                batch = pa.Table.from_batches([file.get_batch(number)])
                waiting.append(batch)
                size += batch.nbytes
                if size >= _BATCH_BYTES:
                    yield pa.concat_tables(waiting)
                    waiting, size = [], 0
            if waiting:
                yield pa.concat_tables(waiting)


@dataclass(frozen=True)
class _Split:
    by: Callable[[pa.Table], pa.Table]
    largest_bytes: int

    def pairs(
        self, folder: Path, left: Iterator[pa.Table], right: Iterator[pa.Table], parts: int, divisor: int = 1
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        """The pairs of parts.

        Args:
            divisor: What the hash of a key has been divided by, because larger parts were split by its remainder.
        """
        right_parts = self._split(right, [folder / f"right-{part}" for part in range(parts)], divisor)
        left_parts = self._split(left, [folder / f"left-{part}" for part in range(parts)], divisor)
        for number, (mine, other) in enumerate(zip(left_parts, right_parts, strict=True)):
            larger = max(mine.bytes, other.bytes)
            if larger > self.largest_bytes and divisor * parts < _HASHES:
                more = min(1 + 2 * larger // self.largest_bytes, MAX_PARTS)
                below = folder / str(number)
                below.mkdir()
                yield from self.pairs(below, mine.batches(), other.batches(), more, divisor * parts)
            else:
                yield mine.read(), other.read()
            mine.path.unlink()
            other.path.unlink()

    def _split(self, batches: Iterator[pa.Table], paths: Sequence[Path], divisor: int) -> list[_Part]:
        """Write each row to the file of its part. Equal values belong to the same part in both tables."""
        first = next(batches)
        sizes = [0] * len(paths)
        with ExitStack() as stack:
            writers = [stack.enter_context(_writer(path, first.schema)) for path in paths]
            for batch in chain([first], batches):
                parts = self._part_of_each_row(batch, len(paths), divisor)
                rows = batch.take(np.argsort(parts, kind="stable"))
                ends = np.cumsum(np.bincount(parts, minlength=len(paths)))
                for part, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                    if end > begin:
                        own = rows.slice(begin, end - begin)
                        writers[part].write_table(own)
                        sizes[part] += own.nbytes
        return [_Part(path, size) for path, size in zip(paths, sizes, strict=True)]

    def _part_of_each_row(self, rows: pa.Table, parts: int, divisor: int) -> np.ndarray:
        columns = self.by(rows)
        if not columns.num_columns:
            return np.zeros(rows.num_rows, np.int64)
        keys = row_keys(columns, columns.column_names).to_pylist()
        hashes = np.fromiter((crc32(key) for key in keys), np.int64, len(keys))
        return hashes // divisor % parts


def _writer(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
    return pa.ipc.new_file(path, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
