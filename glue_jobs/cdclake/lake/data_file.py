"""Reads and writes the lake's data files: plain Parquet, one at a time, in bounded memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_output
from cdclake.errors import IntegrityError
from cdclake.lake.arrow_types import arrow_schema, partition_column, to_arrow
from cdclake.lake.keys import KEY, ROUTE, UNSENT, bounds, row_keys
from cdclake.lake.raw_rows import INSERT
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.schema import OP_COLUMN, Schema
from cdclake.model.snapshot import DataFile, KeyValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.decide import Partition

ROW_GROUP_ROWS = 1 << 19
COMPRESSION = "snappy"  # what every reader of Parquet has had from the start


@dataclass(frozen=True)
class TableShape:
    """What a table's rows look like.

    Attributes:
        schema: The source's columns, partition columns included.
        primary_key: Key columns; may be empty.
        partition_key: Partition columns; they lie in the folder names, not in the files.
        partial: Whether changes may leave columns out, so that rows in flight tell which.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    partition_key: tuple[str, ...]
    partial: bool = False

    @property
    def stored(self) -> pa.Schema:
        """Arrow schema of a data file."""
        folders = {name.lower() for name in self.partition_key}
        kept = Schema(tuple(c for c in self.schema if c.name.lower() not in folders))
        return arrow_schema(kept).append(pa.field(OP_COLUMN, pa.string())).append(pa.field(POSITION, pa.string()))

    @property
    def in_flight(self) -> pa.Schema:
        """Arrow schema of rows on their way: all columns, `Op`, position, what was not sent, and route and key."""
        texts = [OP_COLUMN, POSITION, *([UNSENT] if self.partial else [])]
        full = pa.schema([*arrow_schema(self.schema), *(pa.field(name, pa.string()) for name in texts)])
        if self.primary_key:
            route, key = row_keys([pa.array([], to_arrow(kind)) for kind in self._key_types()])
            full = full.append(pa.field(ROUTE, route.type)).append(pa.field(KEY, key.type))
        return full

    def _key_types(self) -> list[str]:
        return [column.type for name in self.primary_key if (column := self.schema.find(name))]

    def key_columns_stored(self) -> list[str]:
        """Key columns that lie in the files."""
        folders = {name.lower() for name in self.partition_key}
        return [c.name for name in self.primary_key if (c := self.schema.find(name)) and name.lower() not in folders]

    def source_columns(self, rows: pa.Table, partition: Partition) -> dict[str, pa.Array]:
        """All source columns of rows of a data file in the table's types, partition columns included.

        Args:
            rows: The file's rows, with all its columns.
            partition: The file's partition.
        """
        folders = dict(zip((name.lower() for name in self.partition_key), partition, strict=True))
        stored = conform(rows, self.stored)
        return {
            column.name: partition_column(folders[column.name.lower()], column.type, rows.num_rows)
            if column.name.lower() in folders
            else stored[column.name]
            for column in self.schema
        }

    def keys_of(self, rows: pa.Table | pa.RecordBatch, partition: Partition) -> tuple[pa.Array, pa.Array]:
        """Route and key of rows of a data file.

        Args:
            rows: The file's rows, with at least the key columns stored.
            partition: The file's partition.
        """
        values = dict(zip((name.lower() for name in self.partition_key), partition, strict=True))
        parts = []
        for name in self.primary_key:
            column = self.schema.find(name)
            if column is None:
                raise IntegrityError(
                    "The key of a lake table is not among its columns", remedy="Reload it", column=name
                )
            if name.lower() in values:
                parts.append(partition_column(values[name.lower()], column.type, rows.num_rows))
            else:
                stored = rows.column(column.name)
                stored = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
                parts.append(stored.cast(to_arrow(column.type)))
        return row_keys(parts)


