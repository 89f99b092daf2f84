"""Reads the tables of a source database, with their columns and keys, from `information_schema`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.cursors

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.sources.mysql.types import (
    MysqlColumn,
    check_table,
    quoted_identifier,
    select_expression,
)
from cdclake_cli.sources.tables import SourceTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMN_FACTS = """
    table_name as tbl, column_name as name, data_type as kind, column_type as whole,
    numeric_precision as digits, numeric_scale as scale, character_maximum_length as length,
    datetime_precision as fraction, character_set_name as charset
"""
"""What `column_of` needs of `information_schema.columns`."""
_COLUMNS = f"""
    select {COLUMN_FACTS} from information_schema.columns
    where table_schema = %s order by table_name, ordinal_position
"""
VERSIONED = "SYSTEM VERSIONED"
"""MariaDB's type of a table that keeps old row versions. In a binlog they look like any other rows."""
_TABLES = """
    select table_name, table_type from information_schema.tables
    where table_schema = %s and table_type in ('BASE TABLE', 'SYSTEM VERSIONED')
"""
_KEYS = """
    select table_name, column_name from information_schema.key_column_usage
    where table_schema = %s and constraint_name = 'PRIMARY' order by table_name, ordinal_position
"""
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_WITH_MEMBERS = frozenset({"enum", "set"})
_WITH_LENGTH = frozenset({"binary", "char"})
_COMPRESSED = re.compile(r"/\*.*\bcompressed\b.*\*/", re.IGNORECASE)
"""How MariaDB marks a column with `COMPRESSED`, whose values are compressed in the binlog as well."""


def source_tables(connection: pymysql.Connection, schema: str, only: Sequence[str] = ()) -> tuple[SourceTable, ...]:
    """The tables of a database, ordered by name, without views.

    Args:
        schema: Name of the database.
        only: Names of tables; empty for all.

    Raises:
        ConfigurationError: A table does not exist or is not supported.
    """
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(_COLUMNS, (schema,))
        columns: dict[str, list[MysqlColumn]] = {}
        for row in cursor.fetchall():
            columns.setdefault(str(row["tbl"]), []).append(column_of(row))
    with connection.cursor() as cursor:
        cursor.execute(_TABLES, (schema,))
        present = {str(name): str(kind) for name, kind in cursor.fetchall()}
        cursor.execute(_KEYS, (schema,))
        keys: dict[str, list[str]] = {}
        for table, column in cursor.fetchall():
            keys.setdefault(str(table), []).append(str(column))
    missing = sorted(set(only) - present.keys())
    if missing or not present:
        message = f"The source database {schema} has no table {', '.join(missing)}".rstrip()
        raise ConfigurationError(message, remedy="Check the names, and that the user may select from the tables")
    names = [name for name in sorted(present) if not only or name in only]
    return tuple(_table(TableName(schema, name), present[name], columns[name], keys.get(name, [])) for name in names)


def _table(name: TableName, kind: str, columns: list[MysqlColumn], key: list[str]) -> SourceTable:
    if kind == VERSIONED:
        message = "A table of the source is system-versioned: its binlog mixes old row versions with current rows"
        raise ConfigurationError(message, remedy="Leave it out, or drop its system versioning", table=name)
    check_table(name, columns)
    quoted_name = f"{quoted_identifier(name.schema)}.{quoted_identifier(name.table)}"
    values, order = tuple(map(select_expression, columns)), ", ".join(map(quoted_identifier, key))
    return SourceTable(name, tuple(columns), tuple(key), quoted_name, values, order)


def column_of(row: Mapping[str, Any]) -> MysqlColumn:
    """The column that a row with `COLUMN_FACTS` describes."""
    kind, whole = str(row["kind"]).lower(), str(row["whole"])
    if kind not in _WITH_MEMBERS and _COMPRESSED.search(whole):
        kind = f"{kind} compressed"
    length = row["digits"] if kind == "bit" else row["length"] if kind in _WITH_LENGTH else 0
    return MysqlColumn(
        name=str(row["name"]),
        kind=kind,
        unsigned="unsigned" in whole.lower() and kind not in _WITH_MEMBERS,
        precision=int(row["digits"] or 0) if kind == "decimal" else 0,
        scale=int(row["scale"] or 0) if kind == "decimal" else 0,
        length=int(length or 0),
        fraction_digits=int(row["fraction"] or 0),
        charset=str(row["charset"] or ""),
        members=tuple(text.replace("''", "'") for text in _MEMBER.findall(whole)) if kind in _WITH_MEMBERS else (),
    )
