"""Guesses the CSV dialect from the first rows of files: delimiters, header, null text, quoting. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdclake.lake.raw.csv_records import RecordFormat, records
from cdclake.model.schema import OP_COLUMN
from cdclake.model.table.settings import CsvDialect
from cdclake_cli.doctor.csv.header import OPERATIONS, VALUE, is_header, may_be_header

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_DELIMITERS = (",", ";", "|", "\t", "\x01", "~", "^", "\x1f")
_ROW_DELIMITERS = ("\n", "\r", "\x1e", "\x02")
"""The rarer in texts, the later."""
_NULL_TEXTS = (b"NULL", b"\\N", b"null", b"<null>", b"(null)", b"NIL")
_RECORDS = 200
_MAJORITY = 0.75
_MIN_NULLS = 3


@dataclass(frozen=True)
class CsvGuess:
    """How CSV files seem to be written.

    Attributes:
        dialect: Delimiters, quoting and null text. If not sure: from the settings, else DMS's defaults.
        sure: Whether most rows have the same number of fields, two or more, and rows end as the files do.
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
    settings = known or CsvDialect()
    fitting = _best_dialect(heads, settings)
    best = fitting or settings
    files = [_fields(head, best)[:_RECORDS] for head in heads]
    if not any(files):
        return None
    header, unclear = _header(files, settings.add_column_name, named)
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
    dialect = best if null_text is None else replace(best, null_value=null_text)
    quoted = _quoted(heads, best)
    return CsvGuess(dialect, fitting is not None, header, unclear, width, has_op, null_text, quoted)


def _best_dialect(heads: Sequence[Head], known: CsvDialect) -> CsvDialect | None:
    """The known dialect if it fits, else the one with most fields in rows of the usual width; None if that is unsure.

    The known one also fits if texts have its delimiter. So it is unsure if another one splits rows into twice as many.
    """
    fields = _split_fields(heads, known)
    pairs = [(row, field) for row in _ROW_DELIMITERS for field in _DELIMITERS]
    candidates = [replace(known, row_delimiter=row, delimiter=field) for row, field in pairs]
    counts = {dialect: _split_fields(heads, dialect) for dialect in candidates}
    best = max(candidates, key=lambda dialect: counts[dialect])
    if fields:
        return known if counts[best] < 2 * fields else None
    return best if counts[best] else None


def _split_fields(heads: Sequence[Head], dialect: CsvDialect) -> int:
    """The number of fields in rows of the usual width; 0 if the dialect does not fit.

    LOAD files and change files are counted separately, because an `Op` field may make change files wider.
    """
    field = dialect.delimiter.encode()
    if not any(field in head.data for head in heads) or not _ends_rows(heads, dialect.row_delimiter.encode()):
        return 0
    total, greatest = 0, 0
    for change in (False, True):
        rows = [row for head in heads if head.change is change for row in _fields(head, dialect)]
        widths = Counter(map(len, rows))
        if not widths:
            continue
        usual, count = widths.most_common(1)[0]
        if count < _MAJORITY * len(rows):
            return 0
        total, greatest = total + usual * count, max(greatest, usual)
    return total if greatest > 1 else 0


def _ends_rows(heads: Sequence[Head], row: bytes) -> bool:
    """Whether a delimiter may end the rows of most files.

    DMS ends every row with it, so the ends of whole files show it. Without any, a delimiter that is rarer in texts, and
    nearly as frequent as this one, shows that it is not this one.
    """
    if sum(row in head.data for head in heads) < _MAJORITY * len(heads):
        return False
    others = tuple(one.encode() for one in _ROW_DELIMITERS if one.encode() not in (row, row[-1:]))
    whole = [head.data for head in heads if head.whole]
    ending, contrary = (sum(data.endswith(ends) for data in whole) for ends in (row, others))
    if whole:
        return ending > contrary
    delimiters = [one.encode() for one in _ROW_DELIMITERS]
    rarer = delimiters[delimiters.index(row) + 1 if row in delimiters else 1 :]
    count = sum(head.data.count(row) for head in heads)
    return all(sum(head.data.replace(b"\r\n", b"").count(one) for head in heads) < _MAJORITY * count for one in rarer)


def _fields(head: Head, dialect: CsvDialect) -> list[list[bytes]]:
    form = replace(RecordFormat.of(dialect), null=None)
    try:
        rows = [row for row in records(head.data, form, whole=head.whole) if not row.blank]
    except ValueError:  # ends inside a quoted field
        return []
    return [[value or b"" for value in row.fields] for row in rows]


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
