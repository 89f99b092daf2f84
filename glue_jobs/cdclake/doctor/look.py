"""Opens the files of a sample and gathers what they tell. The only part of the doctor that reads objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.doctor.csv_guess import Head
from cdclake.errors import CdclakeError, ConfigurationError, InputError
from cdclake.lake.raw import csv as raw_csv
from cdclake.lake.raw.normalize import normalise
from cdclake.lake.raw.reader import Inspection, Slice, inspect, read_raw, reading
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.types import from_arrow
from cdclake.model.rawfiles import RawFormat, RawKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.doctor.tally import Tally
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.table import CsvDialect, TableName, TableSettings

MOST_ROWS = 200_000
_HEAD_BYTES = 1 << 16
_MOST_HEADS = 12
_BLOCK_BYTES = 4 << 20
_MOST_UNPACKED_BYTES = 64 << 20
"""A gzipped file is read to its end, to see whether it has one, if it has at most these bytes."""


@dataclass(frozen=True)
class ParquetFacts:
    """What the foot of a Parquet file tells of how it was written.

    Attributes:
        version: `1.0`, `2.4` or the like.
        codecs: Of the columns.
        encodings: Of the columns.
        has_statistics: Whether some column has least and greatest values.
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
    """What one file tells.

    Attributes:
        columns: As in the file, `Op` and added ones included; empty if it cannot be read.
        types: Lake types of Parquet columns, by name; of one that the lake cannot keep, Arrow's.
        parquet: None if it is no Parquet file.
        error: Why it cannot be read or taken; None if it can.
        whole: Whether all its rows were read.
        finished: Whether its last row has its end; None if that was not looked at.
    """

    file: RawFile
    columns: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    parquet: ParquetFacts | None = None
    error: CdclakeError | None = None
    whole: bool = False
    finished: bool | None = None

    def has(self, column: str) -> bool:
        """Whether the file has a column of that name, in any case."""
        return column.lower() in {name.lower() for name in self.columns}


def csv_heads(fs: FileSystem, files: Sequence[RawFile]) -> list[Head]:
    """First bytes of some CSV files, full-load and change files; those that cannot be read are left out."""
    csv = [file for file in files if file.format is not RawFormat.PARQUET and file.size_bytes and not file.transactions]
    loads = [file for file in csv if file.kind is RawKind.FULL_LOAD][: _MOST_HEADS // 2]
    changes = [file for file in csv if file.kind is RawKind.CHANGE]
    heads = []
    for file in [*loads, *changes[:: max(1, len(changes) * 2 // _MOST_HEADS)]]:
        try:
            with reading(file), fs.open_input_stream(file.key) as stream:
                data = stream.read(_HEAD_BYTES)
        except InputError:
            continue  # told when its rows are read
        heads.append(Head(data, whole=len(data) < _HEAD_BYTES, change=file.kind is RawKind.CHANGE))
    return heads


def look_into(
    fs: FileSystem,
    files: Iterable[RawFile],
    settings: TableSettings,
    table: TableName,
    tally: Tally,
    say: Callable[[str], None] = lambda _: None,
) -> list[FileFacts]:
    """What files tell, in the order given.

    Args:
        fs: The raw bucket.
        settings: How to read them.
        tally: Takes in their rows, of a long file the first `MOST_ROWS`.
        say: Is told which file is next.
    """
    found = []
    for file in files:
        say(file.relative)
        found.append(_look(fs, file, settings, table, tally))
    return found


def _look(fs: FileSystem, file: RawFile, settings: TableSettings, table: TableName, tally: Tally) -> FileFacts:
    facts = FileFacts(file)
    try:
        facts = _columns(fs, file, settings)
        inspection = inspect(fs, file, settings)
        whole = _read_rows(fs, facts, inspection, settings, table, tally)
    except (ConfigurationError, InputError) as error:
        return replace(facts, error=error)
    finished = None if file.format is RawFormat.PARQUET else _is_finished(fs, file, settings.csv)
    return replace(facts, whole=whole, finished=finished)


def _columns(fs: FileSystem, file: RawFile, settings: TableSettings) -> FileFacts:
    with reading(file):
        if file.format is not RawFormat.PARQUET:
            return FileFacts(file, raw_csv.column_names(fs, file, settings))
        with fs.open_input_file(file.key) as source:
            parquet = pq.ParquetFile(source)
            schema, metadata = parquet.schema_arrow, parquet.metadata
            types = {one.name: from_arrow(one.type) or str(one.type) for one in schema}
            return FileFacts(file, tuple(schema.names), types, _parquet_facts(schema, metadata))


def _parquet_facts(schema: pa.Schema, metadata: pq.FileMetaData) -> ParquetFacts:
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    return ParquetFacts(
        version=metadata.format_version,
        codecs=frozenset(chunk.compression for chunk in chunks),
        encodings=frozenset(encoding for chunk in chunks for encoding in chunk.encodings),
        has_statistics=any(chunk.is_stats_set for chunk in chunks),
        group_rows=tuple(group.num_rows for group in groups),
        timestamp_units=frozenset(one.type.unit for one in schema if pa.types.is_timestamp(one.type)),
        required=tuple(one.name for one in schema if not one.nullable),
    )


def _read_rows(
    fs: FileSystem,
    facts: FileFacts,
    inspection: Inspection,
    settings: TableSettings,
    table: TableName,
    tally: Tally,
) -> bool:
    """Whether all rows were read."""
    # What a file lacks is told once, and must not keep one from looking at the rest of it.
    keys = tuple(name for name in settings.primary_key if facts.has(name))
    order = settings.order_column if facts.has(settings.order_column) else ""
    readable = replace(settings, primary_key=keys, order_column=order)
    shape = TableShape(inspection.schema, keys, ())
    rows = 0
    for part in inspection.parts or (Slice(facts.file, 0),):
        for raw in read_raw(fs, part, readable, table):
            if rows >= MOST_ROWS:
                return False
            tally.add(facts.file, raw, normalise(raw, facts.file, shape, readable))
            rows += raw.columns.num_rows
    return True


def _is_finished(fs: FileSystem, file: RawFile, dialect: CsvDialect) -> bool | None:
    """Whether a CSV file ends with a row delimiter; None if it is too large to look."""
    end = dialect.row_delimiter.encode()
    with reading(file):
        if file.format is RawFormat.CSV:
            with fs.open_input_file(file.key) as source:
                source.seek(max(source.size() - len(end), 0))
                return bool(source.read() == end)
        if file.size_bytes > _MOST_UNPACKED_BYTES:
            return None
        last = b""
        with fs.open_input_stream(file.key) as stream:
            while block := stream.read(_BLOCK_BYTES):
                last = (last + block)[-len(end) :]
        return last == end
