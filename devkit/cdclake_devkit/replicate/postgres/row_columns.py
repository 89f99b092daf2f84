"""Gives decoded rows the columns that their tables had at that time.

The log has each column's name and type, but not the precision of a NUMERIC, the base type of a domain, or the columns
that a delete leaves out. Those come from the database as it is now, which may have changed since.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake_cli.sources.positions import WalPosition
from cdclake_cli.sources.postgres.snapshot import end_of_wal
from cdclake_cli.sources.postgres.source_tables import is_selected, read_tables
from cdclake_cli.sources.postgres.types import PostgresColumn
from cdclake_cli.sources.tables import check_folder_name
from cdclake_devkit.replicate.transactions import ChangeRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg2.extensions import connection as Connection

    from cdclake.model.table.name import TableName
    from cdclake_cli.sources.postgres.source_tables import PostgresTable
    from cdclake_cli.sources.postgres.types import TypeMapping
    from cdclake_devkit.replicate.postgres.decoding import DecodedRow, DecodedTuple, DecodedValue

logger = logging.getLogger(__name__)

_Columns = dict[str, PostgresColumn]


class KnownTables:
    """The tables as the database has them now, and their columns as the log last had them.

    Args:
        connection: For reading the database's catalogs.
        only: Names of tables to replicate; empty for all.
    """

    def __init__(self, connection: Connection, only: Sequence[str], mapping: TypeMapping) -> None:
        self._connection = connection
        self._only = tuple(only)
        self._mapping = mapping
        self._tables: dict[TableName, PostgresTable] = {}
        self._columns: dict[TableName, _Columns] = {}
        self._without_identity: set[TableName] = set()
        self._read_at = WalPosition(0)
        self._refresh()
        self._columns.update(
            (name, {column.name: column for column in table.columns}) for name, table in self._tables.items()
        )

    def is_selected(self, table: TableName) -> bool:
        """Whether a table is replicated."""
        return is_selected(table, self._only)

    def change_row(self, row: DecodedRow, at: WalPosition, size_bytes: int) -> ChangeRow | None:
        """The row with its columns and key; None if it is not replicated.

        As in DMS, updates and deletes that the log has without a replica identity are not.

        Args:
            at: Position after the row's transaction.

        Raises:
            ConfigurationError: The table's name cannot be a folder's name.
        """
        if not self.is_selected(row.table):
            return None
        check_folder_name(row.table)
        columns = self._columns_of(row)
        table = self._table(row, at)
        before = self._before(row, table)
        if before is None and row.operation != "I":
            self._warn(row.table)
            return None
        values = row.new or row.old
        return ChangeRow(
            row.table,
            tuple(columns.values()),
            tuple(name for name in (table.source.key if table else ()) if name in columns),
            row.operation,
            _texts(values, columns),
            before if row.operation == "U" else None,
            size_bytes,
            frozenset(name for name, value in values.items() if value.is_unchanged),
        )

    def _table(self, row: DecodedRow, at: WalPosition) -> PostgresTable | None:
        """The table; None if it is unknown.

        An update without the row before it has the same key, or its table had no replica identity: the log does not
        tell which. Then, and if the row before does not have the identity known, the catalogs must have been read after
        the row's transaction. One reading serves all transactions that are in the log by then.
        """
        table = self._tables.get(row.table)
        is_certain = table is not None and row.old and row.old.keys() <= set(table.identity)
        if row.operation != "I" and not is_certain and self._read_at.is_before(at):
            self._refresh()
        return self._tables.get(row.table)

    def _before(self, row: DecodedRow, table: PostgresTable | None) -> dict[str, str | None] | None:
        """The values before an update or a delete, as far as they are known; None if the log cannot tell the row."""
        if row.old:
            return _texts(row.old, {**dict.fromkeys(table.identity if table else ()), **row.old})
        if row.operation != "U" or table is None or not table.identity:
            return None
        # The log has no row before the update if its identity did not change. A full identity is always logged, so
        # the table has it only since, and had its key before.
        is_full = len(table.identity) == len(table.columns)
        return _texts(row.new, table.source.key if is_full else table.identity)

    def _columns_of(self, row: DecodedRow) -> _Columns:
        """The table's columns at the time of a row."""
        known = self._columns.get(row.table, {})
        if not _describes(known, row):
            self._refresh()
            table = self._tables.get(row.table)
            now = {column.name: column for column in table.columns} if table else {}
            known = self._columns[row.table] = self._resolved(row, known, now)
        return known

    def _resolved(self, row: DecodedRow, known: _Columns, now: _Columns) -> _Columns:
        """The columns of a row, by the columns that its table had before and those that it has now."""
        values = row.new or row.old
        # A column that was renamed since is at the same place.
        places = list(now.values()) if len(now) == len(row.new) else []
        columns = {
            name: self._column(name, value, [known.get(name), now.get(name), *places[number : number + 1]])
            for number, (name, value) in enumerate(values.items())
        }
        if row.new:
            return columns
        # A delete has only some of the columns.
        return {**(now if values.keys() <= now.keys() else known), **columns}

    def _column(self, name: str, value: DecodedValue, candidates: Sequence[PostgresColumn | None]) -> PostgresColumn:
        alike = [column for column in candidates if column is not None and column.declared == value.kind]
        fitting = next((column for column in alike if _fits(column, value)), None)
        column = fitting or next(iter(alike), None)
        if column is None:
            # The log does not tell a NUMERIC's precision. No digits would mean that it had none.
            precision, scale = _digits(value.text) if value.kind == "numeric" else (0, 0)
            column = PostgresColumn(name, value.kind, value.kind, max(1, precision), scale, mapping=self._mapping)
        return replace(column if _fits(column, value) else _widened(column, value), name=name)

    def _refresh(self) -> None:
        """Read the catalogs. Tables that no longer exist are kept as they were."""
        self._read_at = end_of_wal(self._connection)
        tables = {table.source.name: table for table in read_tables(self._connection, self._only, self._mapping)}
        self._tables.update(tables)

    def _warn(self, table: TableName) -> None:
        if table not in self._without_identity:
            self._without_identity.add(table)
            logger.warning("Updates and deletes of %s are not replicated: it has no replica identity", table)


