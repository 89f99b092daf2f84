"""Opens the sampled files and gathers facts about them. The only part of the doctor that reads objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.adapters.filesystem import open_input, open_stream, repeated
from cdclake.errors import CdclakeError, ConfigurationError, InputError
from cdclake.lake.raw import csv as raw_csv
from cdclake.lake.raw.normalize import normalize
from cdclake.lake.raw.parquet import schema_and_footer
from cdclake.lake.raw.reader import Inspection, inspect_raw_file, read_errors_reported, read_raw
from cdclake.lake.raw.rows import Slice
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.types import from_arrow
from cdclake.model.raw.files import RawKind
from cdclake.model.schema import UNTYPED, Column, Schema
from cdclake_cli.doctor.csv.dialect import Head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.parquet.footer import Footer
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import CsvDialect, TableSettings
    from cdclake_cli.doctor.row_statistics import RowStatistics

MAX_ROWS_PER_FILE = 200_000
_HEAD_BYTES = 1 << 16
_MAX_HEADS = 12
_BLOCK_BYTES = 4 << 20
_MAX_GZIP_BYTES = 64 << 20
"""A larger gzipped file is not decompressed to its end to check its last row."""


@dataclass(frozen=True)
class ParquetFacts:
    """Properties of a Parquet file, from its footer.

    Attributes:
        version: `1.0`, `2.4` or the like.
        codecs: Of the columns.
        encodings: Of the columns.
        has_statistics: Whether any column has minimum and maximum values.
        group_rows: Rows of each row group.
        timestamp_units: `ms`, `us` or `ns`, of timestamp columns.
        required: Names of the columns that may not be null.
    """

    version: str
    codecs: frozenset[str]
    encodings: frozenset[str]
    has_statistics: bool
    group_rows: tuple[int, ...]
    timestamp_units: frozenset[str]
    required: tuple[str, ...]


@dataclass(frozen=True)
class FileFacts:
    """Facts about one file.

    Attributes:
        columns: As in the file, including `Op` and columns that DMS adds; empty if the file cannot be read.
        types: Types of Parquet columns by name: the lake type, or Arrow's type if the lake has none.
        parquet: None if the file is not Parquet.
        error: Why the lake cannot read or accept the file; None if it can.
        all_rows_read: Whether all rows were read.
        ends_with_delimiter: Whether the last row is terminated; None if that was not checked.
    """

    file: RawFile
    columns: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    parquet: ParquetFacts | None = None
    error: CdclakeError | None = None
    all_rows_read: bool = False
    ends_with_delimiter: bool | None = None

    def has(self, column: str) -> bool:
        """Whether the file has a column of that name, in any case."""
        return column.lower() in {name.lower() for name in self.columns}


def read_csv_heads(fs: FileSystem, files: Sequence[RawFile]) -> list[Head]:
    """The first bytes of some CSV full-load and change files; unreadable files are left out."""
    csv = [file for file in files if file.format.is_text and file.size_bytes and not file.transactions]
    loads = [file for file in csv if file.kind is RawKind.FULL_LOAD][: _MAX_HEADS // 2]
    changes = [file for file in csv if file.kind is RawKind.CHANGE]
    heads = []
    for file in [*loads, *changes[:: max(1, len(changes) * 2 // _MAX_HEADS)]]:
        try:
            with read_errors_reported(file), open_stream(fs, file.key) as stream:
                data = stream.read(_HEAD_BYTES)
        except InputError:
            continue  # read_sample reports it
        heads.append(Head(data, whole=len(data) < _HEAD_BYTES, change=file.kind is RawKind.CHANGE))
    return heads


def read_sample(
    fs: FileSystem,
    files: Iterable[RawFile],
    settings: TableSettings,
    table: TableName,
    statistics: RowStatistics,
    progress: Callable[[str], None] = lambda _: None,
) -> list[FileFacts]:
    """Facts about files, in the order of the files.

    Args:
        fs: The raw bucket.
        settings: How to read them.
        statistics: Collects their rows; of a long file, the first `MAX_ROWS_PER_FILE`.
        progress: Called with the name of each file before it is read.
    """
    sample = []
    for file in files:
        progress(file.relative)
        sample.append(_read_file(fs, file, settings, table, statistics))
    return sample


def _read_file(
    fs: FileSystem, file: RawFile, settings: TableSettings, table: TableName, statistics: RowStatistics
) -> FileFacts:
    facts = FileFacts(file)
    try:
        facts = read_columns(fs, file, settings)
        inspection = inspect_raw_file(fs, file, settings)
        all_rows_read = _read_rows(fs, facts, inspection, settings, table, statistics)
    except (ConfigurationError, InputError) as error:
        return replace(facts, error=error)
    terminated = _ends_with_delimiter(fs, file, settings.csv) if file.format.is_text else None
    return replace(facts, all_rows_read=all_rows_read, ends_with_delimiter=terminated)


def read_columns(fs: FileSystem, file: RawFile, settings: TableSettings) -> FileFacts:
    """The columns of a file, without its rows.

    Raises:
        InputError: It cannot be read.
        ConfigurationError: It is a transaction file, and the Schema attribute is not set.
    """
    with read_errors_reported(file):
        if file.format.is_text:
            return FileFacts(file, raw_csv.column_names(fs, file, settings))
        with open_input(fs, file.key) as source:
            schema, footer = schema_and_footer(source)
            types = {column.name: from_arrow(column.type) or str(column.type) for column in schema}
            return FileFacts(file, tuple(schema.names), types, _parquet_facts(schema, footer))


def _parquet_facts(schema: pa.Schema, footer: Footer) -> ParquetFacts:
    chunks = [chunk for group in footer.row_groups for chunk in group.columns]
    return ParquetFacts(
        version=footer.version,
        codecs=frozenset(chunk.codec for chunk in chunks),
        encodings=frozenset(encoding for chunk in chunks for encoding in chunk.encodings),
        has_statistics=any(value is not None for chunk in chunks for value in chunk.extremes),
        group_rows=tuple(group.rows for group in footer.row_groups),
        timestamp_units=frozenset(column.type.unit for column in schema if pa.types.is_timestamp(column.type)),
        required=tuple(column.name for column in schema if not column.nullable),
    )


def _read_rows(
    fs: FileSystem,
    facts: FileFacts,
    inspection: Inspection,
    settings: TableSettings,
    table: TableName,
    statistics: RowStatistics,
) -> bool:
    """Whether all rows were read."""
    # A missing key or order column is a separate finding and must not hide the rest of the file.
    keys = tuple(name for name in settings.primary_key if facts.has(name))
    order = settings.order_column if facts.has(settings.order_column) else ""
    readable = replace(settings, primary_key=keys, order_column=order, unique_checks="")
    columns = (Column(one.name, "string" if one.type == UNTYPED else one.type) for one in inspection.schema)
    shape = TableShape(Schema(tuple(columns)), keys, ())
    rows = 0
    for part in inspection.parts or (Slice(facts.file, 0),):
        for raw in read_raw(fs, part, readable, table):
            if rows >= MAX_ROWS_PER_FILE:
                return False
            statistics.add(facts.file, raw, normalize([raw], [facts.file], shape, readable))
            rows += raw.columns.num_rows
    return True


def _ends_with_delimiter(fs: FileSystem, file: RawFile, dialect: CsvDialect) -> bool | None:
    """Whether a CSV file ends with a row delimiter; None if it is too large to check."""
    end = dialect.row_delimiter.encode()
    with read_errors_reported(file):
        if not file.format.is_gzip:
            with open_input(fs, file.key) as source:
                source.seek(max(source.size() - len(end), 0))
                return bool(repeated(source.read) == end)
        if file.size_bytes > _MAX_GZIP_BYTES:
            return None
        last = b""
        with open_stream(fs, file.key) as stream:
            while block := stream.read(_BLOCK_BYTES):
                last = (last + block)[-len(end) :]
        return last == end
