"""Tables of a source database, with their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake_cli.dms.names import can_be_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cdclake.model.table.name import TableName


class SourceColumn(Protocol):
    """A column of a source table."""

    @property
    def name(self) -> str:
        """Name of the column."""

    @property
    def field(self) -> pa.Field:
        """The Arrow field with the type that DMS converts the column to.

        Its metadata has the length of a `CHAR`, for DMS's padding.

        Raises:
            ConfigurationError: DMS does not support the column's type.
        """

    @property
    def is_lob(self) -> bool:
        """Whether the column is a large object to DMS."""

    def selected(self, values: Sequence[Any]) -> pa.Array:
        """Convert values of `SourceTable.query`, as the library returns them."""

    def logged(self, values: Sequence[Any]) -> pa.Array:
        """Convert values of a `ChangeRow`."""


@dataclass(frozen=True)
class SourceTable:
    """A table of the source.

    Attributes:
        columns: Columns in the source's order.
        key: Columns of the primary key; empty for none.
        relation: The table in SQL, as after `from`.
        values: The columns' values in SQL, in order.
        order: SQL of the key's columns, as after `order by`; empty without a key.
    """

    name: TableName
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    relation: str
    values: tuple[str, ...]
    order: str

    def query(self, where: str = "") -> str:
        """SQL query of the rows, in key order.

        Args:
            where: An SQL condition; empty for all rows.
        """
        condition, order = f" where {where}" if where else "", f" order by {self.order}" if self.order else ""
        return f"select {', '.join(self.values)} from {self.relation}{condition}{order}"

    def with_columns(self, is_wanted: Callable[[str], bool]) -> SourceTable:
        """The table with some of its columns, by name."""
        chosen = [pair for pair in zip(self.columns, self.values, strict=True) if is_wanted(pair[0].name)]
        return replace(self, columns=tuple(one for one, _ in chosen), values=tuple(value for _, value in chosen))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns."""
        return schema_of(self.columns)


def schema_of(columns: Sequence[SourceColumn]) -> pa.Schema:
    """The Arrow schema of the columns, in order."""
    return pa.schema([column.field for column in columns])


def selected_rows(columns: Sequence[SourceColumn], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Convert rows of `SourceTable.query` to Arrow."""
    values = zip(*rows) if rows else ([] for _ in columns)
    arrays = [column.selected(list(of_column)) for column, of_column in zip(columns, values, strict=True)]
    return pa.table(arrays, schema=schema_of(columns))


def logged_rows(columns: Sequence[SourceColumn], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Convert rows of the log to Arrow.

    Args:
        rows: Values by column, as in `ChangeRow`.
    """
    arrays = [column.logged([row[column.name] for row in rows]) for column in columns]
    return pa.table(arrays, schema=schema_of(columns))


def check_folder_name(table: TableName) -> None:
    """Check that a table's name can be a folder's name.

    Raises:
        ConfigurationError: It cannot.
    """
    if not (can_be_folder(table.schema) and can_be_folder(table.table)):
        message = "The source has a table whose name cannot be a folder's name"
        raise ConfigurationError(message, remedy="Leave it out, or rename it at the source", table=table)
