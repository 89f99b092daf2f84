"""Reads the catalog of any database that SQLAlchemy knows, such as Oracle and SQL Server.

Types are as in the DMS user guide ("Source data types for Oracle", "Source data types for SQL Server"). Of a type that
is missing here, or that a setting of the endpoint changes, nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from cdclake.model.schema import MAX_DECIMAL_PRECISION
from cdclake.model.table.name import TableName
from cdclake_cli.patterns import parse_pattern
from cdclake_cli.sources.catalog import CatalogColumn, CatalogTable, UniqueIndex, is_chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Dialect
    from sqlalchemy.engine.reflection import Inspector

    from cdclake_cli.sources.inspected.connection import Login

_TEXTS = ("CHAR", "VARCHAR", "NCHAR", "NVARCHAR", "TEXT", "CLOB", "NCLOB")
_EVERYWHERE = {
    "BIGINT": "bigint",
    "SMALLINT": "smallint",
    "DATE": "date",
    "BLOB": "binary",
    **dict.fromkeys(_TEXTS, "string"),
}
_ORACLE = {
    **_EVERYWHERE,
    "INTEGER": "decimal(38,0)",
    "DATE": "timestamp",
    "DOUBLE_PRECISION": "double",
    "REAL": "double",
    "BINARY_FLOAT": "float",
    "BINARY_DOUBLE": "double",
    "RAW": "binary",
}
_SQLSERVER = {
    **_EVERYWHERE,
    "TINYINT": "smallint",  # it has no sign
    "INTEGER": "int",
    "BIT": "boolean",
    "MONEY": "decimal(19,4)",
    "SMALLMONEY": "decimal(10,4)",
    "REAL": "float",
    "FLOAT": "double",
    "DOUBLE_PRECISION": "double",
    "DATETIME": "timestamp",
    "DATETIME2": "timestamp",
    "SMALLDATETIME": "timestamp",
    "DATETIMEOFFSET": "string",
    "TIME": "string",
    "NTEXT": "string",
    "XML": "string",
    "UNIQUEIDENTIFIER": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "IMAGE": "binary",
    "TIMESTAMP": "binary",  # a row version
}
_OTHERS = {**_EVERYWHERE, "INTEGER": "int"}
_TYPES = {"oracle": _ORACLE, "mssql": _SQLSERVER}
_DECIMALS = ("NUMBER", "NUMERIC", "DECIMAL")
_CHECKS_LATER = ("oracle", "mssql")
"""They check keys at the end of a statement."""


@dataclass(frozen=True)
class InspectedCatalog:
    """The catalog of a database. `Catalog` describes the method."""

    login: Login

    def tables(self, patterns: Sequence[str] = ()) -> tuple[CatalogTable, ...]:
        """The tables that patterns select, by name; without patterns, those of the user's default schema."""
        with self.login.connection() as connection:
            from sqlalchemy import inspect

            return read_tables(inspect(connection), patterns)


def read_tables(inspector: Inspector, patterns: Sequence[str]) -> tuple[CatalogTable, ...]:
    """The tables that patterns select, by name; see `InspectedCatalog.tables`."""
    return tuple(sorted(_tables(inspector, patterns), key=lambda table: table.name))


def _tables(inspector: Inspector, patterns: Sequence[str]) -> Iterator[CatalogTable]:
    stored = as_stored(inspector.dialect)
    default = str(inspector.default_schema_name or "")
    for schema in inspector.get_schema_names() if patterns else [default]:
        if patterns and not any(fnmatchcase(stored(schema), parse_pattern(one).schema) for one in patterns):
            continue
        names = [
            name
            for name in inspector.get_table_names(schema)
            if is_chosen(TableName(stored(schema), stored(name)), patterns)
        ]
        if names:
            yield from _read(inspector, schema, names, stored)


def as_stored(dialect: Dialect) -> Callable[[str], str]:
    """How the database itself spells a name; SQLAlchemy writes Oracle's upper-case names in lower case."""
    if not getattr(dialect, "requires_name_normalize", False):
        return str
    return lambda name: str(dialect.denormalize_name(name))


def _read(
    inspector: Inspector, schema: str, names: Sequence[str], stored: Callable[[str], str]
) -> Iterator[CatalogTable]:
    dialect = inspector.dialect.name
    chosen: dict[str, Any] = {"schema": schema, "filter_names": names}
    columns, keys = inspector.get_multi_columns(**chosen), inspector.get_multi_pk_constraint(**chosen)
    indexes = inspector.get_multi_indexes(**chosen)
    constraints = _if_any(inspector.get_multi_unique_constraints, chosen)
    comments = _if_any(inspector.get_multi_table_comment, chosen)
    for place in columns:
        unique: dict[tuple[str, ...], str] = {}
        for index in (*constraints.get(place, ()), *(one for one in indexes.get(place, ()) if one["unique"])):
            if _covers_all_rows(index):
                unique.setdefault(tuple(map(stored, index["column_names"])), str(index["name"]))
        key = tuple(map(stored, _read_of(keys, place).get("constrained_columns", ())))
        yield CatalogTable(
            TableName(stored(schema), stored(place[1])),
            tuple(_column(column, dialect, stored, key) for column in columns[place]),
            key,
            tuple(UniqueIndex(name, over) for over, name in unique.items() if over != key),
            "deferred" if dialect in _CHECKS_LATER else "",
            str(_read_of(comments, place).get("text") or ""),
        )


def _if_any(read: Callable[..., Any], chosen: Mapping[str, Any]) -> Mapping[Any, Any]:
    """What a dialect reads; nothing if its database has no such thing."""
    try:
        found: Mapping[Any, Any] = read(**chosen)
    except NotImplementedError:
        return {}
    return found


def _read_of(read: Mapping[Any, Any], table: object) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = read.get(table)
    return found or {}


def _covers_all_rows(index: Mapping[str, Any]) -> bool:
    conditions = [
        name
        for name, value in (index.get("dialect_options") or {}).items()
        if name.endswith("_where") and value is not None
    ]
    return not conditions and None not in index["column_names"] and not index.get("expressions")


def _column(column: Mapping[str, Any], dialect: str, stored: Callable[[str], str], key: Sequence[str]) -> CatalogColumn:
    name, kind = stored(column["name"]), column["type"]
    nullable = bool(column["nullable"]) and name not in key
    return CatalogColumn(name, str(kind), sent_type(kind, dialect), nullable, str(column.get("comment") or ""))


def sent_type(kind: Any, dialect: str) -> str | None:  # noqa: ANN401 - SQLAlchemy's types have no common attributes
    """The lake type for what DMS sends of a column; None if that is unknown.

    Args:
        kind: A type of SQLAlchemy.
        dialect: SQLAlchemy's name of the database: `oracle`, `mssql`.
    """
    name = type(kind).__name__.upper()
    if getattr(kind, "unsigned", False):  # of MySQL, which has code of its own
        return None
    if name in _DECIMALS:
        precision, scale = kind.precision, kind.scale or 0
        return (
            f"decimal({precision},{scale})" if precision and 0 <= scale <= precision <= MAX_DECIMAL_PRECISION else None
        )
    if name == "TIMESTAMP" and dialect == "oracle":
        if getattr(kind, "local_timezone", False):
            return None
        return "string" if kind.timezone else "timestamp"
    return _TYPES.get(dialect, _OTHERS).get(name)
