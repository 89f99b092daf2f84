"""Reads the bad rows that changes quarantined: page by page, or all that the table still lacks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from cdclake.commit.ancestry import ancestry
from cdclake.model.change.record import ChangeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.record import ChangeRecord

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Of a file that is read, because it is read into memory as a whole."""


@dataclass(frozen=True)
class BadRowsPage:
    """Some of the bad rows of a change.

    Attributes:
        rows: In file order, each as `parse_bad_rows` returns it.
        more: Whether more rows follow.
        not_read: Keys of files that are too large or missing.
    """

    rows: tuple[dict[str, Any], ...]
    more: bool
    not_read: tuple[str, ...]


@dataclass(frozen=True)
class QuarantinedFile:
    """The bad rows of one raw file that one change quarantined.

    Attributes:
        change: Number of the change.
        created_utc: Time of its commit, ISO 8601.
        raw_file: The raw file, relative to the table's raw folder.
        rows: By row number, each as `parse_bad_rows` returns it.
        row_rules: Of the change, see `ChangeRecord.row_rules`.
    """

    change: int
    created_utc: str
    raw_file: str
    rows: tuple[dict[str, Any], ...]
    row_rules: str


def parse_bad_rows(data: bytes, key: str) -> Iterator[dict[str, Any]]:
    """Parse the content of a quarantine file, line by line.

    Each row is `{"file", "row", "reason", "columns", "content"}`. `row` is its number in the raw file, from 0, or null
    if unknown. `columns` lists those whose values are bad. `content` holds the row's values as text by column, or the
    raw text of the row. A line that is no such row is damaged: it counts as a row of
    unknown number, with the line as its raw text and the quarantine file as its raw file.

    Args:
        key: Object key of the file.
    """
    return (_parse_bad_row(line, key) for line in data.splitlines())


def _parse_bad_row(line: bytes, key: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    return row if _is_bad_row(row) else _damaged(line, key)


def _is_bad_row(row: object) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("file", "reason")):
        return False
    number, columns, content = row.get("row"), row.get("columns"), row.get("content")
    if not (isinstance(columns, list) and all(isinstance(name, str) for name in columns)):
        return False
    if isinstance(content, dict):
        content = "" if all(isinstance(text, (str, type(None))) for text in content.values()) else None
    return isinstance(number, (int, type(None))) and isinstance(content, str)


def _damaged(line: bytes, key: str) -> dict[str, Any]:
    reason, text = "a damaged line in the quarantine", line.decode(errors="replace")
    return {"file": key, "row": None, "reason": reason, "columns": [], "content": text}


def changes_with_bad_rows(log: ChangeLog, head: int) -> list[int]:
    """Numbers of the changes up to `head` that may have quarantined rows, newest first. Costs one folder listing.

    A crashed run may have left quarantine files too. Only the change record lists the files that count.
    """
    folder = log.layout.quarantine_folder
    entries = (entry for entry in log.store.list_level(folder) if entry.endswith("/"))
    numbers = {int(name[len(folder) :].partition("-")[0]) for name in entries}
    return sorted((number for number in numbers if number <= head), reverse=True)


def read_bad_rows(
    log: ChangeLog, record: ChangeRecord, skip: int, count: int, max_file_bytes: int = MAX_FILE_BYTES
) -> BadRowsPage:
    """Read some of the bad rows that a change quarantined.

    Args:
        skip: Number of rows to skip first.
        count: Maximum number of rows to read.
        max_file_bytes: Larger files are listed, but not read.
    """
    not_read: list[str] = []
    rows = list(islice(_rows(log, record, max_file_bytes, not_read), skip, skip + count + 1))
    return BadRowsPage(tuple(rows[:count]), len(rows) > count, tuple(not_read))


def quarantined_files(log: ChangeLog, head: int, change: int | None = None) -> list[QuarantinedFile]:
    """List the bad rows that the table still lacks after a change, newest change first.

    Rows of undone changes are left out: the next run reads their raw files again. So are rows that were released, and
    rows from before the last full load. Costs one folder listing, and the change records back to the oldest change with
    bad rows.

    Args:
        head: Number of the newest change.
        change: List only what this change quarantined; None: all.

    Raises:
        IntegrityError: A change record is missing.
    """
    oldest = min(changes_with_bad_rows(log, head), default=head + 1) if change is None else change
    files: list[QuarantinedFile] = []
    released: set[str] = set()
    for record in ancestry(log, head, oldest) if oldest <= head else ():
        by_file: dict[str, list[dict[str, Any]]] = {}
        for key in record.quarantine if change in (None, record.change) else ():
            for row in parse_bad_rows(log.store.get(key) or b"", key):
                by_file.setdefault(row["file"], []).append(row)
        files += [
            QuarantinedFile(
                record.change, record.created_utc, name, tuple(sorted(rows, key=_row_number)), record.row_rules
            )
            for name, rows in sorted(by_file.items())
            if name not in released
        ]
        if record.kind is ChangeKind.RELEASE:
            released.update(record.raw_names)
        if record.kind is ChangeKind.FULL_LOAD or record.change <= oldest:
            break
    return files


def _rows(log: ChangeLog, record: ChangeRecord, max_bytes: int, not_read: list[str]) -> Iterator[dict[str, Any]]:
    for key in record.quarantine:
        size_bytes = next((entry.size_bytes for entry in log.store.list(key) if entry.key == key), None)
        small = size_bytes is not None and size_bytes <= max_bytes
        data = log.store.get(key) if small else None
        if data is None:
            not_read.append(key)
        else:
            yield from parse_bad_rows(data, key)


def _row_number(row: dict[str, Any]) -> int:
    return -1 if row["row"] is None else int(row["row"])