def _describes(columns: _Columns, row: DecodedRow) -> bool:
    """Whether columns match a row: an insert and an update have all of them in order, a delete has some."""
    values = row.new or row.old
    if list(values) != list(columns) if row.new else not values.keys() <= columns.keys():
        return False
    return all(columns[name].declared == value.kind and _fits(columns[name], value) for name, value in values.items())


def _texts(values: DecodedTuple, names: Iterable[str]) -> dict[str, str | None]:
    return {name: values[name].text if name in values else None for name in names}


def _fits(column: PostgresColumn, value: DecodedValue) -> bool:
    """Whether a column has room for a value; only a NUMERIC with a precision may not."""
    if column.kind != "numeric" or not column.precision:
        return True
    precision, scale = _digits(value.text)
    return scale <= max(column.scale, 0) and precision - scale <= column.precision - column.scale


def _widened(column: PostgresColumn, value: DecodedValue) -> PostgresColumn:
    """The column with room for a value."""
    precision, scale = _digits(value.text)
    wider = max(column.scale, scale)
    return replace(column, precision=max(column.precision - column.scale, precision - scale) + wider, scale=wider)


def _digits(text: str | None) -> tuple[int, int]:
    """Precision and scale of a NUMERIC value in the log; (0, 0) for null, NaN and infinities."""
    if text is None or not text[-1].isdigit():
        return 0, 0
    whole, _, decimals = text.lstrip("-").partition(".")
    return len(whole.lstrip("0")) + len(decimals), len(decimals)
