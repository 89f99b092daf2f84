"""Runs notice added, removed and overwritten files in a table's folder before they change anything."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.commit.table_files import compare_with_history
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.errors import IntegrityError, LakeFilesError
from cdclake.lake.limits import EngineLimits
from cdclake.model.layout import is_in_history
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import ManualClock, MemoryState
from tests.cdclake.lake.over_time import TableOverTime
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
SECOND, THIRD = "20240305-100000000.parquet", "20240305-110000000.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A full load of two files, a change that rewrote one of them, and a change file that is due."""
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "TargetFileBytes": "400"})
    table.load([{"id": i, "name": f"name {i}"} for i in range(300)])
    table.apply_file(SECOND, [("U", {"id": 1, "name": "changed"})])
    table.write_changes(THIRD, [("D", {"id": 299, "name": ""})])
    assert len(table.files()) > 2
    return table


def first_file(table: Table) -> Path:
    return table.folder / table.files()[0]


def add_foreign_file(table: Table) -> str:
    """Add a file of another job, whose rows readers would see twice."""
    shutil.copy(first_file(table), table.folder / "part-00000-9f1c.parquet")
    return "part-00000-9f1c.parquet"


def delete_file(table: Table) -> str:
    path = first_file(table)
    path.unlink()
    return path.name


def overwrite_file(table: Table) -> str:
    path = first_file(table)
    path.write_bytes(path.read_bytes() + b"more")
    return path.name


def registered(table: Table) -> RegisteredTable:
    """The registered table, under a later lease than the earlier runs had."""
    attributes = {"ActiveFlag": "true", "LastChangeId": str(table.log.head()), "FencingToken": str(table.runs)}
    state = TableState.new("raw", "shop/", "orders/").with_attributes(**table.item, **attributes)
    return RegisteredTable(MemoryState([state]), state, table.log, "by-hand", ManualClock())


def reload(table: Table) -> None:
    table.load_again()


DAMAGES: list[Callable[[Table], str]] = [add_foreign_file, delete_file, overwrite_file]
CHANGES: dict[str, Callable[[Table], object]] = {
    "incremental": Table.load_incremental,
    "rollback": lambda table: registered(table).rollback(),
}


@pytest.mark.sampled(quick=2)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_foreign_file_stops_a_change_with_file_and_remedy(
    table: Table, change: str, damage: Callable[[Table], str]
) -> None:
    name = damage(table)
    files, head = table.files(), table.log.head()
    with pytest.raises(LakeFilesError, match=name) as caught:
        CHANGES[change](table)
    assert ("cdclake repair shop.orders" in caught.value.remedy) == (damage is not overwrite_file)
    assert (table.files(), table.log.head()) == (files, head)
    assert [entry.key for entry in table.log.store.list(table.layout.staging_folder)] == []


@pytest.mark.parametrize("damage", [delete_file, overwrite_file])
def test_a_change_of_a_large_table_checks_each_file_that_it_reads(table: Table, damage: Callable[[Table], str]) -> None:
    """Its turn to be compared with the snapshot may be a long time ahead."""
    table.limits = EngineLimits(checked_files=1)
    table.write_changes(THIRD, [("U", {"id": id_, "name": "changed"}) for id_ in range(300)])
    table.log.mark_files_checked_to(f"{table.layout.table_prefix}{table.files()[0]}")
    name = damage(table)
    with pytest.raises(LakeFilesError, match="vanished" if damage is delete_file else "overwritten") as caught:
        table.load_incremental()
    assert str(caught.value.details["file"]).endswith(name)
    assert table.log.head() == 2


@pytest.mark.parametrize("change", ["rollback", "reload"])
def test_a_rollback_and_a_reload_of_a_large_table_compare_all_files(table: Table, change: str) -> None:
    table.limits = EngineLimits(checked_files=1)
    name = add_foreign_file(table)  # the last in order
    with pytest.raises(LakeFilesError, match=name):
        {**CHANGES, "reload": reload}[change](table)
    assert table.log.head() == 2


@pytest.mark.parametrize("damage", [delete_file, overwrite_file])
def test_a_reload_works_without_the_files_that_it_replaces(table: Table, damage: Callable[[Table], str]) -> None:
    damage(table)
    reload(table)
    assert sorted(row.row["id"] for row in table.rows()) == list(range(300))


@pytest.mark.parametrize("job", [Table.load_incremental, Table.load_initial])
def test_files_without_a_lake_table_stop_every_job_with_a_hint_at_adoption(
    tmp_path: Path, job: Callable[[Table], object]
) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.write_load([{"id": 1, "name": "a"}])
    table.write_changes(SECOND, [("I", {"id": 2, "name": "b"})])
    table.folder.mkdir(parents=True)
    (table.folder / "part-00000-9f1c.parquet").write_bytes(b"PAR1")
    with pytest.raises(LakeFilesError, match="files that cdclake did not write: part-00000") as caught:
        job(table)
    assert "cdclake adopt shop.orders" in caught.value.remedy
    assert table.log.head() == 0


@pytest.mark.parametrize("name", ["_SUCCESS", ".part-1.crc", "_temporary/0/part-1.parquet", "day=1_$folder$"])
def test_files_that_readers_ignore_are_ignored(table: Table, name: str) -> None:
    path = table.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    assert table.load_incremental()["change"] == 3
    assert path.exists()


def test_a_repaired_table_accepts_the_next_run(table: Table) -> None:
    expected = sorted(row.row["id"] for row in table.rows())
    add_foreign_file(table)
    registered(table).repair()
    assert table.load_incremental()["change"] == 3
    assert sorted(row.row["id"] for row in table.rows()) == expected[:-1]


def test_a_vanished_file_without_a_copy_cannot_be_repaired(table: Table) -> None:
    name = delete_file(table)
    with pytest.raises(IntegrityError, match="neither in the table") as caught:
        registered(table).repair()
    assert name in str(caught.value.details["file"])


def test_a_history_file_that_was_restored_too_late_does_not_stop_a_reload_from_change_0(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "History": "true"})
    table.load([{"id": 1, "name": "a"}])
    (path,) = [file.path for file in table.log.snapshot(1).all_files if is_in_history(file.path)]
    table.roll_back(to=0)
    log, layout = table.log, table.layout
    key, retired = layout.data_key(path), layout.retired_key(path)
    log.store.restore(key, retired)  # as a run that was paused during a rollback
    assert compare_with_history(log, log.snapshot(2)).stale == (path,)
    log.store.put(foreign := layout.history.table_prefix + "foreign.parquet", b"x")
    with pytest.raises(LakeFilesError, match="contains files that cdclake did not write"):
        table.load_initial()
    log.store.delete([foreign])
    table.load_initial()
    visible = {entry.key for entry in log.store.list(layout.history.table_prefix)}
    live = [file.path for file in table.log.snapshot(3).all_files if is_in_history(file.path)]
    assert visible == {layout.data_key(path) for path in live}
