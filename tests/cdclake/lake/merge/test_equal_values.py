"""Equal values are one key and one partition, however their types and signs write them."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.cdclake.lake.scd2.versions import check_newest_are_the_table
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path


def columns(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("p", kind), ("v", pa.string())])


def apply(table: Table, kind: pa.DataType, *changes: tuple[str, int, Any, str]) -> dict[str, Any]:
    rows = [(op, {"id": number, "p": p, "v": v}) for op, number, p, v in changes]
    return table.apply_file(f"20240305-1{table.log.head()}0000000.parquet", rows, {"p": kind})


def folders(table: Table) -> list[str]:
    return sorted({path.partition("/")[0] for path in table.files()})


@pytest.mark.sampled(quick=4)
@pytest.mark.parametrize("settings", [{}, {"DeleteMode": "soft"}, {"History": "true"}, {"PrimaryKey": "id,p"}])
@pytest.mark.parametrize(
    ("narrow", "wide", "before", "after"),
    [
        (pa.decimal128(4, 1), pa.decimal128(6, 2), ["p=0.0", "p=1.1"], ["p=0.00", "p=1.10"]),
        (pa.int32(), pa.decimal128(12, 2), ["p=0", "p=1"], ["p=0.00", "p=1.00"]),
        (pa.float32(), pa.float64(), ["p=0", "p=1.1"], ["p=0", "p=1.100000023841858"]),
        (pa.int32(), pa.int64(), ["p=0", "p=1"], ["p=0", "p=1"]),
    ],
)
def test_a_value_has_one_partition_after_the_column_widened(
    tmp_path: Path,
    narrow: pa.DataType,
    wide: pa.DataType,
    before: list[str],
    after: list[str],
    settings: dict[str, str],
) -> None:
    item = {"PrimaryKey": "id", "PartitionKey": "p", "TargetFileBytes": "60", **settings}
    table = Table(tmp_path, columns(wide), item)
    zero, value = pa.array([Decimal("0.0"), Decimal("1.1")]).cast(narrow, safe=False).to_pylist()
    apply(table, narrow, ("I", 1, value, "one"), ("I", 2, value, "two"), ("I", 3, zero, "three"))
    assert folders(table) == before
    apply(table, wide, ("U", 1, value, "one, wide"), ("I", 4, value, "four"))
    assert folders(table) == after
    apply(table, narrow, ("U", 2, value, "two, narrow again"), ("D", 3, zero, "three"))
    assert table.live("v") == {1: "one, wide", 2: "two, narrow again", 4: "four"}
    if "History" in settings:
        check_newest_are_the_table(table, ("id",))


def test_the_next_change_moves_files_that_were_adopted_in_a_second_folder(tmp_path: Path) -> None:
    table = Table(tmp_path, columns(pa.decimal128(6, 2)), {"PrimaryKey": "id", "PartitionKey": "p"})
    kind = pa.decimal128(6, 2)
    apply(table, kind, ("I", 1, Decimal("1.1"), "one"), ("I", 2, Decimal(7), "two"))
    first, second = table.log.snapshot(1).files
    moved = replace(first, path=first.path.replace("p=1.10", "p=1.1"), partition=("1.1",))
    (table.folder / moved.path).parent.mkdir()
    (table.folder / first.path).rename(table.folder / moved.path)
    record = table.log.record(1)
    table.log.store.put(record.snapshot_key, replace(table.log.snapshot(1), files=(moved, second)).to_bytes())
    assert folders(table) == ["p=1.1", "p=7.00"]
    summary = apply(table, kind, ("I", 3, Decimal("1.1"), "three"))
    assert folders(table) == ["p=1.10", "p=7.00"]
    assert (summary["files_added"], summary["files_retired"]) == (1, 1)


@pytest.mark.sampled(quick=4)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("key", ["p", "id,p", "p,id"])
@pytest.mark.parametrize("settings", [{}, {"DeleteMode": "soft"}, {"History": "true"}, {"PartitionKey": "p"}], ids=str)
def test_zeros_of_both_signs_are_one_key_as_are_all_nans(
    tmp_path: Path, kind: pa.DataType, key: str, settings: dict[str, str]
) -> None:
    table = Table(tmp_path, columns(kind), {"PrimaryKey": key, **settings})
    apply(table, kind, ("I", 1, 0.0, "zero"), ("I", 1, math.nan, "nan"), ("I", 1, -1.5, "other"))
    apply(table, kind, ("U", 1, -0.0, "minus zero"), ("U", 1, -math.nan, "minus nan"))
    assert sorted(one.row["v"] for one in table.rows()) == ["minus nan", "minus zero", "other"]
    apply(table, kind, ("D", 1, 0.0, ""), ("D", 1, math.nan, ""))
    assert [one.row["v"] for one in table.rows() if one.op != "D"] == ["other"]
    if "History" in settings:
        check_newest_are_the_table(table, tuple(key.split(",")))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_zeros_of_both_signs_are_one_partition(tmp_path: Path, kind: pa.DataType) -> None:
    table = Table(tmp_path, columns(kind), {"PrimaryKey": "id", "PartitionKey": "p"})
    apply(table, kind, ("I", 1, 0.0, "a"), ("I", 2, -0.0, "b"), ("I", 3, math.nan, "c"), ("I", 4, -math.nan, "d"))
    assert folders(table) == ["p=0", "p=nan"]
