"""Transactions and rows as read from a source's binlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cdclake.devkit.replicate.mysql_types import SourceColumn
    from cdclake.devkit.replicate.progress import BinlogPosition
    from cdclake.model.table import TableName


@dataclass(frozen=True)
class BinlogRow:
    """A row that a statement inserted, updated or deleted.

    Attributes:
        columns: The table's columns at that time.
        key: Columns of the primary key at that time; empty for none.
        operation: `I`, `U` or `D`.
        values: The row after the operation, for a delete before it, as logged; see `mysql_types.rows_from_binlog`.
        before: The row before an update; None for other operations.
        size_bytes: Approximate size in the binlog.
    """

    table: TableName
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    operation: str
    values: Mapping[str, Any]
    before: Mapping[str, Any] | None
    size_bytes: int


@dataclass(frozen=True)
class Transaction:
    """A committed transaction, or a statement outside of one.

    Attributes:
        rows: Rows of the replicated tables, in statement order.
        committed_utc: Commit time in whole seconds, the precision of a binlog.
        end: Position of the next transaction.
    """

    rows: tuple[BinlogRow, ...]
    committed_utc: datetime
    end: BinlogPosition
