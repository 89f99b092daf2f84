"""Reads raw files of any format into Arrow tables of the lake's columns, with operation, position and key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import InputError, SchemaMismatchError, UnreadableFileError
from cdclake.lake.raw import csv, parquet
from cdclake.lake.raw.normalize import BEFORE_PREFIX, normalize
from cdclake.lake.raw.parquet import BATCH_ROWS
from cdclake.lake.raw.rows import BadRow, RawRows, ReadBatch
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT
from cdclake.lake.storage.types import schema_of
from cdclake.model.direct import ORDERING
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.rawfiles import RawFile, RawFormat, RawKind
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN, UPDATE, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import KeyValue
    from cdclake.model.table import TableName, TableSettings

__all__ = [
    "BATCH_ROWS",
    "DELETE",
    "INSERT",
    "UPDATE",
    "BadRow",
    "Inspection",
    "ReadBatch",
    "Slice",
    "inspect",
    "read",
    "read_raw",
    "reading",
]

ADDED_PREFIXES = ("AR_H_", BEFORE_PREFIX)
"""What the names of columns begin with that DMS's mapping rules add."""
RESERVED_COLUMNS = frozenset({OP_COLUMN.lower(), POSITION, ORDERING, LEADING_KEY, KEY, UNSENT})
"""Names that no column of a source may have, in lower case."""


@dataclass(frozen=True)
class Slice:
    """A part of a raw file that one task reads.

    Attributes:
        row_groups: Parquet row groups to read; None for the whole file.
        first_row: Number of the first row in the file.
        size_bytes: Size of the part in the file.
        bounds: Smallest and largest route of its rows; two None if that is not known.
        only: Numbers of the rows to take, if they are taken beside all others of their file; None: all rows.
    """

    file: RawFile
    size_bytes: int
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0
    bounds: tuple[KeyValue, KeyValue] = (None, None)
    only: frozenset[int] | None = None


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
        ConfigurationError: It is a transaction file, whose columns the Schema attribute must name, and does not.
        InputError: It is gone.
    """
    with reading(file):
        if file.format is RawFormat.PARQUET:
            raw_schema, groups = parquet.look(fs, file.key, settings.primary_key[0] if settings.primary_key else "")
            parts = tuple(
                Slice(file, group.size_bytes, (group.number,), group.first_row, group.bounds) for group in groups
            )
        else:
            names = csv.column_names(fs, file, settings)
            raw_schema, parts = pa.schema([(name, pa.string()) for name in names]), (Slice(file, file.size_bytes),)
    return Inspection(_source_columns(raw_schema, file, settings), parts)


def read(
    fs: FileSystem,
    part: Slice,
    shape: TableShape,
    settings: TableSettings,
    table: TableName | None = None,
) -> Iterator[ReadBatch]:
    """Rows of a slice in file order, and those of them that the lake cannot take.

    Args:
        shape: The lake table; a column that the file does not have is null, one more in the file is left out.
        table: Whose rows to read of a transaction file, which holds those of many tables.

    Raises:
        UnreadableFileError: The file is damaged.
        SchemaMismatchError: The file lacks a key column or the ordering column.
        InputError: The file is gone.
    """
    file = part.file
    for raw in read_raw(fs, part, settings, table):
        if part.only is None:
            yield normalize(raw, file, shape, settings)
        else:
            batch = normalize(raw.only(part.only), file, shape, settings)
            yield _as_loaded(batch) if file.kind is RawKind.FULL_LOAD else batch


def read_raw(fs: FileSystem, part: Slice, settings: TableSettings, table: TableName | None = None) -> Iterator[RawRows]:
    """Rows of a slice in file order as they are there, with all columns that DMS added.

    Args:
        table: Whose rows to read of a transaction file, which holds those of many tables.

    Raises:
        UnreadableFileError: The file is damaged.
        InputError: The file is gone.
    """
    file = part.file
    batches = (
        parquet.batches(fs, file.key, part.row_groups, part.first_row)
        if file.format is RawFormat.PARQUET
        else csv.batches(fs, file, settings, table)
    )
    while (raw := _next(batches, file)) is not None:
        yield raw


def _as_loaded(batch: ReadBatch) -> ReadBatch:
    """Rows of a full load that is in the lake already: older than every change."""
    index = batch.rows.schema.get_field_index(POSITION)
    positions = pa.repeat(FULL_LOAD_POSITION, batch.rows.num_rows)
    return replace(batch, rows=batch.rows.set_column(index, batch.rows.schema.field(index), positions))


def _next(batches: Iterator[RawRows], file: RawFile) -> RawRows | None:
    with reading(file):
        return next(batches, None)


class reading:
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
        if isinstance(error, (pa.ArrowInvalid, EOFError)) or _is_corrupt(error):
            message = f"A raw file cannot be read as {self.file.format.value}: {error}"
            remedy = "Nothing of it was applied. Have DMS write it again, or move it out of the raw folder"
            raise UnreadableFileError(message, remedy=remedy, file=self.file.relative) from error


def _is_corrupt(error: BaseException | None) -> bool:
    # Arrow reports broken compressed data and truncated Parquet pages as plain OSError without an errno.
    return isinstance(error, OSError) and error.errno is None


def _source_columns(raw: pa.Schema, file: RawFile, settings: TableSettings) -> Schema:
    """The columns to keep: not the operation, nor what a mapping rule added; types as the Schema attribute says."""
    fields = [field for field in raw if field.name != OP_COLUMN and not field.name.startswith(ADDED_PREFIXES)]
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen or field.name.lower() in RESERVED_COLUMNS:
            message = f"A raw file has two columns {field.name}, or one that is named as a column of cdclake's own"
            remedy = "Rename or leave out the column by a DMS mapping rule; case does not tell columns apart"
            raise SchemaMismatchError(message, remedy=remedy, file=file.relative, column=field.name)
        seen.add(field.name.lower())
    found = schema_of(pa.schema(fields), file.relative)
    declared = settings.schema or Schema()
    return Schema(tuple(declared.find(column.name) or column for column in found))
