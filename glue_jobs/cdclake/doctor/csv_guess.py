"""How CSV files seem to be written, told from their heads: delimiters, header, null text, quoting. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from cdclake.lake.raw.csv_records import RecordFormat, records
from cdclake.model.schema import OP_COLUMN
from cdclake.model.table import CsvDialect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DELIMITERS = (",", ";", "|", "\t", "\x01", "~", "^", "\x1f")
_ROW_DELIMITERS = ("\n", "\r", "\x1e", "\x02")
_NULL_TEXTS = (b"NULL", b"\\N", b"null", b"<null>", b"(null)", b"NIL")
_RECORDS = 200
_MOSTLY = 0.75
_LEAST_NULLS = 3
_VALUE = re.compile(rb"[-+]?\d[\d.,:eE+ TZ/-]*|(?i:null|true|false|\\N|)")
_NAME = re.compile(rb"[^\W\d][\w $#.-]{0,127}")
_OPERATIONS = frozenset({b"I", b"U", b"D"})


@dataclass(frozen=True)
class CsvGuess:
    """How CSV files seem to be written.

    Attributes:
        dialect: Delimiters, quoting and null text; the standard ones where nothing tells.
        sure: Whether most rows looked at have the same number of fields, two or more.
        header: Names of the columns if files have a line of them, `Op` left out; else empty.
        width: Fields of a row, `Op` not counted.
        operation: Whether rows of change files begin with an operation.
        null_text: The null text that was seen; None: none was.
        quoted: Whether quotes around fields were seen; None: no quotes at all.
    """

    dialect: CsvDialect
    sure: bool
    header: tuple[str, ...]
    width: int
    operation: bool
    null_text: str | None
    quoted: bool | None


@dataclass(frozen=True)
class Head:
    """The first part of a CSV file.

    Attributes:
        data: Its first bytes, not compressed.
        whole: Whether that is all of it.
        change: Whether it is a change file.
    """

    data: bytes
    whole: bool
    change: bool


def guess_csv(heads: Sequence[Head], known: CsvDialect | None = None) -> CsvGuess | None:
    """What the heads of a table's CSV files tell; None if there is not a row in them.

    Args:
        heads: Of some files.
        known: How the table's settings say they are written: so they are, if rows can be taken apart that way.
    """
    best = known if known and _fitness(heads, known)[0] else _best_dialect(heads, known)
    found = [_fields(head, best) for head in heads]
    if not any(found):
        return None
    header = _header(found)
    bodies = [rows[1:] if header else rows for rows in found]
    operation = _begin_with_operations(rows for rows, head in zip(bodies, heads, strict=True) if head.change)
    if header:
        operation = any(rows and rows[0][0] == OP_COLUMN.encode() for rows in found)
    widths = Counter(
        len(row) - (1 if operation and head.change else 0)
        for rows, head in zip(bodies, heads, strict=True)
        for row in rows
    )
    width = len(header) or (widths.most_common(1)[0][0] if widths else 0)
    null_text = _null_text(
        [row for rows, head in zip(bodies, heads, strict=True) if head.change is change for row in rows]
        for change in (False, True)
    )
    quoted = _quoted(heads, best)
    dialect = replace(best, null_value=null_text if null_text is not None else best.null_value)
    return CsvGuess(dialect, _fitness(heads, best)[0], header, width, operation, null_text, quoted)


def _best_dialect(heads: Sequence[Head], known: CsvDialect | None) -> CsvDialect:
    tried = [known] if known else []
    tried += [CsvDialect(delimiter=one, row_delimiter=row) for row in _ROW_DELIMITERS for one in _DELIMITERS]
    ended = [dialect for dialect in tried if _ends_rows(heads, dialect.row_delimiter.encode())]
    return max(ended or tried, key=lambda dialect: _fitness(heads, dialect))


def _ends_rows(heads: Sequence[Head], delimiter: bytes) -> bool:
    return sum(delimiter in head.data for head in heads) >= _MOSTLY * len(heads)


def _fields(head: Head, dialect: CsvDialect) -> list[list[bytes]]:
    form = replace(RecordFormat.of(dialect), null=None)
    try:
        found = list(islice((r for r in records(head.data, form, whole=head.whole) if not r.blank), _RECORDS))
    except ValueError:  # ends inside a quoted field
        return []
    return [[value or b"" for value in record.fields] for record in found]


def _fitness(heads: Sequence[Head], dialect: CsvDialect) -> tuple[bool, float]:
    """Whether rows have mostly one width of two or more; then how wide and even they are.

    Rows of LOAD files and of change files are looked at apart, as only the latter may have `Op`.
    """
    shares, width = [], 0
    for change in (False, True):
        of_kind = [head for head in heads if head.change is change]
        widths = Counter(len(row) for head in of_kind for row in _fields(head, dialect))
        if widths:
            most, count = widths.most_common(1)[0]
            shares.append(count / widths.total())
            width = max(width, most)
    even = min(shares, default=0.0)
    return width > 1 and even >= _MOSTLY, even * width


def _header(found: Sequence[list[list[bytes]]]) -> tuple[str, ...]:
    """Names in the first line, if that is a header in every file."""
    firsts = [rows[0] for rows in found if rows]
    if not all(_are_names(first) for first in firsts):
        return ()
    told = any(first[0] == OP_COLUMN.encode() for first in firsts)
    told = told or any(_names_above_values(rows) for rows in found if len(rows) > 1)
    longest = max(firsts, key=len)
    names = [name.decode("utf-8", "backslashreplace") for name in longest]
    return tuple(name for name in names if name != OP_COLUMN) if told else ()


def _are_names(first: list[bytes]) -> bool:
    distinct = {name.lower() for name in first}
    return len(distinct) == len(first) and all(_NAME.fullmatch(name) for name in first) and first[0] not in _OPERATIONS


def _names_above_values(rows: list[list[bytes]]) -> bool:
    """Whether some column has a name on top and numbers, times or the like below it."""
    body = [row for row in rows[1:] if len(row) == len(rows[0])]
    return bool(body) and any(
        all(_VALUE.fullmatch(row[i]) for row in body) and any(row[i] for row in body)
        for i, name in enumerate(rows[0])
        if not _VALUE.fullmatch(name)
    )


def _begin_with_operations(bodies: Iterable[list[list[bytes]]]) -> bool:
    rows = [row for rows in bodies for row in rows]
    return bool(rows) and sum(row[0] in _OPERATIONS for row in rows) >= _MOSTLY * len(rows)


def _null_text(groups: Iterable[list[list[bytes]]]) -> str | None:
    """The text in place of nulls, told from columns that hold numbers, times or the like otherwise.

    Args:
        groups: Rows of LOAD files, and those of change files.
    """
    counts: Counter[bytes] = Counter()
    for rows in groups:
        width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
        for values in zip(*(row for row in rows if len(row) == width), strict=True):
            rest = [value for value in values if value and value not in _NULL_TEXTS]
            if rest and all(_VALUE.fullmatch(value) for value in rest):
                counts.update(value for value in values if value in _NULL_TEXTS)
    if not counts:
        return None
    text, count = counts.most_common(1)[0]
    return text.decode() if count >= _LEAST_NULLS else None


def _quoted(heads: Sequence[Head], dialect: CsvDialect) -> bool | None:
    if not any(b'"' in head.data for head in heads):
        return None
    around = [dialect.delimiter.encode() + b'"', dialect.row_delimiter.encode() + b'"']
    return any(mark in head.data for head in heads for mark in around)
