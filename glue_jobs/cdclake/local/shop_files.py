"""Raw files as AWS DMS writes them to S3: names, columns and encodings.

Facts from the DMS user guide ("Using Amazon S3 as a target") and the service's S3 settings: `LOAD` and eight upper-case
hex digits; `yyyymmdd-HHMMSSfff` for changes; columns `Op`, then the timestamp column (`TimestampColumnName`, text of
the form `yyyy-MM-dd HH:mm:ss.SSSSSS`, required in Parquet), then the source's. Full-load rows have no `Op` unless
`IncludeOpForFullLoad` is set, which it is not here. CSV has no header line, quotes by RFC 4180 (`Rfc4180`) and writes
NULL as `NULL` (`CsvNullValue`).
"""

from __future__ import annotations

import csv
import gzip
import io
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.model.rawfiles import RawFormat
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.local.shop_source import ChangeRow
    from cdclake.ports import Clock

TIMESTAMP_COLUMN = "dms_timestamp"
_TIMESTAMP_FORMAT = "%Y-%m-%d %H:%M:%S.%f"
_NULL = "NULL"


class DmsFile(NamedTuple):
    """A raw file.

    Attributes:
        key: `<schema>/<table>/<file>`, to be put below the raw prefix.
        data: Content.
    """

    key: str
    data: bytes


def full_load_name(number: int, kind: RawFormat) -> str:
    """Name of a full-load file; `number` counts from 1."""
    return f"LOAD{number:08X}.{kind.value}"


class ChangeFileNames:
    """Names of change files: the time they are written, made to grow if the clock stands still or goes back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: datetime | None = None

    def next(self, kind: RawFormat) -> str:
        """A name greater than all before."""
        now = self._clock()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        if self._last is not None and now <= self._last:
            now = self._last + timedelta(milliseconds=1)
        self._last = now
        return f"{now:%Y%m%d-%H%M%S}{now.microsecond // 1000:03d}.{kind.value}"


def full_load_table(rows: pa.Table, written_utc: datetime) -> pa.Table:
    """Source rows with the timestamp column before them, which holds the time of the transfer."""
    stamps = pa.repeat(pa.scalar(written_utc.strftime(_TIMESTAMP_FORMAT)), rows.num_rows)
    return rows.add_column(0, _timestamp_field(), stamps)


def change_table(changes: list[ChangeRow], columns: pa.Schema) -> pa.Table:
    """Changes with `Op` and the commit time before the source's columns, in the order of the statements."""
    ops = pa.array([change.op for change in changes], pa.string())
    stamps = pa.array([change.committed_utc.strftime(_TIMESTAMP_FORMAT) for change in changes], pa.string())
    rows = pa.Table.from_pylist([change.row for change in changes], columns)
    return rows.add_column(0, _timestamp_field(), stamps).add_column(0, pa.field(OP_COLUMN, pa.string()), ops)


def _timestamp_field() -> pa.Field:
    return pa.field(TIMESTAMP_COLUMN, pa.string(), nullable=False)


def encode(table: pa.Table, kind: RawFormat) -> bytes:
    """A raw file's bytes; the same table always gives the same bytes."""
    if kind is RawFormat.PARQUET:
        return _parquet(table)
    text = _csv(table)
    return gzip.compress(text, mtime=0) if kind is RawFormat.CSV_GZ else text


def _parquet(table: pa.Table) -> bytes:
    nullable = [f if f.name == TIMESTAMP_COLUMN else f.with_nullable(True) for f in table.schema]
    sink = io.BytesIO()
    pq.write_table(
        table.cast(pa.schema(nullable)),
        sink,
        version="1.0",
        compression="gzip",
        compression_level=1,
        coerce_timestamps="us",
        store_schema=False,
        row_group_size=max(table.num_rows, 1),
    )
    return sink.getvalue()


def _csv(table: pa.Table) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerows([_NULL if value is None else value for value in row.values()] for row in table.to_pylist())
    return text.getvalue().encode()
