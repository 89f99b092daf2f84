"""Encodes rows as the files that DMS writes.

The columns are `Op`, the timestamp column, the source's columns, then those that mapping rules add. A full load has the
added columns too, empty. In Parquet the timestamp column is required text and all others are optional, as in DMS's own
files. Only the writer's name in the Parquet footer differs, because pyarrow sets it.
"""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.model.schema import OP_COLUMN
from cdclake_cli.dms.csv_text import csv_header, csv_lines, csv_text, joined_lines
from cdclake_cli.dms.settings import ALL_OPERATIONS, Compression, DataFormat, DmsSettings, Encoding, ParquetVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from cdclake.model.table.name import TableName

BEFORE_PREFIX = "BI_"
CHAR_LENGTH = b"char_length"
"""Arrow field metadata: the length of a `CHAR(n)` column, to which `AddTrailingPaddingCharacter` pads."""
_VERSIONS = {ParquetVersion.V1: "1.0", ParquetVersion.V2: "2.6"}


@dataclass(frozen=True)
class ChangeRows:
    """Change rows of one table, as columns, in statement order.

    Attributes:
        operations: Text: `I`, `U` or `D`.
        committed_utc: Commit time of each row's transaction, with microseconds in UTC.
        rows: The source's columns; a delete has the row before the delete.
        before: Values before an update, for the columns of the before-image rule under their source names; null for
            inserts and deletes.
        headers: The columns of `DmsSettings.header_columns`.
        unsent: By column, a boolean mask of the rows whose value the source did not log. These values are null in
            `rows`.
    """

    operations: pa.Array
    committed_utc: pa.Array
    rows: pa.Table
    before: pa.Table | None = None
    headers: pa.Table | None = None
    unsent: Mapping[str, pa.Array] = field(default_factory=dict)

    def filter(self, mask: pa.Array) -> ChangeRows:
        """The rows where the mask is true."""
        return self.take(pc.indices_nonzero(mask))

    def take(self, indices: pa.Array) -> ChangeRows:
        """The rows at these indices, in that order."""
        return ChangeRows(
            self.operations.take(indices),
            self.committed_utc.take(indices),
            self.rows.take(indices),
            self.before.take(indices) if self.before is not None else None,
            self.headers.take(indices) if self.headers is not None else None,
            {name: values.take(indices) for name, values in self.unsent.items()},
        )


class TableChangeRows(NamedTuple):
    """Change rows of one table in a transaction file."""

    table: TableName
    changes: ChangeRows


def full_load_bytes(rows: pa.Table, settings: DmsSettings, written_utc: datetime, added: Iterable[str] = ()) -> bytes:
    """Content of a full-load file.

    Args:
        rows: The source's rows and columns.
        written_utc: Value of the timestamp column: the time of the transfer or of the task's start.
        added: Names of columns that mapping rules add to change files; empty in a full load.
    """
    columns = [_timestamps(pa.repeat(pa.scalar(written_utc, pa.timestamp("us", tz="UTC")), rows.num_rows), settings)]
    if settings.include_op_for_full_load:
        columns.insert(0, pa.table({OP_COLUMN: pa.repeat("I", rows.num_rows)}))
    empty = [pa.table({name: pa.nulls(rows.num_rows, _added_type(name, rows.schema))}) for name in added]
    return _encoded(_concat_columns([*columns, padded(rows, settings), *empty]), settings)


def change_bytes(changes: ChangeRows, settings: DmsSettings) -> bytes:
    """Content of a change file: the rows whose operations the settings include."""
    sent = sent_rows(changes, settings)
    return _encoded(change_table(sent, settings), settings, sent.unsent)


def sent_rows(changes: ChangeRows, settings: DmsSettings) -> ChangeRows:
    """The rows that DMS sends: all, only inserts, or inserts and updates."""
    if settings.operations == ALL_OPERATIONS:
        return changes
    excluded = pa.array([name for name in ALL_OPERATIONS if name not in settings.operations])
    return changes.filter(pc.invert(pc.is_in(changes.operations, value_set=excluded)))


def change_table(changes: ChangeRows, settings: DmsSettings) -> pa.Table:
    """All columns of a change file; takes only rows that DMS sends."""
    columns = [pa.table({OP_COLUMN: changes.operations})] if settings.op_in_changes else []
    columns += [_timestamps(changes.committed_utc, settings), padded(changes.rows, settings)]
    if changes.headers is not None:
        columns.append(changes.headers)
    if changes.before is not None:
        names = [f"{BEFORE_PREFIX}{name}" for name in changes.before.column_names]
        columns.append(padded(changes.before, settings).rename_columns(names))
    return _concat_columns(columns)


