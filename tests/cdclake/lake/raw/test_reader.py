"""Which raw files are accepted, and what happens to the others."""

from __future__ import annotations

import gzip
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.errors import (
    BadRowError,
    ConfigurationError,
    InputError,
    LakeFilesError,
    SchemaMismatchError,
    UnreadableFileError,
)
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

PERSONS = pa.schema([("id", pa.int32()), ("fullname", pa.string()), ("city", pa.string())])
PERSONS_ITEM = {"PrimaryKey": "id", "Schema": "id int, fullname string, city string"}


def plain(table: Table) -> list[dict[str, Any]]:
    return sorted((dict(one.row) for one in table.rows()), key=lambda row: row["id"])


@pytest.fixture
def persons(tmp_path: Path) -> Table:
    return Table(tmp_path, PERSONS, dict(PERSONS_ITEM))


def test_csv_without_header_takes_its_columns_from_the_schema_attribute(persons: Table) -> None:
    persons.load_file("LOAD00000001.csv", b"7,Ann,Phoenix\n8,Bob,Denver\n10,Jack Hicks,Houston\n")
    persons.put("20240305-101500123.csv", b"U,7,ABC XYZ,Phoenix\nI,130,Alica Bing,New York\nD,10,Jack Hicks,Houston\n")
    summary = persons.load_incremental()

    assert plain(persons) == [
        {"id": 7, "fullname": "ABC XYZ", "city": "Phoenix"},
        {"id": 8, "fullname": "Bob", "city": "Denver"},
        {"id": 130, "fullname": "Alica Bing", "city": "New York"},
    ]
    books = summary["books"]
    assert (books["inserted"], books["updated"], books["deleted"], books["rows_after"]) == (1, 1, 1, 3)


def test_csv_with_header_needs_no_schema_and_reads_as_text(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.string()), ("zip", pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "id"})
    table.load_file("LOAD00000001.csv", b"id,zip\n1,02134\n")
    table.apply_file("20240305-101500123.csv", b"Op,id,zip\nU,1,00501\nI,2,NULL\n")
    assert plain(table) == [{"id": "1", "zip": "00501"}, {"id": "2", "zip": None}]


def test_csv_takes_names_from_the_header_and_types_from_the_schema_attribute(persons: Table) -> None:
    persons.load_file("LOAD00000001.csv", b"city,id,fullname\nUlm,3,Cy\n")
    assert plain(persons) == [{"id": 3, "fullname": "Cy", "city": "Ulm"}]


def test_csv_types_are_read_as_dms_writes_them(tmp_path: Path) -> None:
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("price", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("ratio", pa.float64()),
            ("ok", pa.bool_()),
        ]
    )
    declared = "id bigint, price decimal(10,2), day date, at timestamp, ratio double, ok boolean"
    table = Table(tmp_path, columns, {"PrimaryKey": "id", "Schema": declared})
    table.load_file("LOAD00000001.csv", b"5,12.50,2024-03-05,2024-03-05 10:15:00.123456,0.25,true\n6,,NULL,,NULL,\n")
    at = datetime(2024, 3, 5, 10, 15, 0, 123456, tzinfo=timezone.utc)
    assert plain(table) == [
        {"id": 5, "price": Decimal("12.50"), "day": date(2024, 3, 5), "at": at, "ratio": 0.25, "ok": True},
        {"id": 6, "price": None, "day": None, "at": None, "ratio": None, "ok": None},
    ]


def test_another_delimiter_and_null_text_are_settings(tmp_path: Path) -> None:
    item = {**PERSONS_ITEM, "CsvDelimiter": "\\t", "CsvNullValue": "\\N"}
    table = Table(tmp_path, PERSONS, item)
    table.load_file("LOAD00000001.csv", b"1\tNULL\t\\N\n")
    assert plain(table) == [{"id": 1, "fullname": "NULL", "city": None}]


