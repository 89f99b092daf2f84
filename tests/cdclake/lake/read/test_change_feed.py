"""The change feed returns the rows of each change after a given one."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.commit.takeover import take_over
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.lake.operations.direct.input_tables import input_keys
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.change_feed import read_changes
from cdclake.lake.read.diff import plan_diff, read_diff
from cdclake.lake.read.diff_report import report
from cdclake.model.retained import Retained
from tests.cdclake.lake.over_time import START, TABLE, TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int32()), ("a.b", pa.int32()), ("day", pa.date32())])
DAY, NEXT = date(2024, 3, 5), date(2024, 3, 6)
TARGET = {"TargetFileBytes": "1"}


def row(number: int, n: int = 0, day: date | None = DAY) -> dict[str, Any]:
    return {"id": number, "a.b": n, "day": day}


def feed(
    session: SparkSession, table: TableOverTime, after: int, through: int | None = None
) -> Counter[tuple[Any, ...]]:
    """The feed's rows without the time of the change, which is checked here."""
    found = [tuple(one) for one in read_changes(session, table.location, TABLE, after, through).collect()]
    assert all(one[1].astimezone(timezone.utc) == START + timedelta(hours=one[0]) for one in found)
    return Counter((one[0], *one[2:]) for one in found)


def test_the_feed_has_the_rows_of_each_change(tmp_path: Path, session: SparkSession) -> None:
    item = {"PrimaryKey": "id", "PartitionKey": "day", **TARGET}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load([row(1), row(2)])
    table.apply(("U", row(1, 5)), ("I", row(3)), ("I", row(4)), ("D", row(4)))
    table.apply(("U", row(1, 5)))  # nothing differs
    run = table.run()
    take_over(run.log, run.run_id, run.fencing_token, "a run died", table.next_time)
    table.apply(("U", row(2, 0, NEXT)), ("D", row(3)))
    table.direct("D", input_keys([1], ["id"]))
    table.roll_back(5)
    first = [(1, "insert", 1, 0, DAY), (1, "insert", 2, 0, DAY)]
    rest = [
        (2, "update_before", 1, 0, DAY),
        (2, "update_after", 1, 5, DAY),
        (2, "insert", 3, 0, DAY),
        (5, "update_before", 2, 0, DAY),
        (5, "update_after", 2, 0, NEXT),
        (5, "delete", 3, 0, DAY),
        (6, "delete", 1, 5, DAY),
        (7, "insert", 1, 5, DAY),
    ]
    assert feed(session, table, 0) == Counter(first + rest)
    assert feed(session, table, 1, 5) == Counter(one for one in rest if one[0] < 6)
    assert feed(session, table, 2, 4) == Counter()
    columns = ["change", "committed", "change_type", *COLUMNS.names]
    assert read_changes(session, table.location, TABLE, 7).columns == columns
    assert read_diff(session, table.location, TABLE, 5, 7).columns == columns[2:]


def test_source_columns_named_like_the_feeds_own_get_a_prefix(tmp_path: Path, session: SparkSession) -> None:
    columns = pa.schema([(name, pa.int32()) for name in ("id", "Change", "committed", "change_type")])
    table = TableOverTime(tmp_path, columns, {"PrimaryKey": "id"})
    table.load([{"id": 1, "Change": 10, "committed": 20, "change_type": 30}])
    columns_of_feed = ["change", "committed", "change_type", "id"]
    renamed = ["_cdc_source_Change", "_cdc_source_committed", "_cdc_source_change_type"]
    found = read_changes(session, table.location, TABLE, 0)
    assert found.columns == [*columns_of_feed, *renamed]
    assert [tuple(one) for one in found.select("change", "change_type", *renamed).collect()] == [
        (1, "insert", 10, 20, 30)
    ]
    table.apply(("U", {"id": 1, "Change": 11, "committed": 20, "change_type": 30}))
    found = read_diff(session, table.location, TABLE, 1, 2)
    columns_of_diff = ["change_type", "id", "Change", "committed", "_cdc_source_change_type"]
    assert found.columns == columns_of_diff
    assert {one["change_type"] for one in found.collect()} == {"update_before", "update_after"}
    location = TableLocation.at(table.location, TABLE)
    plan = plan_diff(table_as_of(table.log, 1), table_as_of(table.log, 2))
    assert report(session, location, plan, limit=9).columns == tuple(columns_of_diff)


def test_the_feed_has_the_columns_of_the_last_change(tmp_path: Path, session: SparkSession) -> None:
    table = TableOverTime(tmp_path, COLUMNS, TARGET)  # no key, so whole rows are compared
    table.load([row(1)])
    wider = pa.schema([("id", pa.int64()), ("a.b", pa.int32()), ("day", pa.date32()), ("note", pa.string())])
    table.apply(("I", {**row(1 << 40), "note": "new"}), ("I", {**row(1), "note": None}), schema=wider)
    assert feed(session, table, 0) == Counter(
        [(1, "insert", 1, 0, DAY, None), (2, "insert", 1 << 40, 0, DAY, "new"), (2, "insert", 1, 0, DAY, None)]
    )


def test_the_feed_covers_a_rollback_to_nothing_and_a_new_key(tmp_path: Path, session: SparkSession) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", **TARGET})
    table.load([row(1)])
    table.roll_back(0)
    table.item = {"PrimaryKey": "id,day", "PartitionKey": "day", **TARGET}
    table.load_initial()
    table.apply(("I", row(1, 0, NEXT)))
    assert feed(session, table, 0) == Counter(
        [
            (1, "insert", 1, 0, DAY),
            (2, "delete", 1, 0, DAY),
            (3, "insert", 1, 0, DAY),
            (4, "insert", 1, 0, NEXT),
        ]
    )


@pytest.mark.parametrize(("after", "through"), [(3, None), (-1, None), (2, 1), (0, 3)])
def test_changes_that_do_not_exist_are_refused(
    tmp_path: Path, session: SparkSession, after: int, through: int | None
) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(1)])
    table.roll_back(0)
    with pytest.raises(ConfigurationError, match="from 0 to 2"):
        read_changes(session, table.location, TABLE, after, through)


def test_a_feed_across_changes_that_are_not_kept_is_refused_with_the_way_on(
    tmp_path: Path, session: SparkSession
) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(1)])
    for number in range(2, 7):
        table.apply(("I", row(number)))
    table.log.mark_retained(Retained(4, (2,)))
    with pytest.raises(PastRetentionError, match=r"or start after change 5 or later"):
        read_changes(session, table.location, TABLE, 3)
    with pytest.raises(PastRetentionError, match=r"between changes 2 and 5 with read_diff, and resume after 5"):
        read_changes(session, table.location, TABLE, 2)
    assert read_diff(session, table.location, TABLE, 2, 5).count() == 3
    assert feed(session, table, 5) == Counter([(6, "insert", 6, 0, DAY)])
    with pytest.raises(PastRetentionError, match=r"Change 3 .* nearest retained ones: change 2 of .* or change 5 of"):
        read_diff(session, table.location, TABLE, 3, 5)


def test_a_feed_past_retention_is_refused_with_the_change_to_resume_from(tmp_path: Path, session: SparkSession) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(1)])
    for number in (2, 3):
        table.apply(("I", row(number)))
    table.log.mark_retained(Retained(1))
    for before in (0, 1):
        with pytest.raises(PastRetentionError, match=r"as of change 3 and resume after it, or start after change 2"):
            read_changes(session, table.location, TABLE, before)
    assert feed(session, table, 2) == Counter([(3, "insert", 3, 0, DAY)])
