"""The formats of raw files: all that depends on the format of a file. Nothing else in the lake asks for it."""

# ruff: noqa: ARG002 - a format ignores what it does not need

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw import csv, parquet
from cdclake.lake.raw.csv_layout import may_be_row
from cdclake.lake.raw.rows import Slice
from cdclake.model.raw.files import RawFile, RawFormat, RawKind

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.raw.rows import RawRows
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import CsvDialect, TableSettings


class Format(Protocol):
    """A format of raw files. What it raises if a file is damaged, `reader.read_errors_reported` translates."""

    def inspect(
        self, fs: FileSystem, file: RawFile, settings: TableSettings, limits: EngineLimits
    ) -> tuple[pa.Schema, tuple[Slice, ...]]:
        """Read a file's columns, including `Op`, and the parts that tasks can read, but no rows.

        Raises:
            UnreadableFileError: The file is not of this format.
            SchemaMismatchError: The columns have no known names.
            ConfigurationError: The settings lack what the format needs.
        """

    def batches(
        self, fs: FileSystem, part: Slice, settings: TableSettings, table: TableName | None, limits: EngineLimits
    ) -> Iterator[RawRows]:
        """Read the rows of a part in order, in bounded memory.

        Args:
            table: The table whose rows to read from a transaction file, which contains rows of many tables.
        """

    def without_rows(self, fs: FileSystem, file: RawFile, settings: TableSettings, excluded: Container[int]) -> bytes:
        """Return a file's content without some rows; empty if it then has none and could not be read.

        Args:
            excluded: Numbers of these rows, as in `RawRows.numbers`.
        """

    def may_be_row(self, names: Sequence[str], settings: TableSettings) -> bool:
        """Whether column names that were read from a file may be values of a row.

        Args:
            names: Including `Op` and columns that DMS adds.
        """

    def remedy_of_name(self, remedy: str) -> str:
        """What to do about a column that the lake cannot have, if `remedy` helps against such a name."""

    def unsent(self, values: pa.Array, dialect: CsvDialect) -> pa.Array | None:
        """Where a value says that it was not sent; None if none can."""

    def without_image(self, values: pa.Array, dialect: CsvDialect) -> pa.Array:
        """Where a column that DMS adds has no value."""

    def text(self, value: bytes) -> str:
        """A value of bytes as text, to show it."""


class _Parquet:
    """Columns have types, and row groups can be read by themselves."""

    def inspect(
        self, fs: FileSystem, file: RawFile, settings: TableSettings, limits: EngineLimits
    ) -> tuple[pa.Schema, tuple[Slice, ...]]:
        key_columns = settings.primary_key if file.kind is RawKind.FULL_LOAD else ()
        return parquet.read_footer(fs, file, key_columns)

    def batches(
        self, fs: FileSystem, part: Slice, settings: TableSettings, table: TableName | None, limits: EngineLimits
    ) -> Iterator[RawRows]:
        groups = part.row_groups
        return parquet.batches(fs, part.file.key, groups, part.first_row, encoded=part.encoded, limits=limits)

    def without_rows(self, fs: FileSystem, file: RawFile, settings: TableSettings, excluded: Container[int]) -> bytes:
        return parquet.without_rows(fs, file.key, excluded)

    def may_be_row(self, names: Sequence[str], settings: TableSettings) -> bool:
        return False

    def remedy_of_name(self, remedy: str) -> str:
        return remedy

    def unsent(self, values: pa.Array, dialect: CsvDialect) -> pa.Array | None:
        return None

    def without_image(self, values: pa.Array, dialect: CsvDialect) -> pa.Array:
        return values.is_null()

    def text(self, value: bytes) -> str:
        return value.hex()


class _Csv:
    """All values are texts, and the table's settings tell their types and the dialect."""

    def inspect(
        self, fs: FileSystem, file: RawFile, settings: TableSettings, limits: EngineLimits
    ) -> tuple[pa.Schema, tuple[Slice, ...]]:
        names = csv.column_names(fs, file, settings, limits)
        return pa.schema([(name, pa.string()) for name in names]), (Slice(file, file.size_bytes),)

    def batches(
        self, fs: FileSystem, part: Slice, settings: TableSettings, table: TableName | None, limits: EngineLimits
    ) -> Iterator[RawRows]:
        return csv.batches(fs, part.file, settings, table, limits)

    def without_rows(self, fs: FileSystem, file: RawFile, settings: TableSettings, excluded: Container[int]) -> bytes:
        rest = csv.without_rows(fs, file, settings, excluded)
        if not rest.strip():
            return b""
        return gzip.compress(rest, mtime=0) if file.format.is_gzip else rest

    def may_be_row(self, names: Sequence[str], settings: TableSettings) -> bool:
        return may_be_row(names, settings)

    def remedy_of_name(self, remedy: str) -> str:
        return (
            "Check that the file is CSV in UTF-8 with a header line, and that CsvDelimiter and CsvRowDelimiter match"
            f" the DMS endpoint. If so: {remedy[0].lower()}{remedy[1:]}"
        )

    def unsent(self, values: pa.Array, dialect: CsvDialect) -> pa.Array | None:
        if dialect.no_sup_value is None:
            return None
        return pc.fill_null(pc.equal(values, dialect.no_sup_value.encode()), False)

    def without_image(self, values: pa.Array, dialect: CsvDialect) -> pa.Array:
        # DMS writes an empty field for a missing before image, whatever the null text is.
        empty = {"", dialect.no_sup_value or ""}
        return pc.or_(values.is_null(), pc.is_in(values, value_set=pa.array([text.encode() for text in empty])))

    def text(self, value: bytes) -> str:
        return value.decode("utf-8", "backslashreplace")


_FORMATS: dict[RawFormat, Format] = {
    RawFormat.PARQUET: _Parquet(),
    RawFormat.CSV: _Csv(),
    RawFormat.CSV_GZ: _Csv(),
}


def format_of(file: RawFile) -> Format:
    """The format of a raw file, by the ending of its name."""
    return _FORMATS[file.format]
