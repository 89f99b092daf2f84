"""Rows of raw files: as read, as converted for the lake, and bad ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.adapters.filesystem import FetchedFile
    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import KeyValue

REWRITE_OR_IGNORE = (
    "Nothing of it was applied. Have DMS write it again, or, if its rows are not needed, add it to"
    f" {Attribute.IGNORE_FILES}"
)
"""Remedy for a file that cannot be read. A file that is removed instead counts as vanished, and freezes its table."""


WITHOUT_CONTENT = "; its content is not kept, because the table has a ColumnPolicy"
"""Of a row whose values may be in other columns than theirs."""


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
class Slice:
    """A part of a raw file that one task reads.

    Attributes:
        size_bytes: Size of the part in the file.
        row_groups: Parquet row groups to read; None for the whole file.
        first_row: Index of the first row in the file.
        key_range: Smallest and largest leading key of rows of a full load; two None if unknown.
        only_rows: Indices of the rows to read later than the rest of their file; None for all rows.
        memory_bytes: Uncompressed size; 0 if unknown.
        later_columns: Columns, in lower case, that the table had only after the file was written.
        unnumbered: Whether full-load rows get no file and row in their positions, as if already written to the lake.
        encoded: Whether repeated texts, other than in keys, may stay dictionary-encoded.
        erasures: See `Suppression.later_than`.
        fetched: The file in memory, if it was fetched already.
    """

    file: RawFile
    size_bytes: int
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0
    key_range: tuple[KeyValue, KeyValue] = (None, None)
    only_rows: frozenset[int] | None = None
    memory_bytes: int = 0
    later_columns: frozenset[str] = frozenset()
    unnumbered: bool = False
    encoded: bool = False
    erasures: tuple[int, ...] = ()
    fetched: FetchedFile | None = field(default=None, compare=False)

    def ends_before(self, other: Slice) -> bool:
        """Whether the other slice has the next row groups of the same file."""
        if self.row_groups is None or other.row_groups is None or self.file != other.file:
            return False
        return self.row_groups[-1] + 1 == other.row_groups[0] and self.only_rows == other.only_rows


@dataclass(frozen=True)
class RawRows:
    """Rows of a raw file as read.

    Attributes:
        columns: The file's columns; bytes in CSV, null where a field equals the null text.
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
        by_file: Number of rows that were read, bad ones included, by the raw file's relative key.
    """

    rows: pa.Table
    bad_rows: tuple[BadRow, ...]
    derived: int
    suppressed: int = 0
    by_file: Mapping[str, int] = field(default_factory=dict)
