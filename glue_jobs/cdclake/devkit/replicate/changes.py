"""What a source's binlog says, transaction by transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cdclake.devkit.replicate.mysql_types import SourceColumn
    from cdclake.devkit.replicate.position import BinlogPosition
    from cdclake.model.table import TableName


@dataclass(frozen=True)
class RowChange:
    """A row that a statement inserted, updated or deleted.

    Attributes:
        columns: The table's columns at that time.
        key: Columns of its primary key at that time; empty for none.
        operation: `I`, `U` or `D`.
        values: The row after it, or of a delete before it, as the binlog has it; see `mysql_types.logged`.
        before: The row before an update; None for others.
        size_bytes: About how many bytes it takes.
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
    """A transaction that was committed, or a statement outside of one.

    Attributes:
        rows: In the order of the statements; none if it changed none of the tables that are followed.
        committed_utc: To the second, which is all that a binlog tells.
        end: Where the next one begins.
    """

    rows: tuple[RowChange, ...]
    committed_utc: datetime
    end: BinlogPosition
