"""Compares a lake table, read as plain Parquet, with a feed's expectation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdclake.model.layout import LakeLayout
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.table.name import TableName
from cdclake.model.versions import CHANGE_ID, MONTH, VALID_FROM, YEAR
from cdclake_devkit.shop.checksum import read_lake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pyarrow as pa

    from cdclake.ports import ObjectStore

Rows = list[dict[str, Any]]


def check_table(lake: ObjectStore, table: str, key: Sequence[str], expected: pa.Table) -> None:
    """The table's folder has the expected rows, columns and types, and the position column."""
    actual = _read(lake, table, expected.schema)
    assert _types(actual, POSITION) == _types(expected)
    assert _rows(actual, expected.column_names, key) == _rows(expected, expected.column_names, key)


def check_history(
    lake: ObjectStore, table: str, key: Sequence[str], expected: pa.Table, loaded_after_utc: datetime
) -> None:
    """The history's folder has the expected versions; the full load was applied after `loaded_after_utc`."""
    actual = _read(lake, f"{table}_history", expected.schema)
    assert _types(actual, POSITION, CHANGE_ID, YEAR, MONTH) == _types(expected)
    in_order = [*key, POSITION]
    versions = _rows(actual, expected.column_names, in_order)
    for row, position in zip(versions, _rows(actual, [POSITION], in_order), strict=True):
        if not position[POSITION]:
            assert row[VALID_FROM] > loaded_after_utc
            row[VALID_FROM] = None
    assert versions == _rows(expected, expected.column_names, key)


def _read(lake: ObjectStore, table: str, columns: pa.Schema) -> pa.Table:
    return read_lake(lake, LakeLayout("", "", TableName.parse(table)), columns)


def _types(table: pa.Table, *but: str) -> dict[str, pa.DataType]:
    return {column.name: column.type for column in table.schema if column.name not in but}


def _rows(table: pa.Table, columns: Sequence[str], order: Sequence[str]) -> Rows:
    def sort_key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in order)

    return [{name: row[name] for name in columns} for row in sorted(table.to_pylist(), key=sort_key)]
