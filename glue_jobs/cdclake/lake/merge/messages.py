"""What tasks send to each other."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from cdclake.lake.storage.arrow_ipc import Rows

Stats = TypeVar("Stats")


class Batch(NamedTuple, Generic[Stats]):
    """Some rows and their statistics. If the table has a key, the rows are sorted by leading key."""

    stats: Stats
    rows: Rows


class BatchByRange(NamedTuple, Generic[Stats]):
    """Some rows by the number of the key range that they are in, and their statistics; each range is sorted."""

    stats: Stats
    rows: dict[int, Rows]


class Source(Enum):
    """Where the rows of a key range come from."""

    CHANGE = "change files"
    TABLE = "the table, before the change or as a full load"
    HISTORY = "open versions of the history"


class SourceRows(NamedTuple):
    """Rows of a key range from one source."""

    source: Source
    rows: Rows


class FileKeys(NamedTuple):
    """Leading keys and keys to look up in a data file.

    Attributes:
        file: Index of the file.
    """

    file: int
    keys: Rows


class FileEdit(NamedTuple):
    """What tasks that write data files remove from them, or add to them.

    Attributes:
        counts: Numbers of tasks, each with a number of the rows, in the order of the rows.
        removals: Rows of `ResolvedBatch.removals`; None for none.
        rows: Rows to write, or to merge in place; None for none.
    """

    counts: tuple[tuple[int, int], ...]
    removals: Rows | None = None
    rows: Rows | None = None

    @property
    def size_bytes(self) -> int:
        """Size in memory, as `Rows.size_bytes`."""
        return sum(rows.size_bytes for rows in (self.removals, self.rows) if rows)
