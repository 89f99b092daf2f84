"""A second full load replaces the table and neither loses nor repeats changes."""

from __future__ import annotations

from datetime import datetime, timezone
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters import folder
from cdclake.lake.operations import load
from cdclake.lake.operations.compute import compute
from cdclake.model.due_files import pending_changes
from cdclake.raw_listing import list_raw_files
from tests.builders import recorded
from tests.cdclake.lake.over_time import TableOverTime
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})


def at(hour: int) -> datetime:
    return datetime(2024, 3, 5, hour, tzinfo=timezone.utc)


def change(table: Table, hour: int, op: str, row: dict[str, Any]) -> None:
    relative = f"20240305-{hour:02d}0000000.parquet"
    table.write_changes(relative, [(op, row)])
    table.set_modified(relative, at(hour))


def test_a_reload_replaces_all_rows_and_counts_them_in_its_books(table: Table) -> None:
    table.load([{"id": 1, "name": "old"}, {"id": 2, "name": "gone"}], at(1))
    summary = table.load([{"id": 1, "name": "new"}], at(5))
    assert table.live("name") == {1: "new"}
    assert summary["change"] == 2
    assert (summary["books"]["rows_before"], summary["books"]["replaced"], summary["books"]["rows_after"]) == (2, 2, 1)
    assert table.load_initial()["change"] is None


def test_changes_older_than_a_reload_are_not_applied_after_it(table: Table) -> None:
    table.load([{"id": 1, "name": "first"}], at(1))
    change(table, 2, "U", {"id": 1, "name": "applied before"})
    table.load_incremental()
    change(table, 3, "U", {"id": 1, "name": "waiting, and older than the reload"})
    table.load([{"id": 1, "name": "reloaded"}], at(5))
    assert table.load_incremental()["change"] is None
    assert table.live("name") == {1: "reloaded"}


@pytest.mark.parametrize("key", ["id", "null"])
@pytest.mark.parametrize("since", [False, True])
def test_after_a_rollback_to_nothing_the_load_contains_what_it_contained_before(
    tmp_path: Path, key: str, *, since: bool
) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": key})
    table.load([{"id": 1, "name": "first"}], at(1))
    change(table, 2, "I", {"id": 2, "name": "gone at the source since"})
    table.load_incremental()
    if not since:
        table.load([{"id": 1, "name": "reloaded"}], at(5))
    change(table, 6, "I", {"id": 3, "name": "new"})
    table.load_incremental()
    table.roll_back(to=0)
    table.load([{"id": 1, "name": "reloaded"}], at(5))
    assert table.load_incremental()["raw_files"] == 1
    assert table.live("name") == {1: "reloaded", 3: "new"}


def test_a_copied_folder_is_loaded_again_after_a_rollback_to_nothing_as_before(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    change(table, 2, "U", {"id": 1, "name": "changed"})  # copied before the full load
    for _ in range(2):
        table.load([{"id": 1, "name": "loaded"}], at(5))
        table.load_incremental()
        assert table.live("name") == {1: "changed"}
        table.roll_back(to=0)


def test_a_change_newer_than_a_reload_is_applied_again(table: Table) -> None:
    table.load([{"id": 1, "name": "first"}], at(1))
    change(table, 7, "U", {"id": 1, "name": "newest"})
    table.load_incremental()
    table.load([{"id": 1, "name": "read from the source at five"}], at(5))
    table.load_incremental()
    assert table.live("name") == {1: "newest"}


def test_a_late_file_does_not_change_a_reload_back_if_the_files_before_it_are_gone(table: Table) -> None:
    table.load([{"id": 1, "name": "first"}], at(1))
    change(table, 3, "U", {"id": 1, "name": "applied before"})
    table.load_incremental()
    table.raw_path("20240305-030000000.parquet").unlink()  # by a lifecycle rule
    table.load([{"id": 1, "name": "reloaded"}], at(5))
    table.write_changes("20240305-020000000.parquet", [("U", {"id": 1, "name": "late"})])
    table.set_modified("20240305-020000000.parquet", at(6))
    assert table.load_incremental()["too_late"] == ["20240305-020000000.parquet"]
    assert table.live("name") == {1: "reloaded"}


def test_files_of_a_full_load_are_hashed_at_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.write_load([{"id": 1, "name": "a"}], 1)
    table.write_load([{"id": 2, "name": "b"}], 2)
    both, digest = Barrier(2, timeout=10), folder._md5

    def hash_together(path: Path) -> str:
        both.wait()
        return digest(path)

    monkeypatch.setattr(folder, "_md5", hash_together)
    table.load_initial()
    assert table.live("name") == {1: "a", 2: "b"}


@pytest.fixture
def overwrite(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Functions that write a raw file again after the next change was computed."""
    waiting: list[Callable[[], None]] = []

    def compute_then_overwrite(*arguments: Any, **options: Any) -> Any:
        result = compute(*arguments, **options)
        while waiting:
            waiting.pop()()
        return result

    monkeypatch.setattr(load, "compute", compute_then_overwrite)
    return waiting


def test_a_file_that_is_overwritten_while_it_is_loaded_is_loaded_again(
    table: Table, overwrite: list[Callable[[], None]]
) -> None:
    overwrite.append(lambda: table.write_load([{"id": 1, "name": "new"}]))
    assert table.load([{"id": 1, "name": "old"}])["change"] == 1
    assert table.load_initial()["change"] == 2
    assert table.live("name") == {1: "new"}


def test_a_change_file_that_is_overwritten_while_it_is_applied_is_not_the_applied_one(
    table: Table, overwrite: list[Callable[[], None]]
) -> None:
    table.load([{"id": 1, "name": "first"}], at(1))
    overwrite.append(lambda: change(table, 2, "U", {"id": 1, "name": "new"}))
    change(table, 2, "U", {"id": 1, "name": "old"})
    assert table.load_incremental()["change"] == 2
    files = list_raw_files(table.run().raw, table.run().raw_prefix, table.run().settings).changes
    lake = table.log.snapshot(2)
    assert pending_changes(lake, files, 24, recorded(lake, files)).overwritten == files
