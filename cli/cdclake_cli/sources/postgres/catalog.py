"""Reads the catalog of a PostgreSQL database: keys, unique indexes, replica identities, types and comments."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cdclake.lake.storage.types import from_arrow
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import IMMEDIATE
from cdclake_cli.sources.catalog import CatalogColumn, CatalogTable, UniqueIndex, is_chosen
from cdclake_cli.sources.postgres.connection import connect, query
from cdclake_cli.sources.postgres.source_tables import read_tables
from cdclake_cli.sources.postgres.types import DEFAULT_MAPPING, TypeMapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import connection as Connection

    from cdclake_cli.sources.postgres.connection import ConnectionOptions
    from cdclake_cli.sources.postgres.source_tables import PostgresTable
    from cdclake_cli.sources.postgres.types import PostgresColumn

_OF_USERS = "n.nspname <> 'information_schema' and n.nspname !~ '^pg_'"
_TABLES = f"""
    select n.nspname, c.relname, obj_description(c.oid, 'pg_class'), c.relreplident
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r' and {_OF_USERS}
"""
# Long values are stored apart from their row, and the log of an update that does not change them lacks them.
_COLUMNS = f"""
    select n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
        col_description(c.oid, a.attnum), a.attstorage in ('x', 'e') and a.atttypmod = -1
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and a.attnum > 0 and not a.attisdropped and {_OF_USERS}
"""
_INDEXES = f"""
    select n.nspname, c.relname, x.relname, i.indisprimary, i.indimmediate, i.indisreplident, a.attname
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
    join pg_class x on x.oid = i.indexrelid
    cross join unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality as k (attnum, number)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null and {_OF_USERS}
    order by n.nspname, c.relname, x.relname, k.number
"""
_WHOLE_ROWS = "f"
"""Of `pg_class.relreplident`: the log has all values of rows before an update or delete."""
_DEFERRED = "deferred"
_NOT_SENT = "The log identifies no row of it, so DMS does not send its updates and deletes: give it a primary key"


class _Index(NamedTuple):
    name: str
    is_primary: bool
    is_immediate: bool
    is_identity: bool


class _Column(NamedTuple):
    declared: str
    nullable: bool
    comment: str | None
    is_long: bool


class _Table(NamedTuple):
    comment: str | None
    identity: str


@dataclass(frozen=True)
class PostgresCatalog:
    """The catalog of a database with all of its schemas. `Catalog` describes the method."""

    options: ConnectionOptions
    database: str
    mapping: TypeMapping = DEFAULT_MAPPING

    def tables(self, patterns: Sequence[str] = ()) -> tuple[CatalogTable, ...]:
        """The tables that patterns select, by name."""
        with closing(connect(self.options, self.database)) as connection:
            connection.set_session(isolation_level="REPEATABLE READ", readonly=True, autocommit=False)
            found = [one for one in read_tables(connection, (), self.mapping) if is_chosen(one.source.name, patterns)]
            return _described(connection, found)


def _described(connection: Connection, tables: Sequence[PostgresTable]) -> tuple[CatalogTable, ...]:
    facts = {TableName(schema, table): _Table(*rest) for schema, table, *rest in query(connection, _TABLES)}
    columns = {
        (TableName(schema, table), name): _Column(*rest) for schema, table, name, *rest in query(connection, _COLUMNS)
    }
    indexes: dict[TableName, dict[_Index, list[str]]] = defaultdict(lambda: defaultdict(list))
    for schema, table, *index, name in query(connection, _INDEXES):
        indexes[TableName(schema, table)][_Index(*index)].append(name)
    return tuple(
        _table(one, facts[name], {column.name: columns[name, column.name] for column in one.columns}, indexes[name])
        for one in tables
        for name in (one.source.name,)
    )


def _table(
    table: PostgresTable, facts: _Table, columns: Mapping[str, _Column], indexes: Mapping[_Index, list[str]]
) -> CatalogTable:
    deferrable = any(index.is_primary and not index.is_immediate for index in indexes)
    notes = [] if table.identity else [_NOT_SENT]
    notes += [
        f"DMS sends {one.name}, a numeric without precision, as {from_arrow(one.arrow_type)}, and cuts more digits"
        for one in table.columns
        if one.kind == "numeric" and not one.precision and not one.mapping.unbounded_numeric_as_string
    ]
    return CatalogTable(
        table.source.name,
        tuple(_column(one, columns[one.name], facts) for one in table.columns),
        table.source.key,
        tuple(
            UniqueIndex(index.name, tuple(names), index.is_identity)
            for index, names in indexes.items()
            if index.is_immediate and not index.is_primary
        ),
        _DEFERRED if deferrable else IMMEDIATE,
        facts.comment or "",
        tuple(notes),
    )


def _column(column: PostgresColumn, facts: _Column, table: _Table) -> CatalogColumn:
    unsent = facts.is_long and table.identity != _WHOLE_ROWS
    return CatalogColumn(
        column.name, facts.declared, from_arrow(column.arrow_type), facts.nullable, facts.comment or "", unsent
    )
