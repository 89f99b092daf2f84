"""Reads CSV files as DMS writes them, in bounded memory: whole records at a time, plain ones by Arrow's parser."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from cdclake.errors import ConfigurationError, SchemaMismatchError, UnreadableFileError
from cdclake.lake.raw.csv_records import Record, RecordFormat, UnclosedQuoteError, end_of_records, records
from cdclake.lake.raw.rows import BadRow, RawRows
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pyarrow.fs import FileSystem

    from cdclake.model.rawfiles import RawFile
    from cdclake.model.table import CsvDialect, TableName, TableSettings

CHUNK_BYTES = 4 << 20
MAX_RECORD_BYTES = 1 << 28
_HEAD_BYTES = 1 << 18
_RECORDS_TO_JUDGE_BY = 100
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Layout:
    """Where the columns of a CSV file are.

    Attributes:
        names: Names of all fields of a record, `Op` included.
        rows_at: Offset of the first row: after the header if there is one.
    """

    names: tuple[str, ...]
    rows_at: int = 0


def column_names(fs: FileSystem, file: RawFile, settings: TableSettings) -> tuple[str, ...]:
    """Names of a file's columns, `Op` included.

    Raises:
        UnreadableFileError: The file is empty, or ends inside a quoted field.
        SchemaMismatchError: Its columns cannot be named.
        ConfigurationError: It is a transaction file, and the table's Schema attribute is not set.
    """
    if file.transactions:
        return _transaction_columns(file, settings)
    with fs.open_input_stream(file.key) as stream:  # undoes .gz by the name
        head, is_tail = next(_chunks(stream, file, settings.csv))
    return _layout(head, file, settings, is_tail=is_tail).names


def batches(fs: FileSystem, file: RawFile, settings: TableSettings, table: TableName | None) -> Iterator[RawRows]:
    """Rows of a file in order, as bytes.

    A row with too few or too many fields is a bad row. An empty line is no row, unless the file has one column.

    Args:
        table: Whose rows to take of a transaction file, every row of which is counted.

    Raises:
        As `column_names`, and also when the file is found to be damaged further on.
    """
    with fs.open_input_stream(file.key) as stream:
        parser = None
        for chunk, is_tail in _chunks(stream, file, settings.csv):
            rows_at = 0
            if parser is None:
                layout = _layout(chunk, file, settings, is_tail=is_tail)
                parser = _Parser(file, layout.names, settings.csv, _name_fields(file, table))
                rows_at = layout.rows_at
            yield parser.parse(chunk[rows_at:], is_tail=is_tail)


def without_rows(fs: FileSystem, file: RawFile, settings: TableSettings, left_out: Container[int]) -> bytes:
    """A file's content, not compressed, without some rows. All else, rows of other tables too, is as it was.

    In a transaction file a row of no table stays in the place of each, as all its tables count the rows of one file.

    Args:
        left_out: Numbers of these rows, as `batches` gives them.

    Raises:
        As `batches`.
    """
    kept: list[bytes] = []
    next_row, width = 0, 0
    form = RecordFormat.of(settings.csv)
    nobodys = 2 * form.delimiter + form.row_delimiter if file.transactions else b""
    with fs.open_input_stream(file.key) as stream:
        for number, (chunk, is_tail) in enumerate(_chunks(stream, file, settings.csv)):
            at = 0
            if number == 0:
                layout = _layout(chunk, file, settings, is_tail=is_tail)
                width, at = len(layout.names) + (2 if file.transactions else 0), layout.rows_at
            kept.append(chunk[:at])
            with _Unclosed(file):
                for record in records(chunk[at:], form, whole=True):
                    is_row = width == 1 or not record.blank
                    goes = is_row and next_row in left_out
                    kept.append(nobodys if goes else chunk[at + record.start : at + record.end])
                    next_row += is_row
    return b"".join(kept)


def _chunks(stream: pa.NativeFile, file: RawFile, dialect: CsvDialect) -> Iterator[tuple[bytes, bool]]:
    """Pieces of a file that hold whole records, and whether this is the last, whose record no row delimiter ends.

    At least one piece. The first is always the same for a file, so that all who judge by it judge alike.
    """
    form = RecordFormat.of(dialect)
    held, size = stream.read(_HEAD_BYTES).removeprefix(_BYTE_ORDER_MARK), _HEAD_BYTES
    if not held:
        remedy = "Have DMS write it again, or move it out of the raw folder"
        raise UnreadableFileError("A raw CSV file is empty", remedy=remedy, file=file.relative)
    while True:
        end = end_of_records(held, form)
        if end:
            yield held[:end], False
            held, size = held[end:], CHUNK_BYTES
        elif len(held) > MAX_RECORD_BYTES:
            message = f"A row of a raw CSV file is longer than {MAX_RECORD_BYTES >> 20} MB"
            remedy = (
                "See whether a quote is not closed, and whether CsvRowDelimiter and Rfc4180 are as in the DMS endpoint"
            )
            raise UnreadableFileError(message, remedy=remedy, file=file.relative)
        block = stream.read(max(size, len(held)))
        if not block:
            break
        held += block
    if held:
        yield held, True


def _layout(head: bytes, file: RawFile, settings: TableSettings, *, is_tail: bool) -> Layout:
    if file.transactions:
        return Layout(_transaction_columns(file, settings))
    form = replace(RecordFormat.of(settings.csv), null=None)
    with _Unclosed(file):
        found = list(islice((r for r in records(head, form, whole=is_tail) if not r.blank), _RECORDS_TO_JUDGE_BY))
    if not found:
        # Lines, but all of them empty: rows of a table with one column, if that is declared.
        return Layout(_declared(Counter({1: 1}), file, settings))
    first = tuple((value or b"").decode("utf-8", "backslashreplace") for value in found[0].fields)
    declared = settings.schema.names if settings.schema else []
    if {name.lower() for name in declared} <= {name.lower() for name in first if name != OP_COLUMN}:
        return Layout(first, found[0].end)
    return Layout(_declared(Counter(len(record.fields) for record in found), file, settings))


def _declared(widths: Counter[int], file: RawFile, settings: TableSettings) -> tuple[str, ...]:
    """The Schema attribute's names, with `Op` before them if most records have a field more."""
    names = tuple(settings.schema.names) if settings.schema else ()
    counts = {width: widths[width] for width in (len(names), len(names) + 1)}
    if names and any(counts.values()):
        return names if counts[len(names)] >= counts[len(names) + 1] else (OP_COLUMN, *names)
    most = widths.most_common(1)[0][0]
    message = f"A raw CSV file has {most} fields, and the Schema attribute names {len(names)} columns"
    remedy = "Name every column but Op in the Schema attribute, in order"
    raise SchemaMismatchError(message, remedy=remedy, file=file.relative)


