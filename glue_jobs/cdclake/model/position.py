"""Positions: what orders change rows, as strings whose order is the order of the changes.

`<ordering value>|<raw file>|<row number>`, compared byte by byte. A full-load row has the empty position, which every
change beats. The raw file part is the time in the file's name followed by its key within the table's folder, so that
date folders of any pattern do not disturb the order.
"""

from __future__ import annotations

from cdclake.model.rawfiles import file_order

FULL_LOAD_POSITION = ""
COLUMN = "_cdc_position"
"""Column of each lake row that holds the position of its last change."""
ROW_DIGITS = 10


def file_part(relative: str) -> str:
    """The part of a position that every row of one change file shares, with both separators.

    Example:
        >>> file_part("2024/03/05/20240305-101500123.parquet")
        '|20240305-101500123/2024/03/05/20240305-101500123.parquet|'
    """
    return f"|{file_order(relative)}|"


def position(relative: str, row: int) -> str:
    """Position of one change row without an ordering value.

    Args:
        relative: The change file's key within the table's raw folder.
        row: Number of the row in the file, from 0.
    """
    return f"{file_part(relative)}{row:0{ROW_DIGITS}d}"
