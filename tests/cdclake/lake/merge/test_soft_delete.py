"""Soft deletes: deleted rows stay stored, but count, read and revive as if they were gone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.catalog.live_view import live_view
from cdclake.control.catalog.plan import catalog_entry
from cdclake.errors import RefusedChangeError
from cdclake.lake.operations.direct.input_tables import input_keys, input_rows
from cdclake.model.catalog import CatalogName
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.merge.test_against_oracle import COLUMNS as WIDE
from tests.cdclake.lake.merge.test_against_oracle import SECOND_HALF, feeds
from tests.cdclake.lake.over_time import TableOverTime
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table
from tests.cdclake.lake.table import Table, by_key
from tests.examples import examples

if TYPE_CHECKING:
    from cdclake.lake.operations.direct.apply import DirectResult

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
SOFT = {"PrimaryKey": "id", "DeleteMode": "soft"}
FILES = [f"20240305-1{i}0000000.parquet" for i in range(9)]

Row = dict[str, Any]


def row(number: int, city: str | None = "Ulm", n: int | None = 0) -> Row:
    return {"id": number, "city": city, "n": n}


def stored_rows(table: Table) -> dict[int, tuple[str | None, int | None, str]]:
    """City, number and operation of each row by key."""
    return {one.row["id"]: (one.row["city"], one.row["n"], one.op) for one in table.rows()}


def counts(table: Table) -> tuple[int, int]:
    """Numbers of live and soft-deleted rows in the snapshot, which match the files."""
    snapshot = table.log.snapshot(table.log.head())
    stored = {file.path: pq.read_table(table.lake / table.layout.data_key(file.path)) for file in snapshot.files}
    assert {file.path: file.deleted for file in snapshot.files} == {
        path: one["Op"].to_pylist().count("D") for path, one in stored.items()
    }
    return snapshot.rows, snapshot.deleted_rows


@pytest.fixture(params=["null", "city"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Rows 1, 2 and 3, in one folder or in partitions."""
    table = Table(tmp_path, COLUMNS, {**SOFT, "PartitionKey": request.param})
    table.load([row(1), row(2, "Bonn", 2), row(3)])
    return table


def change(table: Table, file: str, *rows: tuple[str, Row]) -> dict[str, Any]:
    return table.apply_file(file, rows)


def test_a_delete_with_only_the_key_keeps_all_columns_and_the_position(table: Table) -> None:
    before = {one.row["id"]: one for one in table.rows()}
    books = change(table, FILES[0], ("D", row(2, None, None)))["books"]
    after = {one.row["id"]: one for one in table.rows()}
    assert (after[2].row, after[2].op, after[2].position) == (before[2].row, "D", before[2].position)
    assert (after[1], after[3]) == (before[1], before[3])
    assert (books["deleted"], books["rows_before"], books["rows_after"]) == (1, 3, 2)
    assert counts(table) == (2, 1)


def test_an_insert_or_update_after_the_delete_revives_the_row(table: Table) -> None:
    change(table, FILES[0], ("D", row(1)), ("D", row(2)))
    books = change(table, FILES[1], ("I", row(1, "Kiel", 7)), ("U", row(2, "Bonn", 8)))["books"]
    assert stored_rows(table) == {1: ("Kiel", 7, "I"), 2: ("Bonn", 8, "U"), 3: ("Ulm", 0, "I")}
    assert (books["inserted"], books["updated"], books["rows_after"]) == (2, 0, 3)
    assert counts(table) == (3, 0)


def test_a_late_change_from_before_the_delete_sets_columns_but_does_not_revive_the_row(table: Table) -> None:
    change(table, FILES[5], ("D", row(2, None, None)))
    books = change(table, FILES[3], ("U", row(2, "Rom", 9)))["books"]
    assert stored_rows(table)[2] == ("Rom", 9, "D")
    assert (books["superseded"], books["applied"], books["rows_after"]) == (1, 0, 2)
    change(table, FILES[2], ("U", row(2, "Bern", 5)))
    assert stored_rows(table)[2] == ("Rom", 9, "D")


def test_the_delete_of_an_unknown_row_stores_none_until_a_late_insert_arrives(table: Table) -> None:
    assert (change(table, FILES[5], ("D", row(9, None, None)))["books"]["absent"], counts(table)) == (1, (3, 0))
    change(table, FILES[4], ("I", row(9, "Rom", 9)))
    assert stored_rows(table)[9] == ("Rom", 9, "D")
    assert counts(table) == (3, 1)


