"""Positions: strings that sort change rows in the order of the changes.

A position is `<ordering value>|<raw file>|<row number>`, compared byte by byte. The ordering value comes from the
source: a change sequence, or the column that an operator chose. Without either, it is the time in the raw file's name.
The raw file part is the file's order, so date folders of any pattern do not affect it. A full-load row of the lake has
the empty position, which sorts before every change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cdclake.model.raw.files import file_order

if TYPE_CHECKING:
    from datetime import datetime

FULL_LOAD_POSITION = ""
NULL_ORDERING = "!"
"""Ordering value of a change row with null in its ordering column; sorts before all others."""
ARRIVED = "+"
"""Ends the position of an update that changed the key: the row arrived at its new key. At the end of a remembered
delete: the row that it deleted was such a row."""
DEPARTED = "-"
"""Ends the position of the delete of the old key, which such an update implies. At the end of a row's position: the
delete concerned an older row of the key, so this row stays."""
DISPLACED = ARRIVED + DEPARTED
"""Ends the position of a row that arrived at a key whose older row then left, among the remembered deletes."""
POSITIONED = "?"
"""Ends the position of a delete without an ordering value, which is positioned by the time of its file."""
SENT, UNSENT = "_", "~"
"""The position of a lake row ends with one per column: whether its last change sent it. Of columns without one, it did,
unless they were added later, see `Snapshot.added`."""
MARKS = UNSENT + SENT + POSITIONED + ARRIVED + DEPARTED
ROW_PATTERN = rf"\d{{10}}[{MARKS}]*$"
"""Regular expression of the end of a position: the row number, and marks."""
COLUMN = "_cdc_position"
"""Column of the lake with the position of each row's last change."""
ROW_DIGITS = 10
SEQUENCE_DIGITS = 35
"""Length of DMS's change sequence: `yyyymmddHHMMSS`, two digits for hundredths, and a counter of 19 digits."""
GREATEST_SEQUENCE = "9" * SEQUENCE_DIGITS
_STAMP_DIGITS = 18
_STAMP = re.compile(r"(\d{8})-(\d{9,10})")


def sequence_begin(when_utc: datetime) -> str:
    """How DMS's change sequences of a time begin; it sorts below all of them."""
    return f"{when_utc:%Y%m%d%H%M%S}"


def file_ordering(relative: str) -> str:
    """Default ordering value of the rows of a change file: the digits of the time in its name.

    It always has 18 digits, so it sorts by time among change sequences, which begin the same way.

    Example:
        >>> file_ordering("2024/03/05/20240305-101500123.parquet")
        '202403051015001230'
    """
    stamp = _STAMP.match(file_order(relative))
    return "".join(stamp.groups() if stamp else ()).ljust(_STAMP_DIGITS, "0")


def file_part(relative: str) -> str:
    """The part of a position that all rows of a change file share, with both separators.

    Example:
        >>> file_part("2024/03/05/20240305-101500123.parquet")
        '|20240305-101500123/2024/03/05/20240305-101500123.parquet|'
    """
    return f"|{file_order(relative)}|"


def file_and_row(change_position: str) -> tuple[str, int]:
    """The change file, as `RawFile.relative`, and the index of the row that a position names. Inverse of `position`."""
    order, row = change_position.rsplit("|", 2)[1:]
    _, _, in_folder = order.partition("/")
    return in_folder or order, int(row[:ROW_DIGITS])


def order_in_files(change_position: str) -> str:
    """Sorts change rows by file and row alone, whatever their ordering values."""
    order, row = change_position.rsplit("|", 2)[1:]
    return f"{order}|{row[:ROW_DIGITS]}"


def position(relative: str, row: int, ordering: str | None = None) -> str:
    """Position of one change row.

    Args:
        relative: The change file's key within the table's raw folder.
        row: Index of the row in the file, from 0.
        ordering: Encoded ordering value; None to use the time in the file's name.
    """
    value = file_ordering(relative) if ordering is None else ordering
    return f"{value}{file_part(relative)}{row:0{ROW_DIGITS}d}"
