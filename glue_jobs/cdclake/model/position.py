"""Positions: what orders change rows, as strings whose order is the order of the changes.

`<ordering value>|<raw file>|<row number>`, compared byte by byte. The ordering value is what the source says of the
order (a change sequence, or the column that a person named), else the time in the raw file's name. The raw file part
is the file's order, so that date folders of any pattern do not disturb it. A full-load row of the lake has the empty
position, which every change beats.
"""

from __future__ import annotations

import re

from cdclake.model.rawfiles import file_order

FULL_LOAD_POSITION = ""
NULL_ORDERING = "!"
"""Ordering value of a change row that has none in its ordering column; below every other."""
COLUMN = "_cdc_position"
"""Column of each lake row that holds the position of its last change."""
ROW_DIGITS = 10
SEQUENCE_DIGITS = 35
"""Length of DMS's change sequence: `yyyymmddHHMMSS`, two digits for hundredths, and a counter of 19 digits."""
_STAMP_DIGITS = 18
_STAMP = re.compile(r"(\d{8})-(\d{9,10})")


def file_ordering(relative: str) -> str:
    """Ordering value of a change file's rows that have no other: the digits of the time in its name.

    Always 18 digits, so that it compares by time with the change sequence, which begins the same way.

    Example:
        >>> file_ordering("2024/03/05/20240305-101500123.parquet")
        '202403051015001230'
    """
    stamp = _STAMP.match(file_order(relative))
    return "".join(stamp.groups() if stamp else ()).ljust(_STAMP_DIGITS, "0")


def file_part(relative: str) -> str:
    """The part of a position that every row of one change file shares, with both separators.

    Example:
        >>> file_part("2024/03/05/20240305-101500123.parquet")
        '|20240305-101500123/2024/03/05/20240305-101500123.parquet|'
    """
    return f"|{file_order(relative)}|"


def position(relative: str, row: int, ordering: str | None = None) -> str:
    """Position of one change row.

    Args:
        relative: The change file's key within the table's raw folder.
        row: Number of the row in the file, from 0.
        ordering: Encoded ordering value; None if the time in the file's name orders the row.
    """
    value = file_ordering(relative) if ordering is None else ordering
    return f"{value}{file_part(relative)}{row:0{ROW_DIGITS}d}"
