"""Splits CSV text into records by any dialect: any row delimiter, with or without quoting, including broken rows.

It is slower than Arrow's parser, which reads the plain parts of a file. Both agree on every text that both can read: a
quote is special only at the start of a field, and text after a closing quote belongs to the field. RFC 4180 forbids
such text, and a quote within a field without quotes: their records are marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.table.settings import CsvDialect

_QUOTE = b'"'
MAX_FIELDS = 10_000
"""Most fields of a record. A table of MySQL and Oracle has at most 4,096 columns, of PostgreSQL 1,600, of SQL Server
1,024 (AWS DMS reads no sparse ones), and before images double them.
https://dev.mysql.com/doc/refman/8.4/en/column-count-limit.html, https://www.postgresql.org/docs/current/limits.html"""


class UnclosedQuoteError(ValueError):
    """The text ends inside a quoted field."""


class TooManyFieldsError(ValueError):
    """A record has more than `MAX_FIELDS` fields."""


class Record(NamedTuple):
    """One record.

    Attributes:
        fields: The values; None where an unquoted field equals the null text.
        start: Offset of the first byte.
        end: Offset after the row delimiter.
        misplaced_quote: Whether there is a quote where RFC 4180 has none, so that the fields may be others.
        blank: Whether this is an empty line, or a line with an empty quoted field.
    """

    fields: list[bytes | None]
    start: int
    end: int
    misplaced_quote: bool
    blank: bool


@dataclass(frozen=True)
class RecordFormat:
    """A CSV dialect as bytes.

    Attributes:
        null: An unquoted field equal to this is null; None if there are no nulls.
    """

    delimiter: bytes
    row_delimiter: bytes
    quoting: bool
    null: bytes | None
    terminator: re.Pattern[bytes]
    """Matches the end of a field; group 1 matches if it also ends the row."""

    @classmethod
    def of(cls, dialect: CsvDialect) -> RecordFormat:
        """Convert a table's dialect; row delimiter newline also accepts carriage return plus newline."""
        delimiter, row = dialect.delimiter.encode(), dialect.row_delimiter.encode()
        row_pattern = rb"\r?\n" if row == b"\n" else re.escape(row)
        terminator = re.compile(b"(" + row_pattern + b")|" + re.escape(delimiter))
        return cls(delimiter, row, dialect.quoting, dialect.null_value.encode(), terminator)

    def is_plain(self, data: bytes) -> bool:
        """Whether Arrow's parser, which ends rows at any kind of newline, reads these whole records correctly."""
        if len(self.delimiter) > 1 or self.row_delimiter not in {b"\n", b"\r\n"}:
            return False
        both = data.count(b"\r\n")
        return data.count(b"\r") == both and (self.row_delimiter == b"\n" or data.count(b"\n") == both)


def records(data: bytes, form: RecordFormat, *, whole: bool) -> Iterator[Record]:
    """Split text that starts with a record.

    Args:
        whole: Whether the text is complete. If so, the last record needs no row delimiter; if not, a last record
            without a delimiter is left out.

    Raises:
        UnclosedQuoteError: The text is complete and ends inside a quoted field.
        TooManyFieldsError: The next record has too many fields.
    """
    at = 0
    while at < len(data):
        record = _record(data, at, form)
        if record is None or (record.end < 0 and not whole):
            if whole:
                raise UnclosedQuoteError
            return
        yield record._replace(end=len(data)) if record.end < 0 else record
        at = record.end if record.end > 0 else len(data)


def _record(data: bytes, at: int, form: RecordFormat) -> Record | None:
    """Read the record at an offset. Its end is -1 if it has no row delimiter. None if it ends in a quoted field."""
    start = at
    fields: list[bytes | None] = []
    misplaced = False
    while True:
        quoted = form.quoting and data.startswith(_QUOTE, at)
        value = b""
        if quoted:
            close = _closing_quote(data, at + 1)
            if close < 0:
                return None
            value, at = data[at + 1 : close].replace(b'""', _QUOTE), close + 1
        terminator = form.terminator.search(data, at)
        rest = data[at : terminator.start() if terminator else len(data)]
        misplaced |= form.quoting and (bool(rest) if quoted else _QUOTE in rest)
        value += rest
        fields.append(None if value == form.null and not quoted else value)
        if len(fields) > MAX_FIELDS:
            raise TooManyFieldsError
        if terminator is None:
            return Record(fields, start, -1, misplaced, blank=not value and len(fields) == 1)
        at = terminator.end()
        if terminator[1] is not None:
            return Record(fields, start, at, misplaced, blank=not value and len(fields) == 1)


def _closing_quote(data: bytes, at: int) -> int:
    while (at := data.find(_QUOTE, at)) >= 0 and data.startswith(_QUOTE, at + 1):
        at += 2
    return at


def end_of_records(data: bytes, form: RecordFormat) -> int:
    """Offset after the last complete record of text that starts with a record; 0 if none is complete.

    Raises:
        TooManyFieldsError: A record has too many fields.
    """
    if not form.quoting or _QUOTE not in data:
        last = data.rfind(form.row_delimiter)
        return last + len(form.row_delimiter) if last >= 0 else 0
    if form.is_plain(data):
        end = _end_by_quotes(data, form)
        if end is not None:
            return end
    return max((record.end for record in records(data, form, whole=False)), default=0)


def _end_by_quotes(data: bytes, form: RecordFormat) -> int | None:
    """The same for plain text with quotes only around fields or doubled inside them; None for other text.

    In such text a newline ends a record if an even number of quotes precedes it.
    """
    text = np.frombuffer(data, np.uint8)
    quotes = _well_placed_quotes(text, form)
    if quotes is None:
        return None
    newlines = np.flatnonzero(text == ord(b"\n"))
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    return int(ends[-1]) + 1 if len(ends) else 0


def has_misplaced_quote(data: bytes, form: RecordFormat) -> bool:
    """Whether a record of plain text has one, see `Record`."""
    if not form.quoting or _QUOTE not in data:
        return False
    return _well_placed_quotes(np.frombuffer(data, np.uint8), form) is None


def _well_placed_quotes(text: np.ndarray[Any, np.dtype[np.uint8]], form: RecordFormat) -> np.ndarray[Any, Any] | None:
    """Offsets of the quotes in plain text. None if one is neither around a field nor doubled inside it."""
    quotes = np.flatnonzero(text == ord(_QUOTE))
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = np.zeros(256, dtype=bool), np.zeros(256, dtype=bool)
    before[list(form.delimiter + b'\n"')] = after[list(form.delimiter + b'\r\n"')] = True
    placed = before[text[opening[opening > 0] - 1]].all() and after[text[closing[closing < len(text) - 1] + 1]].all()
    return quotes if placed else None