def transaction_bytes(tables: Sequence[TableChangeRows], order: NDArray[np.int64], settings: DmsSettings) -> bytes:
    """Content of a transaction file: lines `operation,table,schema,value,...` of all tables in commit order.

    Args:
        tables: Change rows of each table; only rows that DMS sends.
        order: For each line of the file, the index in `tables` of the table that its row comes from.
    """
    lines = [line for name, changes in tables for line in _transaction_lines(name, changes, settings)]
    if not lines:
        return b""
    indices = np.empty(len(order), np.int64)
    indices[np.argsort(order, kind="stable")] = np.arange(len(order))
    return _compressed(joined_lines(pa.concat_arrays(lines).take(pa.array(indices)), settings), settings)


def _transaction_lines(name: TableName, changes: ChangeRows, settings: DmsSettings) -> Iterator[pa.Array]:
    table = change_table(changes, settings)
    values = table.drop_columns([OP_COLUMN]) if settings.op_in_changes else table
    names = [pa.repeat(text, table.num_rows) for text in (name.table, name.schema)]
    # These columns have no names, because any name could be a source column's.
    prefix = pa.table([changes.operations, *names], ["", "", ""])
    return csv_lines(_concat_columns([prefix, values]), settings, changes.unsent)


def padded(rows: pa.Table, settings: DmsSettings) -> pa.Table:
    """Rows with `CHAR(n)` columns padded to their full length, if `AddTrailingPaddingCharacter` is set."""
    if not settings.add_trailing_padding_character:
        return rows
    for i, column in enumerate(rows.schema):
        length = (column.metadata or {}).get(CHAR_LENGTH)
        if length is not None:
            rows = rows.set_column(i, column, pc.utf8_rpad(rows.column(i), int(length)))
    return rows


def _encoded(table: pa.Table, settings: DmsSettings, unsent: Mapping[str, pa.Array] | None = None) -> bytes:
    if settings.data_format is DataFormat.PARQUET:
        return _parquet(table, settings)
    header = csv_header(table.column_names, settings) if settings.add_column_name else b""
    return _compressed(header + csv_text(table, settings, unsent), settings)


def _compressed(text: bytes, settings: DmsSettings) -> bytes:
    return text if settings.compression_type is Compression.NONE else gzip.compress(text, compresslevel=6, mtime=0)


def _parquet(table: pa.Table, settings: DmsSettings) -> bytes:
    timestamp = settings.timestamp_column_name
    fields = [field.with_nullable(field.name != timestamp).remove_metadata() for field in table.schema]
    gzipped = settings.compression_type is Compression.GZIP
    sink = io.BytesIO()
    pq.write_table(
        table.cast(pa.schema(fields)),
        sink,
        version=_VERSIONS[settings.parquet_version],
        compression="gzip" if gzipped else "none",
        compression_level=1 if gzipped else None,
        use_dictionary=settings.encoding_type is not Encoding.PLAIN,
        write_statistics=settings.enable_statistics,
        coerce_timestamps="ms" if settings.parquet_timestamp_in_millisecond else "us",
        allow_truncated_timestamps=True,
        store_schema=False,
        row_group_size=settings.row_group_length or max(table.num_rows, 1),
    )
    return sink.getvalue()


def _timestamps(times: pa.Array, settings: DmsSettings) -> pa.Table:
    """The timestamp column, `yyyy-MM-dd HH:mm:ss.SSSSSS` in UTC; a table without columns if it is not configured."""
    if not settings.timestamp_column_name:
        return pa.table({}, schema=pa.schema([]))
    texts = times.cast(pa.timestamp("us")).cast(pa.string())
    return pa.table([texts], schema=pa.schema([pa.field(settings.timestamp_column_name, pa.string(), nullable=False)]))


def _added_type(name: str, source: pa.Schema) -> pa.DataType:
    column = name.removeprefix(BEFORE_PREFIX)
    return source.field(column).type if column != name else pa.string()


def _concat_columns(tables: list[pa.Table]) -> pa.Table:
    columns = [column for table in tables for column in table.columns]
    return pa.table(columns, schema=pa.schema([field for table in tables for field in table.schema]))
