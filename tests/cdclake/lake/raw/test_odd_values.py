"""Values and columns that a raw file should not have: each is read right, or refused by name."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError, SchemaMismatchError, UnreadableFileError
from tests.builders import parquet_bytes
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.raw.rows import ReadBatch

LOAD, CHANGE = "LOAD00000001.parquet", "20240305-101500123.parquet"
NOT_UTF8 = [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"]
"""Not a start byte, Latin 1, a lone surrogate, NUL in two bytes, and above the last code point."""


def as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Reinterpret the bytes of values, which Arrow does not check."""
    return pa.Array.from_buffers(kind, len(values), values.buffers())


def texts(*values: bytes | None) -> pa.Array:
    return as_type(pa.array(values, pa.binary()), pa.string())


def parquet(**columns: pa.Array) -> bytes:
    return parquet_bytes(pa.table(columns))


def read(root: Path, content: bytes, name: str = CHANGE, **item: str) -> ReadBatch:
    table = Table(root, pa.schema([]), item)
    return table.read_file(name, content)


@pytest.mark.parametrize("value", NOT_UTF8)
def test_text_that_is_not_utf_8_makes_the_row_bad_in_any_column(tmp_path: Path, value: bytes) -> None:
    good = b"ok"
    for bad in "kpov":
        columns = {name: texts(good, value if name == bad else good) for name in "kpov"}
        item = {"PrimaryKey": "k", "OrderColumn": "o", "Schema": "o string"}
        batch = read(tmp_path / bad, parquet(Op=pa.array(["I", "U"]), **columns), **item)
        assert batch.rows["k"].to_pylist() == ["ok"]
        assert [(row.row, row.reason) for row in batch.bad_rows] == [(1, f"A value of column {bad} is not UTF-8 text")]
        assert json.dumps(batch.bad_rows[0].content)


def test_an_operation_that_is_not_utf_8_makes_the_row_bad(tmp_path: Path) -> None:
    batch = read(tmp_path, parquet(Op=texts(b"I", b"\xff"), k=pa.array([1, 2])))
    assert (batch.rows.num_rows, len(batch.bad_rows)) == (1, 1)


def test_a_key_that_is_not_utf_8_goes_to_quarantine_and_the_other_rows_are_applied(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.string()), ("p", pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "k", "PartitionKey": "p"})
    table.put(LOAD, parquet(k=texts(b"a", b"b", b"\xff"), p=texts(b"x", b"\xed\xa0\x80", b"z")))
    with pytest.raises(BadRowError, match="column p is not UTF-8 text, the first of 2") as caught:
        table.load_initial()
    assert (caught.value.details["file"], caught.value.details["row"]) == (LOAD, 2)
    table.item["MaxQuarantinedRows"] = "2"
    table.load_initial()
    assert [one.row for one in table.rows()] == [{"k": "a", "p": "x"}]


def test_nul_characters_are_text(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.string()), ("p", pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "k", "PartitionKey": "p"})
    table.load_file(LOAD, parquet(k=pa.array(["a\0", "a"]), p=pa.array(["\0x", "\0x"])))
    assert sorted(one.row["k"] for one in table.rows()) == ["a", "a\0"]
    assert {one.row["p"] for one in table.rows()} == {"\0x"}


@pytest.mark.parametrize(
    ("kind", "expected", "good", "bad"),
    [
        (pa.timestamp("us"), "a valid timestamp", 253_402_300_799_999_999, 253_402_300_800_000_000),
        (pa.timestamp("us"), "a valid timestamp", -62_135_596_800_000_000, -62_135_596_800_000_001),
        (pa.timestamp("ms"), "a valid timestamp", 0, 2**62),
        (pa.timestamp("us"), "a valid timestamp", 0, -(2**63)),
        (pa.time64("us"), "a valid time of day", 86_399_999_999, 86_400_000_000),
        (pa.time64("us"), "a valid time of day", 0, -1),
    ],
)
def test_a_time_out_of_range_makes_the_row_bad(
    tmp_path: Path, kind: pa.DataType, expected: str, good: int, bad: int
) -> None:
    values = as_type(pa.array([good, bad], pa.int64()), kind)
    batch = read(tmp_path, parquet(k=pa.array([1, 2]), at=values), LOAD)
    assert batch.rows["k"].to_pylist() == [1]
    assert [row.reason for row in batch.bad_rows] == [f"A value of column at is not {expected}"]


