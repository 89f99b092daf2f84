"""Direct changes: their effects, what they refuse, and what they do not touch."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

from cdclake.errors import CdclakeError, ConfigurationError, OrderingError, RefusedChangeError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.direct.input_columns import input_columns
from cdclake.lake.operations.direct.input_tables import input_keys, input_rows, input_updates
from cdclake.model.change.record import ChangeKind
from cdclake.model.raw.files import file_order
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table, versions
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.operations.direct.apply import DirectResult

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32()), ("day", pa.date32())])
SEEN = pa.schema([("id", pa.int64()), ("city", pa.string()), ("seen", pa.timestamp("us", "UTC"))])
DAY = date(2024, 3, 5)
Row = dict[str, Any]


def row(number: int, city: str | None = "Ulm", n: int | None = 0) -> Row:
    return {"id": number, "city": city, "n": n, "day": DAY}


def loaded(tmp_path: Path, **item: str) -> Table:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", **item})
    table.load([row(i) for i in range(1, 5)])
    return table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return loaded(tmp_path, PartitionKey="city")


def insert(table: Table, *rows: Row) -> DirectResult:
    return table.direct("I", input_rows(list(rows)))


def update(table: Table, changes: dict[Any, Row]) -> DirectResult:
    return table.direct("U", input_updates(changes, ["id"]))


def delete(table: Table, *ids: object) -> DirectResult:
    return table.direct("D", input_keys(list(ids), ["id"]))


def state(table: Table) -> dict[int, tuple[object, ...]]:
    return {one.row["id"]: (one.op, *(one.row[name] for name in ("city", "n", "day"))) for one in table.rows()}


@pytest.mark.parametrize("partition", ["null", "city"])
def test_an_insert_an_update_and_a_delete_are_one_change_each(tmp_path: Path, partition: str) -> None:
    table = loaded(tmp_path, PartitionKey=partition)
    two_tables = [pa.Table.from_pylist([row(9, "Bonn")]), pa.Table.from_pylist([{"city": "Kiel", "ID": 10}])]
    done = [
        table.direct("I", two_tables),
        update(table, {1: {"city": "Rom", "n": 7}, 2: {"n": None}}),
        delete(table, 3, 3, 99),
    ]
    assert [(one.change, one.inserted, one.updated, one.deleted, one.absent) for one in done] == [
        (2, 2, 0, 0, 0),
        (3, 0, 2, 0, 0),
        (4, 0, 0, 1, 1),
    ]
    assert state(table) == {
        1: ("U", "Rom", 7, DAY),
        2: ("U", "Ulm", None, DAY),
        4: ("I", "Ulm", 0, DAY),
        9: ("I", "Bonn", 0, DAY),
        10: ("I", "Kiel", None, None),
    }
    assert {table.log.record(number).kind for number in (2, 3, 4)} == {ChangeKind.DIRECT}
    assert list(table.log.store.list(table.layout.staging_folder)) == []


def test_empty_input_makes_no_change(table: Table) -> None:
    nothing = table.direct("I", [COLUMNS.empty_table()])
    assert (nothing.change, nothing.inserted) == (None, 0)
    assert (delete(table).change, delete(table, 99).absent) == (None, 1)
    for empty in (input_rows([]), input_rows(pd.DataFrame())):
        assert table.direct("I", empty).change is None
    assert table.direct("U", input_updates({}, ["id"])).change is None
    assert table.log.head() == 1


@pytest.mark.parametrize(
    ("op", "rows", "message"),
    [
        ("I", input_rows([row(1), row(8)]), "1 keys are in the table already"),
        ("I", input_rows([row(8), row(8), row(8)]), "2 rows repeat the key of an earlier row"),
        ("I", input_rows([{"city": "Bonn"}]), "lacks a key column"),
        ("I", input_rows([row(8), {**row(9), "id": None}]), "1 rows have null in a key column"),
        ("I", input_rows([{**row(8), "colour": "red"}]), r"no such column \(column colour\)"),
        ("I", input_rows([{**row(8), "ID": 8}]), r"occurs twice \(column id\)"),
        ("I", input_rows([{"id": 8, "n": 2**31}, {"id": 9, "n": 1}]), r"do not fit the type of their column \(n: 1\)"),
        ("I", input_rows([{"id": 8, "n": 1.5}]), r"\(n: 1\)"),
        ("I", input_rows([{"id": 8, "n": ""}]), r"\(n: 1\).*column n\b"),
        ("I", input_rows([{"id": 8, "day": "soon"}]), r"\(day: 1\)"),
        ("I", input_rows([{"id": 8, "city": ["Ulm"]}]), "does not support.*column city"),
        (
            "I",
            input_rows([{**row(8), "city": "__HIVE_DEFAULT_PARTITION__"}]),
            "as null.*Correct the values",
        ),
        ("U", input_updates({1: {"n": 1}, 98: {"n": 1}, 99: {"city": "x"}}, ["id"]), "2 keys are not in the table"),
        ("U", input_rows([{"id": 1, "n": 1}, {"id": 1, "n": 2}]), "1 rows repeat the key of an earlier row"),
        (
            "U",
            input_updates([{"id": 1, "n": 1}, {"id": 1, "city": "x"}], ["id"]),
            "1 rows repeat the key of an earlier",
        ),
        ("U", input_rows([{"id": 1}]), "sets no column"),
        ("U", input_rows([{"n": 1}]), "lacks a key column"),
        ("D", input_keys(["one"], ["id"]), r"\(id: 1\)"),
        ("D", input_keys([None], ["id"]), "null in a key column"),
    ],
)
def test_a_refused_change_leaves_no_objects(table: Table, op: str, rows: Any, message: str) -> None:
    before = {entry.key for entry in table.log.store.list("")}
    with pytest.raises(RefusedChangeError, match=message):
        table.direct(op, rows)
    assert {entry.key for entry in table.log.store.list("")} == before


def test_an_update_sets_only_the_columns_of_each_dict(table: Table) -> None:
    before = state(table)
    done = table.direct("U", input_updates([{"id": 1, "n": 7}, {"city": "Bonn", "id": 2}], ["id"]))
    assert done.updated == 2
    assert state(table)[1] == ("U", before[1][1], 7, before[1][3])
    assert state(table)[2] == ("U", "Bonn", *before[2][2:])


def test_rows_to_delete_may_be_dicts(table: Table) -> None:
    assert table.direct("D", input_keys([row(1), {"id": 2}], ["id"])).deleted == 2


def test_a_key_column_cannot_be_set(table: Table) -> None:
    with pytest.raises(RefusedChangeError, match="cannot set a key column"):
        update(table, {1: {"id": 2}})


@pytest.mark.parametrize("bad", [{1: {}}, {1: 2}, {(1, 2): {"n": 1}}])
def test_unsupported_updates_are_refused(bad: Any) -> None:
    with pytest.raises(RefusedChangeError):
        input_updates(bad, ["id"])


@pytest.mark.parametrize("bad", [7, "id = 7", {"id": 7}, [(7, 8)], [[1, "x"], 3]])
def test_unsupported_keys_are_refused(bad: Any) -> None:
    with pytest.raises(RefusedChangeError):
        input_keys(bad, ["id"])


def test_values_without_a_common_type_are_refused() -> None:
    with pytest.raises(RefusedChangeError, match=r"no common type.*column n"):
        input_rows([{"n": 1}, {"n": "x"}])
    with pytest.raises(RefusedChangeError, match=r"no common type.*column n"):
        input_rows([{"n": 2**64}])
    for bad in (Decimal("Infinity"), "\ud800"):
        with pytest.raises(RefusedChangeError, match=r"no common type.*column n"):
            input_rows([{"n": bad}])


def test_a_data_frame_with_a_column_twice_is_refused() -> None:
    with pytest.raises(RefusedChangeError, match=r"occurs twice.*column n"):
        input_rows(pd.DataFrame([[1, 2]], columns=["n", "n"]))


def test_column_names_may_be_numbers() -> None:
    ((column,),) = input_columns(input_rows([{5: "x"}]))
    assert (column.name, column.kind) == ("5", "string")


def test_texts_and_wider_numbers_are_converted_without_loss(table: Table) -> None:
    insert(table, {"id": "8", "n": 3.0, "day": "2024-03-05"})
    assert state(table)[8] == ("I", None, 3, DAY)


def test_rows_read_from_a_table_can_be_inserted(table: Table) -> None:
    insert(table, {**row(8), "Op": "U", "_cdc_position": "x"})
    assert state(table)[8][0] == "I"


def test_a_key_of_several_columns_is_a_tuple(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "city,id", "PartitionKey": "city"})
    table.load([row(1), row(1, "Bonn"), row(2, "Bonn")])
    table.direct("U", input_updates({("Bonn", 1): {"n": 5}}, ["city", "id"]))
    done = table.direct("D", input_keys([("Ulm", 1), ("Ulm", 2)], ["city", "id"]))
    assert (done.deleted, done.absent) == (1, 1)
    assert sorted((one.row["city"], one.row["id"], one.row["n"]) for one in table.rows()) == [
        ("Bonn", 1, 5),
        ("Bonn", 2, 0),
    ]


def test_a_table_without_a_key_accepts_only_inserts(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PartitionKey": "city"})
    table.load([row(1)])
    assert insert(table, row(1), row(1), row(2, "Bonn")).inserted == 3
    assert sorted(one.row["id"] for one in table.rows()) == [1, 1, 1, 2]
    for op in "UD":
        with pytest.raises(ConfigurationError, match="the table has no key"):
            table.direct(op, input_rows([{"id": 1, "n": 1}]))


def test_the_first_insert_creates_the_table(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    with pytest.raises(ConfigurationError, match="no lake table"):
        delete(table, 1)
    with pytest.raises(RefusedChangeError, match="reserved name"):
        insert(table, {"id": 1, "_cdc_position_": "", "AR_H_X": 1})
    with pytest.raises(RefusedChangeError, match="does not support"):
        insert(table, {"id": 1, "list": [1]})
    table.direct("I", [pa.Table.from_pylist([row(1)], COLUMNS)])
    assert state(table) == {1: ("I", "Ulm", 0, DAY)}
    table.apply_file("20240305-101500000.parquet", [("U", row(1, "Bonn"))])
    assert state(table)[1][:2] == ("U", "Bonn")


def test_changed_keys_are_refused(table: Table) -> None:
    table.item["PrimaryKey"] = "city"
    with pytest.raises(ConfigurationError, match="was created with PrimaryKey"):
        insert(table, row(8))


def test_a_direct_change_keeps_the_watermark_and_applied_files(table: Table) -> None:
    table.apply_file("20240305-101500000.parquet", [("U", row(1, "Bonn"))])
    before = table.log.snapshot(2)
    update(table, {1: {"n": 3}})
    delete(table, 2)
    after = table.log.snapshot(4)
    for name in ("watermark", "ledger", "floor", "horizon", "full_load_utc"):
        assert getattr(after, name) == getattr(before, name)
    assert table.load_incremental()["change"] is None


def test_a_file_behind_the_late_window_is_still_reported_after_a_direct_change(table: Table) -> None:
    table.apply_file("20240305-101500000.parquet", [("U", row(1, "Bonn"))])
    table.write_changes("20240201-101500000.parquet", [("U", row(2, "Bonn"))])
    insert(table, row(8))
    assert table.load_incremental()["too_late"] == ["20240201-101500000.parquet"]


def test_a_direct_change_follows_all_rows_of_the_table_despite_a_slow_clock(table: Table) -> None:
    ahead = "20991231-235959999.parquet"
    table.write_changes(ahead, [("U", row(1, "Bonn")), ("D", row(2))])
    table.set_modified(ahead, datetime(2099, 12, 31, tzinfo=timezone.utc))
    table.load_incremental()
    update(table, {1: {"city": "Rom"}})
    insert(table, row(2, "Kiel"))
    delete(table, 1)
    insert(table, row(1, "Lyon"))
    assert [state(table)[i][1] for i in (1, 2)] == ["Lyon", "Kiel"]
    stamps = [file_order(table.log.record(number).raw_names[0]) for number in range(3, 7)]
    assert sorted({ahead, *stamps}) == [ahead, *stamps]


def test_later_source_changes_win_and_earlier_ones_lose(table: Table) -> None:
    table.apply_file("20240305-101500000.parquet", [("U", row(1, "Bonn"))])
    update(table, {1: {"city": "Rom"}, 2: {"city": "Rom"}})  # after that file, though the clock is at midnight
    delete(table, 3)
    table.apply_file("20240305-101400000.parquet", [("U", row(i, "late")) for i in (1, 2, 3)])
    assert [state(table).get(i, ("", "gone"))[1] for i in (1, 2, 3)] == ["Rom", "Rom", "gone"]
    table.apply_file("20240305-101600000.parquet", [("U", row(i, "later")) for i in (1, 2, 3)])
    assert [state(table)[i][1] for i in (1, 2, 3)] == ["later"] * 3


def test_an_ordering_column_orders_direct_changes_too(tmp_path: Path) -> None:
    table = loaded(tmp_path, OrderColumn="n")
    table.apply_file("20240305-101500000.parquet", [("U", row(1, "Bonn", 5)), ("D", row(2, n=7))])
    update(table, {1: {"city": "Rom"}, 3: {"city": "Rom"}})
    delete(table, 4)
    table.apply_file("20240305-101600000.parquet", [("U", row(1, "older", 4)), ("I", row(4, "newer", 1))])
    assert [state(table)[i][1] for i in (1, 3, 4)] == ["Rom", "Rom", "newer"]
    with pytest.raises(RefusedChangeError, match=r"1 rows are older than a change.*Increase n"):
        update(table, {1: {"n": 3}, 3: {"n": 9}})
    with pytest.raises(RefusedChangeError, match="according to n"):
        insert(table, row(2, "again", 6))
    insert(table, row(2, "again", 8))
    table.apply_file("20240305-101700000.parquet", [("U", row(2, "older", 7)), ("U", row(3, "newer", 2))])
    assert [state(table)[i][1] for i in (1, 2, 3)] == ["Rom", "again", "newer"]


@pytest.mark.parametrize(("schema", "value"), [("null", "9:00"), ("city string", "9")])
def test_an_ordering_value_of_text_that_may_not_sort_like_its_values_is_refused(
    tmp_path: Path, schema: str, value: str
) -> None:
    table = loaded(tmp_path, OrderColumn="city", Schema=schema)
    with pytest.raises(OrderingError, match="may not sort") as caught:
        insert(table, row(9, value))
    assert caught.value.details["column"] == "city"
    assert table.log.head() == 1


def test_an_ordering_column_outside_the_lake_orders_by_the_rows_position(tmp_path: Path) -> None:
    table = loaded(tmp_path, OrderColumn="AR_H_TIMESTAMP", Schema="AR_H_TIMESTAMP string")
    stamped = COLUMNS.append(pa.field("AR_H_TIMESTAMP", pa.string()))
    table.columns = stamped
    table.apply_file("20240305-101500000.parquet", [("U", {**row(1, "Bonn"), "AR_H_TIMESTAMP": "b|2"})])
    update(table, {1: {"city": "Rom"}, 2: {"city": "Rom"}})
    table.apply_file(
        "20240305-101600000.parquet", [("U", {**row(i, "older"), "AR_H_TIMESTAMP": "b|1"}) for i in (1, 2)]
    )
    assert [state(table)[i][1] for i in (1, 2)] == ["Rom", "older"]


def test_change_sequences_order_direct_changes_by_the_time_of_the_call(table: Table) -> None:
    table.columns = COLUMNS.append(pa.field("AR_H_CHANGE_SEQ", pa.string()))

    def sequenced(number: int, city: str, moment: str) -> tuple[str, Row]:
        return "U", {**row(number, city), "AR_H_CHANGE_SEQ": moment.ljust(35, "0")}

    table.apply_file("20240305-101500000.parquet", [sequenced(1, "Bonn", "20300101120000999")])
    update(table, {1: {"city": "Rom"}})
    table.apply_file("20240305-101600000.parquet", [sequenced(1, "older", "20300101120000998")])
    assert state(table)[1][1] == "Rom"
    table.apply_file("20240305-101700000.parquet", [sequenced(1, "newer", "20300101120001010")])
    assert state(table)[1][1] == "newer"


def test_a_change_older_than_a_position_without_time_is_refused(table: Table) -> None:
    table.columns = COLUMNS.append(pa.field("AR_H_CHANGE_SEQ", pa.string()))
    table.apply_file("20240305-101500000.parquet", [("D", {**row(1), "AR_H_CHANGE_SEQ": "9" * 35})])
    with pytest.raises(RefusedChangeError, match=r"according to the time.*correct it"):
        insert(table, row(1))


def test_direct_changes_are_rolled_back_and_reapplied(table: Table) -> None:
    update(table, {1: {"city": "Rom"}})
    before = table.files()
    delete(table, 1)
    assert 1 not in state(table)
    from cdclake.commit.undo import apply_undo, plan_reapply, plan_rollback

    run = table.run()
    apply_undo(run.log, plan_rollback(run.log), "by-hand", run.fencing_token, run.clock)
    assert table.files() == before
    apply_undo(run.log, plan_reapply(run.log), "by-hand", run.fencing_token, run.clock)
    assert 1 not in state(table)


def test_direct_changes_keep_columns_that_csv_files_leave_out(tmp_path: Path) -> None:
    schema = "id bigint, city string, n int, day date"
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "Schema": schema, "CsvNoSupValue": "?"})
    insert(table, row(1, "Ulm", 1), row(2))
    update(table, {1: {"n": 2}})
    table.apply_file("20240305-101500000.csv", [("U", {"id": 1, "city": "Bonn"})])
    assert state(table)[1] == ("U", "Bonn", 2, DAY)


def test_a_large_change_is_split_by_key_range_but_recorded_as_one_file(table: Table) -> None:
    table.limits = EngineLimits(key_range_rows=3)
    numbers = range(10, 30)
    assert insert(table, *(row(i) for i in numbers)).inserted == 20
    assert update(table, {i: {"n": i} for i in numbers}).updated == 20
    assert {i: state(table)[i][2] for i in numbers} == {i: i for i in numbers}
    positions = [one.position for one in table.rows() if one.row["id"] >= 10]
    assert {position.split("|")[1] for position in positions} == set(map(file_order, table.log.record(3).raw_names))
    assert sorted(int(position.split("|")[2]) for position in positions) == list(range(20))
    with pytest.raises(RefusedChangeError, match="3 keys are in the table already"):
        insert(table, *(row(i) for i in (12, 20, 29, 40)))
    assert (delete(table, *numbers, 40).deleted, len(table.rows())) == (20, 4)


def test_a_full_load_replaces_direct_changes(table: Table) -> None:
    insert(table, row(9))
    update(table, {1: {"n": 5}})
    table.reload([row(1), row(2)])
    assert state(table) == {1: ("I", "Ulm", 0, DAY), 2: ("I", "Ulm", 0, DAY)}


def test_direct_changes_become_versions_at_the_time_of_the_call(tmp_path: Path) -> None:
    table = loaded(tmp_path, History="true", OrderColumn="n")
    table.now = datetime(2099, 3, 5, 10, tzinfo=timezone.utc)
    update(table, {1: {"city": "Rom"}})
    table.now += timedelta(hours=1)
    delete(table, 1)
    insert(table, row(9))
    check_newest_are_the_table(table, ("id",))
    changed = [one for one in versions(table, ("id",)) if one.row["id"] in (1, 9)]
    first, second = table.now - timedelta(hours=1), table.now
    assert [(one.row["id"], one.operation, one.row["city"], one.valid_from, one.valid_to) for one in changed[1:]] == [
        (1, "update", "Rom", first, second),
        (1, "delete", "Rom", second, None),
        (9, "insert", "Ulm", second + timedelta(milliseconds=1), None),  # a later millisecond than the call before
    ]


def test_a_version_starts_at_the_history_time_column_only_if_the_call_sets_it(tmp_path: Path) -> None:
    table = Table(tmp_path, SEEN, {"PrimaryKey": "id", "History": "true", "HistoryTimeColumn": "seen"})
    at = [datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
    table.load([{"id": key, "city": "Ulm", "seen": at[0]} for key in (1, 2, 3)])
    call = table.now = datetime(2099, 3, 5, 10, tzinfo=timezone.utc)
    update(table, {1: {"city": "Rom"}, 2: {"city": "Rom", "seen": at[1]}})  # not in all rows
    delete(table, 3)
    update(table, {2: {"Seen": at[2]}})
    insert(table, {"id": 4, "seen": at[1]}, {"id": 5})
    starts = [(one.row["id"], one.operation, one.row["seen"], one.valid_from) for one in versions(table, ("id",))]
    second = call + timedelta(milliseconds=1)
    assert [one for one in starts if one[3] != at[0]] == [
        (1, "update", at[0], call),
        (2, "update", at[1], call),
        (2, "update", at[2], at[2]),
        (3, "delete", at[0], second),
        (4, "insert", at[1], at[1]),
        (5, "insert", None, call + timedelta(milliseconds=3)),
    ]


def test_foreign_files_stop_a_direct_change(table: Table) -> None:
    (table.folder / "part-0.parquet").write_bytes(b"")
    with pytest.raises(CdclakeError, match="cdclake repair"):
        insert(table, row(8))
