"""Transactions and rows as read from a source's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cdclake.model.table.name import TableName
    from cdclake_cli.sources.positions import Position
    from cdclake_cli.sources.tables import SourceColumn


@dataclass(frozen=True)
class ChangeRow:
    """A row that a statement inserted, updated or deleted.

    Attributes:
        columns: The table's columns at that time.
        key: Columns of the primary key at that time; empty for none.
        operation: `I`, `U` or `D`.
        values: The row after the operation, for a delete before it, as logged; see `SourceColumn.logged`.
        before: The row before an update, as far as it was logged; None for other operations.
        size_bytes: Approximate size in the log.
        unsent: Columns whose values were not logged, because an update did not change them. They are null in `values`.
    """

    table: TableName
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    operation: str
    values: Mapping[str, Any]
    before: Mapping[str, Any] | None
    size_bytes: int
    unsent: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Transaction:
    """A committed transaction, or a statement outside of one.

    Attributes:
        rows: Rows of the replicated tables, in statement order.
        committed_utc: Commit time, as precise as the log.
        end: Position of the next transaction.
        ignored: First words of the statements that change rows without logging them.
    """

    rows: tuple[ChangeRow, ...]
    committed_utc: datetime
    end: Position
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Idle:
    """The reader has reached the end of the log.

    Attributes:
        end: Position up to which the log was read.
        is_lost: Whether the connection is lost: the reader raises the error next.
    """

    end: Position
    is_lost: bool = False