def test_a_date_out_of_range_makes_the_row_bad_even_in_the_key(tmp_path: Path) -> None:
    days = as_type(pa.array([0, 2_932_896, 2_932_897, -719_163], pa.int32()), pa.date32())
    batch = read(tmp_path, parquet(k=days), LOAD, PrimaryKey="k")
    assert batch.rows["k"].to_pylist() == [date(1970, 1, 1), date(9999, 12, 31)]
    assert [row.reason for row in batch.bad_rows] == ["A value of column k is not a valid date"] * 2


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0000-00-00 00:00:00", "0000-01-01", "10000-01-01"])
@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_a_time_in_csv_that_no_reader_has_makes_the_row_bad(tmp_path: Path, text: str, kind: str) -> None:
    content = f"1,{text}\n2,9999-12-31\n3,0001-01-01\n".encode()
    batch = read(tmp_path, content, "LOAD00000001.csv", Schema=f"k int, at {kind}")
    assert (batch.rows["k"].to_pylist(), [row.row for row in batch.bad_rows]) == ([2, 3], [0])


def test_int96_timestamps_of_any_year_are_right(tmp_path: Path) -> None:
    times = [datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1), datetime(1600, 2, 29)]  # noqa: DTZ001
    table = pa.table({"at": pa.array(times, pa.timestamp("us"))})
    batch = read(tmp_path, parquet_bytes(table, use_deprecated_int96_timestamps=True), LOAD)
    assert batch.rows["at"].to_pylist() == [time.replace(tzinfo=timezone.utc) for time in times]


def test_a_decimal_with_more_digits_than_its_type_makes_the_row_bad(tmp_path: Path) -> None:
    values = as_type(pa.array([Decimal(12), Decimal(1234567)], pa.decimal128(38, 0)), pa.decimal128(4, 0))
    batch = read(tmp_path, parquet(k=pa.array([1, 2]), price=values), LOAD)
    assert batch.rows["price"].to_pylist() == [Decimal(12)]
    assert [row.row for row in batch.bad_rows] == [1]


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal256(39, 0),
        pa.list_(pa.int32()),
        pa.list_(pa.int32(), 2),
        pa.struct([("a", pa.int32())]),
        pa.map_(pa.string(), pa.int32()),
        pa.duration("us"),
    ],
)
def test_a_type_that_the_lake_lacks_is_refused_by_name(tmp_path: Path, kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="has the type") as caught:
        read(tmp_path, parquet(k=pa.array([1]), odd=pa.nulls(1, kind)), LOAD)
    assert caught.value.details == {"file": LOAD, "column": "odd"}


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal256(30, 2)])
def test_decimals_of_any_width_are_read(tmp_path: Path, kind: pa.DataType) -> None:
    batch = read(tmp_path, parquet(price=pa.array([Decimal("1.50"), None], kind)), LOAD)
    assert batch.rows.schema.field("price").type == pa.decimal128(kind.precision, 2)
    assert batch.rows["price"].to_pylist() == [Decimal("1.50"), None]


def test_dictionaries_are_read_as_their_values(tmp_path: Path) -> None:
    encoded = pa.array(["a", "b", None, "a"]).dictionary_encode()
    batch = read(tmp_path, parquet(k=encoded, n=pa.array([1, 2, None, 1]).dictionary_encode()), LOAD)
    assert batch.rows.to_pydict()["k"] == ["a", "b", None, "a"]
    assert batch.rows.to_pydict()["n"] == [1, 2, None, 1]


