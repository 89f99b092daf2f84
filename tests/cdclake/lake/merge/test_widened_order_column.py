"""An ordering column whose type widens orders changes before and after by their values."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.cdclake.lake.scd2.versions import check_newest_are_the_table
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

LOADED = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("name", pa.string())])
WIDENINGS = [
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.decimal128(20, 0)),
    (pa.int32(), pa.decimal128(14, 2)),
    (pa.int32(), pa.float64()),
    (pa.int16(), pa.float32()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(6, 0), pa.decimal128(14, 2)),
]


@pytest.fixture(params=WIDENINGS, ids=str)
def widening(request: pytest.FixtureRequest) -> tuple[pa.DataType, pa.DataType]:
    kinds: tuple[pa.DataType, pa.DataType] = request.param
    return kinds


@pytest.fixture(params=[{}, {"DeleteMode": "soft"}, {"History": "true"}], ids=str)
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return Table(tmp_path, LOADED, {"PrimaryKey": "id", "OrderColumn": "v", **request.param})


def apply(table: Table, kind: pa.DataType, *changes: tuple[str, int, Any, str]) -> None:
    columns = LOADED.set(1, pa.field("v", kind)).insert(0, pa.field("Op", pa.string()))
    rows = [{"Op": op, "id": number, "v": v, "name": name} for op, number, v, name in changes]
    table.apply_file(f"20240305-1{table.log.head()}0000000.parquet", pa.Table.from_pylist(rows, columns))


def names(table: Table) -> dict[int, str]:
    if table.item.get("History"):
        check_newest_are_the_table(table, ("id",))
    return table.live("name")


@pytest.mark.sampled(quick=4)
def test_values_order_rows_whatever_their_type(table: Table, widening: tuple[pa.DataType, pa.DataType]) -> None:
    narrow, wide = widening
    apply(table, narrow, ("I", 1, 100, "100"), ("I", 2, 7, "7"), ("I", 3, -5, "-5"), ("I", 4, 100, "100"))
    apply(table, wide, ("U", 1, 7, "old"), ("U", 2, 8, "new"), ("U", 3, -6, "old"), ("U", 4, 100, "new"))
    assert names(table) == {1: "100", 2: "new", 3: "-5", 4: "new"}
    apply(table, narrow, ("U", 1, 101, "new"), ("U", 2, 8, "again"), ("U", 3, -4, "new"), ("U", 4, 99, "old"))
    assert names(table) == {1: "new", 2: "again", 3: "new", 4: "new"}


@pytest.mark.sampled(quick=4)
def test_a_delete_before_the_widening_stays_later_than_an_older_row(
    table: Table, widening: tuple[pa.DataType, pa.DataType]
) -> None:
    narrow, wide = widening
    apply(table, narrow, ("I", 1, 1, "first"), ("I", 2, 1, "first"))
    apply(table, narrow, ("D", 1, 100, ""), ("D", 2, -100, ""))
    apply(table, wide, ("U", 1, 99, "older"), ("U", 2, 2, "newer"))
    assert names(table) == {2: "newer"}


def test_a_direct_change_after_the_widening_is_ordered_by_its_value(table: Table) -> None:
    apply(table, pa.int32(), ("I", 1, 100, "first"), ("I", 2, 100, "first"))
    apply(table, pa.decimal128(14, 2), ("U", 2, Decimal("100.50"), "wide"))
    changed = pa.Table.from_pylist([{"id": 1, "v": Decimal("100.25"), "name": "direct"}])
    assert table.direct("U", [changed]).updated == 1
    apply(table, pa.decimal128(14, 2), ("U", 1, Decimal("100.10"), "older"))
    assert names(table) == {1: "direct", 2: "wide"}


def test_a_reload_starts_over_with_the_type_then(table: Table) -> None:
    apply(table, pa.int32(), ("I", 1, 100, "first"))
    apply(table, pa.decimal128(14, 2), ("U", 1, Decimal(101), "wide"))
    assert table.log.snapshot(2).order_type == "int"
    table.columns = LOADED.set(1, pa.field("v", pa.decimal128(14, 2)))
    table.load([{"id": 1, "v": Decimal(100), "name": "reloaded"}])
    assert table.log.snapshot(3).order_type == "decimal(14,2)"
