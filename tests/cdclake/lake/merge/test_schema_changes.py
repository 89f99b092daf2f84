"""Columns that appear, disappear and widen; every reader then reads all live files together."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

LOADED = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("ratio", pa.float32()), ("price", pa.decimal128(8, 2))])
WIDER = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("ratio", pa.float64()), ("price", pa.decimal128(12, 4))])
OLD_ROWS: list[dict[str, Any]] = [{"id": i, "n": i, "ratio": 0.5, "price": Decimal("1.25")} for i in range(1, 9)]
NEW_ROW: dict[str, Any] = {"id": 5_000_000_000, "n": 6_000_000_000, "ratio": 0.1, "price": Decimal("99999999.1234")}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, LOADED, {"PrimaryKey": "id", "TargetFileBytes": "60"})
    table.load(OLD_ROWS)
    return table


def change(table: Table, schema: pa.Schema, *rows: dict[str, Any]) -> dict[str, Any]:
    """Apply a change file with these inserts."""
    inserts = [{"Op": "I", **row} for row in rows]
    columns = schema.insert(0, pa.field("Op", pa.string()))
    return table.apply_file("20240305-101500000.parquet", pa.Table.from_pylist(inserts, columns))


@pytest.mark.spark
def test_spark_duckdb_and_pyarrow_read_widened_columns_from_all_live_files(table: Table, spark: SparkContext) -> None:
    assert len(table.files()) > 1
    assert change(table, WIDER, NEW_ROW)["books"]["rows_after"] == 9
    expected = sorted([*OLD_ROWS, NEW_ROW], key=lambda row: row["id"])

    by_pyarrow = ds.dataset(table.folder).to_table(columns=WIDER.names).sort_by("id")
    assert by_pyarrow.schema.equals(WIDER)
    assert by_pyarrow.to_pylist() == expected
    pattern = f"{table.folder}/*.parquet"
    by_duckdb = duckdb.sql(f"select {', '.join(WIDER.names)} from read_parquet('{pattern}') order by id")
    assert by_duckdb.fetchall() == [tuple(row.values()) for row in expected]
    by_spark = SparkSession(spark).read.parquet(str(table.folder)).select(*WIDER.names).orderBy("id")
    assert [row.asDict() for row in by_spark.collect()] == expected


def test_a_narrower_column_is_widened_to_the_type_in_the_lake(table: Table) -> None:
    summary = change(table, pa.schema([("id", pa.int16()), ("n", pa.int8())]), {"id": 99, "n": 5})
    assert summary["files_retired"] <= 1
    assert table.live("n")[99] == 5


def test_a_dropped_column_stays_and_is_null_from_then_on(table: Table) -> None:
    change(table, pa.schema([("id", pa.int32()), ("n", pa.int32())]), {"id": 1, "n": 7})
    (changed,) = (one.row for one in table.rows() if one.row["id"] == 1)
    assert changed == {"id": 1, "n": 7, "ratio": None, "price": None}
    assert table.log.snapshot(2).schema == table.log.snapshot(1).schema


def test_a_column_whose_case_changes_is_the_same_column(table: Table) -> None:
    change(table, pa.schema([("ID", pa.int32()), ("N", pa.int32())]), {"ID": 1, "N": 7})
    assert table.log.snapshot(2).schema.names == LOADED.names
    assert table.live("n")[1] == 7


def test_a_key_that_becomes_a_decimal_still_finds_its_rows(table: Table) -> None:
    schema = pa.schema([("id", pa.decimal128(20, 0)), ("n", pa.int32())])
    summary = change(table, schema, {"id": Decimal(3), "n": 33}, {"id": Decimal(100), "n": 1})
    assert (summary["books"]["updated"], summary["books"]["inserted"], summary["books"]["rows_after"]) == (1, 1, 9)
    assert table.live("n")[3] == 33
