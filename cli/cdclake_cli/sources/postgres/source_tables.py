"""Reads the tables of a PostgreSQL database, with their columns and keys, from its system catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.sources.postgres.connection import query
from cdclake_cli.sources.postgres.types import PostgresColumn, TypeMapping
from cdclake_cli.sources.tables import SourceTable, check_folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg2.extensions import connection as Connection

_TABLES = """
    select c.oid, n.nspname, c.relname, c.relreplident
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and c.relpersistence = 'p'
        and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
"""
# A domain has its base type's name and, unless that has none, the domain's modifier.
_COLUMNS = """
    with recursive base (typid, basetype, typmod) as (
        select oid, oid, -1 from pg_type where typtype <> 'd'
        union all
        select d.oid, b.basetype, case when d.typtypmod = -1 then b.typmod else d.typtypmod end
        from pg_type d join base b on d.typbasetype = b.typid and d.typtype = 'd'
    )
    select a.attrelid, a.attname, format_type(a.atttypid, null), format_type(b.basetype, null), t.typtype = 'c',
        case when a.atttypmod = -1 then b.typmod else a.atttypmod end
    from pg_attribute a join base b on b.typid = a.atttypid join pg_type t on t.oid = b.basetype
    where a.attrelid = any(%s) and a.attnum > 0 and not a.attisdropped
    order by a.attrelid, a.attnum
"""
# A deferrable primary key is no replica identity: its index is not immediate.
_INDEXES = """
    select i.indrelid, i.indisprimary, i.indisprimary and i.indimmediate, i.indisreplident, a.attname
    from pg_index i cross join unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality as k (attnum, number)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where i.indrelid = any(%s) and (i.indisprimary or i.indisreplident)
    order by i.indrelid, k.number
"""
_HEADER = 4
"""Added to every type modifier, https://github.com/postgres/postgres: VARHDRSZ."""


@dataclass(frozen=True)
class PostgresTable:
    """A table, with what its log entries contain.

    Attributes:
        source: The table.
        columns: Its columns.
        identity: Columns of the replica identity, whose values before an update or a delete are logged. Empty if
            updates and deletes cannot be replicated.
    """

    source: SourceTable
    columns: tuple[PostgresColumn, ...]
    identity: tuple[str, ...]


def checked_tables(
    connection: Connection, database: str, only: Sequence[str], mapping: TypeMapping
) -> tuple[PostgresTable, ...]:
    """The tables of a database, as `read_tables` returns them, at least one.

    Args:
        database: Name of the database, for errors.
        only: Names of tables, `orders` or `sales.orders`; empty for all.

    Raises:
        ConfigurationError: A table does not exist, or its name cannot be a folder's.
    """
    tables = read_tables(connection, only, mapping)
    missing = [name for name in only if not any(is_selected(table.source.name, [name]) for table in tables)]
    if missing or not tables:
        message = f"The source database {database} has no table {', '.join(missing)}".rstrip()
        remedy = "Check the names; a table's is its schema and name: sales.orders, or sales/orders if one has a dot"
        raise ConfigurationError(message, remedy=remedy)
    for table in tables:
        check_folder_name(table.source.name)
    return tables


def read_tables(connection: Connection, only: Sequence[str], mapping: TypeMapping) -> tuple[PostgresTable, ...]:
    """The tables of a database, ordered by name, without views, partitioned and temporary tables.

    The partitions of a partitioned table are tables.

    Args:
        only: Names of tables, `orders` or `sales.orders`; empty for all.
    """
    found: dict[int, tuple[TableName, str]] = {
        oid: (TableName(schema, name), identity)
        for oid, schema, name, identity in query(connection, _TABLES)
        if is_selected(TableName(schema, name), only)
    }
    ((money_scale,),) = query(connection, "select scale(0::money::numeric)")
    columns: dict[int, list[PostgresColumn]] = {oid: [] for oid in found}
    for oid, name, declared, kind, is_composite, modifier in query(connection, _COLUMNS, (list(found),)):
        columns[oid].append(_column(name, kind, declared, modifier, money_scale, is_composite, mapping))
    keys: dict[int, list[str]] = {oid: [] for oid in found}
    identities: dict[int, dict[str, list[str]]] = {
        oid: {"d": [], "i": [], "n": [], "f": [column.name for column in columns[oid]]} for oid in found
    }
    """By `pg_class.relreplident`: default, index, nothing, full."""
    for oid, is_primary, is_default, is_index, name in query(connection, _INDEXES, (list(found),)):
        if is_primary:
            keys[oid].append(name)
        if is_default:
            identities[oid]["d"].append(name)
        if is_index:
            identities[oid]["i"].append(name)
    tables = []
    for oid, (name, identity) in sorted(found.items(), key=lambda item: item[1]):
        source = _source_table(name, tuple(columns[oid]), tuple(keys[oid]))
        tables.append(PostgresTable(source, tuple(columns[oid]), tuple(identities[oid][identity])))
    return tuple(tables)


def is_selected(table: TableName, only: Iterable[str]) -> bool:
    """Whether names of tables, `orders`, `sales.orders` or `sales/orders`, include a table; no names include all.

    With a dot in schema or table, only the latter does.
    """
    names, exact = set(only), f"{table.schema}/{table.table}"
    own = {exact, str(table)} if "." in table.table else {exact, str(table), table.table}
    return not names or not names.isdisjoint(own)


def quoted_identifier(name: str) -> str:
    """An SQL identifier, quoted and escaped."""
    return '"' + name.replace('"', '""') + '"'


def numeric_precision(modifier: int) -> tuple[int, int]:
    """Precision and scale of a NUMERIC by its type modifier; (0, 0) if it has none.

    PostgreSQL's `numeric.c` defines the modifier: the scale is a signed number of 11 bits.
    """
    if modifier < _HEADER:
        return 0, 0
    packed = modifier - _HEADER
    return packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400


def _column(
    name: str,
    kind: str,
    declared: str,
    modifier: int,
    money_scale: int,
    is_composite: bool,
    mapping: TypeMapping,
) -> PostgresColumn:
    precision, scale = numeric_precision(modifier) if kind == "numeric" else (0, money_scale if kind == "money" else 0)
    length = max(modifier - _HEADER, 0) if kind == "character" else 0
    return PostgresColumn(name, kind, declared, precision, scale, length, is_composite, mapping)


def _source_table(table: TableName, columns: tuple[PostgresColumn, ...], key: tuple[str, ...]) -> SourceTable:
    # A parent's rows do not include rows of tables that inherit from it: these are tables of their own.
    relation = f"only {quoted_identifier(table.schema)}.{quoted_identifier(table.table)}"
    values = tuple(quoted_identifier(column.name) for column in columns)
    return SourceTable(table, columns, key, relation, values, ", ".join(map(quoted_identifier, key)))
