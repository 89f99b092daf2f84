"""What tasks send to each other. Rows and keys are Arrow IPC, which is pickled as it is."""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

Stats = TypeVar("Stats")


class Batch(NamedTuple, Generic[Stats]):
    """Some rows and their statistics. If the table has a key, the rows are sorted by leading key."""

    stats: Stats
    rows: bytes


class BatchByRange(NamedTuple, Generic[Stats]):
    """Some rows by the number of the key range that they are in, and their statistics; each range is sorted."""

    stats: Stats
    rows: dict[int, bytes]


class Source(Enum):
    """Where the rows of a key range come from."""

    CHANGE = "change files"
    TABLE = "the table, before the change or as a full load"
    HISTORY = "open versions of the history"


class SourceRows(NamedTuple):
    """Rows of a key range from one source."""

    source: Source
    rows: bytes


class FileKeys(NamedTuple):
    """Leading keys and keys to look up in a data file.

    Attributes:
        file: Index of the file.
    """

    file: int
    keys: bytes


class FileEdit(NamedTuple):
    """What tasks that write data files remove from them, or add to them.

    Attributes:
        counts: Numbers of tasks, each with a number of the rows, in the order of the rows.
        removals: Rows of `ResolvedBatch.removals`; empty for none.
        rows: Rows to write; empty for none.
    """

    counts: tuple[tuple[int, int], ...]
    removals: bytes = b""
    rows: bytes = b""
