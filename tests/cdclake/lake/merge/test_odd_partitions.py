"""Unusual partition values: pyarrow, DuckDB and Spark read every row with its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from cdclake.errors import ConfigurationError
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

COLUMNS = pa.schema([("id", pa.int64()), ("zip", pa.string()), ("place", pa.string())])
PLACES: list[str | None] = [
    None,
    "a/b",
    "x=y",
    "with space",
    "né ü 東京",
    "100%",
    "%2F",
    ".",
    "..",
    "semi;colon",
    "quote'\"",
    "#hash?",
    "*",
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "PartitionKey": "zip,place"})
    table.load([{"id": i, "zip": "02134", "place": place} for i, place in enumerate(PLACES)])
    moved = [("U", {"id": i, "zip": "00501", "place": place}) for i, place in enumerate(PLACES) if i % 2]
    table.apply_file("20240305-101500000.parquet", moved)
    return table


def expected() -> list[tuple[int, str, str | None]]:
    return [(i, "00501" if i % 2 else "02134", place) for i, place in enumerate(PLACES)]


def test_every_row_is_in_the_folder_of_its_partition(table: Table) -> None:
    assert sorted((one.row["id"], one.row["zip"], one.row["place"]) for one in table.rows()) == expected()
    assert all(path.count("/") == 2 for path in table.files())


def test_pyarrow_reads_odd_partition_values(table: Table) -> None:
    parts = ds.partitioning(pa.schema([("zip", pa.string()), ("place", pa.string())]), flavor="hive")
    rows = ds.dataset(table.folder, partitioning=parts).to_table(columns=["id", "zip", "place"]).sort_by("id")
    assert [tuple(row.values()) for row in rows.to_pylist()] == expected()


def test_duckdb_reads_odd_partition_values(table: Table) -> None:
    files = [f"{table.folder}/{path}" for path in table.files()]
    types = "hive_partitioning = true, hive_types = {'zip': VARCHAR, 'place': VARCHAR}"
    place = f"nullif(place, '{HIVE_NULL_PARTITION}')"  # DuckDB reads a null in a text column as the folder's text
    rows = duckdb.execute(f"select id, zip, {place} from read_parquet(?, {types}) order by id", [files]).fetchall()
    assert rows == expected()


def test_a_partition_value_that_is_not_text_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS.set(2, pa.field("place", pa.binary())), {"PartitionKey": "place"})
    with pytest.raises(ConfigurationError, match=r"not UTF-8 text.*column place"):
        table.load([{"id": 1, "zip": "02134", "place": b"\xff"}])


@pytest.mark.long
@pytest.mark.spark
def test_spark_reads_odd_partition_values(table: Table, spark: SparkContext) -> None:
    session = SparkSession(spark)
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    rows = session.read.parquet(str(table.folder)).select("id", "zip", "place").orderBy("id").collect()
    assert [tuple(row) for row in rows] == expected()


def test_a_partition_column_may_be_named_in_another_case(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "ID", "PartitionKey": "ZIP,Place", "History": "true"})
    table.load([{"id": 1, "zip": "02134", "place": "a"}])
    assert table.apply_file("20240305-101500000.parquet", [("U", {"id": 1, "zip": "00501", "place": "b"})])["change"]
    assert [path.rpartition("/")[0] for path in table.files()] == ["zip=00501/place=b"]
    table.item |= {"PrimaryKey": "id", "PartitionKey": "zip,place"}  # the same keys
    assert table.apply_file("20240305-101600000.parquet", [("U", {"id": 1, "zip": "00501", "place": "c"})])["change"]
    assert [one.row["place"] for one in table.rows()] == ["c"]


@pytest.mark.parametrize("history", ["true", "false"])
def test_a_reload_may_change_the_case_of_a_partition_column(tmp_path: Path, history: str) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "PartitionKey": "place", "History": history})
    table.load([{"id": 1, "zip": "02134", "place": "a"}])
    table.put("LOAD00000001.parquet", pa.table({"ID": [1], "ZIP": ["02134"], "PLACE": ["b"]}))
    assert table.load_initial()["books"]["inserted"] == 1
    folder = "place=b" if history == "true" else "PLACE=b"  # a history keeps the names that it has
    assert [path.rpartition("/")[0] for path in table.files()] == [folder]
