"""Updates that lack columns, or whose nulls mean that a value was not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError, ConfigurationError, UnsettledKeyError
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table, versions
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

NOTES = pa.schema([("id", pa.int64()), ("name", pa.string()), ("note", pa.string())])
FIRST, SECOND = "20240305-101500000.parquet", "20240305-111500000.parquet"
Value = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, NOTES, {"PrimaryKey": "id"})
    table.write_load([{"id": key, "name": f"n{key}", "note": f"long {key}"} for key in (1, 2, 3)])
    return table


WITHOUT_NOTE = [
    {"Op": "U", "id": 1, "name": "new"},
    {"Op": "I", "id": 4, "name": "n4"},
    {"Op": "D", "id": 2, "name": None},
    {"Op": "U", "id": 5, "name": "n5"},
]


@pytest.mark.parametrize("mode", ["hard", "soft"])
@pytest.mark.parametrize(("setting", "kept"), [(None, "long 1"), ("keep", "long 1"), ("null", None)])
def test_an_update_file_without_a_column_keeps_its_value(
    table: Table, mode: str, setting: str | None, kept: str | None
) -> None:
    table.item |= {"DeleteMode": mode, **({"MissingColumns": setting} if setting else {})}
    table.load_initial()
    summary = table.apply_rows(FIRST, WITHOUT_NOTE)
    assert table.live("name", "note") == {1: ("new", kept), 3: ("n3", "long 3"), 4: ("n4", None), 5: ("n5", None)}
    assert summary["missing_columns"] == ["note"]
    assert table.log.record(table.log.head()).missing_columns == ("note",)


def test_an_insert_or_update_after_a_delete_inherits_nothing(table: Table) -> None:
    table.load_initial()
    table.apply_rows(FIRST, [{"Op": "D", "id": 1, "name": "n1"}, {"Op": "U", "id": 1, "name": "back"}])
    assert table.live("name", "note")[1] == ("back", None)


def test_a_file_with_all_columns_reports_none_missing(table: Table) -> None:
    table.load_initial()
    assert table.apply_rows(FIRST, [{"Op": "U", "id": 1, "name": "new", "note": None}])["missing_columns"] == []
    assert table.live("name", "note")[1] == ("new", None)


def test_a_null_in_an_update_keeps_the_value_of_the_columns_named(table: Table) -> None:
    table.item["NullMeansUnsent"] = "NOTE"
    table.load_initial()
    table.apply_rows(
        FIRST,
        [
            {"Op": "U", "id": 1, "name": None, "note": None},
            {"Op": "U", "id": 2, "name": "b", "note": "short"},
            {"Op": "U", "id": 2, "name": "c", "note": None},
            {"Op": "I", "id": 4, "name": "d", "note": None},
        ],
    )
    assert table.live("name", "note") == {1: (None, "long 1"), 2: ("c", "short"), 3: ("n3", "long 3"), 4: ("d", None)}


def test_a_direct_update_to_null_sets_null(table: Table) -> None:
    table.item["NullMeansUnsent"] = "note"
    table.load_initial()
    table.direct("U", [pa.table({"id": [1], "note": pa.array([None], pa.string())})])
    assert table.live("name", "note")[1] == ("n1", None)


@pytest.mark.parametrize("column", ["nothing", "id"])
def test_a_column_that_does_not_exist_or_is_a_key_cannot_mean_unsent(table: Table, column: str) -> None:
    table.item["NullMeansUnsent"] = column
    with pytest.raises(ConfigurationError, match="NullMeansUnsent"):
        table.load_initial()


def test_the_history_keeps_values_that_updates_did_not_send(table: Table) -> None:
    table.item |= {"History": "true", "NullMeansUnsent": "note"}
    table.load_initial()
    table.apply_rows(FIRST, [*WITHOUT_NOTE, {"Op": "U", "id": 1, "name": "newer"}])
    table.apply_rows(SECOND, [{"Op": "U", "id": 1, "name": "newest", "note": None}])
    told = [(one.row["name"], one.row["note"]) for one in versions(table, ("id",), (1,)) if one.row["id"] == 1]
    assert told == [("n1", "long 1"), ("new", "long 1"), ("newer", "long 1"), ("newest", "long 1")]
    check_newest_are_the_table(table, ("id",))


def test_an_update_of_the_key_without_a_column_names_the_setting_for_dropped_columns(table: Table) -> None:
    table.load_initial()
    with pytest.raises(
        BadRowError, match=r"not send column note: .* dropped or renamed the column, set MissingColumns to null"
    ):
        table.apply_rows(FIRST, [{"Op": "U", "BI_id": 1, "id": 9, "name": "moved"}])
    table.item["MissingColumns"] = "null"
    table.load_incremental()
    assert table.live("name", "note") == {2: ("n2", "long 2"), 3: ("n3", "long 3"), 9: ("moved", None)}


def write_column_later(table: Table, before: str, after: str, order_column: str | None = None) -> None:
    """A file that moves row 1 to key 10, and one with a new column, which row 10 then gets."""
    extra = {order_column: "2024-03-05 10:15:00"} if order_column else {}
    table.put_rows(before, [{"Op": "U", "BI_id": 1, "id": 10, "name": "n", "note": "m", **extra}])
    table.put_rows(after, [{"Op": "U", "id": 2, "name": "n2", "note": "m", "city": "Rome", **extra}])


@pytest.mark.parametrize("files_per_run", ["1", "2"])
@pytest.mark.parametrize("history", ["false", "true"])
def test_an_update_of_the_key_from_before_a_column_was_added_needs_no_value_of_it(
    table: Table, files_per_run: str, history: str
) -> None:
    table.item |= {"MaxFilesPerRun": files_per_run, "History": history}
    table.load_initial()
    write_column_later(table, FIRST, SECOND)
    while table.load_incremental()["change"]:
        pass
    table.columns = table.columns.append(pa.field("city", pa.string()))
    assert table.live("city") == {2: "Rome", 3: None, 10: None}


def test_a_late_row_of_a_key_is_compared_with_a_row_that_moved_there_without_all_columns(table: Table) -> None:
    table.load_initial()
    write_column_later(table, SECOND, "20240305-121500000.parquet")
    table.load_incremental()
    with pytest.raises(UnsettledKeyError, match=f"A late row decides.*{FIRST}"):
        table.apply_rows(FIRST, [{"Op": "I", "id": 10, "name": "late", "note": "m"}])


def test_an_update_of_the_key_from_after_a_column_was_added_needs_its_value(table: Table) -> None:
    table.load_initial()
    write_column_later(table, SECOND, FIRST)
    with pytest.raises(BadRowError, match=f"did not send column city.*{SECOND}"):
        table.load_incremental()


def test_files_do_not_tell_when_a_column_was_added_if_a_column_of_the_source_orders_changes(table: Table) -> None:
    table.item["OrderColumn"] = "changed_at"
    table.load_initial()
    write_column_later(table, FIRST, SECOND, "changed_at")
    with pytest.raises(BadRowError, match=f"did not send column .*{FIRST}"):
        table.load_incremental()
