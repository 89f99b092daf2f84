"""Raw Parquet files, one test per fact."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from cdclake.errors import ConfigurationError, SchemaMismatchError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.raw import parquet
from cdclake.lake.storage.shape import ENCODED_TEXT
from tests.cdclake.lake.table import Table, row_numbers

if TYPE_CHECKING:
    from pathlib import Path


LOAD, CHANGE = "LOAD00000001.parquet", "20240305-101500123.parquet"
IDS = pa.schema([("id", pa.int32())])
DMS = {"store_schema": False}
"""Like DMS, write no Arrow schema: the file has only Parquet types."""
AT = datetime(2024, 3, 5, 10, 15, 0, 123456, tzinfo=timezone.utc)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, IDS)


def read_column(table: Table, values: pa.Array, **options: Any) -> pa.ChunkedArray:
    batch = table.read_file(LOAD, pa.table({"value": values}), **DMS, **options)
    assert batch.bad_rows == ()
    return batch.rows["value"]


@pytest.mark.parametrize(
    ("raw", "stored", "values"),
    [
        (pa.int8(), pa.int8(), [-128, 127]),
        (pa.int16(), pa.int16(), [-32768, 32767]),
        (pa.int32(), pa.int32(), [-(2**31), 2**31 - 1]),
        (pa.int64(), pa.int64(), [-(2**63), 2**63 - 1]),
        (pa.uint8(), pa.int16(), [0, 255]),
        (pa.uint16(), pa.int32(), [0, 65535]),
        (pa.uint32(), pa.int64(), [0, 2**32 - 1]),
    ],
)
def test_integers_of_any_width_fit(table: Table, raw: pa.DataType, stored: pa.DataType, values: list[int]) -> None:
    column = read_column(table, pa.array([*values, None], raw))
    assert column.type == stored
    assert column.to_pylist() == [*values, None]


def test_an_unsigned_long_becomes_a_decimal(table: Table) -> None:
    column = read_column(table, pa.array([0, 2**64 - 1, None], pa.uint64()))
    assert column.type == pa.decimal128(20, 0)
    assert column.to_pylist() == [Decimal(0), Decimal(2**64 - 1), None]


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.decimal128(28, 6), pa.decimal128(38, 10)])
@pytest.mark.parametrize("as_integer", [False, True])
def test_a_decimal_is_read_from_fixed_length_bytes_and_from_integers(
    table: Table, kind: pa.DataType, as_integer: bool
) -> None:
    values = [Decimal("-12.50"), Decimal("1234567.89"), None]
    column = read_column(table, pa.array(values, kind), store_decimal_as_integer=as_integer)
    assert column.type == kind
    assert column.to_pylist() == values


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Seoul"])
def test_timestamps_of_any_unit_and_zone_become_utc(table: Table, unit: str, zone: str | None) -> None:
    at = AT.replace(microsecond=123_000)
    naive = pa.array([at, None], pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone or "UTC"))
    column = read_column(table, naive if zone else naive.cast(pa.timestamp(unit)))
    assert column.type == pa.timestamp("us", "UTC")
    assert column.to_pylist() == [at, None]


def test_int96_timestamps_are_read(table: Table) -> None:
    column = read_column(table, pa.array([AT], pa.timestamp("us")), use_deprecated_int96_timestamps=True)
    assert column.to_pylist() == [AT]


def test_dates_are_days(table: Table) -> None:
    column = read_column(table, pa.array([date(2024, 3, 5), date(1, 1, 1), None], pa.date32()))
    assert column.type == pa.date32()
    assert column.to_pylist() == [date(2024, 3, 5), date(1, 1, 1), None]


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
def test_a_time_of_day_becomes_text_that_sorts(table: Table, kind: pa.DataType) -> None:
    column = read_column(table, pa.array([time(1, 2, 3, 4000), time(23, 59, 59), None], kind))
    assert column.to_pylist() == ["01:02:03.004000", "23:59:59.000000", None]


def test_booleans_floats_and_doubles_stay_unchanged(table: Table) -> None:
    assert read_column(table, pa.array([True, False, None])).to_pylist() == [True, False, None]
    assert read_column(table, pa.array([0.1, None], pa.float32())).type == pa.float32()
    assert read_column(table, pa.array([0.1, None], pa.float64())).to_pylist() == [0.1, None]


def test_bytes_stay_unchanged(table: Table) -> None:
    assert read_column(table, pa.array([b"\x00\xff", b"", None], pa.binary())).to_pylist() == [b"\x00\xff", b"", None]
    assert read_column(table, pa.array([b"\x00\xff", None], pa.binary(2))).to_pylist() == [b"\x00\xff", None]


def test_uuid_json_and_clob_are_text(table: Table) -> None:
    one = uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert read_column(table, pa.array([str(one), None])).to_pylist() == [str(one), None]
    assert read_column(table, pa.array(['{"a": [1]}', None], pa.json_())).to_pylist() == ['{"a": [1]}', None]
    assert read_column(table, pa.array([one.bytes, None], pa.uuid())).to_pylist() == [str(one), None]
    assert read_column(table, pa.array(["long " * 99_999, None], pa.large_string())).to_pylist() == [
        "long " * 99_999,
        None,
    ]


def test_the_timestamp_column_is_a_required_string(table: Table) -> None:
    schema = pa.schema([pa.field("Op", pa.string()), pa.field("ts", pa.string(), nullable=False), ("id", pa.int32())])
    rows = [{"Op": "I", "ts": "2024-03-05 10:15:00.123456", "id": 1}]
    batch = table.read_file(CHANGE, pa.Table.from_pylist(rows, schema), **DMS)
    assert batch.rows.schema.field("ts").type == pa.string()
    assert batch.rows["ts"].to_pylist() == ["2024-03-05 10:15:00.123456"]


def test_the_timestamp_column_can_be_declared_a_timestamp(tmp_path: Path) -> None:
    table = Table(tmp_path, IDS, {"Schema": "value timestamp"})
    assert read_column(table, pa.array(["2024-03-05 10:15:00.123456"])).to_pylist() == [AT]


@pytest.mark.parametrize("compression", ["NONE", "GZIP", "SNAPPY"])
@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_any_compression_and_version(table: Table, compression: str, version: str, pages: str) -> None:
    options = {"compression": compression, "version": version, "data_page_version": pages}
    assert read_column(table, pa.array(["a", None, "b"] * 99), **options).to_pylist() == ["a", None, "b"] * 99


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": True},
        {"use_dictionary": True, "dictionary_pagesize_limit": 10},
        {"use_dictionary": False, "column_encoding": "PLAIN"},
        {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
        {"use_dictionary": True, "write_statistics": False, "data_page_size": 64},
    ],
    ids=["dictionary", "dictionary given up", "plain", "delta", "no statistics, small pages"],
)
def test_any_encoding(table: Table, options: dict[str, Any]) -> None:
    values = [f"v{i % 7}" for i in range(500)]
    assert read_column(table, pa.array(values), **options).to_pylist() == values


def test_row_numbers_continue_across_row_groups(table: Table) -> None:
    rows = pa.table({"Op": ["I"] * 25, "id": pa.array(range(25), pa.int32())})
    batch = table.read_file(CHANGE, rows, row_group_size=10, **DMS)
    assert batch.rows["id"].to_pylist() == list(range(25))
    assert row_numbers(batch) == list(range(25))


def test_encoded_texts_of_small_row_groups_come_in_one_batch(tmp_path: Path) -> None:
    """Each row group has its own dictionary."""
    raw = pa.table({"city": ["Ulm", "Ulm", "Bonn", None, "Ulm", "Köln"], "id": pa.array(range(6), pa.int32())})
    pq.write_table(raw, tmp_path / LOAD, row_group_size=2)
    (batch,) = parquet.batches(LocalFileSystem(), str(tmp_path / LOAD), None, 10, encoded=True)
    assert batch.columns.schema.field("city").type == ENCODED_TEXT
    assert batch.columns.to_pylist() == raw.to_pylist()
    assert batch.numbers.tolist() == list(range(10, 16))


def test_batches_of_several_row_groups_are_bounded(tmp_path: Path) -> None:
    raw = pa.table({"city": ["Ulm"] * 12, "note": ["x" * 1000] * 12})
    pq.write_table(raw, tmp_path / LOAD, row_group_size=2, use_dictionary=["city"])
    limits = EngineLimits(batch_rows=5)
    batches = list(parquet.batches(LocalFileSystem(), str(tmp_path / LOAD), None, 0, encoded=True, limits=limits))
    assert [batch.columns.num_rows for batch in batches] == [5, 5, 2]
    assert [row for batch in batches for row in batch.columns.to_pylist()] == raw.to_pylist()


def test_a_large_row_group_on_a_disk_is_read_with_small_buffers(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(3), 250_000
    columns = {f"c{number}": rng.integers(0, 1 << 62, rows) for number in range(20)}
    pq.write_table(pa.table(columns), tmp_path / LOAD, row_group_size=rows, use_dictionary=False)
    before = pa.total_allocated_bytes()
    reading = parquet.batches(LocalFileSystem(), str(tmp_path / LOAD), None, 0)
    first = next(reading)
    assert first.columns.nbytes > 15_000_000
    used = pa.total_allocated_bytes() - before - first.columns.nbytes
    assert used < 50_000_000  # with the buffers for S3 it is 73 MB: of each column also a decompressed page and rows


def test_a_file_without_rows_is_read_as_no_rows(table: Table) -> None:
    row = pa.table({"Op": ["I"], "id": pa.array([1], pa.int32())})
    table.apply_file(CHANGE, row)
    assert table.apply_file("20240305-111500123.parquet", row.slice(1))["books"]["rows_after"] == 1


@pytest.mark.parametrize(
    "values",
    [pa.array([{"a": 1}]), pa.array([[1, 2]]), pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))],
    ids=["struct", "list", "map"],
)
@pytest.mark.parametrize("item", [{}, {"Schema": "value string"}])
def test_a_nested_column_is_refused(tmp_path: Path, values: pa.Array, item: dict[str, str]) -> None:
    table = Table(tmp_path, IDS, item)
    with pytest.raises(SchemaMismatchError, match="Column value") as caught:
        read_column(table, values)
    assert caught.value.details["file"] == LOAD


@pytest.mark.parametrize("name", ["Op", "BI_value", "AR_H_USER"])
def test_a_nested_column_that_the_lake_does_not_store_is_refused(table: Table, name: str) -> None:
    with pytest.raises(SchemaMismatchError, match=f"Column {name}") as caught:
        table.read_file(CHANGE, pa.table({"value": [1], name: pa.array([["U"]])}))
    assert caught.value.details["file"] == CHANGE


INTEGERS, TIMES = pa.array([1709633700]), pa.array([time(1, 2, 3)], pa.time64("us"))


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("timestamp", INTEGERS),
        ("date", INTEGERS.cast(pa.int32())),
        ("int", pa.array([date(2024, 3, 5)])),
        ("bigint", INTEGERS.cast(pa.timestamp("us"))),
        ("bigint", TIMES),
        ("bigint", TIMES.dictionary_encode()),
        ("timestamp", TIMES),
        ("boolean", pa.array([1.0])),
        ("double", pa.array([True])),
        ("binary", INTEGERS),
    ],
)
@pytest.mark.parametrize("name", ["value", "AR_H_VALUE"])
def test_a_declared_type_that_values_cannot_have_is_refused(
    tmp_path: Path, declared: str, values: pa.Array, name: str
) -> None:
    table = Table(tmp_path, IDS, {"Schema": f"{name} {declared}"})
    with pytest.raises(ConfigurationError, match=f"declares {name} as {declared}") as caught:
        table.read_file(LOAD, pa.table({"id": [1], name: values}))
    assert (caught.value.details["file"], caught.value.details["column"]) == (LOAD, name)


@pytest.mark.parametrize("attribute", ["PrimaryKey", "PartitionKey"])
@pytest.mark.parametrize("values", [pa.array([Decimal("1.0")]), pa.array([1.0])])
def test_a_key_or_partition_declared_as_text_of_numbers_with_a_fraction_is_refused(
    tmp_path: Path, attribute: str, values: pa.Array
) -> None:
    table = Table(tmp_path, IDS, {attribute: "value", "Schema": "value string"})
    with pytest.raises(ConfigurationError, match="one value has many texts"):
        table.read_file(LOAD, pa.table({"value": values}))
    whole = table.read_file(LOAD, pa.table({"value": pa.array([Decimal(1)])}))
    assert whole.rows["value"].to_pylist() == ["1"]


@pytest.mark.parametrize(
    ("declared", "values", "bad"),
    [
        ("tinyint", pa.array([1, 300, None], pa.int32()), [1]),
        ("int", pa.array([1.0, 1.5, None]), [1]),
        ("int", pa.array([Decimal("7.00"), Decimal("7.50")]), [1]),
        ("decimal(4,2)", pa.array([12, 1234], pa.int32()), [1]),
        ("decimal(4,2)", pa.array([0.25, 0.125]), [1]),
        ("date", pa.array([datetime(2024, 3, 5), datetime(2024, 3, 5, 1)], pa.timestamp("us")), [1]),  # noqa: DTZ001 - as in the file
        ("boolean", pa.array([0, 1, 2], pa.int8()), [2]),
        ("float", pa.array([0.5, 1e300, float("inf"), float("nan")]), [1]),
        ("timestamp", pa.array([1_000, 1_001], pa.timestamp("ns")), [1]),
        ("bigint", pa.array([1, 2**64 - 1], pa.uint64()), [1]),
        ("float", pa.array([2**24, 2**24 + 1], pa.int32()), [1]),
        ("float", pa.array([2.0**24, 2.0**24 + 1, 0.1, 0.5]), [1, 2]),
        ("float", pa.array([Decimal(2**24), Decimal(2**24 + 1)], pa.decimal128(10, 0)), [1]),
        ("double", pa.array([2**53, 2**53 + 1], pa.int64()), [1]),
        ("double", pa.array([Decimal("0.10000"), Decimal("12345678901234567890.12345")], pa.decimal128(25, 5)), [1]),
    ],
)
def test_a_value_that_does_not_fit_the_declared_type_makes_the_row_bad(
    tmp_path: Path, declared: str, values: pa.Array, bad: list[int]
) -> None:
    table = Table(tmp_path, IDS, {"Schema": f"value {declared}"})
    batch = table.read_file(LOAD, pa.table({"value": values}), version="2.6", **DMS)
    assert [one.row for one in batch.bad_rows] == bad
    assert batch.rows.num_rows == len(values) - len(bad)
    assert all("column value" in one.reason for one in batch.bad_rows)
