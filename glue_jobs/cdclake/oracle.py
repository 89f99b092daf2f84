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
        row: The source's columns.
    """

    position: str
    op: str
    row: Row


@dataclass(frozen=True)
class LakeRow:
    """One row that the lake table must hold."""

    row: Row
    op: str
    position: str


def merge(primary_key: Sequence[str], full_load: Iterable[Row], changes: Iterable[ChangeRow]) -> list[LakeRow]:
    """What a table holds after a full load and some changes.

    Of each key the change of the greatest position counts, and a full-load row only where there is no change. If the
    last change is a delete, the key is absent. The order in which the changes are given does not matter, nor does it if
    one is given twice.

    Args:
        primary_key: Key columns. Without any, every full-load row and every insert is a row of the table.
        full_load: Rows of the full load.
        changes: Rows of all change files.

    Returns:
        The table's rows, by key, or in the order given if there is no key.
    """
    if not primary_key:
        once = {change.position: change for change in changes if change.op == "I"}
        return [LakeRow(row, "I", "") for row in full_load] + [LakeRow(c.row, "I", c.position) for c in once.values()]
    last: dict[tuple[Any, ...], LakeRow] = {}
    for row in full_load:
        last[_key(primary_key, row)] = LakeRow(row, "I", "")
    for change in changes:
        key = _key(primary_key, change.row)
        if key not in last or change.position > last[key].position:
            last[key] = LakeRow(change.row, change.op, change.position)
    return [last[key] for key in sorted(last) if last[key].op != "D"]


def _key(primary_key: Sequence[str], row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in primary_key)
