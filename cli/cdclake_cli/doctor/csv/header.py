"""Judges whether the first lines of CSV files are headers: yes, no, or unclear. Pure."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from cdclake.lake.raw.bad_values import NULL_TEXTS
from cdclake.model.schema import ADDED_PREFIXES, DELETE, INSERT, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    Row = list[bytes]

OPERATIONS = frozenset(one.encode() for one in (INSERT, UPDATE, DELETE))
VALUE = re.compile(rb"[-+]?\d[\d.,:eE+ TZ/-]*|(?i:null|true|false|\\N|)")
"""Numbers, times and the like, and texts for null."""
_NAME = re.compile(rb"[^\x00-\x1f\x7f]{1,128}")
_MIN_VALUES = 5
"""So many values must differ from the text above them in the same way."""
_IN_VALUES: tuple[Callable[[str], bool], ...] = (
    str.isdigit,
    str.isupper,
    str.isspace,
    lambda character: character.isascii() and character.isprintable() and not character.isalnum() and character != "_",
)
"""Kinds of characters that values have, and names of columns rather not."""
_IN_NAMES: tuple[Callable[[str], bool], ...] = (str.islower, lambda character: character == "_")
"""Kinds of characters that names of columns have, and texts in one case, such as codes, have not."""


def is_header(files: Sequence[Sequence[Row]], named: Collection[str] = ()) -> bool | None:
    """Whether the first line of each file is a header; None if that is unclear.

    Args:
        files: The first rows of each file, as fields.
        named: Names of columns in the table's settings.
    """
    files = [rows for rows in files if rows]
    first_rows = [rows[0] for rows in files]
    if not first_rows or not may_be_header(first_rows):
        return False
    lower = {name.lower().encode() for name in named}
    if any(len(_source(row)) < len(row) or lower & {name.lower() for name in row} for row in first_rows):
        return True
    if any(map(_is_above_values, files)):
        return True
    alike = _are_alike(files)
    if alike is not None:
        return alike
    if any(name in {row[i] for row in _rows_below(rows)} for rows in files for i, name in enumerate(rows[0])):
        return False
    return True if any(map(_is_unlike_texts, files)) else None


def may_be_header(first_rows: Sequence[Row]) -> bool:
    """Whether all of these lines have only distinct texts that may be names of columns."""
    return all(map(_are_names, first_rows))


def _are_names(row: Row) -> bool:
    are_names = all(_NAME.fullmatch(name) and not _is_value(name) for name in row)
    return are_names and len({name.lower() for name in row}) == len(row) and row[0] not in OPERATIONS


def _is_above_values(rows: Sequence[Row]) -> bool:
    """Whether any column has a name on top and only numbers, times or the like below."""
    return any(
        all(_is_value(value) or _is_null(value) for value in values)
        and any(value.strip() and not _is_null(value) for value in values)
        for _, values in _columns(rows)
    )


def _are_alike(files: Sequence[Sequence[Row]]) -> bool | None:
    """Whether the first lines of files are the same names, some perhaps new; None if that is unclear.

    Rows of different files have hardly any value in common. A file that is there twice says nothing.
    """
    lines = {tuple(map(tuple, rows)): {name.lower() for name in _source(rows[0])} for rows in files}
    pairs = [(one, two, len(one & two)) for one, two in combinations(lines.values(), 2)]
    if pairs and all(2 * shared > max(len(one), len(two)) for one, two, shared in pairs):
        return True
    return False if any(not shared for _, _, shared in pairs) else None


def _source(row: Row) -> Row:
    added = tuple(prefix.encode() for prefix in ADDED_PREFIXES)
    return [name for name in row if name != OP_COLUMN.encode() and not name.startswith(added)]


def _is_unlike_texts(rows: Sequence[Row]) -> bool:
    """Whether a kind of character is in all texts of a column and not in the first, or the other way round."""
    for name, values in _columns(rows):
        texts = [_text(value) for value in values if value.strip() and not _is_null(value)]
        if len(texts) < _MIN_VALUES:
            continue
        if any(not _has(_text(name), kind) and all(_has(text, kind) for text in texts) for kind in _IN_VALUES):
            return True
        if any(_has(_text(name), kind) and not any(_has(text, kind) for text in texts) for kind in _IN_NAMES):
            return True
    return False


def _columns(rows: Sequence[Row]) -> Iterator[tuple[bytes, list[bytes]]]:
    """The first field of each column, and those below."""
    below = _rows_below(rows)
    for i, name in enumerate(rows[0]):
        yield name, [row[i] for row in below]


def _rows_below(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows[1:] if len(row) == len(rows[0])]


def _is_value(text: bytes) -> bool:
    return VALUE.fullmatch(text.strip()) is not None


def _is_null(text: bytes) -> bool:
    return text.strip().upper().decode("latin-1") in NULL_TEXTS


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _has(text: str, kind: Callable[[str], bool]) -> bool:
    return any(map(kind, text))
