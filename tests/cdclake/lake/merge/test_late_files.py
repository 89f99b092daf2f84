"""Late and repeated change files, and remembered deletes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.commit.ledger import recorded
from cdclake.errors import CdclakeError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.load import apply_changes
from cdclake.lake.storage.tombstones import plan_tombstones
from cdclake.model.snapshot import TombstoneFile
from cdclake.raw_listing import list_raw_files
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([{"id": 1, "name": "loaded"}])
    return table


def write(table: Table, day: int, hour: int, op: str, name: str = "", number: int = 1) -> str:
    relative = f"202403{day:02d}-{hour:02d}0000000.parquet"
    table.write_changes(relative, [(op, {"id": number, "name": name})])
    return relative


def change(table: Table, *file: Any, **more: Any) -> dict[str, Any]:
    """Write a change file and apply it."""
    write(table, *file, **more)
    return table.load_incremental()


def test_a_late_file_is_applied_but_changes_no_newer_row(table: Table) -> None:
    change(table, 5, 12, "U", "at noon")
    write(table, 5, 9, "U", "at nine, late")
    summary = change(table, 5, 10, "I", "new, late", number=2)
    assert table.live("name") == {1: "at noon", 2: "new, late"}
    assert (summary["books"]["superseded"], summary["books"]["inserted"]) == (1, 1)


def test_a_deleted_row_stays_deleted_if_an_older_change_arrives_late(table: Table) -> None:
    change(table, 5, 12, "D")
    summary = change(table, 5, 9, "U", "older than the delete")
    assert table.live("name") == {}
    assert summary["books"]["superseded"] == 1


def test_a_delete_that_arrives_before_an_older_insert_is_remembered(table: Table) -> None:
    assert change(table, 5, 12, "D", number=7)["books"]["absent"] == 1
    change(table, 5, 9, "I", "older than the delete", number=7)
    assert table.live("name") == {1: "loaded"}


def test_a_row_inserted_again_after_its_delete_is_in_the_table(table: Table) -> None:
    change(table, 5, 12, "D")
    change(table, 5, 13, "I", "again")
    assert table.live("name") == {1: "again"}


def test_a_file_delivered_again_changes_nothing(table: Table) -> None:
    write(table, 5, 9, "U", "first")
    change(table, 5, 12, "U", "second")
    assert change(table, 5, 9, "U", "first")["change"] is None
    assert table.live("name") == {1: "second"}


def test_a_file_behind_the_late_window_is_reported_and_not_applied(table: Table) -> None:
    change(table, 20, 12, "U", "newest")
    stale = write(table, 5, 9, "I", "two weeks late", number=2)
    summary = table.load_incremental()
    assert (summary["change"], summary["too_late"]) == (None, [stale])
    assert table.live("name") == {1: "newest"}


def test_a_file_that_appears_in_the_time_of_a_reload_is_reported_and_not_applied(table: Table) -> None:
    change(table, 5, 12, "U", "at noon")
    table.reload([{"id": 1, "name": "reloaded"}])
    missed = write(table, 5, 9, "U", "nobody knows whether the reload has it")
    assert table.load_incremental()["too_late"] == [missed]
    assert change(table, 6, 9, "I", "new", number=2)["too_late"] == [missed]
    assert table.live("name") == {1: "reloaded", 2: "new"}


def test_a_file_that_appears_between_a_full_load_and_the_run_is_reported_if_the_load_covers_its_time(
    table: Table,
) -> None:
    noon = write(table, 5, 12, "U", "at noon")
    table.load_incremental()
    loaded = datetime.now(timezone.utc) + timedelta(minutes=1)
    missed = write(table, 5, 9, "U", "nobody knows whether the reload has it")
    table.set_modified(missed, loaded + timedelta(minutes=1))
    table.load([{"id": 1, "name": "reloaded"}], loaded)
    assert table.log.snapshot(table.log.head()).floor == noon
    assert table.load_incremental()["too_late"] == [missed]
    assert table.live("name") == {1: "reloaded"}


def test_a_file_that_was_ignored_during_a_reload_is_part_of_it(table: Table) -> None:
    change(table, 5, 9, "U", "at nine")
    change(table, 5, 12, "U", "at noon")
    table.item["IgnoreFiles"] = "20240305-09*"
    table.reload([{"id": 1, "name": "reloaded"}])
    del table.item["IgnoreFiles"]
    assert table.load_incremental()["too_late"] == []
    assert table.live("name") == {1: "reloaded"}


def test_files_stay_known_when_their_ledger_is_in_segments(table: Table) -> None:
    table.limits = EngineLimits(ledger_segment_files=1)
    table.item["LateWindowHours"] = "1000"
    for day in (3, 7, 5, 1, 9, 8):
        assert change(table, day, 9, "U", f"day {day}")["change"]
    ledger = table.log.snapshot(table.log.head()).ledger
    assert [segment.first[:8] for segment in ledger.segments] == ["20240301", "20240303", "20240305", "20240307"]
    assert table.load_incremental()["change"] is None
    assert change(table, 4, 9, "I", "late", number=2)["books"]["inserted"] == 1
    assert change(table, 4, 9, "I", "late", number=2)["change"] is None
    write(table, 5, 9, "U", "other content, of another size, much later")
    seen = recorded(table.log, table.log.snapshot(8).ledger, [table.raw_file("20240305-090000000.parquet")])
    assert seen.overwritten
    assert table.live("name") == {1: "day 9", 2: "late"}


def test_the_late_window_is_a_setting(table: Table) -> None:
    table.item["LateWindowHours"] = "1000"
    change(table, 20, 12, "U", "newest")
    change(table, 5, 9, "I", "two weeks late", number=2)
    assert table.live("name") == {1: "newest", 2: "two weeks late"}


def test_deletes_behind_the_late_window_are_forgotten(table: Table) -> None:
    change(table, 1, 9, "D", number=5)
    assert len(table.log.snapshot(2).tombstones) == 1
    change(table, 20, 9, "U", "much later")
    change(table, 20, 10, "U", "and later still")
    assert table.log.snapshot(4).tombstones == ()


def test_a_reload_forgets_deletes_and_late_files_from_before_it(table: Table) -> None:
    change(table, 5, 9, "D", number=1)
    table.reload([{"id": 1, "name": "reloaded"}])
    assert table.log.snapshot(3).tombstones == ()
    assert table.live("name") == {1: "reloaded"}


def test_one_change_applies_at_most_the_allowed_files_and_late_ones_first(table: Table) -> None:
    table.item["MaxFilesPerRun"] = "2"
    change(table, 5, 12, "U", "at noon")
    late = [write(table, 5, hour, "I", "late", number=hour) for hour in (7, 8, 9)]
    new = [write(table, 5, hour, "I", "new", number=hour) for hour in (13, 14)]
    applied = []
    for _ in range(3):
        table.load_incremental()
        applied.append(table.log.record(table.log.head()).raw_names)
    assert applied == [(late[0], late[1]), (late[2], new[0]), (new[1],)]
    assert table.load_incremental()["change"] is None
    assert sorted(table.live("name")) == [1, 7, 8, 9, 13, 14]


def test_files_that_vanish_after_the_listing_stop_the_run_before_it_applies_others(table: Table) -> None:
    files = [write(table, 5, hour, "U", f"at {hour}") for hour in (9, 10, 11)]
    run, before = table.run(), table.log.snapshot(table.log.head())
    listed = list_raw_files(run.raw, run.raw_prefix, run.settings)
    (table.raw / "shop/orders" / files[1]).unlink()
    with pytest.raises(CdclakeError, match=files[1]):
        apply_changes(
            run, table.spark, before, before, listed, recorded(run.log, before.ledger, listed.changes), files[2]
        )
    assert table.log.head() == before.change
    assert table.load_incremental()["change"] == before.change + 1


def test_the_number_of_tombstone_files_grows_with_the_logarithm_of_the_deletes() -> None:
    files: tuple[TombstoneFile, ...] = ()
    written = 0
    for change_number in range(500):
        plan = plan_tombstones(files, 10, oldest="")
        rows = 10 + sum(file.rows for file in plan.merged)
        written += rows
        files = (*plan.kept, TombstoneFile(str(change_number), rows, "20240305-000000000.csv", 1, 9, ("int",), "last"))
        assert len(files) <= 10
    assert sum(file.rows for file in files) == 5000
    assert written < 5000 * 10


def test_a_change_without_deletes_writes_no_tombstones() -> None:
    old = TombstoneFile("k", 5, "20240305-000000000.csv", 1, 9, ("int",), "last")
    plan = plan_tombstones([old], 0, oldest="20240301-000000")
    assert (plan.kept, plan.merged, plan.needed) == ((old,), (), False)