def test_an_update_and_a_delete_in_one_file_keep_the_values_of_the_update(table: Table) -> None:
    change(table, FILES[0], ("U", row(2, "Rom", 9)), ("D", row(2, None, None)), ("I", row(8)), ("D", row(8)))
    assert (stored_rows(table)[2], stored_rows(table)[8]) == (("Rom", 9, "D"), ("Ulm", 0, "D"))
    assert counts(table) == (2, 2)


def test_a_row_deleted_twice_is_deleted_once_and_its_file_stays(table: Table) -> None:
    change(table, FILES[0], ("D", row(2)))
    files = table.files()
    books = change(table, FILES[1], ("D", row(2)))["books"]
    assert (books["deleted"], books["absent"]) == (0, 1)
    assert table.files() == files


def test_an_update_of_the_key_leaves_the_old_row_soft_deleted(table: Table) -> None:
    table.apply_file(FILES[0], [("U", row(20, "Bonn", 3), {"id": 2})])
    assert (stored_rows(table)[2], stored_rows(table)[20]) == (("Bonn", 2, "D"), ("Bonn", 3, "U"))
    assert counts(table) == (3, 1)


def test_direct_changes_treat_soft_deleted_rows_as_absent(table: Table) -> None:
    def ids(number: int) -> DirectResult:
        return table.direct("D", input_keys([number], ["id"]))

    assert (ids(2).deleted, ids(2).deleted) == (1, 0)
    assert stored_rows(table)[2] == ("Bonn", 2, "D")
    with pytest.raises(RefusedChangeError):
        table.direct("U", input_rows([row(2, "Rom")]))
    assert table.direct("I", input_rows([row(2, "Rom", 5)])).inserted == 1
    assert stored_rows(table)[2] == ("Rom", 5, "I")


def test_a_reload_removes_soft_deleted_rows(table: Table) -> None:
    change(table, FILES[0], ("D", row(2)))
    books = table.reload([row(1), row(3, "Kiel")])["books"]
    assert stored_rows(table) == {1: ("Ulm", 0, "I"), 3: ("Kiel", 0, "I")}
    assert (books["replaced"], books["rows_before"], books["rows_after"]) == (2, 2, 2)
    assert counts(table) == (2, 0)


def test_a_table_without_a_key_ignores_deletes_in_either_mode(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"DeleteMode": "soft"})
    assert change(table, FILES[0], ("I", row(1)), ("D", row(1)))["books"]["ignored"] == 1
    assert stored_rows(table) == {1: ("Ulm", 0, "I")}


def test_rows_deleted_before_the_mode_is_soft_stay_gone(table: Table) -> None:
    table.item["DeleteMode"] = "hard"
    change(table, FILES[0], ("D", row(1)))
    table.item["DeleteMode"] = "soft"
    change(table, FILES[1], ("D", row(2)))
    assert stored_rows(table) == {2: ("Bonn", 2, "D"), 3: ("Ulm", 0, "I")}


def test_the_next_change_in_hard_mode_removes_soft_deleted_rows_permanently(
    table: Table,
) -> None:
    change(table, FILES[5], ("D", row(1)), ("D", row(2)))
    table.item["DeleteMode"] = "hard"
    books = change(table, FILES[6], ("I", row(4)))["books"]
    assert stored_rows(table) == {3: ("Ulm", 0, "I"), 4: ("Ulm", 0, "I")}
    assert (books["rows_before"], books["inserted"], books["deleted"], books["rows_after"]) == (1, 1, 0, 2)
    change(table, FILES[4], ("U", row(1)), ("U", row(2)))
    assert sorted(stored_rows(table)) == [3, 4]


@pytest.fixture
def partial(tmp_path: Path) -> Table:
    """Row 1, soft-deleted by a file of 11:00, of a source that sends only changed columns."""
    item = {**SOFT, "Schema": "id bigint, city string, n int", "CsvNoSupValue": "?"}
    table = Table(tmp_path, COLUMNS, item)
    table.load([row(1, "Ulm", 7)])
    table.apply_file("20240305-110000000.csv", [("D", {"id": 1})])
    assert stored_rows(table) == {1: ("Ulm", 7, "D")}
    return table


