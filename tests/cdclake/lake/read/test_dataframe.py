"""A table as of a change in Spark: columns, types, instants, and independence of later runs."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.lake.read.dataframe import read_table
from cdclake.lake.read.diff import read_diff
from cdclake.lake.spark.task_errors import raising_task_errors
from tests.cdclake.lake.operations.adopt.adoptable_table import AdoptableTable
from tests.cdclake.lake.over_time import START, TABLE, TableOverTime
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("n", pa.int32()),
        ("ratio", pa.float32()),
        ("exact", pa.float64()),
        ("amount", pa.decimal128(38, 9)),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
NULLS: dict[str, Any] = dict.fromkeys(COLUMNS.names)
IN_THE_GAP = datetime(2024, 3, 10, 2, 30, 0, 123456, timezone.utc)
"""New York skips this local time, so an instant that is read as local time changes."""
FULL: dict[str, Any] = {
    "id": 1,
    "city": "né ü",
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "n": -5,
    "ratio": 0.25,
    "exact": 1e300,
    "amount": Decimal("12345678901234567890123456789.123456789"),
    "raw": b"\x00\xff",
    "day": date(1700, 1, 1),
    "at": IN_THE_GAP,
}


@pytest.fixture(params=["null", "city", "day", "at"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> TableOverTime:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "PartitionKey": request.param})
    table.load([FULL, {**NULLS, "id": 2}])
    table.apply(("U", {**FULL, "n": 6, "city": "a/b", "day": None, "at": None}), ("D", {**NULLS, "id": 2}))
    return table


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows by id. Instants are microseconds, because Spark returns local times of this machine."""
    found = frame.withColumn("at", F.unix_micros("at")) if "at" in frame.columns else frame
    return [row.asDict() for row in found.orderBy("id").collect()]


@pytest.mark.sampled(test=1)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_values_are_exact_in_any_session_time_zone(table: TableOverTime, session: SparkSession, zone: str) -> None:
    session = session.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    frame = read_table(session, table.location, TABLE, change=1)
    added = {"Op": "I", "_cdc_position": ""}
    assert rows(frame) == [{**FULL, **added, "at": micros(IN_THE_GAP)}, {**NULLS, **added, "id": 2}]
    (row,) = rows(read_table(session, table.location, TABLE, change=2))
    assert (row["n"], row["city"], row["day"], row["at"], row["Op"]) == (6, "a/b", None, None, "U")
    assert row["_cdc_position"].endswith("20240305-100100000.parquet|0000000000")


def test_columns_keep_the_sources_order_and_types(table: TableOverTime, session: SparkSession) -> None:
    frame = read_table(session, table.location, TABLE)
    kinds = "bigint string boolean tinyint smallint int float double decimal(38,9) binary date timestamp string string"
    assert frame.columns == [*COLUMNS.names, "Op", "_cdc_position"]
    assert [kind for _, kind in frame.dtypes] == kinds.split()


def small(tmp_path: Path, *rows: dict[str, Any]) -> TableOverTime:
    columns = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    table = TableOverTime(tmp_path, columns, {"PrimaryKey": "id", "TargetFileBytes": "1"})
    table.load(list(rows))
    return table


def test_each_change_is_read_with_its_own_columns(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    wider = pa.schema([("id", pa.int32()), ("n", pa.int64()), ("note", pa.string())])
    table.apply(("I", {"id": 3, "n": 1 << 40, "note": "new"}), schema=wider)
    table.apply(("I", {"id": 4, "n": 4, "more": True}), schema=pa.schema([*table.columns, ("more", pa.bool_())]))
    first, second, third = (
        read_table(session, table.location, TABLE, change=change).drop("Op", "_cdc_position") for change in (1, 2, 3)
    )
    assert first.dtypes == [("id", "int"), ("n", "int")]
    assert second.dtypes == [("id", "int"), ("n", "bigint"), ("note", "string")]
    assert third.dtypes == [*second.dtypes, ("more", "boolean")]
    assert rows(first) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    assert rows(second)[1:] == [{"id": 2, "n": 2, "note": None}, {"id": 3, "n": 1 << 40, "note": "new"}]
    assert rows(third)[2:] == [
        {"id": 3, "n": 1 << 40, "note": "new", "more": None},
        {"id": 4, "n": 4, "note": None, "more": True},
    ]


def test_a_dataframe_keeps_its_change_despite_later_runs(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    newest = read_table(session, table.location, TABLE).drop("Op", "_cdc_position")
    for n in (10, 20):
        table.apply(("U", {"id": 1, "n": n}), ("U", {"id": 2, "n": n}))
        assert rows(newest) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    table.roll_back(1)
    assert rows(newest) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]


def test_a_time_selects_the_state_at_that_time(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path, {"id": 1, "n": 1})
    table.apply(("I", {"id": 2, "n": 2}))
    table.roll_back(1)
    counts = [
        read_table(session, table.location, TABLE, at=START + timedelta(hours=hours, minutes=1)).count()
        for hours in (1, 2, 3)
    ]
    assert counts == [1, 2, 1]


def test_an_empty_table_has_columns_but_no_rows(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path, {"id": 1, "n": 1})
    table.apply(("D", {"id": 1, "n": 1}))
    frame = read_table(session, table.location, TABLE)
    assert (frame.columns, frame.count()) == (["id", "n", "Op", "_cdc_position"], 0)


def test_a_table_without_remaining_changes_is_refused(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path, {"id": 1, "n": 1})
    table.roll_back(0)
    with pytest.raises(ConfigurationError, match="does not exist after change 2"):
        read_table(session, table.location, TABLE)
    assert read_table(session, table.location, TABLE, change=1).count() == 1


def test_a_file_missing_at_read_time_raises_past_retention(tmp_path: Path, session: SparkSession) -> None:
    table = small(tmp_path, {"id": 1, "n": 1})
    table.apply(("U", {"id": 1, "n": 2}))
    frame = read_table(session, table.location, TABLE, change=1)
    for path in (table.lake / table.layout.control_prefix / "retired").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(PastRetentionError, match="no longer exists"), raising_task_errors():
        frame.collect()


def test_adopted_files_are_read_like_loaded_ones(tmp_path: Path, session: SparkSession) -> None:
    far = datetime(9999, 12, 31, tzinfo=timezone.utc)
    columns = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("at", pa.timestamp("us", tz="UTC"))])
    schema = "id bigint, n int, at timestamp"
    adoptee = AdoptableTable(Table(tmp_path, columns, {"PrimaryKey": "id", "PartitionKey": "n", "Schema": schema}))
    foreign = pa.table({"at": pa.array([far, None], pa.timestamp("us")), "ID": pa.array([1, 2], pa.int64())})
    adoptee.write("n=7/part-0.parquet", foreign, int96=True)
    adoptee.adopt()
    assert adoptee.table.apply_file("20240305-101500000.parquet", [("U", {"id": 2, "n": 8, "at": far})])["change"] == 2
    lake = adoptee.table.lake.as_uri()
    first = read_table(session, lake, TABLE, change=1).selectExpr("id", "n", "at", "Op", "_cdc_position")
    loaded = {"n": 7, "Op": "I", "_cdc_position": ""}
    assert rows(first) == [{"id": 1, "at": micros(far), **loaded}, {"id": 2, "at": None, **loaded}]
    found = read_diff(session, lake, TABLE, 1, 2).selectExpr("change_type", "id", "n", "unix_micros(at) as at")
    assert sorted(tuple(row) for row in found.collect()) == [
        ("update_after", 2, 8, micros(far)),
        ("update_before", 2, 7, None),
    ]
