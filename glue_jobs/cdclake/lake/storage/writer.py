"""Writes data files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import new_file, storage_errors
from cdclake.lake.storage.bloom import bloom_filter_options
from cdclake.lake.storage.partitions import partition_column
from cdclake.lake.storage.shape import ENCODED_TEXT, TableShape, conform, is_deleted
from cdclake.lake.storage.wide_rows import cut_by_bytes, decoded_bytes
from cdclake.model.snapshot import DataFile, KeyValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.partitions import Partition

COMPRESSION = "snappy"  # every Parquet reader supports it
_FIELD_ID = "PARQUET:field_id"
"""pyarrow writes this metadata of a column as its `field_id`, not as metadata."""
SAMPLE_ROWS = 1 << 13
SAMPLE_BYTES, MIN_SAMPLE_ROWS = 8 << 20, 1 << 7
"""Of long values, a sample has fewer: counting different ones copies them."""
MAX_BATCH_ROWS, MIN_BATCH_ROWS, BATCH_BYTES = 1 << 14, 1 << 10, 2 << 20
"""pyarrow encodes a column in batches of rows, by default of the smallest number; more rows take a tenth less time. A
page ends at the end of a batch, so batches of long rows have fewer rows."""
MAX_DISTINCT_SHARE = 1 / 3
"""If more of a sample is distinct, the column is written without a dictionary, which would save little."""
SHARED_GROWTH = 2
"""A choice of encodings serves for files with up to so many times the rows that it was made for."""


class Encodings:
    """Chooses the columns that data files are written with a dictionary.

    Files that a task writes one after the other may share it. Small ones then get the choice of the first, because
    choosing takes as long as writing them.

    Args:
        shared_rows: Files of more rows get their own choice.
    """

    def __init__(self, shared_rows: int = SAMPLE_ROWS) -> None:
        self._shared_rows, self._rows = shared_rows, 0
        self._repetitive: frozenset[str] = frozenset()

    def dictionaries(self, rows: pa.Table) -> list[str]:
        """Columns to write with a dictionary.

        Args:
            rows: The first rows of a file.
        """
        if rows.num_rows > min(SHARED_GROWTH * self._rows, self._shared_rows):
            self._rows = rows.num_rows
            self._repetitive = frozenset(name for name in rows.column_names if _is_repetitive(rows.column(name)))
        return [c.name for c in rows.schema if c.name in self._repetitive or c.type == ENCODED_TEXT]


class DataFileWriter:
    """Writes rows to one or more staged files of about equal row counts.

    Args:
        staged_keys: Object keys to write to, in order; the last may stay unused.
        rows_per_file: Rows per file; the file of the last key takes all remaining rows.
        encodings: Shared with other files; None for encodings of its own.
    """

    def __init__(
        self,
        fs: FileSystem,
        staged_keys: Sequence[str],
        shape: TableShape,
        partition: Partition,
        rows_per_file: int,
        encodings: Encodings | None = None,
    ) -> None:
        self._fs, self._staged_keys, self._shape, self._partition = fs, list(staged_keys), shape, partition
        self._rows_per_file = max(1, rows_per_file)
        self._encodings = encodings or Encodings()
        self._writer: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._schema = pa.schema([])
        self._buffered: list[pa.Table] = []
        self._buffered_rows = self._buffered_bytes = 0
        self._rows = self._deleted = 0
        self._bounds: list[KeyValue] = []
        self.written: list[DataFile] = []
        """Finished files; `path` is the staged key."""

    def write(self, rows: pa.Table) -> None:
        """Append rows with at least the stored columns; texts may be dictionary-encoded."""
        while rows.num_rows:
            room = self._rows_per_file - self._rows if len(self.written) + 1 < len(self._staged_keys) else rows.num_rows
            self._append(rows.slice(0, room))
            rows = rows.slice(room)
            if rows.num_rows:
                self.close()

    def _append(self, rows: pa.Table) -> None:
        if self._shape.primary_key:
            extremes = self._shape.leading_key_range(rows, self._partition)
            self._bounds += [bound for bound in extremes if bound is not None]
        self._rows += rows.num_rows
        if self._shape.soft_delete:
            self._deleted += is_deleted(rows).true_count
        stored = conform(rows, self._shape.stored, keep_encoded=True)
        if self._shape.partitions_inside:
            stored = self._with_partition_columns(stored)
        max_rows, max_bytes = self._shape.limits.row_group_rows, self._shape.limits.row_group_bytes
        for part in cut_by_bytes(stored, max_bytes):
            part_bytes = decoded_bytes(part)
            if self._buffered_rows and self._buffered_bytes + part_bytes > max_bytes:
                self._write_group(self._buffered_rows)
            self._buffered.append(part)
            self._buffered_rows += part.num_rows
            self._buffered_bytes += part_bytes
            while self._buffered_rows >= max_rows:
                self._write_group(max_rows)

    def _with_partition_columns(self, rows: pa.Table) -> pa.Table:
        for name, text in zip(self._shape.partition_key, self._partition, strict=True):
            column = self._shape.schema.find(name)
            kind = column.type if column else "string"
            rows = rows.append_column(name, partition_column(text, kind, rows.num_rows))
        return rows

    def _write_group(self, max_rows: int) -> None:
        """Write buffered rows as a row group."""
        with storage_errors(self._fs, self._staged_keys[len(self.written)]):
            self._write_rows(max_rows)

    def _write_rows(self, max_rows: int) -> None:
        if self._writer is None:
            self._sink = new_file(self._fs, self._staged_keys[len(self.written)])
            self._schema = self._with_field_ids(self._buffered[0].schema)
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=COMPRESSION,
                store_schema=False,
                use_dictionary=self._encodings.dictionaries(self._buffered[0]),
                bloom_filter_options=bloom_filter_options(self._shape, min(self._buffered_rows, max_rows)),
                write_batch_size=batch_rows(self._buffered_bytes / self._buffered_rows),
            )
        # Arrow writes an encoded column's dictionary as it is if the row group has only one.
        rows = pa.concat_tables(_with_types(table, self._schema) for table in self._buffered).unify_dictionaries()
        self._writer.write_table(_without_unused_texts(rows.slice(0, max_rows)), row_group_size=max_rows)
        rest = rows.slice(max_rows)
        self._buffered = [rest] if rest.num_rows else []
        self._buffered_rows = rest.num_rows
        self._buffered_bytes = decoded_bytes(rest)

    def _with_field_ids(self, schema: pa.Schema) -> pa.Schema:
        ids = self._shape.field_ids
        if not ids:
            return schema
        return pa.schema([column.with_metadata({_FIELD_ID: str(ids.of(column.name))}) for column in schema])

    def close(self) -> None:
        """Finish the current file, if any."""
        if self._buffered_rows:
            self._write_group(self._buffered_rows)
        if self._writer is None or self._sink is None:
            return
        key = self._staged_keys[len(self.written)]
        with storage_errors(self._fs, key):
            self._writer.close()
            size_bytes = self._sink.tell()
            self._sink.close()
        low, high = (min(self._bounds), max(self._bounds)) if self._bounds else (None, None)  # type: ignore[type-var]
        has_ids = bool(self._shape.field_ids)
        self.written.append(DataFile(key, self._rows, size_bytes, self._partition, low, high, self._deleted, has_ids))
        self._writer, self._sink, self._rows, self._deleted, self._bounds = None, None, 0, 0, []


def batch_rows(row_bytes: float) -> int:
    """Number of rows of a batch, given the mean size of a row in Arrow."""
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, int(BATCH_BYTES / max(row_bytes, 1))))


def _with_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Encode or decode texts to match the schema."""
    columns = {}
    for column in schema:
        values = rows.column(column.name)
        if values.type != column.type:
            values = values.dictionary_encode() if column.type == ENCODED_TEXT else values.cast(column.type)
        columns[column.name] = values
    return pa.table(columns, schema=schema)


