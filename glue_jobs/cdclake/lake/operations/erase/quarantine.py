"""Finds rows in the quarantine and removes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from cdclake.commit.erasure import replace_object

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.schema import Schema
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


def search(log: ChangeLog, keys: RowKeys, schema: Schema) -> list[BadRowsFile]:
    """Search the quarantine, including bad rows of changes that are no longer retained."""
    files = []
    for entry in log.store.list(log.layout.quarantine_folder):
        content = log.store.get(entry.key) or b""
        lines = content.splitlines(keepends=True)
        rest = [line for line in lines if not has_key(json.loads(line)["content"], keys, schema)]
        if len(rest) < len(lines):
            files.append(BadRowsFile(entry.key, len(lines) - len(rest), content, b"".join(rest)))
    return files


def has_key(content: dict[str, str | None] | str, keys: RowKeys, schema: Schema) -> bool:
    """Whether a bad row has one of the keys.

    If its columns are unknown, the row counts as a match if all values of a key are words of its text.
    """
    if isinstance(content, str):
        return keys.appear_in(content, schema)
    return keys.match_texts(content, schema)


def rewrite(store: ObjectStore, files: list[BadRowsFile]) -> None:
    """Write the files without the rows. A file stays even if it is empty then, because change records name it.

    Raises:
        CommitConflictError: As `replace_object`.
    """
    for file in files:
        replace_object(store, file.key, file.rest, file.content)
