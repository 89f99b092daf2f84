"""Reads the bad rows that changes put aside, a page at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord

MOST_FILE_BYTES = 32 * 1024 * 1024
"""A larger file is named and not read: it would have to be held whole."""


@dataclass(frozen=True)
class BadRowAside:
    """A bad row as it was put aside.

    Attributes:
        file: The raw file, relative to the table's raw folder.
        row: Number of the row in the file, from 0; None if it cannot be told.
        reason: What is wrong with it, for people.
        content: Its values as text by column, or the row as it lies in the file if it has no columns.
    """

    file: str
    row: int | None
    reason: str
    content: Mapping[str, str | None] | str


@dataclass(frozen=True)
class BadRowsPage:
    """Some of the bad rows of a change.

    Attributes:
        rows: In the order of the files.
        more: Whether there are more after these.
        not_read: Keys of files that are too large to be read, or no longer there.
    """

    rows: tuple[BadRowAside, ...]
    more: bool
    not_read: tuple[str, ...]


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


def _rows(log: ChangeLog, record: ChangeRecord, not_read: list[str]) -> Iterator[BadRowAside]:
    for key in record.quarantine:
        size = next((entry.size_bytes for entry in log.store.list(key) if entry.key == key), None)
        data = log.store.get(key) if size is not None and size <= MOST_FILE_BYTES else None
        if data is None:
            not_read.append(key)
            continue
        for line in data.splitlines():
            yield BadRowAside(**json.loads(line))