def test_a_dictionary_entry_that_is_not_utf_8_makes_its_rows_bad(tmp_path: Path) -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0], pa.int32()), texts(b"ok", b"\xff"))
    batch = read(tmp_path, parquet(k=encoded), LOAD)
    assert (batch.rows.num_rows, [row.row for row in batch.bad_rows]) == (2, [1, 2])


def renamed(names: list[str]) -> bytes:
    """A Parquet file with these column names, which may repeat."""
    return parquet_bytes(pa.Table.from_arrays([pa.array(["I"])] * len(names), names=names))


@pytest.mark.parametrize(
    ("names", "column", "message"),
    [
        (["Op", "id", "ID"], "ID", "appears twice"),
        (["Op", "Op", "id"], "Op", "appears twice"),
        (["Op", "OP", "id"], "OP", "reserved"),
        (["AR_H_CHANGE_SEQ", "id", "AR_H_CHANGE_SEQ"], "AR_H_CHANGE_SEQ", "appears twice"),
        (["BI_id", "id", "BI_ID"], "BI_ID", "appears twice"),
        (["id", "_cdc_position"], "_cdc_position", "reserved"),
        (["id", "_CDC_file"], "_CDC_file", "reserved"),
        (["id", "op"], "op", "reserved"),
        (["id", ""], "", "empty name, or one with control"),
        (["id", "a\0b"], "a\0b", "empty name, or one with control"),
    ],
)
def test_a_column_name_that_cannot_be_kept_apart_is_refused(
    tmp_path: Path, names: list[str], column: str, message: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=message) as caught:
        read(tmp_path, renamed(names))
    assert caught.value.details["file"] == CHANGE


def test_a_column_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    content = parquet_bytes(pa.table({"abcd": [1]}), store_schema=False)
    with pytest.raises(SchemaMismatchError, match="name of a column of a raw file is not UTF-8") as caught:
        read(tmp_path, content.replace(b"abcd", b"ab\xff\xfe"))
    assert caught.value.details["file"] == CHANGE


def test_a_csv_header_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="name of a column of a raw file is not UTF-8"):
        read(tmp_path, b"id,caf\xe9\n1,a\n", "LOAD00000001.csv")


@pytest.mark.parametrize(
    "content",
    [parquet(id=pa.array([1])), gzip.compress(b"id\n1\n", mtime=0), "id,v\n1,a\n".encode("utf-16"), b"id,v\r1,a\r"],
    ids=["Parquet", "gzip", "UTF-16", "carriage returns"],
)
def test_a_csv_file_without_readable_names_says_to_check_its_format(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        read(tmp_path, content, "LOAD00000001.csv")
    assert "CsvRowDelimiter" in caught.value.remedy
    assert "UTF-8" in caught.value.remedy


@pytest.mark.parametrize("item", [{}, {"Schema": "id int, v string"}])
def test_a_csv_file_of_empty_lines_alone_is_refused(tmp_path: Path, item: dict[str, str]) -> None:
    with pytest.raises(UnreadableFileError, match="only empty lines") as caught:
        read(tmp_path, b"\n\r\n", "LOAD00000001.csv", **item)
    assert "IgnoreFiles" in caught.value.remedy


@pytest.mark.sampled(quick=4)
@pytest.mark.parametrize("settings", [{}, {"CsvNoSupValue": "<none>"}, {"DeleteMode": "soft"}, {"History": "true"}])
@pytest.mark.parametrize("name", ["_file", "_partition", "_dead", "_stays", "_cdclake", "position", "a.b", "a b"])
def test_a_source_column_may_have_almost_any_name(tmp_path: Path, name: str, settings: dict[str, str]) -> None:
    columns = pa.schema([("id", pa.int64()), (name, pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "id", **settings})
    table.load([{"id": i, name: f"old {i}"} for i in range(4)])
    changes: list[tuple[str, dict[str, Any]]] = [("U", {"id": 1, name: "new"}), ("D", {"id": 2, name: "old 2"})]
    table.apply_file("20240305-101500123.parquet", changes)
    live = sorted((one.row["id"], one.row[name]) for one in table.rows() if one.op != "D")
    assert live == [(0, "old 0"), (1, "new"), (3, "old 3")]