class _Parser:
    """Takes the chunks of one file apart, in order.

    Args:
        names: Names of the columns, `Op` included.
        ours: Values of the two fields after `Op` that say whose row it is; None if the file is of one table alone.
    """

    def __init__(self, file: RawFile, names: tuple[str, ...], dialect: CsvDialect, ours: list[bytes] | None) -> None:
        self._file, self._names, self._dialect, self._ours = file, names, dialect, ours
        self._form = RecordFormat.of(dialect)
        self._next_row = 0

    def parse(self, chunk: bytes, *, is_tail: bool) -> RawRows:
        """Rows of the next chunk."""
        plain = not is_tail and self._ours is None and self._form.is_plain(chunk)
        columns = self._by_arrow(chunk) if plain else None
        if columns is None:
            return self._by_records(chunk)
        first, self._next_row = self._next_row, self._next_row + columns.num_rows
        return RawRows(columns, np.arange(first, self._next_row, dtype=np.int64))

    def _by_arrow(self, chunk: bytes) -> pa.RecordBatch | None:
        """None if a row has too few or too many fields, or if there is no row at all."""
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
        names_at = slice(1, 3 if self._ours else 1)
        wanted = len(self._names) + len(self._ours or ())
        with _Unclosed(self._file):
            for record in records(chunk, self._form, whole=True):
                if record.blank and wanted > 1:
                    continue
                if self._ours and len(record.fields) > len(self._ours) and record.fields[names_at] != self._ours:
                    pass  # a row of another table, which counts
                elif len(record.fields) != wanted:
                    bad.append(self._wrong_width(record, wanted, chunk))
                else:
                    del record.fields[names_at]
                    rows.append(record.fields)
                    numbers.append(self._next_row)
                self._next_row += 1
        values = zip(*rows, strict=True) if rows else [()] * len(self._names)
        arrays = [pa.array(column, pa.binary()) for column in values]
        return RawRows(pa.record_batch(arrays, names=list(self._names)), np.array(numbers, dtype=np.int64), tuple(bad))

    def _wrong_width(self, record: Record, wanted: int, chunk: bytes) -> BadRow:
        reason = f"A row has {len(record.fields)} fields where {wanted} belong"
        line = chunk[record.start : record.end].removesuffix(self._form.row_delimiter)
        line = line.removesuffix(b"\r") if self._form.row_delimiter == b"\n" else line
        return BadRow(self._file.relative, self._next_row, reason, line.decode("utf-8", "backslashreplace"))


def _transaction_columns(file: RawFile, settings: TableSettings) -> tuple[str, ...]:
    if settings.schema is None:
        message = "A transaction file has no header, and the table's columns are not declared"
        remedy = "Name every column but Op in the Schema attribute, in order"
        raise ConfigurationError(message, remedy=remedy, file=file.relative)
    return OP_COLUMN, *settings.schema.names


def _name_fields(file: RawFile, table: TableName | None) -> list[bytes] | None:
    """What a row of the table has after `Op` in a transaction file: table, then schema, says the DMS guide."""
    if not file.transactions:
        return None
    if table is None:
        raise ConfigurationError("A transaction file is read for no table", remedy="Name the table", file=file.relative)
    return [table.table.encode(), table.schema.encode()]


class _Unclosed:
    """Turns a quote that is never closed into our error: what follows it cannot be told from the field."""

    def __init__(self, file: RawFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnclosedQuoteError):
            message = "A raw CSV file ends inside a quoted field"
            remedy = "Nothing of it was applied. Have DMS write it again, or correct the quote that is not closed"
            raise UnreadableFileError(message, remedy=remedy, file=self._file.relative) from error
