"""The reference merge: computes row by row what a table and its history must contain.

It is pure Python, without Spark and Arrow, and slow. It exists to be obviously right: the engine's tests require that
the lake equals its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cdclake.model.position import ARRIVED, DEPARTED, SENT, UNSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

Row = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class ChangeRow:
    """One row of a change file.

    Attributes:
        position: Orders all change rows of the table; unique. It ends with `position.ARRIVED` if the key changed.
        op: `I`, `U` or `D`.
        row: The source's columns, without those that the change did not send.
        old_key: The old key of an update that changed the key, in primary-key order; None for all other rows. No row
            may have the new key at the time.
    """

    position: str
    op: str
    row: Row
    old_key: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class LakeRow:
    """One row that the lake table must contain."""

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
    """Compute the rows of a table after a full load and some changes.

    Applies the changes once each, in the order of their positions; the order of the argument does not matter. An insert
    or update replaces the row with its key. A column that it did not send keeps its value, or is null in a new row. An
    update that changed the key also deletes the row with the old key. The row's position ends with the columns that its
    change did not send, see `position.UNSENT`.

    Args:
        primary_key: Key columns. If empty, every full-load row and every insert is a row of the table.
        columns: All columns of the table; needed only if changes leave some out.
        soft_delete: Whether a deleted row stays in the table with the operation `D`. A later insert or update treats it
            as absent.

    Returns:
        The table's rows by key, or in input order if there is no key.
    """
    in_order = _in_order(changes)
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
            old_row = before.row if before and before.op != "D" else dict.fromkeys(columns)
            flags = "".join(SENT if name in change.row else UNSENT for name in columns).rstrip(SENT)
            table[key] = LakeRow({**old_row, **change.row}, change.op, change.position + flags)
    return [table[key] for key in sorted(table)]


def _in_order(changes: Iterable[ChangeRow]) -> list[ChangeRow]:
    return sorted({change.position: change for change in changes}.values(), key=lambda change: change.position)


def _delete(table: dict[Key, LakeRow], key: Key, soft_delete: bool) -> None:
    row = table.pop(key, None)
    if row and soft_delete:
        table[key] = replace(row, op="D")


@dataclass(frozen=True)
class Load:
    """A full load and the change files applied after it.

    Attributes:
        rows: Rows of the full load; None if there was none, which is possible only in the first `Load`.
        loaded_utc: When the full load was read from the source.
        changes: Rows of the change files.
    """

    rows: Sequence[Row] | None
    loaded_utc: datetime
    changes: Sequence[ChangeRow] = ()


@dataclass(frozen=True)
class Version:
    """One row version that the history must contain.

    Attributes:
        operation: `insert`, `update` or `delete`.
        position: Orders the versions of a key since the last full load; empty if a full load made the version.
        valid_from: Start of the version's validity.
        valid_to: End of its validity; None for the newest version of its key.
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
    """Compute the history of a table.

    Each full load adds a version for every key whose row differs from its newest version, and a delete for every key
    that is gone. Then each change row adds one version, in the order of the positions. The operation and the end of a
    version depend only on its neighbors, so the order in which changes arrive does not matter.

    Args:
        primary_key: Key columns, at least one.
        loads: Full loads with the changes after each, in order.
        time_of: Start of a row's validity, by row and position; None for a loaded row means the time of the load.

    Returns:
        Versions by key, in order within a key.
    """
    versions: dict[Key, list[Version]] = {}
    for load in loads:
        if load.rows is not None:
            _compare(versions, {_key(primary_key, row): row for row in load.rows}, load.loaded_utc, time_of)
        for change in _in_order(load.changes):
            key = _key(primary_key, change.row)
            operations = [(change.row, "delete" if change.op == "D" else "update", change.position)]
            if change.old_key is not None and change.old_key != key:
                departed = change.position.rstrip(ARRIVED) + DEPARTED
                operations.append((dict(zip(primary_key, change.old_key)), "delete", departed))
            for row, operation, position in operations:
                valid_from = time_of(row, position) or load.loaded_utc
                version = Version(row, operation, position, valid_from)
                versions.setdefault(_key(primary_key, row), []).append(version)
    return [version for key in sorted(versions) for version in _linked(versions[key], columns)]


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


def _linked(versions: Sequence[Version], columns: Sequence[str]) -> Iterator[Version]:
    """Complete the versions of a key from their neighbors. A delete contains the row that it deleted, if any."""
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