def read_batches(
    fs: FileSystem, key: str, shape: TableShape, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """A data file's rows as the table has them, a row group at a time.

    A file that was adopted may lack operations and positions. Its rows are as those of a full load: inserted, and older
    than every change.

    Args:
        key: Key of the file in the lake bucket.
        shape: The table; what the file has in other order, case or narrower type comes as the table has it.
        columns: Names of stored columns to read; None for all.
    """
    stored = shape.stored if columns is None else pa.schema([shape.stored.field(name) for name in columns])
    wanted = {name.lower() for name in stored.names}
    with open_parquet(fs, key) as parquet:
        names = [name for name in parquet.schema_arrow.names if name.lower() in wanted]
        for group in range(parquet.num_row_groups):
            yield _as_full_load(conform(parquet.read_row_group(group, columns=names, use_threads=False), stored))


@contextmanager
def open_parquet(fs: FileSystem, key: str) -> Iterator[pq.ParquetFile]:
    """A data file, opened; so far only its footer is read."""
    with fs.open_input_file(key) as source:
        yield parquet_file(source)


def parquet_file(source: pa.NativeFile) -> pq.ParquetFile:
    """A data file that is open."""
    # Timestamps in Spark's older form, INT96, would come as nanoseconds, which overflow after 2262 without a word.
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def _as_full_load(rows: pa.Table) -> pa.Table:
    """Rows with an operation and a position, those of a full load where there was none."""
    for name, value in ((OP_COLUMN, INSERT), (POSITION, FULL_LOAD_POSITION)):
        i = rows.schema.get_field_index(name)
        if i >= 0 and rows.column(i).null_count:
            rows = rows.set_column(i, rows.schema.field(i), pc.fill_null(rows.column(i), value))
    return rows


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with exactly these columns and types: a missing column is null, a narrower type is widened."""
    names = {name.lower(): i for i, name in enumerate(rows.schema.names)}
    columns = []
    for column in schema:
        i = names.get(column.name.lower())
        columns.append(pa.nulls(rows.num_rows, column.type) if i is None else rows.column(i).cast(column.type))
    return pa.table(columns, schema=schema)


class DataFileWriter:
    """Writes rows to one or more staged files of about equal row counts.

    Args:
        fs: Lake file system.
        keys: Staged keys to write to, in order; as many files come of it as are needed, at most one for each.
        shape: Shape of the table.
        partition: Partition of the rows.
        rows_per_file: Rows after which the next file begins, while there is another key.
    """

    def __init__(
        self,
        fs: FileSystem,
        keys: Sequence[str],
        shape: TableShape,
        partition: Partition,
        rows_per_file: int,
    ) -> None:
        self._fs, self._keys, self._shape, self._partition = fs, list(keys), shape, partition
        self._rows_per_file = max(1, rows_per_file)
        self._writer: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._rows = 0
        self._bounds: list[KeyValue] = []
        self.written: list[DataFile] = []
        """Files finished so far; `path` is the staged key."""

    def write(self, rows: pa.Table) -> None:
        """Append rows (at least the stored columns; route may be absent)."""
        while rows.num_rows:
            room = self._rows_per_file - self._rows if len(self.written) + 1 < len(self._keys) else rows.num_rows
            self._append(rows.slice(0, room))
            rows = rows.slice(room)
            if rows.num_rows:
                self.close()

    def _append(self, rows: pa.Table) -> None:
        stored = self._shape.stored
        if self._writer is None:
            self._sink = open_output(self._fs, self._keys[len(self.written)])
            self._writer = pq.ParquetWriter(self._sink, stored, compression=COMPRESSION, store_schema=False)
        self._writer.write_table(conform(rows, stored), row_group_size=ROW_GROUP_ROWS)
        self._rows += rows.num_rows
        if self._shape.primary_key:
            route, _ = self._shape.keys_of(rows, self._partition)
            self._bounds += [bound for bound in bounds(route) if bound is not None]

    def close(self) -> None:
        """Finish the file being written, if any."""
        if self._writer is None or self._sink is None:
            return
        self._writer.close()
        size_bytes = self._sink.tell()
        self._sink.close()
        low, high = (min(self._bounds), max(self._bounds)) if self._bounds else (None, None)  # type: ignore[type-var]
        key = self._keys[len(self.written)]
        self.written.append(DataFile(key, self._rows, size_bytes, self._partition, low, high))
        self._writer, self._sink, self._rows, self._bounds = None, None, 0, []


def matches(keys: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether each key is among the wanted ones; true or false, never null."""
    return pc.fill_null(pc.is_in(keys, value_set=wanted), False)
