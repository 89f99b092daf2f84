"""A key column whose type widens keeps its rows, its deletes and its history."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.cdclake.lake.scd2.versions import check_newest_are_the_table
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

NOON, ONE, TWO, THREE = (f"20240305-{hour}0000000.parquet" for hour in (12, 13, 14, 15))
WIDENINGS = [
    (pa.int32(), pa.int64(), 5),
    (pa.int32(), pa.decimal128(20, 0), 5),
    (pa.int64(), pa.decimal128(22, 2), -5),
    (pa.int32(), pa.float64(), 5),
    (pa.decimal128(10, 0), pa.decimal128(12, 2), Decimal(5)),
    (pa.decimal128(6, 2), pa.decimal128(20, 10), Decimal("0.50")),
    (pa.decimal128(6, 2), pa.decimal128(20, 10), Decimal("0.00")),
    (pa.float32(), pa.float64(), 0.1),
]
SETTINGS = [{"History": "true"}, {"DeleteMode": "soft"}, {"PartitionKey": "id"}, {"PrimaryKey": "tag,id"}]


def columns(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("id", kind), ("tag", pa.string()), ("v", pa.string())])


def row(number: Any, v: str) -> dict[str, Any]:
    return {"id": number, "tag": "a:b", "v": v}


def apply(table: Table, name: str, kind: pa.DataType, *changes: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return table.apply_file(name, changes, {"id": kind})


@pytest.mark.sampled(quick=6)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("narrow", "wide", "key"), WIDENINGS)
def test_a_late_update_does_not_revive_a_row_deleted_before_the_key_widened(
    tmp_path: Path, narrow: pa.DataType, wide: pa.DataType, key: Any, settings: dict[str, str]
) -> None:
    (key,) = pa.array([key], narrow).to_pylist()
    table = Table(tmp_path, columns(wide), {"PrimaryKey": "id", **settings})
    table.item.setdefault("History", "false")
    apply(table, NOON, narrow, ("I", row(key, "first")), ("I", row(7, "other")))
    apply(table, TWO, narrow, ("D", row(key, "first")))
    apply(table, THREE, wide, ("U", row(7, "wide")))
    late = apply(table, ONE, wide, ("U", row(key, "older than the delete")))
    assert table.live("v") == {7: "wide"}
    assert late["books"]["superseded"] == 1
    if table.item["History"] == "true":
        check_newest_are_the_table(table, ("id",))


@pytest.mark.sampled(quick=3)
@pytest.mark.parametrize(("narrow", "wide", "key"), WIDENINGS)
def test_the_change_that_widens_a_key_knows_the_deletes_before_it(
    tmp_path: Path, narrow: pa.DataType, wide: pa.DataType, key: Any
) -> None:
    (key,) = pa.array([key], narrow).to_pylist()
    table = Table(tmp_path, columns(wide), {"PrimaryKey": "id", "History": "true"})
    apply(table, NOON, narrow, ("I", row(key, "first")))
    apply(table, TWO, narrow, ("D", row(key, "first")))
    apply(table, ONE, wide, ("U", row(key, "older than the delete")))
    assert table.rows() == []
    check_newest_are_the_table(table, ("id",))


def test_deletes_before_and_after_a_key_widened_are_remembered_together(tmp_path: Path) -> None:
    table = Table(tmp_path, columns(pa.decimal128(22, 2)), {"PrimaryKey": "id"})
    apply(table, NOON, pa.int64(), *(("I", row(number, "first")) for number in range(1, 5)))
    for hour, number, kind in ((14, 1, pa.int64()), (15, 2, pa.decimal128(20, 0)), (16, 3, pa.decimal128(22, 2))):
        apply(table, f"20240305-{hour}0000000.parquet", kind, ("D", row(number, "")))
    assert sum(file.rows for file in table.log.snapshot(table.log.head()).tombstones) == 3
    apply(table, ONE, pa.int64(), *(("U", row(number, "late")) for number in range(1, 5)))
    assert table.live("v") == {4: "late"}
