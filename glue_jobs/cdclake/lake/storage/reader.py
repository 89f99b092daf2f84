"""Reads and writes the lake's data files: plain Parquet, one at a time, in bounded memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.errors import IntegrityError
from cdclake.lake.raw.rows import DELETE, INSERT
from cdclake.lake.storage.keys import KEY, ROUTE, UNSENT, comparable, row_keys
from cdclake.lake.storage.types import arrow_schema, partition_column, to_arrow
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.schema import OP_COLUMN, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.merge.resolve import Partition

COMPRESSION = "snappy"  # what every reader of Parquet has had from the start
ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""How Arrow gives texts that it leaves encoded."""
ENCODED_BYTES_PER_ROW = 2.5
SMALL_DICTIONARY_BYTES = 64 << 10
"""A column chunk of texts is read as a dictionary if it has at most these bytes: more, and decoding it costs less."""


@dataclass(frozen=True)
class TableShape:
    """What a table's rows look like.

    Attributes:
        schema: The source's columns, partition columns included.
        primary_key: Key columns; may be empty.
        partition_key: Partition columns; they lie in the folder names, not in the files.
        partial: Whether changes may leave columns out, so that rows in flight tell which.
        complete: Whether `schema` has all columns of the files; if not, they have operation and position beside them.
        soft_delete: Whether deleted rows stay in the files, with the operation `D`.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    partition_key: tuple[str, ...]
    partial: bool = False
    complete: bool = False
    soft_delete: bool = False

    @property
    def stored(self) -> pa.Schema:
        """Arrow schema of a data file."""
        folders = {name.lower() for name in self.partition_key}
        kept = Schema(tuple(c for c in self.schema if c.name.lower() not in folders))
        return pa.schema([*arrow_schema(kept), *(pa.field(name, pa.string()) for name in self._beside())])

    def _beside(self) -> tuple[str, ...]:
        return () if self.complete else (OP_COLUMN, POSITION)

    @property
    def in_flight(self) -> pa.Schema:
        """Arrow schema of rows on their way: all columns, `Op`, position, what was not sent, and route and key."""
        texts = [*self._beside(), *([UNSENT] if self.partial else [])]
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
        return row_keys([self._key_column(name, rows, partition) for name in self.primary_key])

    def route_of(self, rows: pa.Table | pa.RecordBatch, partition: Partition) -> pa.Array:
        """Route alone; see `keys_of`."""
        return comparable(self._key_column(self.primary_key[0], rows, partition))

    def _key_column(self, name: str, rows: pa.Table | pa.RecordBatch, partition: Partition) -> pa.Array:
        column = self.schema.find(name)
        if column is None:
            raise IntegrityError("The key of a lake table is not among its columns", remedy="Reload it", column=name)
        folders = dict(zip((name.lower() for name in self.partition_key), partition, strict=True))
        if name.lower() in folders:
            return partition_column(folders[name.lower()], column.type, rows.num_rows)
        stored = rows.column(column.name)
        stored = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
        return stored.cast(to_arrow(column.type))


def read_batches(
    fs: FileSystem,
    key: str,
    shape: TableShape,
    columns: Sequence[str] | None = None,
    *,
    encoded: bool = False,
    chosen: Callable[[pa.NativeFile, pq.ParquetFile], Iterable[int]] | None = None,
) -> Iterator[pa.Table]:
    """A data file's rows as the table has them, a row group at a time; see `batches_of`.

    Args:
        key: Key of the file in the lake bucket.
    """
    with fs.open_input_file(key) as source:
        yield from batches_of(source, shape, columns, encoded=encoded, chosen=chosen)


def batches_of(
    source: pa.NativeFile,
    shape: TableShape,
    columns: Sequence[str] | None = None,
    *,
    encoded: bool = False,
    chosen: Callable[[pa.NativeFile, pq.ParquetFile], Iterable[int]] | None = None,
) -> Iterator[pa.Table]:
    """The rows of an open data file as the table has them, a row group at a time.

    A file that was adopted may lack operations and positions. Its rows are as those of a full load: inserted, and older
    than every change.

    Args:
        source: The file.
        shape: The table; what the file has in other order, case or narrower type comes as the table has it.
        columns: Names of stored columns to read; None for all.
        encoded: Leave texts that repeat as dictionaries, which are faster to read, filter and write again.
        chosen: Given the open file, and with its footer, the row groups to read; None: all.
    """
    stored = shape.stored if columns is None else pa.schema([shape.stored.field(name) for name in columns])
    wanted = {name.lower() for name in stored.names}
    parquet = parquet_file(source)
    names = [name for name in parquet.schema_arrow.names if name.lower() in wanted]
    if encoded:
        parquet = parquet_file(source, parquet.metadata, _repeating_texts(parquet))
    for group in chosen(source, parquet) if chosen else range(parquet.num_row_groups):
        rows = parquet.read_row_group(group, columns=names, use_threads=False)
        yield as_full_load(conform(rows, stored, keep_encoded=encoded))


@contextmanager
def open_parquet(fs: FileSystem, key: str) -> Iterator[pq.ParquetFile]:
    """A data file, opened; so far only its footer is read."""
    with fs.open_input_file(key) as source:
        yield parquet_file(source)


def parquet_file(
    source: pa.NativeFile, metadata: pq.FileMetaData | None = None, encoded: Sequence[str] = ()
) -> pq.ParquetFile:
    """A data file that is open.

    Args:
        metadata: Its footer, if that was read before.
        encoded: Text columns to be read as dictionaries.
    """
    # Timestamps in Spark's older form, INT96, would come as nanoseconds, which overflow after 2262 without a word.
    return pq.ParquetFile(source, metadata=metadata, read_dictionary=list(encoded), coerce_int96_timestamp_unit="us")


def _repeating_texts(parquet: pq.ParquetFile) -> list[str]:
    """Text columns whose dictionaries are small beside their rows in all row groups."""
    metadata, names = parquet.metadata, parquet.schema_arrow.names
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    return [
        name
        for i, name in enumerate(names)
        if parquet.schema_arrow.field(i).type == pa.string()
        and metadata.num_columns == len(names)  # no nested columns, so that both count alike
        and all(_is_small_dictionary(group.column(i)) for group in groups)
    ]


def _is_small_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    most_bytes = SMALL_DICTIONARY_BYTES + ENCODED_BYTES_PER_ROW * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most_bytes)


def as_full_load(rows: pa.Table) -> pa.Table:
    """Rows with an operation and a position, those of a full load where there was none."""
    for name, value in ((OP_COLUMN, INSERT), (POSITION, FULL_LOAD_POSITION)):
        i = rows.schema.get_field_index(name)
        if i >= 0 and rows.column(i).null_count:
            rows = rows.set_column(i, name, pc.fill_null(rows.column(i).cast(pa.string()), value))
    return rows


def conform(rows: pa.Table, schema: pa.Schema, *, keep_encoded: bool = False) -> pa.Table:
    """Rows with exactly these columns and types: a missing column is null, a narrower type is widened.

    Args:
        keep_encoded: Leave texts that are dictionaries so.
    """
    names = {name.lower(): i for i, name in enumerate(rows.schema.names)}
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for column in schema:
        i = names.get(column.name.lower())
        if i is None:
            columns[column.name] = pa.nulls(rows.num_rows, column.type)
        elif keep_encoded and column.type == pa.string() and rows.schema.field(i).type == ENCODED_TEXT:
            columns[column.name] = rows.column(i)
        else:
            columns[column.name] = rows.column(i).cast(column.type)
    return pa.table(columns)


def is_deleted(rows: pa.Table) -> pa.Array:
    """Whether each row of a data file, or on its way into one, was deleted softly; true or false, never null."""
    operations = rows[OP_COLUMN].cast(pa.string()).combine_chunks()
    return pc.fill_null(pc.equal(operations, DELETE), False)


def matches(keys: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether each key is among the wanted ones; true or false, never null."""
    return pc.fill_null(pc.is_in(keys, value_set=wanted), False)
