"""Adopts tables that jobs like the walkthrough's wrote, then changes them and rolls them back."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cdclake.errors import ConfigurationError
from cdclake.lake.spark.spark_backend import SparkBackend
from cdclake.model.change.record import ChangeKind
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.operations.adopt.adoptable_table import APPLIED, RAW_PATH, AdoptableTable
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.sql import DataFrame

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("city", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("n", pa.int32()),
    ]
)
SPARK_TYPES = "id bigint, day date, city string, at timestamp, n int"
CITIES = ("Ulm", "a/b", "x=y", None)
FAR = datetime(9999, 12, 31, tzinfo=timezone.utc)


def row(number: int, n: int = 0) -> dict[str, Any]:
    at = FAR if number % 7 == 0 else datetime(2024, 3, 1, 10, tzinfo=timezone.utc) + timedelta(minutes=number)
    return {"id": number, "day": date(2024, 3, 1 + number % 3), "city": CITIES[number % 4], "at": at, "n": n}


def write_like_walkthrough(
    table: AdoptableTable, spark: SparkContext, rows: list[dict[str, Any]], key: list[str]
) -> None:
    """A full load and an append as in the walkthrough, both with `Op` and Spark's older timestamps (INT96)."""
    session = SparkSession(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for begin, end, mode in ((0, len(rows) // 2, "overwrite"), (len(rows) // 2, len(rows), "append")):
        frame = session.createDataFrame([tuple(one.values()) for one in rows[begin:end]], SPARK_TYPES)
        save(frame.selectExpr("*", "'I' as Op").repartition(2), str(table.folder), mode, key)
    schema = pq.ParquetFile(next(table.folder.rglob("*.parquet"))).schema
    assert {one.path: one.physical_type for one in map(schema.column, range(len(schema)))}["at"] == "INT96"


def save(frame: DataFrame, folder: str, mode: str, key: list[str]) -> None:
    writer = frame.write.mode(mode)
    (writer.partitionBy(*key) if key else writer).parquet(folder)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(("key", "delete_mode"), [([], "hard"), (["day"], "soft"), (["city", "day"], "hard")])
def test_an_adopted_table_of_the_walkthrough_equals_the_oracle_and_rolls_back_byte_for_byte(
    tmp_path: Path, spark: SparkContext, key: list[str], delete_mode: str
) -> None:
    item = {"PrimaryKey": "id", "PartitionKey": ",".join(key) or "null", "Schema": SPARK_TYPES}
    item["DeleteMode"] = delete_mode
    adoptee = AdoptableTable(Table(tmp_path, COLUMNS, item, SparkBackend(spark)))
    table = adoptee.table
    before = [row(number) for number in range(60)]
    write_like_walkthrough(adoptee, spark, before, key)
    (adoptee.folder / "_temporary").mkdir()
    (adoptee.folder / "day=2024-03-01_$folder$").touch()
    hashes = adoptee.hashes()
    assert "_SUCCESS" in hashes

    record = adoptee.adopt()
    assert (record.change, record.kind, record.books.rows_after) == (1, ChangeKind.ADOPTION, 60)
    assert adoptee.hashes() == hashes
    assert by_key(table.rows(), ("id",)) == merge(("id",), before, [])

    table.write_changes("20240305-080000000.parquet", [("D", row(1))])  # before the watermark: in the table already
    changes = [("U", row(2, n=5)), ("I", row(100)), ("D", row(3)), ("D", row(7))]
    table.write_changes("20240305-100000000.parquet", changes)
    table.write_changes("20240305-110000000.parquet", [("U", {**row(4), "city": "Ulm", "day": date(2024, 3, 9)})])
    summary = table.load_incremental(APPLIED)
    assert summary["raw_files"] == 2
    assert summary["books"]["deleted"] == 2
    assert table.load_incremental(APPLIED)["change"] is None
    expected = merge(("id",), before, table.changes[1:], soft_delete=delete_mode == "soft")
    assert by_key(table.rows(), ("id",)) == expected
    far_rows = SparkSession(spark).read.parquet(str(adoptee.folder)).where(f"at = timestamp '{FAR:%F}'").count()
    assert far_rows == sum(found.row["at"] == FAR for found in expected)
    pattern = f"{adoptee.folder}/**/*.parquet"
    query = f"select count(*), sum(n), max(epoch(\"at\")) from read_parquet('{pattern}', union_by_name=true)"
    assert duckdb.sql(query).fetchone() == (len(expected), sum(found.row["n"] for found in expected), FAR.timestamp())

    adoptee.clock.advance(3600)
    rolled_back = adoptee.registered("undo").rollback()
    assert (rolled_back.kind, rolled_back.as_of) == (ChangeKind.ROLLBACK, 1)
    assert {path: digest for path, digest in adoptee.hashes().items() if not path.startswith("000")} == hashes
    assert [path for path in adoptee.hashes() if path.startswith("000")] == []
    assert adoptee.state.item[Attribute.LAST_INCREMENTAL_FILE] == RAW_PATH + APPLIED
    with pytest.raises(ConfigurationError, match="adopted existing files"):
        adoptee.registered().rollback()
    with pytest.raises(ConfigurationError, match="adopted existing files"):
        adoptee.registered().rollback(to=0)
