"""The reference merge: what a table and its history must hold, worked out one row at a time.

Pure Python, no Spark, no Arrow, and slow; it exists to be obviously right. The engine's tests demand that the lake
equals what this says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

Row = Mapping[str, Any]
Key = tuple[Any, ...]


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
    primary_key: Sequence[str],
    full_load: Iterable[Row],
    changes: Iterable[ChangeRow],
    columns: Sequence[str] = (),
    *,
    soft_delete: bool = False,
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
        soft_delete: Whether a deleted row stays as it is, but for its operation, which is `D` then. An insert or update
            after that is as if the row had not been there.

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
            _delete(table, change.old_key, soft_delete)
        if change.op == "D":
            _delete(table, key, soft_delete)
        else:
            before = table.get(key)
            kept = before.row if before and before.op != "D" else dict.fromkeys(columns)
            table[key] = LakeRow({**kept, **change.row}, change.op, change.position)
    return [table[key] for key in sorted(table)]


def _delete(table: dict[Key, LakeRow], key: Key, soft_delete: bool) -> None:
    row = table.pop(key, None)
    if row and soft_delete:
        table[key] = replace(row, op="D")


@dataclass(frozen=True)
class Load:
    """A full load, and the change files applied since.

    Attributes:
        rows: Rows of the full load; None if there was none, which only the first may say.
        loaded_utc: When the full load was read from the source.
        changes: Rows of the change files.
    """

    rows: Sequence[Row] | None
    loaded_utc: datetime
    changes: Sequence[ChangeRow] = ()


@dataclass(frozen=True)
class Version:
    """One row that the history must hold.

    Attributes:
        operation: `insert`, `update` or `delete`.
        position: What orders it among those of its key since the last full load; empty if that made it.
        valid_from: Since when the row was so.
        valid_to: Until when; None if it is the newest version of its key.
    """

    row: Row
    operation: str
    position: str
    valid_from: datetime
    valid_to: datetime | None = None


def history(
    primary_key: Sequence[str],
    loads: Iterable[Load],
    columns: Sequence[str],
    time_of: Callable[[Row, str], datetime | None],
) -> list[Version]:
    """What the history of a table holds.

    Each full load adds a version of each key whose row is not what the newest version says, and a delete of each key
    that is gone. After it come the versions that the change rows make, in the order of their positions, each once. Of
    what kind a version is and until when it holds is told by its neighbours alone, so that the order in which changes
    come does not matter.

    Args:
        primary_key: Key columns, at least one.
        loads: Full loads with the changes after each, in order.
        columns: All columns of the table.
        time_of: Since when a row is so, given its position; None for a loaded one means since the load.

    Returns:
        Versions by key, those of a key in order.
    """
    versions: dict[Key, list[Version]] = {}
    for load in loads:
        if load.rows is not None:
            _compare(versions, {_key(primary_key, row): row for row in load.rows}, load.loaded_utc, time_of)
        in_order = sorted({change.position: change for change in load.changes}.values(), key=lambda one: one.position)
        for change in in_order:
            key, made = _key(primary_key, change.row), [(change.row, "delete" if change.op == "D" else "update")]
            if change.old_key is not None and change.old_key != key:
                made.append((dict(zip(primary_key, change.old_key)), "delete"))
            for row, operation in made:
                when = time_of(row, change.position) or load.loaded_utc
                version = Version(row, operation, change.position, when)
                versions.setdefault(_key(primary_key, row), []).append(version)
    return [one for key in sorted(versions) for one in _chained(versions[key], columns)]


def _compare(
    versions: dict[Key, list[Version]],
    rows: Mapping[Key, Row],
    now: datetime,
    time_of: Callable[[Row, str], datetime | None],
) -> None:
    for key, row in rows.items():
        known = versions.setdefault(key, [])
        if not known or known[-1].operation == "delete" or known[-1].row != row:
            known.append(Version(row, "update", "", time_of(row, "") or now))
    for key, known in versions.items():
        if key not in rows and known[-1].operation != "delete":
            known.append(Version(known[-1].row, "delete", "", now))


def _chained(versions: Sequence[Version], columns: Sequence[str]) -> Iterator[Version]:
    """Versions of a key as their neighbours make them: a delete tells the row that it took away, if there was one."""
    before: Version | None = None
    for version, after in zip(versions, [*versions[1:], None]):
        row, operation = version.row, version.operation
        if operation == "delete":
            row = before.row if before else {**dict.fromkeys(columns), **row}
        elif before is None or before.operation == "delete":
            operation = "insert"
        before = replace(version, row=row, operation=operation, valid_to=after.valid_from if after else None)
        yield before


def _key(primary_key: Sequence[str], row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in primary_key)
