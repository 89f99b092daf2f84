"""The Athena view of the rows of a lake table that are not deleted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.catalog import CatalogTable
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from cdclake.model.catalog import CatalogName

LIVE_SUFFIX = "_live"
"""Suffix of the name of the view of a table's live rows."""
LIVE_SOURCE_SUFFIX = " (live rows)"
"""Suffix of the view's source, to tell the view from the table."""


def live_view(table: CatalogTable, name: CatalogName) -> CatalogTable:
    """A view of the rows of a lake table that are not deleted, with all its columns.

    Rows of an adopted file may have no operation; they are live.

    Args:
        table: The lake table in the catalog.
    """
    columns = (*table.columns, *table.partition_columns)
    names = ", ".join(_quoted(column.name) for column in columns)
    where = f"{_quoted(OP_COLUMN.lower())} IS DISTINCT FROM 'D'"
    return CatalogTable(
        location="",
        columns=columns,
        partition_columns=(),
        statistics=None,
        source=table.source + LIVE_SOURCE_SUFFIX,
        change=None,
        parquet=False,
        query=f"SELECT {names} FROM {_quoted(name.database)}.{_quoted(name.table)} WHERE {where}",
    )


def _quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"{}"'.format(name.replace('"', '""'))
