"""Reads raw Parquet files, one row group at a time."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_input
from cdclake.lake.raw.rows import RawRows
from cdclake.lake.storage.keys import comparable, key_range, key_range_of_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.model.snapshot import KeyValue

BATCH_ROWS = 1 << 17
_ORDERED_TYPES = (pa.types.is_integer, pa.types.is_string, pa.types.is_date32)
"""Types whose minimum and maximum in a footer follow the order of leading keys."""


class RowGroup(NamedTuple):
    """One row group of a file.

    Attributes:
        first_row: Index of its first row in the file.
        size_bytes: Compressed size.
        key_range: Smallest and largest leading key; two None if the footer has none.
    """

    number: int
    first_row: int
    size_bytes: int
    key_range: tuple[KeyValue, KeyValue] = (None, None)


def read_footer(fs: FileSystem, key: str, key_columns: Sequence[str] = ()) -> tuple[pa.Schema, tuple[RowGroup, ...]]:
    """Read a file's columns and row groups.

    Args:
        key_columns: The table's key columns; empty if it has none.
    """
    with open_input(fs, key) as source:
        parquet = open_parquet(source)
        groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
        starts = accumulate((group.num_rows for group in groups), initial=0)
        return parquet.schema_arrow, tuple(
            RowGroup(i, start, _compressed_bytes(group), _key_range(group, parquet.schema_arrow, key_columns))
            for i, (group, start) in enumerate(zip(groups, starts, strict=False))
        )


def open_parquet(source: pa.NativeFile) -> pq.ParquetFile:
    """Read the footer of an open raw file."""
    # INT96 timestamps would be read as nanoseconds, which silently overflow before 1677 and after 2262.
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def _compressed_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))


def _key_range(group: pq.RowGroupMetaData, schema: pa.Schema, key_columns: Sequence[str]) -> tuple[KeyValue, KeyValue]:
    return key_range_of_columns([_column_range(group, schema, name) for name in key_columns])


def _column_range(group: pq.RowGroupMetaData, schema: pa.Schema, name: str) -> tuple[KeyValue, KeyValue]:
    indices = [i for i, column in enumerate(schema.names) if column.lower() == name.lower()]
    if len(indices) != 1 or group.num_columns != len(schema.names):
        return None, None
    kind, statistics = schema.field(indices[0]).type, group.column(indices[0]).statistics
    if statistics is None or not statistics.has_min_max or not any(is_kind(kind) for is_kind in _ORDERED_TYPES):
        return None, None
    try:
        return key_range(comparable(pa.array([statistics.min, statistics.max], kind)))
    except (ValueError, OverflowError):  # not UTF-8, or no date of Python: the rows are bad
        return None, None


def batches(fs: FileSystem, key: str, row_groups: Sequence[int] | None, first_row: int) -> Iterator[RawRows]:
    """Read consecutive row groups.

    Args:
        row_groups: Their indices; None for all.
        first_row: Index of their first row in the file.
    """
    with open_input(fs, key) as source:
        for batch in open_parquet(source).iter_batches(BATCH_ROWS, row_groups=row_groups, use_threads=False):
            yield RawRows(batch, np.arange(first_row, first_row + batch.num_rows, dtype=np.int64))
            first_row += batch.num_rows
