"""Guesses the CSV dialect from the first rows of files: delimiters, header, null text, quoting. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from cdclake.doctor.csv.header import OPERATIONS, VALUE, is_header, may_be_header
from cdclake.lake.raw.csv_records import RecordFormat, records
from cdclake.model.schema import OP_COLUMN
from cdclake.model.table import CsvDialect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_DELIMITERS = (",", ";", "|", "\t", "\x01", "~", "^", "\x1f")
_ROW_DELIMITERS = ("\n", "\r", "\x1e", "\x02")
_NULL_TEXTS = (b"NULL", b"\\N", b"null", b"<null>", b"(null)", b"NIL")
_RECORDS = 200
_MAJORITY = 0.75
_MIN_NULLS = 3


@dataclass(frozen=True)
class CsvGuess:
    """How CSV files seem to be written.

    Attributes:
        dialect: Delimiters, quoting and null text. DMS's defaults where the rows are inconclusive.
        sure: Whether most rows have the same number of fields, two or more.
        header: Column names of the header line, without `Op`; empty without a header.
        header_unclear: Whether the first line may be a header or a row; `header` is empty then.
        width: Number of fields per row, without `Op`.
        has_op: Whether rows of change files start with an operation.
        null_text: The null text in the rows; None if there is none, or if the settings declare one.
        quoted: Whether fields are enclosed in quotes; None if the files contain no quotes.
    """

    dialect: CsvDialect
    sure: bool
    header: tuple[str, ...]
    header_unclear: bool
    width: int
    has_op: bool
    null_text: str | None
    quoted: bool | None


@dataclass(frozen=True)
class Head:
    """The start of a CSV file.

    Attributes:
        data: Its first bytes, uncompressed.
        whole: Whether `data` is the whole file.
        change: Whether the file is a change file.
    """

    data: bytes
    whole: bool
    change: bool


def guess_csv(
    heads: Sequence[Head],
    known: CsvDialect | None = None,
    *,
    null_declared: bool = False,
    named: Collection[str] = (),
) -> CsvGuess | None:
    """The likely dialect of a table's CSV files; None if the heads contain no row.

    Args:
        heads: Starts of some files.
        known: The dialect in the table's settings. It wins if it splits the rows consistently. What it says about a
            header line is true of first lines that may be one.
        null_declared: Whether the settings declare its null text, which is then true.
        named: Names of columns in the table's settings.
    """
    best = known if known and _fitness(heads, known)[0] else _best_dialect(heads, known)
    files = [_fields(head, best) for head in heads]
    if not any(files):
        return None
    header, unclear = _header(files, known.add_column_name if known else None, named)
    bodies = [rows[1:] if header else rows for rows in files]
    has_op = _start_with_operations(rows for rows, head in zip(bodies, heads, strict=True) if head.change)
    if header:
        has_op = any(rows and rows[0][0] == OP_COLUMN.encode() for rows in files)
    widths = Counter(
        len(row) - (1 if has_op and head.change else 0)
        for rows, head in zip(bodies, heads, strict=True)
        for row in rows
    )
    width = len(header) or (widths.most_common(1)[0][0] if widths else 0)
    by_kind = (
        [row for rows, head in zip(bodies, heads, strict=True) if head.change is change for row in rows]
        for change in (False, True)
    )
    null_text = None if null_declared else _null_text(by_kind)
    current = known.null_value if known else best.null_value
    dialect = replace(best, null_value=null_text if null_text is not None else current)
    quoted = _quoted(heads, best)
    return CsvGuess(dialect, _fitness(heads, best)[0], header, unclear, width, has_op, null_text, quoted)


def _best_dialect(heads: Sequence[Head], known: CsvDialect | None) -> CsvDialect:
    candidates = [known] if known else []
    candidates += [CsvDialect(delimiter=field, row_delimiter=row) for row in _ROW_DELIMITERS for field in _DELIMITERS]
    plausible = [dialect for dialect in candidates if _occurs(heads, dialect.row_delimiter.encode())]
    return max(plausible or candidates, key=lambda dialect: _fitness(heads, dialect))


def _occurs(heads: Sequence[Head], delimiter: bytes) -> bool:
    return sum(delimiter in head.data for head in heads) >= _MAJORITY * len(heads)


def _fields(head: Head, dialect: CsvDialect) -> list[list[bytes]]:
    form = replace(RecordFormat.of(dialect), null=None)
    try:
        rows = list(islice((r for r in records(head.data, form, whole=head.whole) if not r.blank), _RECORDS))
    except ValueError:  # ends inside a quoted field
        return []
    return [[value or b"" for value in row.fields] for row in rows]


def _fitness(heads: Sequence[Head], dialect: CsvDialect) -> tuple[bool, float]:
    """Whether most rows have the same width, two or more fields; then a score of how wide and even they are.

    LOAD files and change files are scored separately, because an `Op` field may make change files wider.
    """
    shares, width = [], 0
    for change in (False, True):
        of_kind = [head for head in heads if head.change is change]
        widths = Counter(len(row) for head in of_kind for row in _fields(head, dialect))
        if widths:
            usual, count = widths.most_common(1)[0]
            shares.append(count / widths.total())
            width = max(width, usual)
    even = min(shares, default=0.0)
    return width > 1 and even >= _MAJORITY, even * width


def _header(
    files: Sequence[list[list[bytes]]], known: bool | None, named: Collection[str]
) -> tuple[tuple[str, ...], bool]:
    """Names in the first line, if it is a header in every file; then whether that is unclear.

    Args:
        known: Whether it is one, if the table's settings say so.
    """
    first_rows = [rows[0] for rows in files if rows]
    if known is False:
        return (), False
    judged = may_be_header(first_rows) if known else is_header(files, named)
    if not judged:
        return (), judged is None
    names = [name.decode("utf-8", "backslashreplace") for name in max(first_rows, key=len)]
    return tuple(name for name in names if name != OP_COLUMN), False


def _start_with_operations(bodies: Iterable[list[list[bytes]]]) -> bool:
    rows = [row for rows in bodies for row in rows]
    return bool(rows) and sum(row[0] in OPERATIONS for row in rows) >= _MAJORITY * len(rows)


def _null_text(groups: Iterable[list[list[bytes]]]) -> str | None:
    """The text that stands for null, from columns whose other values are numbers, times or the like.

    Args:
        groups: Rows of LOAD files, then rows of change files.
    """
    counts: Counter[bytes] = Counter()
    for rows in groups:
        width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
        for values in zip(*(row for row in rows if len(row) == width), strict=True):
            others = [value for value in values if value and value not in _NULL_TEXTS]
            if others and all(VALUE.fullmatch(value) for value in others):
                counts.update(value for value in values if value in _NULL_TEXTS)
    if not counts:
        return None
    text, count = counts.most_common(1)[0]
    return text.decode() if count >= _MIN_NULLS else None


def _quoted(heads: Sequence[Head], dialect: CsvDialect) -> bool | None:
    if not any(b'"' in head.data for head in heads):
        return None
    around = [dialect.delimiter.encode() + b'"', dialect.row_delimiter.encode() + b'"']
    return any(mark in head.data for head in heads for mark in around)
