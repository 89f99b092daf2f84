"""Names, operations, added columns and order of raw files, one test per fact, in the whole engine where possible."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import InputError, SchemaMismatchError
from cdclake.model.position import position
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.raw.rows import ReadBatch

LOAD, CHANGE = "LOAD00000001.csv", "20240305-101500123.csv"
PERSONS = pa.schema([("id", pa.int32()), ("name", pa.string())])
DECLARED = "id int, name string"


def persons(root: Path, **item: str) -> Table:
    return Table(root, PERSONS, {"PrimaryKey": "id", "Schema": DECLARED, **item})


def table_rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(one.row.values()) for one in table.rows())


def parquet(rows: list[dict[str, Any]], **kinds: pa.DataType) -> pa.Table:
    """Rows whose columns are text unless a type is given."""
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds.get(name, pa.string())) for name in rows[0]]))


def orderings(batch: ReadBatch) -> list[str]:
    return [text.split("|")[0] for text in batch.rows["_cdc_position"].to_pylist()]


# Paths and names


def test_a_full_load_may_be_in_segments_and_partition_folders(tmp_path: Path) -> None:
    table = persons(tmp_path)
    names = [*(f"LOAD{number:08X}.csv" for number in range(1, 11)), "p0/LOAD00000001.csv", "SEGMENT1_LOAD00000001.csv"]
    for number, name in enumerate(names):
        table.put(name, f"{number},n\n".encode())
    assert table.load_initial()["raw_files"] == 12
    assert table_rows(table) == [(number, "n") for number in range(12)]


def test_a_full_load_with_a_missing_file_is_not_loaded(tmp_path: Path) -> None:
    table = persons(tmp_path)
    with pytest.raises(InputError, match="is missing, but a later one exists"):
        table.load_file("LOAD00000002.csv", b"1,n\n")


@pytest.mark.sampled(quick=4)
@pytest.mark.parametrize("sequence", ["%Y{d}%m{d}%d", "%Y{d}%m{d}%d{d}%H", "%Y{d}%m", "%m{d}%Y{d}%d", "%d{d}%m{d}%Y"])
@pytest.mark.parametrize("delimiter", ["/", "-", "_", ""])
def test_date_folders_of_any_pattern_do_not_affect_the_order(tmp_path: Path, sequence: str, delimiter: str) -> None:
    table = persons(tmp_path)
    times = [datetime(year, month, 28, 23, 59, tzinfo=timezone.utc) for year in (2023, 2024) for month in (2, 11)]
    for number, at in enumerate(times):
        folder = at.strftime(sequence.format(d=delimiter))
        table.put(f"{folder}/{at:%Y%m%d-%H%M%S}000.csv", f"U,1,n{number}\n".encode())
    table.load_incremental()
    assert table_rows(table) == [(1, "n3")]


def test_the_change_sequence_orders_files_when_the_clock_goes_back(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    before, after = "20241027-025900000.csv", "20241027-020100000.csv"
    table.put(before, b"Op,id,name,AR_H_CHANGE_SEQ\nU,1,first,20241027005900000000000000000000001\n")
    table.apply_file(after, b"Op,id,name,AR_H_CHANGE_SEQ\nU,1,second,20241027010100000000000000000000002\n")
    assert [one.row["name"] for one in table.rows()] == ["second"]


# Op


def test_op_in_a_full_load_is_ignored(tmp_path: Path) -> None:
    table = persons(tmp_path)
    table.put(LOAD, b"I,1,a\nI,2,b\n")
    table.load_file("LOAD00000002.parquet", parquet([{"Op": "I", "id": 3, "name": "c"}], id=pa.int32()))
    assert table_rows(table) == [(1, "a"), (2, "b"), (3, "c")]
    assert [(one.op, one.position) for one in table.rows()] == [("I", "")] * 3


def test_rows_of_a_change_file_without_op_are_inserts(tmp_path: Path) -> None:
    table = persons(tmp_path)
    table.put(CHANGE, b"1,a\n2,b\n")
    summary = table.apply_file("20240305-111500123.parquet", parquet([{"id": 3, "name": "c"}], id=pa.int32()))
    assert summary["books"]["read_insert"] == 3
    assert table_rows(table) == [(1, "a"), (2, "b"), (3, "c")]


def test_several_changes_of_a_key_in_one_file_apply_in_order(tmp_path: Path) -> None:
    table = persons(tmp_path)
    table.apply_file(CHANGE, b"I,1,a\nU,1,b\nD,1,b\nI,1,c\nI,2,a\nD,2,a\nU,3,x\nU,3,y\n")
    assert table_rows(table) == [(1, "c"), (3, "y")]


def test_a_delete_may_contain_only_the_key(tmp_path: Path) -> None:
    table = persons(tmp_path)
    table.load_file(LOAD, b"1,a\n2,b\n")
    table.apply_file(CHANGE, b"D,1,NULL\n")
    assert table_rows(table) == [(2, "b")]


def test_an_update_keeps_columns_that_were_not_sent(tmp_path: Path) -> None:
    table = Table(tmp_path, pa.schema([*PERSONS, ("city", pa.string())]), {"PrimaryKey": "id", "CsvNoSupValue": "?"})
    table.put(LOAD, b"id,name,city\n1,a,x\n2,b,y\n")
    table.columns = pa.schema([(name, pa.string()) for name in ("id", "name", "city")])
    table.load_initial()
    table.apply_file(CHANGE, b"Op,id,name,city\nU,1,?,z\nU,2,NULL,?\n")
    assert table_rows(table) == [("1", "a", "z"), ("2", None, "y")]


def test_a_transaction_file_is_applied_to_its_table(tmp_path: Path) -> None:
    table = persons(tmp_path, CdcPath="cdc")
    table.put("../../cdc/CDC_TXN-20240305101500123.csv", b"I,orders,shop,1,a\nI,items,shop,7\nU,orders,shop,1,b\n")
    table.load_incremental()
    assert table_rows(table) == [(1, "b")]


# Order


def test_a_full_load_row_ranks_below_every_change_whatever_its_time(tmp_path: Path) -> None:
    columns = pa.schema([("ts", pa.string()), *PERSONS])
    table = Table(tmp_path, columns, {"PrimaryKey": "id", "Schema": f"ts string, {DECLARED}", "OrderColumn": "ts"})
    table.load_file(LOAD, b"2024-03-05 23:00:00.000000,1,loaded\n")
    table.apply_file(CHANGE, b"U,2024-03-05 10:14:59.000000,1,changed\n")
    assert table_rows(table) == [("2024-03-05 10:14:59.000000", 1, "changed")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", ["-10", "9", "10"]),
        ("decimal(10,2)", ["-1.5", "1.5", "1.51"]),
        ("double", ["-2e3", "-0.5", "1e1"]),
        ("timestamp", ["1969-12-31 23:59:59.9", "2024-03-05 10:15:00", "2024-03-05 10:15:00.000001"]),
        ("date", ["0999-01-01", "1969-12-31", "2024-03-05"]),
        ("string", ["", "ab", "abc"]),
    ],
)
def test_the_ordering_column_orders_before_file_and_row(tmp_path: Path, kind: str, values: list[str]) -> None:
    table = persons(tmp_path, Schema=f"id int, name string, version {kind}", OrderColumn="VERSION")
    low, middle, high = values
    table.put("20240305-101500000.csv", f"U,1,high,{high}\nU,1,middle,{middle}\nU,2,middle,{middle}\n".encode())
    table.put("20240305-111500000.csv", f"U,1,low,{low}\nU,2,low,{low}\nU,3,first,{low}\n".encode())
    table.apply_file("20240305-121500000.csv", f"U,3,second,{low}\n".encode())
    assert table_rows(table) == [(1, "high"), (2, "middle"), (3, "second")]


def test_a_change_file_without_the_ordering_column_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "OrderColumn": "version"})
    with pytest.raises(SchemaMismatchError, match="ordering column version") as caught:
        table.apply_file(CHANGE, b"Op,id,name\nU,1,a\n")
    assert caught.value.details["file"] == CHANGE


def test_the_ordering_column_may_be_one_that_the_lake_does_not_store(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "OrderColumn": "AR_H_SCN"})
    rows = [{"Op": "U", "id": "1", "name": name, "AR_H_SCN": scn} for name, scn in (("later", 10), ("earlier", 9))]
    table.apply_file("20240305-101500123.parquet", parquet(rows, AR_H_SCN=pa.int64()))
    assert [one.row["name"] for one in table.rows()] == ["later"]


def test_the_change_sequence_orders_before_the_ordering_column(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "OrderColumn": "name"})
    batch = table.read_file(CHANGE, b"Op,id,name,AR_H_CHANGE_SEQ\nU,1,a,20240305101500000000000000000000002\n")
    assert orderings(batch) == ["20240305101500000000000000000000002"]


@pytest.mark.parametrize(("kind", "value"), [(pa.string(), "7"), (pa.decimal128(35, 0), Decimal(7)), (pa.int64(), 7)])
def test_the_change_sequence_has_35_digits_whatever_its_type(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    rows = [{"Op": "I", "id": "1", "AR_H_CHANGE_SEQ": value}]
    batch = table.read_file("20240305-101500123.parquet", parquet(rows, AR_H_CHANGE_SEQ=kind))
    assert orderings(batch) == ["7".zfill(35)]


def test_a_change_sequence_that_is_not_a_number_makes_the_row_bad(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    batch = table.read_file(CHANGE, b"Op,id,AR_H_CHANGE_SEQ\nI,1,x|y\nI,2,5\n")
    assert [(bad.row, "AR_H_CHANGE_SEQ" in bad.reason) for bad in batch.bad_rows] == [(0, True)]
    assert batch.rows["id"].to_pylist() == ["2"]


def test_full_load_rows_have_distinct_positions_until_they_are_written(tmp_path: Path) -> None:
    table = persons(tmp_path)
    positions = table.read_file("p0/LOAD0000000A.csv", b"1,a\n2,b\n").rows["_cdc_position"].to_pylist()
    assert positions == ["p0/LOAD0000000A.csv|0000000000", "p0/LOAD0000000A.csv|0000000001"]


# Added columns


def test_columns_added_by_mapping_rules_are_not_stored(tmp_path: Path) -> None:
    table = persons(tmp_path, Schema=f"{DECLARED}, AR_H_USER string, BI_name string")
    columns = table.read_file(CHANGE, b"U,1,a,me,old\n").rows.column_names
    assert columns == ["id", "name", "Op", "_cdc_position", "_unseen", "_leading_key", "_key"]


def test_an_update_of_the_key_moves_the_row_if_the_old_key_is_sent(tmp_path: Path) -> None:
    table = persons(tmp_path, Schema=f"{DECLARED}, BI_id int")
    table.load_file(LOAD, b"1,a,\n2,b,\n3,c,\n")
    table.apply_file(CHANGE, b"U,10,a,1\nU,2,bb,2\nU,30,c,3\nI,3,new,\nU,40,d,30\n")
    assert table_rows(table) == [(2, "bb"), (3, "new"), (10, "a"), (40, "d")]


def test_the_delete_of_an_old_key_has_only_the_key_and_the_position_of_the_update(tmp_path: Path) -> None:
    table = persons(tmp_path, Schema=f"{DECLARED}, BI_ID int, BI_name string", CsvNoSupValue="?")
    batch = table.read_file(CHANGE, b"U,1,a,1,x\nU,10,b,2,y\nI,3,c,,\nU,4,d,NULL,NULL\nU,5,e,?,?\nD,6,f,7,z\n")
    assert batch.derived == 1
    assert batch.rows.num_rows == 7
    (derived,) = batch.rows.slice(6).to_pylist()
    update = position(CHANGE, 1)
    assert (batch.rows["_cdc_position"][1].as_py(), derived["_cdc_position"]) == (f"{update}+", f"{update}-")
    assert (derived["Op"], derived["id"], derived["name"], derived["_key"], derived["_unsent"]) == ("D", 2, None, 2, "")


def test_one_changed_key_column_yields_the_whole_old_key(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id,line"})
    rows = [
        {"Op": "U", "id": 1, "line": "b", "BI_id": None, "BI_line": "a"},
        {"Op": "U", "id": 2, "line": "a", "BI_id": 3, "BI_line": None},
        {"Op": "U", "id": 4, "line": "a", "BI_id": 4, "BI_line": "a"},
        {"Op": "U", "id": 5, "line": "", "BI_id": 5, "BI_line": "x"},
    ]
    batch = table.read_file("20240305-101500123.parquet", parquet(rows, id=pa.int32(), BI_id=pa.int64()))
    old = batch.rows.slice(4).select(["Op", "id", "line"]).to_pylist()
    assert [tuple(row.values()) for row in old] == [("D", 1, "a"), ("D", 3, "a"), ("D", 5, "x")]
    assert batch.derived == 3


@pytest.mark.parametrize("name", ["BI_id", "BI_score"])
@pytest.mark.parametrize("file", ["LOAD00000001.parquet", "20240305-101500123.parquet"])
def test_a_source_column_named_like_a_before_image_is_refused(tmp_path: Path, name: str, file: str) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    columns = pa.table({"Op": ["I", "I"], "id": [1, 2], name: [None, 7]})
    with pytest.raises(SchemaMismatchError, match="before images only with updates") as caught:
        table.read_file(file, columns)
    assert caught.value.details == {"file": file, "row": 2, "column": name}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Op", ["buy", "sell"]),
        ("Op", ["I", "D"]),
        ("Op", ["I", None]),
        ("Op", ["I", ""]),
        ("Op", [1, 2]),
        ("Op", [b"I", b"\xff"]),
        ("AR_H_CHANGE_SEQ", [None, "7"]),
        ("ar_h_change_seq", [7, 8]),
        ("AR_H_STREAM_POSITION", ["", "mysql:1"]),
        ("AR_H_OPERATION", ["INSERT", "sell"]),
    ],
    ids=str,
)
def test_a_source_column_of_a_full_load_named_like_one_of_dms_is_refused(
    tmp_path: Path, name: str, values: list[object]
) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    with pytest.raises(SchemaMismatchError, match="whose values the lake would lose") as caught:
        table.read_file("LOAD00000001.parquet", pa.table({"id": [1, 2], name: values}))
    assert caught.value.details["column"] == name


def test_columns_that_dms_adds_to_full_loads_are_read(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    columns: dict[str, list[object]] = {
        "Op": ["I", "I"],
        "id": [1, 2],
        "AR_H_CHANGE_SEQ": ["", None],
        "AR_H_STREAM_POSITION": ["", None],
        "AR_H_OPERATION": ["INSERT", ""],
        "AR_H_TIMESTAMP": ["2024-03-05 10:15:00", ""],
    }
    batch = table.read_file("LOAD00000001.parquet", pa.table(columns))
    assert batch.rows.select(["id", "Op"]).to_pylist() == [{"id": 1, "Op": "I"}, {"id": 2, "Op": "I"}]


def test_a_source_column_of_a_full_load_in_csv_named_like_one_of_dms_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    with pytest.raises(SchemaMismatchError, match="Column Op has a value in a full load"):
        table.read_file("LOAD00000001.csv", b"id,Op\n1,I\n2,sell\n")
    declared = persons(tmp_path / "declared", Schema="id int, name string, Op string")
    with pytest.raises(SchemaMismatchError, match="Column Op has a value in a full load"):
        declared.read_file("LOAD00000002.csv", b"1,a,buy\n")


@pytest.mark.parametrize("file", ["20240305-101500123.parquet", "20240305-101500123.csv"])
def test_an_operation_that_is_not_the_first_column_of_a_change_file_is_one_of_the_source(
    tmp_path: Path, file: str
) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    content = pa.table({"id": [1], "Op": ["D"]}) if file.endswith("parquet") else b"id,Op\n1,D\n"
    with pytest.raises(SchemaMismatchError, match="Op of a change file is not the first"):
        table.read_file(file, content)


def test_a_source_column_in_csv_named_like_a_before_image_is_refused(tmp_path: Path) -> None:
    table = persons(tmp_path, Schema=f"{DECLARED}, BI_score int", CsvNoSupValue="?")
    table.load_file(LOAD, b'1,a,\n2,b,""\n3,c,NULL\n4,d,?\n')
    with pytest.raises(SchemaMismatchError, match="BI_score"):
        table.apply_file(CHANGE, b"I,5,e,7\n")
    assert table.log.head() == 1


@pytest.mark.parametrize("item", [{}, {"CsvNoSupValue": "?"}])
def test_an_empty_before_image_in_csv_counts_as_missing(tmp_path: Path, item: dict[str, str]) -> None:
    declared = "code string, name string, BI_code string"
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "code", "Schema": declared, **item})
    batch = table.read_file(CHANGE, b'U,a,x,\nU,b,x,""\nU,c,x,old\n')
    assert batch.rows["code"].to_pylist() == ["a", "b", "c", "old"]


def test_a_bad_row_does_not_delete_its_old_key(tmp_path: Path) -> None:
    table = persons(tmp_path, Schema="id int, age int, BI_id int")
    batch = table.read_file(CHANGE, b"U,10,old,1\nU,20,5,2\n")
    assert (len(batch.bad_rows), batch.derived, batch.rows["id"].to_pylist()) == (1, 1, [20, 2])
