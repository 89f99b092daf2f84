"""Reads Parquet files as DMS writes them: a row group at a time."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from cdclake.lake.raw_rows import RawRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyarrow.fs import FileSystem

BATCH_ROWS = 1 << 17


class RowGroup(NamedTuple):
    """One row group of a file; `first_row` is the number of its first row in the file."""

    number: int
    first_row: int
    size_bytes: int


def look(fs: FileSystem, key: str) -> tuple[pa.Schema, tuple[RowGroup, ...]]:
    """A file's columns and row groups, from its footer."""
    with fs.open_input_file(key) as source:
        parquet = pq.ParquetFile(source)
        groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
        starts = accumulate((group.num_rows for group in groups), initial=0)
        parts = zip(groups, starts, strict=False)
        return parquet.schema_arrow, tuple(
            RowGroup(i, start, group.total_byte_size) for i, (group, start) in enumerate(parts)
        )


def batches(fs: FileSystem, key: str, row_groups: Sequence[int] | None, first_row: int) -> Iterator[RawRows]:
    """Rows of some row groups that follow each other, in order.

    Args:
        row_groups: Their numbers; None for all.
        first_row: Number of their first row in the file.
    """
    with fs.open_input_file(key) as source:
        for batch in pq.ParquetFile(source).iter_batches(BATCH_ROWS, row_groups=row_groups, use_threads=False):
            yield RawRows(batch, np.arange(first_row, first_row + batch.num_rows, dtype=np.int64))
            first_row += batch.num_rows