def test_a_table_without_key_takes_inserts_and_counts_the_rest_as_ignored(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {})
    same = {"id": 1, "fullname": "a", "city": "x"}
    table.load([same, same])
    summary = table.apply_file("20240305-101500000.parquet", [("I", same), ("U", same), ("D", same)])
    assert plain(table) == [same] * 3
    assert (summary["books"]["inserted"], summary["books"]["ignored"]) == (1, 2)


def test_a_change_file_alone_makes_a_table(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    row = {"id": 1, "fullname": "a", "city": "x"}
    table.apply_file("20240305-101500000.parquet", [("I", row), ("D", {**row, "id": 9})])
    assert plain(table) == [row]


def test_parquet_types_become_types_that_every_reader_has(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int32())])
    table = Table(tmp_path, columns, {"PrimaryKey": "id"})
    raw = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "u8": pa.array([200], pa.uint8()),
            "u16": pa.array([60_000], pa.uint16()),
            "u32": pa.array([4_000_000_000], pa.uint32()),
            "u64": pa.array([18_000_000_000_000_000_000], pa.uint64()),
            "t": pa.array([3_723_000_001], pa.time64("us")),
            "ms": pa.array([1_700_000_000_123], pa.timestamp("ms")),
            "blob": pa.array([b"\x00\xff"], pa.binary(2)),
        }
    )
    table.load_file("LOAD00000001.parquet", raw)
    (relative,) = table.files()
    stored = pq.read_table(table.folder / relative)
    assert stored.schema.field("u8").type == pa.int16()
    assert stored.schema.field("u16").type == pa.int32()
    assert stored.schema.field("u32").type == pa.int64()
    assert stored.schema.field("u64").type == pa.decimal128(20, 0)
    (row,) = stored.to_pylist()
    assert row["u64"] == Decimal(18_000_000_000_000_000_000)
    assert row["t"] == "01:02:03.000001"
    assert row["ms"] == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=timezone.utc)
    assert row["blob"] == b"\x00\xff"


def test_a_new_column_is_null_in_old_rows_and_a_missing_one_in_new_rows(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    table.load([{"id": 1, "fullname": "a", "city": "x"}])
    change = pa.table({"Op": ["I"], "ID": pa.array([2], pa.int32()), "fullname": ["b"], "phone": ["1"]})
    table.apply_file("20240305-101500000.parquet", change)
    (relative,) = table.files()
    found = pq.read_table(table.folder / relative).to_pylist()
    assert [{k: row[k] for k in ("id", "fullname", "city", "phone")} for row in found] == [
        {"id": 1, "fullname": "a", "city": "x", "phone": None},
        {"id": 2, "fullname": "b", "city": None, "phone": "1"},
    ]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", UnreadableFileError, "20240305-101500000"),
        (b"PAR1 and then nothing of the sort", UnreadableFileError, "20240305-101500000"),
        (ABORTS_PYARROW.read_bytes(), UnreadableFileError, "20240305-101500000"),
    ],
)
def test_a_damaged_parquet_file_is_named_and_nothing_is_applied(
    tmp_path: Path, content: bytes, kind: type[InputError], message: str
) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    table.load([{"id": 1, "fullname": "a", "city": "x"}])
    table.write_changes("20240305-091500000.parquet", [("D", {"id": 1, "fullname": "a", "city": "x"})])
    table.put("20240305-101500000.parquet", content)
    before = table.files()
    with pytest.raises(kind, match=message):
        table.load_incremental()
    assert table.files() == before
    assert table.log.head() == 1


