"""A user maintains a table with `LakeTable`: five rows, an update, a delete, an insert with missing columns."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from cdclake.errors import ConfigurationError, LeaseHeldError, RefusedChangeError, UnknownTableError
from cdclake.lake_table import LakeTable, UndoResult
from cdclake_devkit.memory import ManualClock, MemoryState

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PATH = "cdclake-raw/crm/people/"
COLUMNS = ("id", "name", "email", "address", "timestamp")
MICHELLE, PATRICK, NATHAN, TYLER, MARTHA = (
    "e48fff8e-7172-4d79-a3d5-ad9d7e1bf1aa",
    "0f0898d4-920a-4c5e-940c-9d793d6e2c0f",
    "d244e12c-7378-4e60-96a7-92f9696854ee",
    "3c0e671b-3be4-4709-bcab-2aa0f5b626ac",
    "27175f13-69cd-4d86-b6ab-0e059d3f1414",
)
MADE, CHANGED, ADDED = (f"2023-12-05 {time}" for time in ("23:48:19", "23:52:21", "23:57:02"))
PEOPLE = [
    (MICHELLE, "Michelle Green", "dlyons@example.com", "441 Kathleen Dam Suite 470\nLake Robertborough...", MADE),
    (PATRICK, "Patrick Payne", "stevefisher@example.net", "469 Carrillo Mill Suite 215\nNew Julie, KS 95119", MADE),
    (NATHAN, "Nathan Goodwin", "dwright@example.net", "9282 Ortega Wall\nDianaton, TX 42652", MADE),
    (TYLER, "Tyler Bailey", "aaronscott@example.net", "PSC 3539, Box 8887\nAPO AP 47593", MADE),
    (MARTHA, "Martha Adams", "solomondarlene@example.com", "414 Lamb Roads Apt. 976\nNew Aaronmouth, VT 00512", MADE),
]
UPDATED = (
    MICHELLE,
    "Michelle Green",
    "new_email@test.gr",
    "441 Kathleen Dam Suite 470\nLake Robertborough...",
    CHANGED,
)
INSERTED = ("insert_test", None, "insert@test.gr", None, ADDED)


@pytest.fixture
def states() -> MemoryState:
    return MemoryState()


@pytest.fixture
def people(tmp_path: Path, session: SparkSession, states: MemoryState, clock: ManualClock) -> LakeTable:
    """A registered table without rows."""
    table = LakeTable("crm.people", lake=tmp_path.as_uri(), spark=session, states=states, clock=clock, user="ann")
    assert table.register(["id"])
    assert not table.register(["email"])
    return table


def people_frame() -> pd.DataFrame:
    return pd.DataFrame(PEOPLE, columns=list(COLUMNS))


def rows(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.select(*COLUMNS).collect()}


def test_a_table_lists_its_raw_files(people: LakeTable, aws: None) -> None:
    client = boto3.client("s3")
    client.create_bucket(Bucket="cdclake-raw", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for name in ("LOAD00000001.csv", "notes.txt"):
        client.put_object(Bucket="cdclake-raw", Key=f"crm/people/{name}", Body=b"1\n")
    found = [tuple(row) for row in people.files().drop("written").collect()]
    assert found == [
        ("LOAD00000001.csv", "waiting", None, None, None, 2, "ActiveFlag is not 'true'"),
        ("notes.txt", "unread", None, None, None, None, "no LOAD or change file has such a name"),
    ]


@pytest.mark.long
def test_each_step_gives_the_expected_table_now_and_as_of_its_change(people: LakeTable, clock: ManualClock) -> None:
    result = people.insert(people_frame(), reason="first five")
    assert (result.change, result.inserted) == (1, 5)
    assert rows(people.as_of()) == {*PEOPLE}

    clock.advance(222)
    assert people.update({MICHELLE: {"email": "new_email@test.gr", "timestamp": CHANGED}}).updated == 1
    after_update = {UPDATED, *PEOPLE[1:]}
    assert rows(people.as_of()) == after_update

    clock.advance(99)
    assert people.delete([NATHAN], reason="asked to").deleted == 1
    after_delete = {UPDATED, *(row for row in PEOPLE[1:] if row[0] != NATHAN)}
    assert rows(people.as_of()) == after_delete

    clock.advance(182)
    new = pd.DataFrame({"id": ["insert_test"], "email": ["insert@test.gr"], "timestamp": [ADDED]})
    assert people.insert(new).inserted == 1
    assert rows(people.as_of()) == {INSERTED, *after_delete}

    assert rows(people.as_of(2)) == rows(people.as_of(clock() - timedelta(seconds=200))) == after_update
    log = [tuple(row) for row in people.changes().orderBy("change").collect()]
    assert [(row[0], *row[2:]) for row in log] == [
        (1, "direct", "ann", "first five", 5, 0, 0, 5, False, False, True),
        (2, "direct", "ann", "", 0, 1, 0, 5, False, False, True),
        (3, "direct", "ann", "asked to", 0, 0, 1, 4, False, False, True),
        (4, "direct", "ann", "", 1, 0, 0, 5, True, False, True),
    ]
    assert log[3][1].astimezone(timezone.utc) == datetime(2024, 3, 5, 10, 8, 23, tzinfo=timezone.utc)


@pytest.mark.long
def test_each_step_gives_the_expected_history(people: LakeTable, states: MemoryState, clock: ManualClock) -> None:
    def versions(key: str | None = None) -> list[tuple[Any, ...]]:
        columns = ("id", "email", "operation", "validity_flag", "change_id")
        ended = F.col("valid_to").cast("long").alias("ended")  # independent of this process's time zone
        return [tuple(row) for row in people.history(key).select(*columns, ended).collect()]

    states.set_attributes(PATH, {"History": "true"})
    people.insert(people_frame())
    assert sorted(versions()) == sorted((row[0], row[2], "insert", 1, 1, None) for row in PEOPLE)

    clock.advance(222)
    updated_at = int(clock().timestamp())
    people.update({MICHELLE: {"email": "new_email@test.gr", "timestamp": CHANGED}})
    of_michelle = [
        (MICHELLE, "dlyons@example.com", "insert", 0, 1, updated_at),
        (MICHELLE, "new_email@test.gr", "update", 1, 2, None),
    ]
    assert versions(MICHELLE) == of_michelle

    clock.advance(99)
    deleted_at = int(clock().timestamp())
    people.delete([NATHAN])
    assert versions(NATHAN) == [
        (NATHAN, "dwright@example.net", "insert", 0, 1, deleted_at),
        (NATHAN, "dwright@example.net", "delete", 1, 3, None),
    ]
    clock.advance(182)
    people.insert([{"id": "insert_test", "email": "insert@test.gr"}])
    assert versions("insert_test") == [("insert_test", "insert@test.gr", "insert", 1, 4, None)]
    assert versions(MICHELLE) == of_michelle
    assert len(versions()) == 8

    people.rollback(to=1)
    assert {version[2:] for version in versions()} == {("insert", 1, 1, None)}
    with pytest.raises(ConfigurationError, match=r"The key of crm\.people is \(id\), but 2 values were given"):
        people.history((MICHELLE, 1))


def test_reading_the_history_of_a_table_without_one_is_an_error(people: LakeTable) -> None:
    people.insert(people_frame())
    with pytest.raises(ConfigurationError, match="kept no history at change 1"):
        people.history()


def test_inserting_no_rows_creates_no_table(people: LakeTable) -> None:
    empty_inputs: list[object] = [[], pd.DataFrame(), pd.DataFrame({"id": pd.array([], dtype="string")})]
    for empty in empty_inputs:
        assert people.insert(empty).change is None
    assert people.changes().isEmpty()


def test_change_numbers_and_days_may_be_numpy_or_pandas_values(people: LakeTable, clock: ManualClock) -> None:
    people.insert(people_frame())
    clock.advance(86_400)
    people.delete([NATHAN])
    first, second = np.array([1, 2])  # as from a pandas column
    assert (people.as_of(first).count(), people.as_of(second).count()) == (5, 4)
    assert people.as_of(clock().date()).count() == 5  # as it was at midnight
    with pytest.raises(ConfigurationError, match=r"'1\.5' is not a time"):
        people.as_of(1.5)  # type: ignore[arg-type]  # a mistake that a user may make


def test_changes_are_rolled_back_and_reapplied(people: LakeTable, states: MemoryState) -> None:
    people.insert(people_frame())
    people.delete([NATHAN])
    assert people.rollback(reason="not he") == UndoResult(change=3, content_change=1)
    assert rows(people.as_of()) == {*PEOPLE}
    assert people.reapply() == UndoResult(change=4, content_change=2)
    assert len(rows(people.as_of())) == 4
    newest = {row.change: (row.made_by, row.reason) for row in people.changes().collect()}
    assert newest[3] == ("ann", "not he")
    item = states.get(PATH)
    assert item
    assert item.item["LastChangeId"] == "4"


def test_spark_arrow_and_conditions_supply_rows_that_spark_merges(people: LakeTable, session: SparkSession) -> None:
    people.insert(pa.Table.from_pandas(people_frame()))
    numbered = session.range(300).selectExpr("concat('n', id) as ID", "cast(null as string) as name", "'x' as email")
    assert people.insert(numbered.repartition(3)).inserted == 300
    changed = session.createDataFrame([("n7", "seven"), ("n8", None)], "id string, name string")
    assert people.update(changed).updated == 2
    with pytest.raises(RefusedChangeError, match="300 keys are in the table already"):
        people.insert(numbered)
    with pytest.raises(RefusedChangeError, match="299 keys are not in the table"):
        people.update(session.range(299).selectExpr("concat('m', id) as id", "'' as name"))
    by_name = people.as_of().where("name = 'seven'")
    assert [tuple(row) for row in by_name.select("id", "email").collect()] == [("n7", "x")]
    assert people.delete(by_name).deleted == 1
    done = people.delete("id like 'n%' and email = 'x'")
    assert (done.deleted, done.absent) == (299, 0)
    assert people.delete(F.col("email") == "nobody").change is None
    done = people.delete(pd.Series([MARTHA, "nobody"]))
    assert (done.deleted, done.absent) == (1, 1)
    assert rows(people.as_of()) == {*PEOPLE[:4]}


def test_values_of_every_type_survive_in_every_input_format(
    tmp_path: Path, session: SparkSession, states: MemoryState
) -> None:
    session = session.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    moment = datetime(2024, 3, 10, 7, 30, 0, 5, tzinfo=timezone.utc)
    values = (date(1700, 1, 1), moment, Decimal("12345678901234567890.50"), True, b"\x00\xff", 0.1, None)
    kinds = (
        "id bigint, day date, at timestamp, amount decimal(22,2), flag boolean, raw binary, ratio double, note string"
    )
    names = [kind.split()[0] for kind in kinds.split(", ")]
    frame = session.createDataFrame([(1, *values)], kinds)
    table = LakeTable("crm.kinds", lake=tmp_path.as_uri(), spark=session, states=states)
    table.register(["id"], ["at"])
    table.insert(frame)
    arrow = pa.table({name: [value] for name, value in zip(names, (2, *values), strict=True)})
    table.insert(arrow)
    table.insert(arrow.set_column(0, "id", pa.array([3])).to_pandas())
    table.insert([dict(zip(names, (4, *values), strict=True))])
    found = table.as_of()
    assert found.drop("Op", "_cdc_position").dtypes == frame.dtypes
    for row in found.collect():
        assert row.at.astimezone(timezone.utc) == moment
        assert (row.day, row.amount, row.flag, bytes(row.raw), row.ratio, row.note) == (values[0], *values[2:])
    assert found.count() == 4


def test_an_invalid_condition_raises_sparks_error_and_releases_the_lease(
    people: LakeTable, states: MemoryState
) -> None:
    people.insert(people_frame())
    with pytest.raises(AnalysisException):
        people.delete("nobody = 1")
    item = states.get(PATH)
    assert item
    assert (item.item["LastChangeId"], "LeaseHolder" in item.item) == ("1", False)


def test_a_direct_change_is_refused_while_a_run_works_on_the_table(
    people: LakeTable, states: MemoryState, clock: ManualClock
) -> None:
    states.acquire_lease(PATH, "run-9", clock(), 300)
    with pytest.raises(LeaseHeldError, match="run-9"):
        people.insert(people_frame())
    clock.advance(301)
    assert people.insert(people_frame()).change == 2  # change 1 fences off the crashed run
    item = states.get(PATH)
    assert item
    assert "LeaseHolder" not in item.item


def test_a_table_that_is_not_registered_is_an_error(tmp_path: Path, states: MemoryState) -> None:
    with pytest.raises(UnknownTableError, match="crm/nobody"):
        LakeTable("crm.nobody", lake=tmp_path.as_uri(), states=states).insert([{"id": 1}])
