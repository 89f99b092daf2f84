"""Finds rows in the quarantine and removes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cdclake.commit.clean_up import orphaned_quarantine
from cdclake.commit.erasure import replace_object
from cdclake.commit.quarantine import parse_bad_rows

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import Snapshot
    from cdclake.ports import ObjectStore


class BadRowsFile(NamedTuple):
    """A file of bad rows that contains rows to erase.

    Attributes:
        key: Key of the object.
        rows: Number of its rows to erase.
        content: The file's content.
        rest: The content without them.
    """

    key: str
    rows: int
    content: bytes
    rest: bytes


@dataclass
class BadRows:
    """Bad rows to erase, and bad rows of which it is unknown.

    Attributes:
        files: Files with rows to erase.
        unread: Number of rows that stay although their key cannot be read, by raw file; of damaged lines by
            quarantine file.
    """

    files: list[BadRowsFile] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)


def search(log: ChangeLog, lake: Snapshot, keys: RowKeys, *, unread_too: bool) -> BadRows:
    """Search the quarantine, including bad rows of changes that are no longer retained.

    An erasure deletes what crashed runs left there, see `cdclake.commit.erasure.delete_unreferenced`.

    Args:
        lake: The table after its newest change.
        unread_too: Whether to erase rows whose key cannot be read.
    """
    found, orphaned = BadRows(), frozenset(orphaned_quarantine(log, lake.change, None))
    for entry in log.store.list(log.layout.quarantine_folder):
        if entry.key in orphaned:
            continue
        content, rest = log.store.get(entry.key) or b"", list[bytes]()
        lines = content.splitlines(keepends=True)
        for line, bad in zip(lines, parse_bad_rows(content, entry.key), strict=True):
            matches = has_key(bad["content"], keys, lake.schema)
            if not (matches or (matches is None and unread_too)):
                rest.append(line)
                found.unread[bad["file"]] += matches is None
        if len(rest) < len(lines):
            found.files.append(BadRowsFile(entry.key, len(lines) - len(rest), content, b"".join(rest)))
    return found


def has_key(content: dict[str, str | None] | str, keys: RowKeys, schema: Schema) -> bool | None:
    """Whether a bad row has one of the keys; None if its key cannot be read.

    If its columns are unknown, the row has a key if all values of it are words of its text. Otherwise its key cannot be
    read, unless nothing is kept of the row.
    """
    if isinstance(content, str):
        return keys.appear_in(content, schema) or (None if content else False)
    return keys.match_texts(content, schema)


def rewrite(store: ObjectStore, files: list[BadRowsFile]) -> None:
    """Write the files without the rows. A file stays even if it is empty then, because change records name it.

    Raises:
        CommitConflictError: As `replace_object`.
    """
    for file in files:
        replace_object(store, file.key, file.rest, file.content)
