"""Rows as DMS writes them to a file: which columns, in which order, and as which bytes.

Columns are `Op`, the timestamp column, the source's columns, then those that mapping rules add. A full load has the
added ones too, empty. In Parquet the timestamp column is required text and all else optional, as in DMS's own files.
What pyarrow does not let one choose is the writer's name in the file's foot.
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

from cdclake.devkit.dms.csv_text import csv_header, csv_lines, csv_text, joined_lines
from cdclake.devkit.dms.settings import ALL_OPERATIONS, Compression, DataFormat, DmsSettings, Encoding, ParquetVersion
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from cdclake.model.table import TableName

BEFORE_PREFIX = "BI_"
CHAR_LENGTH = b"char_length"
"""Metadata of an Arrow field: the length of a `CHAR(n)` column, which `AddTrailingPaddingCharacter` pads to."""
_VERSIONS = {ParquetVersion.V1: "1.0", ParquetVersion.V2: "2.6"}


@dataclass(frozen=True)
class Changes:
    """Rows of one table's changes, column by column, in the order of the statements.

    Attributes:
        operations: Text: `I`, `U` or `D`.
        committed_utc: Timestamps with microseconds in UTC: when the row's transaction was committed.
        rows: The source's columns; a delete has the row as it was.
        before: Values before an update, in columns named as the source's, of those that a rule asks for; null in other
            rows.
        headers: Columns of `DmsSettings.header_columns`.
        unsent: For some columns, a boolean a row: whether the source did not log the value. Such a value is null in
            `rows`.
    """

    operations: pa.Array
    committed_utc: pa.Array
    rows: pa.Table
    before: pa.Table | None = None
    headers: pa.Table | None = None
    unsent: Mapping[str, pa.Array] = field(default_factory=dict)

    def filter(self, mask: pa.Array) -> Changes:
        """The changes for which a boolean is true."""
        return self.take(pc.indices_nonzero(mask))

    def take(self, places: pa.Array) -> Changes:
        """The changes at some places, in that order."""
        return Changes(
            self.operations.take(places),
            self.committed_utc.take(places),
            self.rows.take(places),
            self.before.take(places) if self.before is not None else None,
            self.headers.take(places) if self.headers is not None else None,
            {name: values.take(places) for name, values in self.unsent.items()},
        )


class TableChanges(NamedTuple):
    """Changes of one of the tables that a transaction file tells of."""

    table: TableName
    changes: Changes


def full_load_bytes(rows: pa.Table, settings: DmsSettings, written_utc: datetime, added: Iterable[str] = ()) -> bytes:
    """A full-load file.

    Args:
        rows: The source's rows and columns.
        settings: Of the task.
        written_utc: Time of the transfer, or of the task's start, for the timestamp column.
        added: Names of columns that mapping rules add to change files; empty here.
    """
    columns = [_stamps(pa.repeat(pa.scalar(written_utc, pa.timestamp("us", tz="UTC")), rows.num_rows), settings)]
    if settings.include_op_for_full_load:
        columns.insert(0, _one(OP_COLUMN, pa.repeat("I", rows.num_rows)))
    nothing = [_one(name, pa.nulls(rows.num_rows, _added_type(name, rows.schema))) for name in added]
    return _encoded(_side_by_side([*columns, padded(rows, settings), *nothing]), settings)


def change_bytes(changes: Changes, settings: DmsSettings) -> bytes:
    """A change file with the rows of the operations that the settings ask for."""
    sent = sent_changes(changes, settings)
    return _encoded(change_table(sent, settings), settings, sent.unsent)


def sent_changes(changes: Changes, settings: DmsSettings) -> Changes:
    """The changes that DMS sends: all, or only inserts, or inserts and updates."""
    if settings.operations == ALL_OPERATIONS:
        return changes
    left_out = pa.array([name for name in ALL_OPERATIONS if name not in settings.operations])
    return changes.filter(pc.invert(pc.is_in(changes.operations, value_set=left_out)))


def change_table(changes: Changes, settings: DmsSettings) -> pa.Table:
    """All columns of a change file, for changes that are all sent."""
    columns = [_one(OP_COLUMN, changes.operations)] if settings.op_in_changes else []
    columns += [_stamps(changes.committed_utc, settings), padded(changes.rows, settings)]
    if changes.headers is not None:
        columns.append(changes.headers)
    if changes.before is not None:
        names = [f"{BEFORE_PREFIX}{name}" for name in changes.before.column_names]
        columns.append(padded(changes.before, settings).rename_columns(names))
    return _side_by_side(columns)


def transaction_bytes(tables: Sequence[TableChanges], order: NDArray[np.int64], settings: DmsSettings) -> bytes:
    """A file of whole transactions: `operation,table,schema,value,...`, rows of all tables in the order of commits.

    Args:
        tables: Changes of each table that are all sent.
        order: For each row of the file, the index in `tables` of the table whose next row it is.
        settings: Of the task.
    """
    lines = [line for name, changes in tables for line in _transaction_lines(name, changes, settings)]
    if not lines:
        return b""
    places = np.empty(len(order), np.int64)
    places[np.argsort(order, kind="stable")] = np.arange(len(order))
    return _compressed(joined_lines(pa.concat_arrays(lines).take(pa.array(places)), settings), settings)


def _transaction_lines(name: TableName, changes: Changes, settings: DmsSettings) -> Iterator[pa.Array]:
    table = change_table(changes, settings)
    values = table.drop_columns([OP_COLUMN]) if settings.op_in_changes else table
    # Without names, as the source may have columns of any.
    names = [pa.repeat(text, table.num_rows) for text in (name.table, name.schema)]
    whose = pa.table([changes.operations, *names], ["", "", ""])
    return csv_lines(_side_by_side([whose, values]), settings, changes.unsent)


def padded(rows: pa.Table, settings: DmsSettings) -> pa.Table:
    """Rows whose `CHAR(n)` columns are as long as they are at the source, if `AddTrailingPaddingCharacter` says so."""
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
    stamp = settings.timestamp_column_name
    fields = [one.with_nullable(one.name != stamp).remove_metadata() for one in table.schema]
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


def _stamps(times: pa.Array, settings: DmsSettings) -> pa.Table:
    """The timestamp column, `yyyy-MM-dd HH:mm:ss.SSSSSS` in UTC; no column if there is none."""
    if not settings.timestamp_column_name:
        return pa.table({}, schema=pa.schema([]))
    texts = times.cast(pa.timestamp("us")).cast(pa.string())
    return pa.table([texts], schema=pa.schema([pa.field(settings.timestamp_column_name, pa.string(), nullable=False)]))


def _added_type(name: str, source: pa.Schema) -> pa.DataType:
    column = name.removeprefix(BEFORE_PREFIX)
    return source.field(column).type if column != name else pa.string()


def _one(name: str, values: pa.Array) -> pa.Table:
    return pa.table({name: values})


def _side_by_side(tables: list[pa.Table]) -> pa.Table:
    columns = [column for table in tables for column in table.columns]
    return pa.table(columns, schema=pa.schema([one for table in tables for one in table.schema]))
