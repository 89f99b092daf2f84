"""Rows of raw files on their way into the lake: as they were read, as they go on, and those that cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class BadRow:
    """A row of a raw file that the lake cannot take.

    Attributes:
        file: The raw file, relative to the table's raw folder.
        row: Number of the row in the file, from 0, a header not counted; None if it cannot be told.
        reason: What is wrong, for a person.
        content: The row's values as text by column, or the row as it lies in the file if it has no columns.
    """

    file: str
    row: int | None
    reason: str
    content: dict[str, str | None] | str


@dataclass(frozen=True)
class RawRows:
    """Some rows of a raw file as they were read.

    Attributes:
        columns: The file's columns; those of CSV are bytes, null where a field has the null text.
        numbers: Number of each row in the file, ascending.
        bad_rows: Rows among them that could not be taken apart.
    """

    columns: pa.RecordBatch
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    bad_rows: tuple[BadRow, ...] = ()

    def only(self, numbers: frozenset[int]) -> RawRows:
        """Those of them that have one of some numbers."""
        wanted = np.isin(self.numbers, list(numbers))
        bad_rows = tuple(bad for bad in self.bad_rows if bad.row in numbers)
        return RawRows(self.columns.filter(pa.array(wanted)), self.numbers[wanted], bad_rows)


@dataclass(frozen=True)
class ReadBatch:
    """Some rows of a raw file as the lake takes them.

    Attributes:
        rows: The lake's columns, `Op`, position, which columns were not sent if the table's CSV can say so, and route
            and key if there is a key.
        bad_rows: Rows left out of it.
        derived: How many of the rows are deletes that no row of the file is: of the old key where an update changed it.
    """

    rows: pa.Table
    bad_rows: tuple[BadRow, ...]
    derived: int
