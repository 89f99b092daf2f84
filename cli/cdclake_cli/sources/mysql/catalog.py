"""Reads the catalog of a MySQL or MariaDB server: keys, unique indexes, types and comments."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.cursors

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.types import from_arrow
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import IMMEDIATE
from cdclake_cli.sources.catalog import CatalogColumn, CatalogTable, UniqueIndex, is_chosen
from cdclake_cli.sources.mysql.connection import connect, source_error
from cdclake_cli.sources.mysql.source_tables import COLUMN_FACTS, VERSIONED, column_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake_cli.sources.mysql.connection import ConnectionOptions

    Row = Mapping[str, Any]

_SCHEMAS = """
    table_schema not in ('information_schema', 'mysql', 'performance_schema', 'sys')
    and (%s = '' or table_schema = %s)
"""
_TABLES = f"""
    select table_schema as db, table_name as tbl, table_type as kind, table_comment as comment
    from information_schema.tables
    where {_SCHEMAS} and table_type in ('BASE TABLE', '{VERSIONED}')
"""
_COLUMNS = f"""
    select {COLUMN_FACTS}, table_schema as db, is_nullable as nullable, column_comment as comment
    from information_schema.columns where {_SCHEMAS} order by db, tbl, ordinal_position
"""
# The name of an expression of MySQL's is null.
_INDEXES = f"""
    select table_schema as db, table_name as tbl, index_name as idx, column_name as name
    from information_schema.statistics
    where {_SCHEMAS} and non_unique = 0 order by db, tbl, idx, seq_in_index
"""
_PRIMARY = "PRIMARY"
_VERSIONED_NOTE = "It is system-versioned: its binlog mixes old row versions with current rows"


@dataclass(frozen=True)
class MysqlCatalog:
    """The catalog of a server. `Catalog` describes the method.

    Attributes:
        schema: Name of the only database to read; empty for all that the user may see.
    """

    options: ConnectionOptions
    schema: str = ""

    def tables(self, patterns: Sequence[str] = ()) -> tuple[CatalogTable, ...]:
        """The tables that patterns select, by name."""
        with closing(connect(self.options)) as connection:
            try:
                rows = [_rows(connection, query, self.schema) for query in (_TABLES, _COLUMNS, _INDEXES)]
            except pymysql.MySQLError as error:
                raise source_error(error) from error
        tables, columns, indexes = rows
        columns_of, indexes_of = _by_table(columns), _by_table(indexes)
        found = [(_name(row), row) for row in tables if is_chosen(_name(row), patterns)]
        return tuple(
            _table(name, row, columns_of[name], indexes_of[name]) for name, row in sorted(found, key=lambda one: one[0])
        )


def _rows(connection: pymysql.Connection, query: str, schema: str) -> list[Row]:
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(query, (schema, schema))
        return list(cursor.fetchall())


def _name(row: Row) -> TableName:
    return TableName(str(row["db"]), str(row["tbl"]))


def _by_table(rows: Sequence[Row]) -> dict[TableName, list[Row]]:
    by_table: dict[TableName, list[Row]] = defaultdict(list)
    for row in rows:
        by_table[_name(row)].append(row)
    return by_table


def _table(name: TableName, row: Row, columns: Sequence[Row], index_columns: Sequence[Row]) -> CatalogTable:
    indexes: dict[str, list[str | None]] = defaultdict(list)
    for one in index_columns:
        indexes[str(one["idx"])].append(one["name"])
    by_columns = {index: tuple(map(str, names)) for index, names in indexes.items() if None not in names}
    return CatalogTable(
        name,
        tuple(map(_column, columns)),
        by_columns.pop(_PRIMARY, ()),
        tuple(UniqueIndex(index, names) for index, names in by_columns.items()),
        IMMEDIATE,
        str(row["comment"] or ""),
        (_VERSIONED_NOTE,) if row["kind"] == VERSIONED else (),
    )


def _column(row: Row) -> CatalogColumn:
    column = column_of(row)
    try:
        kind = from_arrow(column.arrow_type)
    except ConfigurationError:  # DMS does not support it
        kind = None
    return CatalogColumn(column.name, str(row["whole"]), kind, row["nullable"] == "YES", str(row["comment"] or ""))