def test_a_parquet_file_with_damaged_pages_is_named(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    table.write_load([{"id": i, "fullname": f"name {i}" * 9, "city": "x"} for i in range(3000)])
    path = table.raw_path("LOAD00000001.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(5000) + whole[5100:])
    with pytest.raises(UnreadableFileError, match="LOAD00000001"):
        table.load_initial()
    assert table.files() == []


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        (b"X,1,a,x\n", BadRowError, "not I, U or D"),
        (b"U,one,a,x\n", BadRowError, "column id is not a valid int"),
        (b"U,NULL,a,x\n", BadRowError, "Key column id is null"),
        (b"U,1,a\n", BadRowError, "3 fields instead of 4"),
    ],
)
def test_a_bad_row_is_named_by_file_and_row_and_nothing_is_applied(
    persons: Table, line: bytes, error: type[InputError], message: str
) -> None:
    persons.load_file("LOAD00000001.csv", b"1,a,x\n")
    with pytest.raises(error, match=message) as caught:
        persons.apply_file("20240305-101500000.csv", b"U,1,b,x\n" + b"I,2,c,x\n" + line)
    assert caught.value.details["file"] == "20240305-101500000.csv"
    if error is BadRowError:
        assert caught.value.details["row"] == 3
    assert plain(persons) == [{"id": 1, "fullname": "a", "city": "x"}]


def test_a_column_without_a_common_type_stops_the_table(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    table.load([{"id": 1, "fullname": "a", "city": "x"}])
    change = pa.table({"Op": ["I"], "id": pa.array([2], pa.int32()), "city": pa.array([5], pa.int64())})
    with pytest.raises(SchemaMismatchError, match="city is string in the lake and bigint in a raw file"):
        table.apply_file("20240305-101500000.parquet", change)
    assert table.log.head() == 1


def test_a_repeated_key_in_a_full_load_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    row = {"id": 1, "fullname": "a", "city": "x"}
    with pytest.raises(BadRowError, match="later full-load row has the same key"):
        table.load([row, row])
    assert table.files() == []


def test_no_full_load_files_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no full-load files"):
        Table(tmp_path, PERSONS).load_initial()


def test_a_key_or_partition_column_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "PartitionKey": "country"})
    with pytest.raises(ConfigurationError, match="no column country"):
        table.load([{"id": 1, "fullname": "a", "city": "x"}])


def test_foreign_files_in_the_lake_folder_are_never_mixed_in(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    folder = table.folder
    folder.mkdir(parents=True)
    (folder / "part-00000.snappy.parquet").write_bytes(b"foreign")
    with pytest.raises(LakeFilesError, match="did not write"):
        table.load([{"id": 1, "fullname": "a", "city": "x"}])
    assert table.files() == ["part-00000.snappy.parquet"]


def test_gzipped_csv_fields_contain_quotes_delimiters_and_newlines(persons: Table) -> None:
    text = '1,"Ann ""the one"", Smith","Line one\nline two"\n2,NULL,""\n'
    persons.load_file("LOAD00000001.csv.gz", gzip.compress(text.encode()))
    assert plain(persons) == [
        {"id": 1, "fullname": 'Ann "the one", Smith', "city": "Line one\nline two"},
        {"id": 2, "fullname": None, "city": ""},
    ]


def test_change_files_are_read_flat_and_below_date_folders(persons: Table) -> None:
    persons.load_file("LOAD00000001.csv", b"1,a,x\n")
    persons.put("20240305-101500123.csv", b"U,1,b,x\n")
    persons.put("2024/03/05/20240305-111500123.csv", b"U,1,c,x\n")
    persons.put("05032024/20240305-1215001234.csv", b"I,2,d,x\n")
    persons.load_incremental()
    assert [row["fullname"] for row in plain(persons)] == ["c", "d"]


def test_several_load_files_make_one_table(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    for number in range(1, 12):
        table.write_load([{"id": number, "fullname": f"n{number}", "city": "x"}], number)
    assert table.load_initial()["raw_files"] == 11
    assert [row["id"] for row in plain(table)] == list(range(1, 12))


def test_columns_added_by_mapping_rules_are_not_source_columns(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    row = {"id": 1, "fullname": "a", "city": "x"}
    table.load([row])
    extra = {"Op": "U", **row, "fullname": "b", "AR_H_USER": "me", "BI_id": 1}
    table.apply_file("20240305-101500000.parquet", pa.Table.from_pylist([extra]))
    assert plain(table) == [{**row, "fullname": "b"}]
