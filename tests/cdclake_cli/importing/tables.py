"""Tables of an imaginary catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cdclake.model.table.name import TableName
from cdclake_cli.sources.catalog import CatalogColumn, CatalogTable

TYPES = {"id": "bigint", "name": "string", "price": "decimal(12,2)", "day": "date"}


def table(name: str = "shop.orders", *, not_null: tuple[str, ...] = ("id",), **more: Any) -> CatalogTable:
    """A table with the columns of `TYPES`, of which `id` is the key."""
    columns = tuple(CatalogColumn(one, kind, kind, one not in not_null) for one, kind in TYPES.items())
    plain = CatalogTable(TableName.parse(name), columns, ("id",), unique_checks="immediate")
    return replace(plain, **more)


def with_columns(plain: CatalogTable, **changes: dict[str, Any]) -> CatalogTable:
    """The table with some columns changed, by name."""
    columns = tuple(replace(one, **changes.get(one.name, {})) for one in plain.columns)
    return replace(plain, columns=columns)
