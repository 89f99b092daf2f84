"""Reads the external table definitions that DMS needs of an S3 source: columns, types and keys of its tables. Pure.

From the DMS user guide ("Defining external tables for Amazon S3 as a source for AWS DMS"). DMS writes no such document
beside the files of an S3 target; people have one for a task whose source is S3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from cdclake.errors import ConfigurationError
from cdclake.model.schema import MAX_DECIMAL_PRECISION
from cdclake.model.table.name import TableName
from cdclake_cli.sources.catalog import CatalogColumn, CatalogTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = Mapping[str, Any]

_TABLES, _COLUMNS, _TOTAL = "Tables", "TableColumns", "TableColumnsTotal"
_TYPES = {
    "BOOLEAN": "boolean",
    "INT1": "tinyint",
    "INT2": "smallint",
    "INT4": "int",
    "INT8": "bigint",
    "UINT1": "smallint",
    "UINT2": "int",
    "UINT4": "bigint",
    "UINT8": "decimal(20,0)",
    "REAL4": "float",
    "REAL8": "double",
    "DATE": "date",
    "TIME": "string",
    "DATETIME": "timestamp",
    "BYTE": "binary",
    "BYTES": "binary",
    "BLOB": "binary",
    "STRING": "string",
    "WSTRING": "string",
    "CLOB": "string",
    "NCLOB": "string",
}
"""The lake type of each DMS type, see docs/formats.md; `NUMERIC` has a precision."""
_NUMERIC = "NUMERIC"
_REMEDY = (
    'Correct it, as DMS could not use it: {"Tables": [{"TableName", "TableOwner", "TableColumns": [{"ColumnName"}]}]}'
)


def read_definitions(document: Json) -> tuple[CatalogTable, ...]:
    """The tables of a document, by name.

    Raises:
        ConfigurationError: It is no document of external table definitions; names the table.
    """
    tables: dict[TableName, CatalogTable] = {}
    for number, definition in enumerate(_objects(document, _TABLES, "the document"), 1):
        table = _table(definition, f"table {number}")
        if table.name in tables:
            _refuse(f"{table.name} is defined twice")
        tables[table.name] = table
    return tuple(tables[name] for name in sorted(tables))


def _table(definition: Json, place: str) -> CatalogTable:
    table = _text(definition, "TableName", place)
    folders = str(definition.get("TablePath", "")).strip("/").split("/")
    schema = str(definition.get("TableOwner") or (folders[-2] if len(folders) > 1 else ""))
    if not schema or "/" in schema + table:
        _refuse(f"{place} ({table}) has no TableOwner, which is its schema")
    name = TableName(schema, table)
    declared = _objects(definition, _COLUMNS, str(name))
    columns = tuple(_column(one, f"{name}, column {number}") for number, one in enumerate(declared, 1))
    names = [column.name.lower() for column in columns]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice:
        _refuse(f"{name} has the column {twice} twice")
    key = tuple(column.name for column, one in zip(columns, declared, strict=True) if _flag(one, "ColumnIsPk", "false"))
    total = str(definition.get(_TOTAL, len(columns)))
    missing = f"{_TOTAL} is {total}, and {len(columns)} are defined: columns may be missing"
    return CatalogTable(name, columns, key, notes=() if total == str(len(columns)) else (missing,))


def _column(definition: Json, place: str) -> CatalogColumn:
    name, declared = _text(definition, "ColumnName", place), _text(definition, "ColumnType", place).upper()
    nullable = _flag(definition, "ColumnNullable", "true") and not _flag(definition, "ColumnIsPk", "false")
    if declared != _NUMERIC:
        return CatalogColumn(name, declared, _TYPES.get(declared), nullable)
    precision, scale = str(definition.get("ColumnPrecision", "")), str(definition.get("ColumnScale", "0"))
    known = precision.isdecimal() and scale.isdecimal() and int(scale) <= int(precision) <= MAX_DECIMAL_PRECISION
    return CatalogColumn(
        name, f"{declared}({precision},{scale})", f"decimal({precision},{scale})" if known else None, nullable
    )


def _objects(parent: Json, name: str, place: str) -> list[Json]:
    found = parent.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        _refuse(f"{place} has no list {name}")
    return found


def _text(definition: Json, name: str, place: str) -> str:
    found = definition.get(name)
    if not isinstance(found, str) or not found.strip():
        _refuse(f"{place} has no {name}")
    return found


def _flag(definition: Json, name: str, default: str) -> bool:
    return str(definition.get(name, default)).strip().lower() == "true"


def _refuse(what: str) -> NoReturn:
    message = f"This is no external table definition of DMS: {what}"
    raise ConfigurationError(message, remedy=_REMEDY)