def _without_unused_texts(rows: pa.Table) -> pa.Table:
    """Remove the texts of filtered-out rows from the dictionaries, so that they are not written."""
    for i, column in enumerate(rows.schema):
        if column.type == ENCODED_TEXT:
            rows = rows.set_column(i, column, _compact(rows.column(i).combine_chunks()))
    return rows


def _compact(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values, with a dictionary of these values alone."""
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    indices = values.indices.fill_null(0).to_numpy()
    used = np.bincount(indices[~is_null], minlength=len(values.dictionary)) > 0
    if used.all():
        return values
    renumbered = pa.array((np.cumsum(used) - 1)[indices], pa.int32(), mask=is_null)
    return pa.DictionaryArray.from_arrays(renumbered, values.dictionary.filter(pa.array(used)))


def _is_repetitive(values: pa.ChunkedArray) -> bool:
    """Whether values repeat enough for a dictionary, judged by an evenly spaced sample."""
    if values.type == ENCODED_TEXT:
        return True
    rows = max(MIN_SAMPLE_ROWS, min(SAMPLE_ROWS, len(values) * SAMPLE_BYTES // max(values.nbytes, 1)))
    step = max(1, len(values) // rows)
    sample = values.take(pa.array(np.arange(0, len(values), step))) if step > 1 else values
    return bool(pc.count_distinct(sample, mode="all").as_py() <= MAX_DISTINCT_SHARE * len(sample))
