"""Rows of raw files: as read, as converted for the lake, and bad ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from cdclake.model.names import Attribute

REWRITE_OR_IGNORE = (
    "Nothing of it was applied. Have DMS write it again, or, if its rows are not needed, add it to"
    f" {Attribute.IGNORE_FILES}"
)
"""Remedy for a file that cannot be read. A file that is removed instead counts as vanished, and freezes its table."""


class BadRowKind(Enum):
    """What is wrong with a bad row."""

    WIDTH = "width"
    """It has more or fewer fields than the file has columns."""
    OPERATION = "operation"
    """Its `Op` is unknown."""
    KEY = "key"
    """A key column is null or was not sent."""
    VALUE = "value"
    """A value does not fit its column."""
    ORDER = "order"
    """It has no place among the changes."""
    UNSENT = "unsent"
    """It lacks a value that the lake's row cannot supply."""
    REPEATED_KEY = "repeated key"
    """A later row of the full load has the same key."""


@dataclass(frozen=True)
class BadRow:
    """A row of a raw file that cannot be converted.

    Attributes:
        file: The raw file, relative to the table's raw folder.
        row: Index of the row in the file, from 0, without the header; None if unknown.
        kind: What is wrong, for programs.
        reason: What is wrong, for the operator.
        content: The row's values as text by column, or the raw line if it does not split into the columns.
        columns: The columns whose values are bad; empty if the row as a whole is.
    """

    file: str
    row: int | None
    kind: BadRowKind
    reason: str
    content: dict[str, str | None] | str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawRows:
    """Rows of a raw file as read.

    Attributes:
        columns: The file's columns; those of CSV are bytes, null where a field equals the null text.
        numbers: Index of each row in the file, ascending.
        bad_rows: Rows that do not split into the columns.
    """

    columns: pa.RecordBatch
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    bad_rows: tuple[BadRow, ...] = ()

    def select(self, numbers: frozenset[int]) -> RawRows:
        """The rows with these numbers."""
        wanted = np.isin(self.numbers, list(numbers))
        bad_rows = tuple(bad for bad in self.bad_rows if bad.row in numbers)
        return RawRows(self.columns.filter(pa.array(wanted)), self.numbers[wanted], bad_rows)


@dataclass(frozen=True)
class ReadBatch:
    """Rows of a raw file, converted for the lake.

    Attributes:
        rows: Rows in flight, see `TableShape.in_flight`.
        bad_rows: Rows that could not be converted.
        derived: Number of rows that are not in the file: deletes of the old key, where an update changes the key. They
            come last.
        suppressed: Number of rows of the file that are left out, see `cdclake.lake.raw.suppression`.
    """

    rows: pa.Table
    bad_rows: tuple[BadRow, ...]
    derived: int
    suppressed: int = 0
