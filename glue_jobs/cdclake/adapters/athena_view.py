"""How the Glue Data Catalog holds a view of Athena: as a table without files, the query in a comment.

The comment is JSON in Base64: the query, where names in it are looked up, and the columns with their types in SQL.
Athena has this from Presto, and Trino still reads it: `ViewReaderUtil` and `ConnectorViewDefinition` at
https://github.com/trinodb/trino.
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
"""Where SQL has another name for a type than the catalog."""


def as_view(
    database: str, query: str, columns: Iterable[Mapping[str, str]], parameters: Mapping[str, str]
) -> dict[str, Any]:
    """What the `TableInput` of a view has other than that of a table.

    Args:
        database: Where the view is, and what it reads.
        query: Its SQL.
        columns: Its columns as Glue has them, in the order in which the query gives them.
        parameters: What else is said of it.
    """
    told = list(columns)
    return {
        "TableType": _VIEW,
        "StorageDescriptor": {"Columns": told, "Location": "", "SerdeInfo": {}},
        "Parameters": {**parameters, **_PARAMETERS},
        "ViewOriginalText": _text(database, query, told),
        "ViewExpandedText": _EXPANDED_TEXT,
    }


def read_query(found: Mapping[str, Any]) -> str:
    """The query of a view that is declared just as `as_view` does; empty for all else.

    Args:
        found: A table of the catalog.
    """
    text = found.get("ViewOriginalText", "")
    match = _TEXT.fullmatch(text) if found.get("TableType") == _VIEW else None
    if not match:
        return ""
    try:
        query = json.loads(base64.b64decode(match[1]))["originalSql"]
    except (ValueError, LookupError, TypeError):
        return ""  # somebody wrote over it: so it differs from what is wanted, and is written anew
    columns = found.get("StorageDescriptor", {}).get("Columns", [])
    parameters = found.get("Parameters", {})
    declared = all(parameters.get(key) == value for key, value in _PARAMETERS.items())
    as_written = isinstance(query, str) and text == _text(found.get("DatabaseName", ""), query, columns)
    return query if declared and as_written else ""


def _text(database: str, query: str, columns: Iterable[Mapping[str, str]]) -> str:
    typed = [
        {"name": column["Name"], "type": _SQL_TYPES.get(column.get("Type", ""), column.get("Type", ""))}
        for column in columns
    ]
    told = {"originalSql": query, "catalog": _CATALOG, "schema": database, "columns": typed}
    return f"/* Presto View: {base64.b64encode(json.dumps(told).encode()).decode()} */"
