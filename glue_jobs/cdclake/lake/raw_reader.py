"""Reads raw files into Arrow tables of the lake's columns, with operation, position and key of each row."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from cdclake.errors import BadRowError, InputError, SchemaMismatchError, UnreadableFileError
from cdclake.lake.arrow_types import cast_column, schema_of, to_arrow
from cdclake.lake.keys import KEY, ROUTE, row_keys
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import ROW_DIGITS, file_part
from cdclake.model.rawfiles import RawFile, RawFormat, RawKind
from cdclake.model.schema import OP_COLUMN, Column, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem

    from cdclake.model.table import TableSettings

BATCH_ROWS = 1 << 17
FIRST_RECORD_BYTES = 1 << 20
INSERT, UPDATE, DELETE = "I", "U", "D"


@dataclass(frozen=True)
class Slice:
    """A part of a raw file that one task reads.

    Attributes:
        row_groups: Parquet row groups to read; None for the whole file.
        first_row: Number of the first row in the file.
        size_bytes: Size of the part, for balancing.
    """

    file: RawFile
    size_bytes: int
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Inspection:
    """What a look at a raw file's head tells.

    Attributes:
        schema: The source's columns in lake types, without operation and added columns.
        parts: What tasks read: one slice per Parquet row group, one for a CSV file.
    """

    schema: Schema
    parts: tuple[Slice, ...]


def inspect(fs: FileSystem, file: RawFile, settings: TableSettings) -> Inspection:
    """Look at a raw file's columns and size without reading its rows.

    Raises:
        UnreadableFileError: It is not what its name says.
        SchemaMismatchError: Its columns cannot be kept, or cannot be named.
        InputError: It is gone.
    """
    whole = Slice(file, file.size_bytes)
    with _reading(file):
        if file.format is RawFormat.PARQUET:
            with fs.open_input_file(file.key) as source:
                parquet = pq.ParquetFile(source)
                raw_schema = schema_of(parquet.schema_arrow, file.relative)
                groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
            starts = accumulate((group.num_rows for group in groups), initial=0)
            parts = tuple(
                replace(whole, row_groups=(i,), first_row=start, size_bytes=group.total_byte_size)
                for i, (group, start) in enumerate(zip(groups, starts, strict=False))
            )
        else:
            names, _ = _csv_columns(fs, whole, settings)
            raw_schema, parts = Schema(tuple(Column(name, "string") for name in names)), (whole,)
    return Inspection(_source_columns(raw_schema, settings), parts)


def read(fs: FileSystem, part: Slice, schema: Schema, settings: TableSettings) -> Iterator[pa.Table]:
    """Rows of a slice in file order.

    Args:
        schema: The lake's columns; a column that the file does not have is null, one more in the file is left out.

    Yields:
        Tables of the lake's columns, `Op`, position, and, if the table has a key, route and key.

    Raises:
        UnreadableFileError: The file is damaged.
        BadRowError: A row's value, operation or key breaks a rule; names file and row.
    """
    row = part.first_row
    batches = _parquet_batches(fs, part) if part.file.format is RawFormat.PARQUET else _csv_batches(fs, part, settings)
    while True:
        with _reading(part.file):
            batch = next(batches, None)
        if batch is None:
            return
        yield _normalise(batch, part.file, row, schema, settings)
        row += batch.num_rows


class _reading:
    """Turns what Arrow says of a damaged or vanished file into our errors."""

    def __init__(self, file: RawFile) -> None:
        self.file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            remedy = "Run the DMS task's reload for this table, or put the file back"
            raise InputError(
                "A raw file vanished before it was read", remedy=remedy, file=self.file.relative
            ) from error
        if isinstance(error, (pa.ArrowInvalid, EOFError, UnicodeDecodeError)) or _is_corrupt(error):
            message = f"A raw file cannot be read as {self.file.format.value}: {error}"
            remedy = "Nothing of it was applied. Have DMS write it again, or move it out of the raw folder"
            raise UnreadableFileError(message, remedy=remedy, file=self.file.relative) from error


def _is_corrupt(error: BaseException | None) -> bool:
    # Arrow reports broken compressed data and truncated Parquet pages as plain OSError without an errno.
    return isinstance(error, OSError) and error.errno is None


def _source_columns(raw: Schema, settings: TableSettings) -> Schema:
    """The columns to keep: not the operation, nor what a mapping rule added; types as the Schema attribute says."""
    kept = []
    for column in raw:
        if column.name == OP_COLUMN or column.name.startswith(("AR_H_", "BI_")):
            continue
        declared = settings.schema.find(column.name) if settings.schema else None
        kept.append(declared or column)
    return Schema(tuple(kept))


def _parquet_batches(fs: FileSystem, part: Slice) -> Iterator[pa.RecordBatch]:
    with fs.open_input_file(part.file.key) as source:
        yield from pq.ParquetFile(source).iter_batches(BATCH_ROWS, row_groups=part.row_groups, use_threads=False)


def _csv_columns(fs: FileSystem, part: Slice, settings: TableSettings) -> tuple[list[str], bool]:
    """Names of a CSV file's columns, and whether its first record is a header."""
    with fs.open_input_stream(part.file.key) as stream:  # undoes .gz by the name
        head = stream.read(FIRST_RECORD_BYTES).decode("utf-8", errors="replace")
    first = next(csv.reader(io.StringIO(head), delimiter=settings.csv.delimiter), [])
    if not first:
        raise UnreadableFileError(
            "A raw CSV file is empty",
            remedy="Have DMS write it again, or move it out of the raw folder",
            file=part.file.relative,
        )
    if settings.schema is None:
        return first, True
    known = {name.lower() for name in settings.schema.names}
    if {name.lower() for name in first if name != OP_COLUMN} & known == known:
        return first, True
    names = settings.schema.names
    if len(first) == len(names) + 1:
        return [OP_COLUMN, *names], False
    if len(first) == len(names):
        return names, False
    message = f"A raw CSV file has {len(first)} fields, and the Schema attribute names {len(names)} columns"
    remedy = "Name every column but Op in the Schema attribute, in order"
    raise SchemaMismatchError(message, remedy=remedy, file=part.file.relative)


