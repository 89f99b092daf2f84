"""Finds rows among the bad rows that were put aside, and takes them out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.schema import Schema
    from cdclake.ports import ObjectStore


class BadRowsFile(NamedTuple):
    """A file of bad rows that holds some to erase.

    Attributes:
        key: Where it is.
        rows: How many of its rows are to be erased.
        left: Its content without them.
    """

    key: str
    rows: int
    left: bytes


def search(log: ChangeLog, keys: RowKeys, schema: Schema) -> list[BadRowsFile]:
    """Look for rows in the quarantine, that of changes long gone included.

    A bad row of which no columns are known is taken for one of them if all values of a key are among its words.

    Args:
        schema: The table's columns.
    """
    found = []
    for entry in log.store.list(log.layout.quarantine_folder):
        lines = (log.store.get(entry.key) or b"").splitlines(keepends=True)
        left = [line for line in lines if not is_one(json.loads(line)["content"], keys, schema)]
        if len(left) < len(lines):
            found.append(BadRowsFile(entry.key, len(lines) - len(left), b"".join(left)))
    return found


def is_one(content: dict[str, str | None] | str, keys: RowKeys, schema: Schema) -> bool:
    """Whether a bad row has one of the keys, see `search`."""
    if isinstance(content, str):
        return keys.are_in_words_of(content, schema)
    return keys.match_texts(content, schema)


def rewrite(store: ObjectStore, found: list[BadRowsFile]) -> None:
    """Leave the rows out. A file stays even when none is left, as change records name it."""
    for file in found:
        store.put(file.key, file.left)
