"""The reference merge: what a table must hold, worked out one row at a time.

Pure Python, no Spark, no Arrow, and slow; it exists to be obviously right. The engine's tests demand that the lake
equals what this says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ChangeRow:
    """One row of a change file.

    Attributes:
        position: What orders it among all change rows of the table; unique.
        op: `I`, `U` or `D`.
        row: The source's columns; those that the change did not send are left out.
        old_key: The key before an update that changed it, in the order of the primary key; None if it did not.
    """

    position: str
    op: str
    row: Row
    old_key: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class LakeRow:
    """One row that the lake table must hold."""

    row: Row
    op: str
    position: str


def merge(
    primary_key: Sequence[str], full_load: Iterable[Row], changes: Iterable[ChangeRow], columns: Sequence[str] = ()
) -> list[LakeRow]:
    """What a table holds after a full load and some changes.

    The changes are made one by one in the order of their positions, each once. An insert or update puts its row in the
    place of what was there of its key; a column that it did not send keeps its value, or is null in a new row. An
    update that changed the key takes the row of the old key away. In what order the changes are given does not matter.

    Args:
        primary_key: Key columns. Without any, every full-load row and every insert is a row of the table.
        full_load: Rows of the full load.
        changes: Rows of all change files.
        columns: All columns of the table; needed only if changes leave some out.

    Returns:
        The table's rows, by key, or in the order given if there is no key.
    """
    in_order = sorted({change.position: change for change in changes}.values(), key=lambda change: change.position)
    if not primary_key:
        inserts = [LakeRow(change.row, "I", change.position) for change in in_order if change.op == "I"]
        return [LakeRow(row, "I", "") for row in full_load] + inserts
    table = {_key(primary_key, row): LakeRow(row, "I", "") for row in full_load}
    for change in in_order:
        key = _key(primary_key, change.row)
        if change.old_key is not None and change.old_key != key:
            table.pop(change.old_key, None)
        before = table.pop(key, None)
        if change.op != "D":
            kept = before.row if before else dict.fromkeys(columns)
            table[key] = LakeRow({**kept, **change.row}, change.op, change.position)
    return [table[key] for key in sorted(table)]


def _key(primary_key: Sequence[str], row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in primary_key)