def test_columns_not_sent_after_the_delete_do_not_come_from_the_deleted_row(partial: Table) -> None:
    partial.apply_file("20240305-120000000.csv", [("U", {"id": 1, "city": "Kiel"})])
    assert stored_rows(partial) == {1: ("Kiel", None, "U")}


def test_columns_not_sent_before_a_second_delete_do_not_come_from_the_deleted_row(partial: Table) -> None:
    changes: list[tuple[str, Row]] = [("U", {"id": 1, "city": "Kiel"}), ("D", {"id": 1})]
    partial.apply_file("20240305-120000000.csv", changes)
    assert stored_rows(partial) == {1: ("Kiel", None, "D")}
    partial.apply_file("20240305-130000000.csv", [*changes, ("U", {"id": 1, "n": 9}), ("D", {"id": 1})])
    assert stored_rows(partial) == {1: (None, 9, "D")}


def test_columns_not_sent_by_a_late_change_from_before_the_delete_come_from_the_deleted_row(partial: Table) -> None:
    partial.apply_file("20240305-100000000.csv", [("U", {"id": 1, "city": "Kiel"})])
    assert stored_rows(partial) == {1: ("Kiel", 7, "D")}


def test_a_wider_type_rewrites_soft_deleted_rows_too(table: Table) -> None:
    change(table, FILES[0], ("D", row(2)))
    table.apply_file(FILES[1], [("U", row(1))], {"n": pa.int64()})
    assert stored_rows(table)[2] == ("Bonn", 2, "D")
    assert counts(table) == (2, 1)


def test_undo_restores_files_and_counts(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, SOFT)
    table.load([row(1), row(2)])
    loaded = table.hashes()
    table.apply(("D", row(2)))
    deleted = table.hashes()
    assert counts(table) == (1, 1)
    table.roll_back(1)
    assert (table.hashes(), counts(table)) == (loaded, (2, 0))
    books = table.log.record(table.log.head()).books
    assert (books.replaced, books.restored, books.rows_after) == (1, 2, 2)
    table.roll_back(2)
    assert (table.hashes(), counts(table)) == (deleted, (1, 1))


def test_the_catalog_view_returns_live_rows_of_files_with_and_without_operations(table: Table) -> None:
    change(table, FILES[0], ("D", row(2)), ("U", row(3, "Kiel")))
    folder = table.folder
    adopted = {name: [value] for name, value in row(4).items() if name not in {table.item["PartitionKey"]}}
    pq.write_table(pa.table(adopted), (folder / table.files()[-1]).parent / "adopted.parquet")
    listing = catalog_entry(table.log.snapshot(table.log.head()), table.layout, has_view=True)
    view = live_view(listing.table, CatalogName("lake", "shop_orders"))
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA lake")
        files = f"read_parquet('{folder}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
        connection.execute(f"CREATE VIEW lake.shop_orders AS SELECT * FROM {files}")
        found = connection.execute(view.query)
        names = [column[0].lower() for column in found.description or ()]
        ids = [dict(zip(names, one, strict=True))["id"] for one in found.fetchall()]
    assert names == [column.name for column in view.columns]
    assert sorted(ids) == [1, 3, 4]


@examples(thorough=500, ci=15, test=8)
@SECOND_HALF
@given(feed=feeds(max_files=5), modes=st.lists(st.booleans(), min_size=8, max_size=8), history=st.booleans())
def test_live_rows_equal_the_oracle_however_the_mode_changes(
    feed: dict[str, Any], modes: list[bool], history: bool
) -> None:
    key = feed["key"]
    item = {"PrimaryKey": ",".join(key), "PartitionKey": ",".join(feed["partition"]) or "null"}
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), WIDE, {**item, "History": str(history).lower(), "TargetFileBytes": feed["target"]})
        for i, soft in zip(feed["arrivals"], modes, strict=False):
            table.item["DeleteMode"] = "soft" if soft else "hard"
            applied = table.apply_file(FILES[i], feed["files"][i])["change"]
            live = [one for one in by_key(table.rows(), key) if one.op != "D"]
            expected = merge(key, [], table.changes)
            assert live == expected
            assert soft or not applied or len(table.rows()) == len(live)
            if table.log.head():
                assert counts(table) == (len(expected), len(table.rows()) - len(expected))
            if history and table.log.head():
                check_newest_are_the_table(table, key)