def _csv_batches(fs: FileSystem, part: Slice, settings: TableSettings) -> Iterator[pa.RecordBatch]:
    names, header = _csv_columns(fs, part, settings)
    with fs.open_input_stream(part.file.key) as stream:
        yield from pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(column_names=names, skip_rows_after_names=int(header), use_threads=False),
            parse_options=pa_csv.ParseOptions(delimiter=settings.csv.delimiter, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[settings.csv.null_value],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _normalise(
    batch: pa.RecordBatch, file: RawFile, first_row: int, schema: Schema, settings: TableSettings
) -> pa.Table:
    by_name = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names) if name != OP_COLUMN}
    columns: dict[str, pa.Array] = {}
    for column in schema:
        raw = by_name.get(column.name.lower())
        columns[column.name] = (
            pa.nulls(batch.num_rows, to_arrow(column.type))
            if raw is None
            else cast_column(raw, column.type, column.name, file.relative, first_row)
        )
    columns[OP_COLUMN] = _operations(batch, file, first_row)
    columns[POSITION] = _positions(batch.num_rows, file, first_row)
    if settings.primary_key:
        columns[ROUTE], columns[KEY] = _checked_keys(columns, file, first_row, schema, settings)
    return pa.table(columns)


def _operations(batch: pa.RecordBatch, file: RawFile, first_row: int) -> pa.Array:
    if file.kind is RawKind.FULL_LOAD or OP_COLUMN not in batch.schema.names:
        return pa.repeat(INSERT, batch.num_rows)
    operations = batch.column(OP_COLUMN).cast(pa.string())
    known = pc.fill_null(pc.is_in(operations, pa.array([INSERT, UPDATE, DELETE])), False)
    wrong = pc.index(known, False).as_py()
    if wrong >= 0:
        message = f"The operation of a change row is {operations[wrong].as_py()!r}, not I, U or D"
        raise BadRowError(message, remedy="Correct the raw file", file=file.relative, row=first_row + wrong)
    return operations


def _positions(rows: int, file: RawFile, first_row: int) -> pa.Array:
    if file.kind is RawKind.FULL_LOAD:
        return pa.repeat("", rows)
    numbers = pa.array(np.arange(first_row, first_row + rows, dtype=np.int64)).cast(pa.string())
    return pc.binary_join_element_wise(file_part(file.relative), pc.utf8_lpad(numbers, ROW_DIGITS, "0"), "")


def _checked_keys(
    columns: dict[str, pa.Array], file: RawFile, first_row: int, schema: Schema, settings: TableSettings
) -> tuple[pa.Array, pa.Array]:
    parts = []
    for name in settings.primary_key:
        column = schema.find(name)
        if column is None:
            message = f"The key column {name} is not among the columns of the raw files"
            remedy = "Correct PrimaryKey: cdclake tables set schema.table --primary-key ..."
            raise SchemaMismatchError(message, remedy=remedy, file=file.relative, column=name)
        values = columns[column.name]
        if values.null_count:
            row = first_row + pc.index(values.is_null(), True).as_py()
            message = f"The key column {name} of a row is null"
            raise BadRowError(message, remedy="Correct PrimaryKey or the raw file", file=file.relative, row=row)
        parts.append(values)
    return row_keys(parts)
