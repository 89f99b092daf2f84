"""Reads the bad rows that changes put aside, a page at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord

MOST_FILE_BYTES = 32 * 1024 * 1024
"""A larger file is named and not read: it would have to be held whole."""


@dataclass(frozen=True)
class BadRowsPage:
    """Some of the bad rows of a change.

    Attributes:
        rows: In the order of the files; each as `bad_rows_in` gives it.
        more: Whether there are more after these.
        not_read: Keys of files that are too large to be read, or no longer there.
    """

    rows: tuple[dict[str, Any], ...]
    more: bool
    not_read: tuple[str, ...]


def bad_rows_in(data: bytes) -> Iterator[dict[str, Any]]:
    """The rows in a file of them.

    Each is `{"file", "row", "reason", "content"}`: `row` is its number in the raw file, from 0, or null if it cannot be
    told, and `content` its values as text by column, or the row as it lies in the raw file.
    """
    return (json.loads(line) for line in data.splitlines())


def changes_with_bad_rows(log: ChangeLog, head: int) -> list[int]:
    """Numbers of the changes up to a number that may have put rows aside, the newest first; one folder listing.

    A run that died may have put rows aside as well: only the change record tells which count.
    """
    folder = log.layout.quarantine_folder
    numbers = {int(name[len(folder) :].partition("-")[0]) for name in log.store.list_folders(folder)}
    return sorted((number for number in numbers if number <= head), reverse=True)


def read_bad_rows(log: ChangeLog, record: ChangeRecord, skip: int, count: int) -> BadRowsPage:
    """Read some of the bad rows that a change put aside.

    Args:
        log: The table's change log.
        record: The change.
        skip: Leave out so many first.
        count: Read so many at most.
    """
    not_read: list[str] = []
    rows = list(islice(_rows(log, record, not_read), skip, skip + count + 1))
    return BadRowsPage(tuple(rows[:count]), len(rows) > count, tuple(not_read))


def _rows(log: ChangeLog, record: ChangeRecord, not_read: list[str]) -> Iterator[dict[str, Any]]:
    for key in record.quarantine:
        size_bytes = next((entry.size_bytes for entry in log.store.list(key) if entry.key == key), None)
        small = size_bytes is not None and size_bytes <= MOST_FILE_BYTES
        data = log.store.get(key) if small else None
        if data is None:
            not_read.append(key)
        else:
            yield from bad_rows_in(data)
