"""Reads raw CSV files in bounded memory. Arrow's parser reads the plain parts, `csv_records` the others."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from cdclake.adapters.filesystem import folder_exists, open_stream
from cdclake.errors import ConfigurationError, SchemaMismatchError, UnreadableFileError
from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.raw.csv_layout import CsvLayout, OperationCheck, csv_layout
from cdclake.lake.raw.csv_records import (
    MAX_FIELDS,
    Record,
    RecordFormat,
    TooManyFieldsError,
    UnclosedQuoteError,
    end_of_records,
    has_misplaced_quote,
    records,
)
from cdclake.lake.raw.rows import REWRITE_OR_IGNORE, BadRow, BadRowKind, RawRows
from cdclake.model.schema import OP_COLUMN
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import Stream
    from cdclake.lake.limits import EngineLimits
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import CsvDialect, TableSettings

_SAMPLED_RECORDS = 100
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def column_names(
    fs: FileSystem, file: RawFile, settings: TableSettings, limits: EngineLimits = DEFAULT_LIMITS
) -> tuple[str, ...]:
    """Names of a file's columns, including `Op`.

    Raises:
        UnreadableFileError: The file is empty, ends inside a quoted field, or has a quote where RFC 4180 forbids it.
        SchemaMismatchError: The columns have no known names, or two readings are possible.
        ConfigurationError: The file is a transaction file, and the table's Schema attribute is not set.
    """
    if file.transactions:
        return _transaction_columns(file, settings)
    with open_stream(fs, file.key) as stream:
        head, is_tail = next(_chunks(stream, file, settings.csv, limits))
    return _layout(head, file, settings, is_tail=is_tail).names


def batches(
    fs: FileSystem,
    file: RawFile,
    settings: TableSettings,
    table: TableName | None,
    limits: EngineLimits = DEFAULT_LIMITS,
) -> Iterator[RawRows]:
    """Read the rows of a file in order, as bytes.

    A row with too few or too many fields is a bad row. An empty line is not a row, unless the file has one column.

    Args:
        table: The table whose rows to read from a transaction file. Rows of other tables count in row numbers.

    Raises:
        As `column_names`; UnreadableFileError also later, where the damage is.
        SchemaMismatchError: Also for a row of a transaction file whose names resemble the table's.
    """
    with open_stream(fs, file.key) as stream:
        chunks = _chunks(stream, file, settings.csv, limits)
        head, is_tail = next(chunks)
        layout = _layout(head, file, settings, is_tail=is_tail)
        parser = _Parser(file, layout.names, settings.csv, _owner(fs, file, settings, table))
        check = OperationCheck(layout, file)
        for chunk, is_last in chain([(head[layout.rows_start :], is_tail)], chunks):
            rows = parser.parse(chunk, is_tail=is_last)
            check.add(rows)
            yield rows
        check.finish()


def without_rows(fs: FileSystem, file: RawFile, settings: TableSettings, excluded: Container[int]) -> bytes:
    """Return a file's uncompressed content without some rows; everything else stays byte for byte.

    In a transaction file, a row of no table replaces each of them, so that other rows keep their numbers.

    Args:
        excluded: Numbers of these rows, as in `RawRows.numbers`.

    Raises:
        As `batches`.
    """
    kept: list[bytes] = []
    next_row, width = 0, 0
    form = RecordFormat.of(settings.csv)
    placeholder = 2 * form.delimiter + form.row_delimiter if file.transactions else b""
    with open_stream(fs, file.key) as stream:
        for number, (chunk, is_tail) in enumerate(_chunks(stream, file, settings.csv, DEFAULT_LIMITS)):
            at = 0
            if number == 0:
                layout = _layout(chunk, file, settings, is_tail=is_tail)
                width, at = len(layout.names) + (2 if file.transactions else 0), layout.rows_start
            kept.append(chunk[:at])
            with _broken_records_reported(file):
                for record in records(chunk[at:], form, whole=True):
                    is_row = width == 1 or not record.blank
                    is_excluded = is_row and next_row in excluded
                    kept.append(placeholder if is_excluded else chunk[at + record.start : at + record.end])
                    next_row += is_row
    content = b"".join(kept)
    return _BYTE_ORDER_MARK + content if content.startswith(_BYTE_ORDER_MARK) else content


def _chunks(
    stream: Stream | pa.NativeFile, file: RawFile, dialect: CsvDialect, limits: EngineLimits
) -> Iterator[tuple[bytes, bool]]:
    """Split a file into chunks of whole records.

    Yields:
        A chunk, and whether it is the file's last record without a row delimiter. There is at least one chunk. The
        first is always the same for a file, so that every caller detects the same columns.
    """
    form = RecordFormat.of(dialect)
    size = limits.csv_head_bytes
    data = stream.read(size).removeprefix(_BYTE_ORDER_MARK)
    if not data:
        raise UnreadableFileError("A raw CSV file is empty", remedy=REWRITE_OR_IGNORE, file=file.relative)
    while True:
        with _broken_records_reported(file):
            end = end_of_records(data, form)
        if end:
            yield data[:end], False
            data, size = data[end:], limits.csv_chunk_bytes
        elif len(data) > limits.csv_record_bytes:
            message = f"A row of a raw CSV file is longer than {limits.csv_record_bytes >> 20} MB"
            remedy = "Check for an unclosed quote, and that CsvRowDelimiter and Rfc4180 match the DMS endpoint"
            raise UnreadableFileError(message, remedy=remedy, file=file.relative)
        block = stream.read(max(size, len(data)))
        if not block:
            break
        data += block
    if data:
        yield data, True


def _layout(head: bytes, file: RawFile, settings: TableSettings, *, is_tail: bool) -> CsvLayout:
    if file.transactions:
        return CsvLayout(_transaction_columns(file, settings))
    form = replace(RecordFormat.of(settings.csv), null=None)
    with _broken_records_reported(file, lambda: 1):
        sampled = _sampled(records(head, form, whole=is_tail))
    if sampled and sampled[0].misplaced_quote:
        raise _misplaced_quote(file, 1)
    return csv_layout(sampled, settings, file)


def _sampled(found: Iterator[Record]) -> list[Record]:
    """The first records that are not blank. Of a later one with too many fields, whoever reads it knows the number."""
    sampled: list[Record] = []
    try:
        sampled.extend(islice((record for record in found if not record.blank), _SAMPLED_RECORDS))
    except TooManyFieldsError:
        if not sampled:
            raise
    return sampled


class _Owner:
    """Tells the rows of one table in a transaction file from rows of other tables.

    The names must be exact, because a database may have two tables whose names differ in case. But a row that belongs
    to no table folder, and whose names differ from the table's only in case, in spaces or in their order, would be
    lost silently.

    Args:
        table: The table whose rows to read.
    """

    def __init__(self, fs: FileSystem, file: RawFile, settings: TableSettings, table: TableName) -> None:
        self._fs, self._file, self._table = fs, file, table
        self._root = file.key.removesuffix(f"{settings.cdc_path}/{file.relative}")
        self._names = [table.table.encode(), table.schema.encode()]  # their order in the file (DMS guide)
        self._others: set[tuple[bytes | None, ...]] = set()

    def owns(self, fields: list[bytes | None], row: int) -> bool:
        """Whether a row is of the table.

        Args:
            fields: The names of the row's table and schema.
            row: Number of the row in the file.

        Raises:
            SchemaMismatchError: The names resemble the table's, and there is no other table of these names.
        """
        if fields == self._names:
            return True
        names = tuple(fields)
        if names not in self._others:
            self._check(*((name or b"").decode("utf-8", "replace") for name in names), row=row)
            self._others.add(names)
        return False

    def _check(self, table: str, schema: str, *, row: int) -> None:
        simple = [name.strip().casefold() for name in (table, schema)]
        own = [name.strip().casefold() for name in (self._table.table, self._table.schema)]
        if simple not in (own, own[::-1]) or folder_exists(self._fs, f"{self._root}{schema}/{table}"):
            return
        message = (
            f"The names of a row's table and schema, '{table}' and '{schema}', resemble the names of {self._table}, and"
            " the raw bucket has no table folder of these names"
        )
        remedy = (
            "Nothing of the file was applied. Give the table the same names in LOAD files and transaction files with a"
            f" DMS mapping rule. If it is another table, create its folder, {self._root}{schema}/{table}/"
        )
        raise SchemaMismatchError(message, remedy=remedy, file=self._file.relative, row=row + 1)


class _Parser:
    """Parses the chunks of one file in order.

    Args:
        names: Names of the columns, including `Op`.
        owner: Knows the table by the two fields after `Op`; None if there are no such fields.
    """

    def __init__(self, file: RawFile, names: tuple[str, ...], dialect: CsvDialect, owner: _Owner | None) -> None:
        self._file, self._names, self._dialect, self._owner = file, names, dialect, owner
        self._form = RecordFormat.of(dialect)
        self._next_row = 0

    def parse(self, chunk: bytes, *, is_tail: bool) -> RawRows:
        """Parse the next chunk."""
        plain = not is_tail and self._owner is None and self._form.is_plain(chunk)
        plain = plain and not has_misplaced_quote(chunk, self._form)
        columns = self._by_arrow(chunk) if plain else None
        if columns is None:
            return self._by_records(chunk)
        first, self._next_row = self._next_row, self._next_row + columns.num_rows
        return RawRows(columns, np.arange(first, self._next_row, dtype=np.int64))

    def _by_arrow(self, chunk: bytes) -> pa.RecordBatch | None:
        """Return None if a row has too few or too many fields, or if there is no row."""
        if chunk.startswith(_BYTE_ORDER_MARK):
            chunk = _BYTE_ORDER_MARK + chunk  # Arrow drops one; here it is data
        read = pa_csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(chunk) + 1)
        parse = pa_csv.ParseOptions(
            delimiter=self._dialect.delimiter,
            quote_char='"' if self._dialect.quoting else False,
            newlines_in_values=self._dialect.quoting,
            ignore_empty_lines=len(self._names) > 1,
        )
        convert = pa_csv.ConvertOptions(
            column_types=dict.fromkeys(self._names, pa.binary()),
            null_values=[self._dialect.null_value],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        try:
            table = pa_csv.read_csv(pa.BufferReader(chunk), read, parse, convert)
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0] if table.num_rows else None

    def _by_records(self, chunk: bytes) -> RawRows:
        rows: list[list[bytes | None]] = []
        numbers: list[int] = []
        bad: list[BadRow] = []
        owner, names = self._owner, slice(1, 3 if self._owner else 1)
        width = len(self._names) + (2 if owner else 0)
        with _broken_records_reported(self._file, lambda: self._next_row + 1):
            for record in records(chunk, self._form, whole=True):
                if record.blank and width > 1:
                    continue
                if record.misplaced_quote:
                    raise _misplaced_quote(self._file, self._next_row + 1)
                fields = record.fields
                if owner and len(fields) >= names.stop and not owner.owns(fields[names], self._next_row):
                    pass  # a row of another table: only counted
                elif len(fields) != width:
                    bad.append(self._wrong_width(record, width, chunk))
                else:
                    del fields[names]
                    rows.append(fields)
                    numbers.append(self._next_row)
                self._next_row += 1
        values = zip(*rows, strict=True) if rows else [()] * len(self._names)
        arrays = [pa.array(column, pa.binary()) for column in values]
        return RawRows(pa.record_batch(arrays, names=list(self._names)), np.array(numbers, dtype=np.int64), tuple(bad))

    def _wrong_width(self, record: Record, width: int, chunk: bytes) -> BadRow:
        reason = f"A row has {len(record.fields)} fields instead of {width}"
        line = chunk[record.start : record.end].removesuffix(self._form.row_delimiter)
        line = line.removesuffix(b"\r") if self._form.row_delimiter == b"\n" else line
        text = line.decode("utf-8", "backslashreplace")
        return BadRow(self._file.relative, self._next_row, BadRowKind.WIDTH, reason, text)


def _misplaced_quote(file: RawFile, row: int) -> UnreadableFileError:
    """If the quotes of one row have no meaning, quotes of other rows may have none either, and end other rows."""
    message = "A row of a raw CSV file has text after a closing quote, or a quote within a field without quotes"
    remedy = (
        f"Nothing of it was applied. If the DMS endpoint has {Attribute.RFC4180} set to false, set the attribute"
        f" {Attribute.RFC4180} to false; else have DMS write the file again"
    )
    return UnreadableFileError(message, remedy=remedy, file=file.relative, row=row)


def _transaction_columns(file: RawFile, settings: TableSettings) -> tuple[str, ...]:
    if settings.schema is None:
        message = "A transaction file has no header, and the table's Schema attribute is not set"
        remedy = "Set the Schema attribute to all columns except Op, in order"
        raise ConfigurationError(message, remedy=remedy, file=file.relative)
    return OP_COLUMN, *settings.schema.names


def _owner(fs: FileSystem, file: RawFile, settings: TableSettings, table: TableName | None) -> _Owner | None:
    if not file.transactions:
        return None
    if table is None:
        message = "A transaction file is read without a table"
        raise ConfigurationError(message, remedy="Name the table", file=file.relative)
    return _Owner(fs, file, settings, table)


@contextmanager
def _broken_records_reported(file: RawFile, row: Callable[[], int | None] = lambda: None) -> Iterator[None]:
    """Report a quote that is never closed, so that it is unclear where the field ends, and a row with too many fields.

    Args:
        row: Returns the number of the current row, from 1; None if it is not known.
    """
    try:
        yield
    except UnclosedQuoteError as error:
        message = "A raw CSV file ends inside a quoted field"
        remedy = "Nothing of it was applied. Have DMS write it again, or close the quote"
        raise UnreadableFileError(message, remedy=remedy, file=file.relative) from error
    except TooManyFieldsError as error:
        message = f"A row of a raw CSV file has more than {MAX_FIELDS:,} fields, and no database that DMS reads as many"
        remedy = (
            f"{REWRITE_OR_IGNORE}. If it is right: {Attribute.CSV_DELIMITER}, {Attribute.CSV_ROW_DELIMITER} and"
            f" {Attribute.RFC4180} must match the DMS endpoint"
        )
        raise UnreadableFileError(message, remedy=remedy, file=file.relative, row=row()) from error
