"""The history of a table: its versions, the files that a change rewrites, and tables that cannot have one."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.table_files import compare, repair
from cdclake.errors import ConfigurationError, LakeFilesError, SchemaMismatchError, UnsentValueError
from cdclake.lake.scd2.closed_files import MAX_SMALL_FILES
from cdclake.lake.scd2.versions import times_of
from cdclake.model.layout import LakeLayout
from cdclake.model.table.name import TableName
from tests.cdclake.lake.merge.published_scd import CHANGES, TYPE_1
from tests.cdclake.lake.over_time import TableOverTime
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table, version_files, version_rows, versions
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cdclake.lake.spark.spark_backend import SparkBackend
    from cdclake_devkit.oracle import Version

KEY = ("id",)
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seen", pa.timestamp("us", tz="UTC"))])
ITEM = {"PrimaryKey": "id", "History": "true"}
JANUARY, FEBRUARY, MARCH = (datetime(2024, month, 10, tzinfo=timezone.utc) for month in (1, 2, 3))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, COLUMNS, dict(ITEM))


def row(number: int, name: str | int | None = None, seen: datetime | None = None) -> dict[str, Any]:
    return {"id": number, "name": name, "seen": seen}


def change(table: Table, when: datetime, *rows: tuple[str, dict[str, Any]]) -> int:
    number: int = table.apply_file(f"{when:%Y%m%d-%H%M%S}000.parquet", list(rows))["change"]
    return number


def summary(found: Sequence[Version]) -> list[tuple[Any, ...]]:
    return [(one.row["id"], one.row["name"], one.operation, one.valid_from, one.valid_to) for one in found]


PUBLISHED_TYPE_2 = {
    (123, "Isabel", "Monterrey", 1, 5),
    (123, "Isabel", "Chihuahua", 5, 6),
    (124, "Raul", "Oaxaca", 1, None),
    (125, "Mercedes", "Tijuana", 2, 5),
    (125, "Mercedes", "Mexicali", 5, 6),
    (125, "Mercedes", "Guadalajara", 6, None),
    (126, "Lily", "Cancun", 2, None),
}


@pytest.mark.sampled(quick=3)
@pytest.mark.parametrize("runs", [1, 2, 8])
@pytest.mark.parametrize("step", [1, 3, 5, 7])
def test_the_published_example_yields_its_tables_in_any_order(tmp_path: Path, runs: int, step: int) -> None:
    columns = pa.schema([("userId", pa.int64()), ("name", pa.string()), ("city", pa.string())])
    users = Table(tmp_path, columns, {"PrimaryKey": "userId", "History": "true"})
    for index in range(len(CHANGES)):
        user, name, city, op, number = CHANGES[index * step % len(CHANGES)]
        path = f"20240101-00000{number}00{index}.parquet"
        users.write_changes(path, [(op, {"userId": user, "name": name, "city": city})])
        if index % (len(CHANGES) // runs) == 0:
            users.load_incremental()
    users.load_incremental()

    def number_of(when: datetime | None) -> int | None:
        return when.second if when else None

    assert {tuple(one.row.values()) for one in users.rows()} == TYPE_1
    found = versions(users, ("userId",))
    kept = [one for one in found if one.operation != "delete"]
    type_2 = {(*one.row.values(), number_of(one.valid_from), number_of(one.valid_to)) for one in kept}
    assert type_2 == PUBLISHED_TYPE_2
    assert [tuple(one.row.values()) for one in found if one.operation == "delete"] == [(123, "Isabel", "Chihuahua")]


def test_a_key_that_returns_after_its_delete_is_an_insert(table: Table) -> None:
    change(table, JANUARY, ("I", row(1, "a")), ("U", row(1, "b")))
    change(table, FEBRUARY, ("D", row(1)))
    change(table, MARCH, ("U", row(1, "c")))
    assert summary(versions(table, KEY)) == [
        (1, "a", "insert", JANUARY, JANUARY),  # two changes in one file: same time, but in order
        (1, "b", "update", JANUARY, FEBRUARY),
        (1, "b", "delete", FEBRUARY, MARCH),
        (1, "c", "insert", MARCH, None),
    ]


def test_a_late_row_goes_between_its_neighbors_and_only_their_files_change(table: Table) -> None:
    table.item["LateWindowHours"] = "9999"
    change(table, JANUARY, ("I", row(1, "a")), ("I", row(2, "a")), ("I", row(3, "z")))
    change(table, FEBRUARY, ("U", row(1, "c")), ("U", row(2, "c")))
    change(table, FEBRUARY + timedelta(days=1), ("U", row(3, "y")))
    change(table, MARCH, ("U", row(1, "d")))
    before = version_files(table)
    late = JANUARY + timedelta(days=1)
    change(table, late, ("U", row(1, "b")))
    found = [one for one in summary(versions(table, KEY)) if one[0] == 1]
    assert found == [
        (1, "a", "insert", JANUARY, late),
        (1, "b", "update", late, FEBRUARY),
        (1, "c", "update", FEBRUARY, MARCH),
        (1, "d", "update", MARCH, None),
    ]
    after = version_files(table)
    removed = before.keys() - after.keys()
    assert len(removed) == 1
    assert {name: data for name, data in before.items() if name not in removed}.items() <= after.items()


@pytest.mark.slow
def test_closed_files_of_past_months_stay_as_they_are(table: Table) -> None:
    """A change adds files to the month in which a version was opened, and leaves existing files as they are."""
    table.load([row(number, "loaded") for number in range(20)], JANUARY)
    for days in range(10):
        when = FEBRUARY + timedelta(days=5 * days)
        closed = closed_files(table)
        change(table, when, ("U", row(days, "first")), ("U", row(days, "second")), ("D", row(19 - days)))
        assert closed.items() <= closed_files(table).items()


def closed_files(table: Table) -> dict[str, bytes]:
    history = table.log.snapshot(table.log.head()).history
    closed = {file.path.partition("/")[2] for file in history.closed} if history else set()
    return {name: data for name, data in version_files(table).items() if name in closed}


@pytest.mark.slow
def test_small_files_of_a_month_are_merged_before_there_are_many(table: Table) -> None:
    table.load([row(1, "loaded")], JANUARY)
    for hours in range(2 * MAX_SMALL_FILES):
        change(table, FEBRUARY + timedelta(hours=hours), ("U", row(1, str(hours))))
        assert len(closed_files(table)) <= MAX_SMALL_FILES + 1
    assert len(version_rows(table)) == 2 * MAX_SMALL_FILES + 1


def test_rollback_and_reapply_restore_the_same_files(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, ITEM)
    table.load([row(1, "a"), row(2, "b")])
    seen = [version_files(table)]
    for changes in ([("U", row(1, "c"))], [("D", row(2)), ("I", row(3, "d"))], [("U", row(3, "e"))]):
        table.apply(*changes)
        seen.append(version_files(table))
    table.roll_back(1)
    assert version_files(table) == seen[0]
    for files in seen[1:]:
        table.reapply()
        assert version_files(table) == files
        check_newest_are_the_table(table, KEY)
    table.roll_back(0)
    assert version_files(table) == {}
    table.load_incremental()
    check_newest_are_the_table(table, KEY)


def test_a_clean_up_deletes_history_files_that_no_retained_change_needs(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, ITEM)
    table.load([row(1, "a")])
    for name in "bcd":
        table.apply(("U", row(1, name)))
    before = version_files(table)
    retired = {path for record in table.log.records(1, 4) for path in record.retired}
    plan = plan_clean_up(table.log, timedelta(0), table.next_time())
    assert set(plan.data_files) == retired
    assert any(path.startswith("_history/") for path in retired)
    clean_up(table.log, plan)
    assert version_files(table) == before
    assert not any((table.lake / table.layout.retired_key(path)).exists() for path in retired)


def test_a_reload_writes_only_differences(table: Table) -> None:
    table.load([row(1, "same"), row(2, "old"), row(3, "gone"), row(4, None)], JANUARY)
    change(table, FEBRUARY, ("D", row(4)), ("I", row(5, "same")))
    rows = [row(1, "same"), row(2, "new"), row(4), row(5, "same"), row(6, "more")]
    first = table.load(rows, MARCH)
    assert summary(versions(table, KEY, (1, first["change"]))) == [
        (1, "same", "insert", JANUARY, None),
        (2, "old", "insert", JANUARY, MARCH),
        (2, "new", "update", MARCH, None),
        (3, "gone", "insert", JANUARY, MARCH),
        (3, "gone", "delete", MARCH, None),
        (4, None, "insert", JANUARY, FEBRUARY),
        (4, None, "delete", FEBRUARY, MARCH),
        (4, None, "insert", MARCH, None),
        (5, "same", "insert", FEBRUARY, None),
        (6, "more", "insert", MARCH, None),
    ]
    files = version_files(table)
    table.load(rows, MARCH + timedelta(days=1))
    assert version_files(table) == files


def test_a_history_turned_on_later_begins_with_the_rows_of_the_table(table: Table) -> None:
    table.item["History"] = "false"
    table.load([row(1, "loaded"), row(2, "loaded"), row(3, "loaded")], JANUARY)
    change(table, FEBRUARY, ("U", row(2, "changed")), ("D", row(3)))
    assert version_files(table) == {}
    table.item["History"] = "true"
    change(table, MARCH, ("U", row(1, "new")))
    assert summary(versions(table, KEY)) == [
        (1, "loaded", "insert", JANUARY, MARCH),
        (1, "new", "update", MARCH, None),
        (2, "changed", "insert", FEBRUARY, None),
    ]


def test_a_row_older_than_a_delete_before_the_history_began_stays_deleted(table: Table) -> None:
    table.item |= {"History": "false", "LateWindowHours": "9999"}
    change(table, JANUARY, ("I", row(1, "a")))
    change(table, MARCH, ("D", row(1)))
    table.item["History"] = "true"
    change(table, FEBRUARY, ("U", row(1, "late")))
    assert table.rows() == []
    assert summary(versions(table, KEY)) == [(1, "late", "insert", FEBRUARY, MARCH), (1, "late", "delete", MARCH, None)]


def test_a_delete_that_the_history_has_is_not_added_again_for_a_late_row(table: Table) -> None:
    table.item["History"] = "false"
    change(table, JANUARY, ("I", row(1, "first")))
    table.item["History"] = "true"
    change(table, FEBRUARY, ("I", row(2)))
    change(table, FEBRUARY + timedelta(hours=3), ("D", row(1)))
    change(table, FEBRUARY + timedelta(hours=1), ("U", row(1, "late")))
    check_newest_are_the_table(table, KEY)
    operations = [(one.row["name"], one.operation) for one in versions(table, KEY) if one.row["id"] == 1]
    assert operations == [("first", "insert"), ("late", "update"), ("late", "delete")]


def test_a_history_turned_off_stays_unchanged_and_catches_up_when_turned_on(table: Table) -> None:
    table.load([row(1, "a"), row(2, "b"), row(3, "c")], JANUARY)
    files = version_files(table)
    table.item["History"] = "false"
    change(table, FEBRUARY, ("U", row(1, "unseen")), ("D", row(2)))
    change(table, FEBRUARY + timedelta(days=1), ("U", row(1, "seen")))
    assert version_files(table) == files
    table.item["History"] = "true"
    change(table, MARCH, ("U", row(3, "d")))
    now = datetime(2024, 3, 5, tzinfo=timezone.utc)  # when the delete was detected
    assert summary(versions(table, KEY)) == [
        (1, "a", "insert", JANUARY, FEBRUARY + timedelta(days=1)),
        (1, "seen", "update", FEBRUARY + timedelta(days=1), None),
        (2, "b", "insert", JANUARY, now),
        (2, "b", "delete", now, None),
        (3, "c", "insert", JANUARY, MARCH),
        (3, "d", "update", MARCH, None),
    ]


def test_times_come_from_the_column_then_the_change_sequence_then_the_file(table: Table) -> None:
    table.item["HistoryTimeColumn"] = "seen"
    change(table, MARCH, ("I", row(1, "with time", JANUARY)), ("I", row(2, "without time")))
    assert [one.valid_from for one in versions(table, KEY)] == [JANUARY, MARCH]
    sequence = "2024031010203045" + "7" * 19
    positions = [
        f"{sequence}|20240311-000000000.parquet|0000000000",
        f"{'0' * 34}7|20240311-000000123.parquet|0000000000",
        "0042|20240311-0000001234/2024/03/11/20240311-0000001234.parquet|0000000001",
        "",
    ]
    times = times_of(pa.chunked_array([positions])).to_pylist()
    assert [str(time)[:23] for time in times] == [
        "2024-03-10 10:20:30.450",
        "2024-03-11 00:00:00.123",
        "2024-03-11 00:00:00.123",
        "None",
    ]


SEQUENCED = [
    *[("I", row(1, "a")), ("I", row(2, "z")), ("U", row(1, "b"))],
    *[("D", row(1)), ("D", row(2)), ("U", row(1, "b"))],
]


def put_sequenced(table: Table, file: int, start: int, end: int, **other_values: Any) -> None:
    """Write rows of `SEQUENCED` with their change sequences, as a task does that sends rows again."""
    rows = [
        {"Op": op, **values, **other_values, "AR_H_CHANGE_SEQ": f"2024031012000{number}00{number:019}"}
        for number, (op, values) in enumerate(SEQUENCED)
    ]
    columns = pa.schema([("Op", pa.string()), *COLUMNS, ("AR_H_CHANGE_SEQ", pa.string())])
    table.put(f"20240310-12010{file}000.parquet", pa.Table.from_pylist(rows[start:end], columns))


def _files_with_unsent_values(settings: dict[str, str], last: str) -> list[pa.Table]:
    """An update of all columns, two that do not send the name, and a last change of all columns."""
    unsent: dict[str, Any] = {"name": None} if settings else {}
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("U", {"name": "b"}),
        ("U", unsent),
        ("U", unsent),
        (last, {"name": "c"}),
    )
    times = [{"seen": JANUARY + timedelta(days=number)} for number in range(4)]
    rows = [{"Op": op, "id": 1, **values, **time} for (op, values), time in zip(changes, times, strict=True)]
    names = [("Op", *(name for name in COLUMNS.names if name in row)) for row in rows]
    schemas = [pa.schema([pa.field("Op", pa.string()), *(COLUMNS.field(one) for one in some[1:])]) for some in names]
    return [pa.Table.from_pylist([row], schema) for row, schema in zip(rows, schemas, strict=True)]


@pytest.mark.sampled(quick=4, test=8, ci=24)
@pytest.mark.parametrize("settings", [{}, {"NullMeansUnsent": "name"}])
@pytest.mark.parametrize("last", ["U", "D"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_versions_of_unsent_values_do_not_depend_on_the_order_of_files(
    tmp_path: Path, settings: dict[str, str], last: str, order: tuple[int, ...]
) -> None:
    files = _files_with_unsent_values(settings, last)

    def versions_after(folder: str, steps: Sequence[int]) -> list[tuple[Any, ...]]:
        table = Table(tmp_path / folder, COLUMNS, {**ITEM, **settings})
        table.load([row(1, "a", JANUARY)], JANUARY)
        for number in steps:
            table.put(f"20240310-10000{number}000.parquet", files[number])
            table.load_incremental()
        return [(one.operation, one.row["name"], one.row["seen"]) for one in versions(table, KEY)]

    with suppress(UnsentValueError):  # while the table itself lacks a value that a later change did not send
        assert versions_after("late", order) == versions_after("in order", range(4))


@pytest.mark.sampled(quick=2)
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
@pytest.mark.parametrize("runs", [1, 3])
def test_rows_that_a_resumed_task_sends_again_make_no_second_version(
    table: Table, order: tuple[int, ...], runs: int
) -> None:
    parts = [(0, 4), (1, 6), (0, 6)]
    for file in order:
        put_sequenced(table, file, *parts[file])
        if runs > 1:
            table.load_incremental()
    table.load_incremental()
    assert [one[:3] for one in summary(versions(table, KEY))] == [
        (1, "a", "insert"),
        (1, "b", "update"),
        (1, "b", "delete"),
        (1, "b", "insert"),
        (2, "z", "insert"),
        (2, "z", "delete"),
    ]
    check_newest_are_the_table(table, KEY)


def test_a_row_sent_again_with_another_value_is_a_version(table: Table) -> None:
    """Of a change that DMS sends again it may have read a large value anew: the table shows the later, so does it."""
    put_sequenced(table, 0, 0, 3)
    table.load_incremental()
    put_sequenced(table, 1, 2, 3, seen=MARCH)
    table.load_incremental()
    found = [(one.row["name"], one.row["seen"], one.operation) for one in versions(table, KEY) if one.row["id"] == 1]
    assert found == [("a", None, "insert"), ("b", None, "update"), ("b", MARCH, "update")]
    check_newest_are_the_table(table, KEY)


def test_a_widened_type_is_the_same_in_all_files(table: Table) -> None:
    narrow = pa.schema([("id", pa.int32()), ("name", pa.string()), ("seen", pa.timestamp("us", tz="UTC"))])
    table.columns = narrow
    change(table, JANUARY, ("I", row(1, "a")), ("I", row(2, "b")))
    change(table, FEBRUARY, ("U", row(1, "c")))
    table.columns = COLUMNS
    change(table, MARCH, ("U", row(1, "d")))
    assert [one[1] for one in summary(versions(table, KEY))] == ["a", "c", "d", "b"]
    folder = table.lake / table.layout.history.table_prefix
    assert {pq.read_schema(folder / name).field("id").type for name in version_files(table)} == {pa.int64()}


def test_vanished_and_foreign_files_of_the_history_are_detected_and_repaired(table: Table) -> None:
    table.load([row(1, "a")], JANUARY)
    folder, before = table.lake / table.layout.history.table_prefix, version_files(table)
    (name,) = before
    kept = table.lake / table.layout.retired_key(f"_history/{name}")
    kept.parent.mkdir(parents=True)
    (folder / name).rename(kept)
    (folder / "stranger.parquet").write_bytes(b"")
    with pytest.raises(LakeFilesError, match=r"Files appeared .* _history/stranger\.parquet"):
        table.apply_file("20240310-000000000.parquet", [("I", row(2, "b"))])
    snapshot = table.log.snapshot(1)
    repair(table.log, snapshot.change, compare(table.log, snapshot.all_files))
    assert version_files(table) == before
    table.load_incremental()
    check_newest_are_the_table(table, KEY)


def test_a_vanished_file_of_the_history_stops_a_reload_too(table: Table) -> None:
    table.load([row(1, "a")], JANUARY)
    (name,) = version_files(table)
    (table.lake / table.layout.history.table_prefix / name).unlink()
    with pytest.raises(LakeFilesError, match="vanished"):
        table.load([row(1, "b")], FEBRUARY)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"PrimaryKey": "null"}, "needs a primary key"),
        ({"CsvNoSupValue": "?"}, "CsvNoSupValue"),
        ({"HistoryTimeColumn": "name"}, "no timestamp column name"),
        ({"HistoryTimeColumn": "nowhere"}, "no timestamp column nowhere"),
    ],
)
def test_a_table_that_cannot_have_a_history_is_refused(table: Table, item: dict[str, str], message: str) -> None:
    table.item |= item
    with pytest.raises(ConfigurationError, match=message):
        change(table, JANUARY, ("I", row(1, "a")))
    assert table.log.head() == 0


def test_a_column_named_like_one_of_the_history_is_refused(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("Operation", pa.string())])
    table = Table(tmp_path, columns, ITEM)
    with pytest.raises(ConfigurationError, match="has a column operation"):
        change(table, JANUARY, ("I", {"id": 1, "Operation": "x"}))


def test_another_key_is_refused_while_there_is_a_history(table: Table) -> None:
    table.load([row(1, "a")], JANUARY)
    table.item["PrimaryKey"] = "name"
    with pytest.raises(ConfigurationError, match="was created with PrimaryKey 'id'"):
        table.load([row(1, "b")], FEBRUARY)
    table.item["History"] = "false"
    table.load([row(1, "b")], FEBRUARY)
    table.item["History"] = "true"
    with pytest.raises(ConfigurationError, match="on again in a reload, it begins anew"):
        change(table, MARCH, ("U", row(2, "b")))
    table.load([row(3, "c")], MARCH)
    assert summary(versions(table, ("name",))) == [(3, "c", "insert", MARCH, None)]


@pytest.mark.parametrize("mode", ["replace", "diff"])
def test_a_history_begins_anew_for_another_type_after_it_was_off(tmp_path: Path, mode: str) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {**ITEM, "ReloadMode": mode})
    table.load([row(1, "a"), row(2, "b")], JANUARY)
    before = version_rows(table)
    table.columns = pa.schema([("id", pa.int64()), ("name", pa.int64()), ("seen", pa.timestamp("us", tz="UTC"))])
    with pytest.raises(SchemaMismatchError, match=r"name is string in the history.*History=false --set 'LastFullLoad"):
        table.load([row(1, 7)], FEBRUARY)
    table.item["History"] = "false"
    table.load_initial()
    assert version_rows(table) == before
    table.item["History"] = "true"
    with pytest.raises(SchemaMismatchError, match="Load the table again, then its history begins anew"):
        change(table, FEBRUARY + timedelta(days=1), ("U", row(1, 8)))
    table.load([row(1, 9)], MARCH)
    assert summary(versions(table, KEY)) == [(1, 9, "insert", MARCH, None)]
    table.roll_back(to=2)
    assert version_rows(table) == before


def test_two_tables_never_share_the_folder_of_a_history(table: Table) -> None:
    other = "orders_history"
    table.item["History"] = "false"
    table.load([row(1, "a")], JANUARY)
    log = table.log
    neighbor = LakeLayout("lake", "", TableName("shop", other))
    log.store.put(neighbor.change_key(1), log.store.get(table.layout.change_key(1)) or b"")
    table.item["History"] = "true"
    with pytest.raises(ConfigurationError, match=r"needs a folder that the table shop\.orders_history uses"):
        change(table, FEBRUARY, ("I", row(2, "b")))
    log.store.delete([neighbor.change_key(1)])
    (table.lake / neighbor.table_prefix).mkdir()
    (table.lake / neighbor.table_prefix / "theirs.parquet").write_bytes(b"")
    with pytest.raises(LakeFilesError, match="contains files that cdclake did not write"):
        table.load_incremental()


def test_a_table_in_the_folder_of_a_history_is_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.load([row(1, "a")], JANUARY)
    table.item["History"] = "false"
    monkeypatch.setattr("tests.cdclake.lake.table.NAME", TableName("shop", "orders_history"))
    with pytest.raises(ConfigurationError, match=r"contains the history of shop\.orders"):
        change(table, FEBRUARY, ("I", row(2, "b")))
    with pytest.raises(ConfigurationError, match="history"):  # what repair and adopt call
        compare(table.log, ())


@pytest.mark.spark
def test_spark_writes_the_same_history(tmp_path: Path, spark_backend: SparkBackend) -> None:
    results = []
    for name, backend in (("spark", spark_backend), ("here", None)):
        (tmp_path / name).mkdir()
        table = Table(tmp_path / name, COLUMNS, {**ITEM, "TargetFileBytes": "2000"})
        table.spark = backend or table.spark
        table.load([row(number, "loaded") for number in range(400)], JANUARY)
        change(table, FEBRUARY, *(("U", row(number, "new")) for number in range(0, 400, 3)))
        first = table.load([row(number, "loaded") for number in range(200)], MARCH)
        results.append(versions(table, KEY, (1, first["change"])))
    assert results[0] == results[1]
    assert len(list(itertools.groupby(results[0], lambda one: one.row["id"]))) == 400
