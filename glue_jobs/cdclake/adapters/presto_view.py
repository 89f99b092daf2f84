"""Encodes an Athena view for the Glue Data Catalog: as a table without files, with the query in a comment.

The comment is JSON in Base64: the query, its default catalog and schema, and the columns with their SQL types. The
format comes from Presto. See `ViewReaderUtil` and `ConnectorViewDefinition` at https://github.com/trinodb/trino.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VIEW = "VIRTUAL_VIEW"
_PARAMETERS = {"presto_view": "true", "comment": "Presto View"}
_TEXT = re.compile(r"/\* Presto View: ([A-Za-z0-9+/=]*) \*/")
_EXPANDED_TEXT = "/* Presto View */"
_CATALOG = "awsdatacatalog"
_SQL_TYPES = {"string": "varchar", "int": "integer", "float": "real", "binary": "varbinary"}
"""SQL types whose names differ from the catalog's."""


def as_view(
    database: str, query: str, columns: Iterable[Mapping[str, str]], parameters: Mapping[str, str]
) -> dict[str, Any]:
    """The fields of a view's `TableInput` that differ from a table's.

    Args:
        database: Database of the view and of what it reads.
        query: Its SQL.
        columns: Its columns in Glue's format, in the order of the query.
    """
    in_order = list(columns)
    return {
        "TableType": _VIEW,
        "StorageDescriptor": {"Columns": in_order, "Location": "", "SerdeInfo": {}},
        "Parameters": {**parameters, **_PARAMETERS},
        "ViewOriginalText": _text(database, query, in_order),
        "ViewExpandedText": _EXPANDED_TEXT,
    }


def read_query(table: Mapping[str, Any]) -> str:
    """The query of a view exactly as `as_view` declares it; empty for anything else.

    Args:
        table: A table in Glue's format.
    """
    text = table.get("ViewOriginalText", "")
    match = _TEXT.fullmatch(text) if table.get("TableType") == _VIEW else None
    if not match:
        return ""
    try:
        query = json.loads(base64.b64decode(match[1]))["originalSql"]
    except (ValueError, LookupError, TypeError):
        return ""  # overwritten by others: the comparison finds a difference and writes it again
    columns = table.get("StorageDescriptor", {}).get("Columns", [])
    parameters = table.get("Parameters", {})
    declared = all(parameters.get(key) == value for key, value in _PARAMETERS.items())
    as_written = isinstance(query, str) and text == _text(table.get("DatabaseName", ""), query, columns)
    return query if declared and as_written else ""


def _text(database: str, query: str, columns: Iterable[Mapping[str, str]]) -> str:
    typed = [
        {"name": column["Name"], "type": _SQL_TYPES.get(column.get("Type", ""), column.get("Type", ""))}
        for column in columns
    ]
    definition = {"originalSql": query, "catalog": _CATALOG, "schema": database, "columns": typed}
    return f"/* Presto View: {base64.b64encode(json.dumps(definition).encode()).decode()} */"
