"""Rollbacks, switches of readers, clean-ups and crashes: the Iceberg table follows, and never shows half a change."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pyarrow as pa
import pytest

from cdclake.commit.clean_up import clean_up, deletable_since, plan_clean_up
from cdclake.commit.iceberg.tables import prepare_iceberg
from cdclake.commit.log import ChangeLog
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import check_files, compare
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import apply_undo, plan_rollback
from cdclake.errors import CommitConflictError, LakeFilesError, PastRetentionError
from cdclake.lake.limits import EngineLimits
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.over_time import TableOverTime
from tests.dying_store import Death, DiedError, DyingStore, PausingStore

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.ports import ObjectStore

pytestmark = pytest.mark.slow
HOUR = timedelta(hours=1)
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])


def row(number: int, n: int = 0) -> dict[str, Any]:
    return {"id": number, "city": "Kiel" if number % 2 else "Ulm", "n": n}


@pytest.fixture(params=["null", "city"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> TableOverTime:
    item = {"PrimaryKey": "id", "PartitionKey": request.param, "Readers": "iceberg"}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load([row(1), row(2), row(3)])
    return table


def readers(table: TableOverTime) -> IcebergReaders:
    return IcebergReaders(table.lake, table.layout)


def seen(table: TableOverTime, change: int | None = None) -> dict[int, int]:
    return {one["id"]: one["n"] for one in readers(table).rows(change=change)}


def folder_rows(table: TableOverTime) -> dict[int, int]:
    """What a reader of everything in the folder sees."""
    files = [str(path) for path in table.folder.rglob("*.parquet")]
    if not files:
        return {}
    return dict(duckdb.sql(f"SELECT id, n FROM read_parquet({files}, hive_partitioning = true)").fetchall())


def test_rollback_and_reapply_are_snapshots(table: TableOverTime) -> None:
    table.apply(("U", row(1, 7)), ("D", row(2)))
    assert seen(table) == {1: 7, 3: 0}
    table.roll_back(1)
    assert (readers(table).version, seen(table), seen(table, 2)) == (3, {1: 0, 2: 0, 3: 0}, {1: 7, 3: 0})
    table.reapply()
    assert (readers(table).version, seen(table), seen(table, 3)) == (4, {1: 7, 3: 0}, {1: 0, 2: 0, 3: 0})
    table.apply(("U", row(3, 8)))
    assert (seen(table), seen(table, 1)) == ({1: 7, 3: 8}, {1: 0, 2: 0, 3: 0})


def test_a_takeover_is_a_snapshot(table: TableOverTime) -> None:
    take_over(table.log, "other", 99, "a test", table.next_time)
    assert (readers(table).version, seen(table)) == (2, {1: 0, 2: 0, 3: 0})


def test_rolled_back_to_nothing_the_table_is_withdrawn(table: TableOverTime) -> None:
    table.roll_back(0)
    assert readers(table).finds_none
    table.reapply()
    assert seen(table) == {1: 0, 2: 0, 3: 0}


def test_readers_switch_with_a_change_and_back(table: TableOverTime) -> None:
    table.item["Readers"] = "folder"
    table.apply(("U", row(1, 7)))
    assert readers(table).finds_none
    assert table.files()
    assert folder_rows(table) == {1: 7, 2: 0, 3: 0}
    check_files(table.log, table.log.snapshot(2))
    table.item["Readers"] = "iceberg"
    table.apply(("U", row(2, 8)))
    assert (seen(table), folder_rows(table)) == ({1: 7, 2: 8, 3: 0}, {})
    check_files(table.log, table.log.snapshot(3))
    table.roll_back(2)
    assert folder_rows(table) == {1: 7, 2: 0, 3: 0}
    assert readers(table).finds_none
    table.roll_back(1)
    assert (seen(table), folder_rows(table)) == ({1: 0, 2: 0, 3: 0}, {})


def test_both_readers_see_the_newest_change_of_the_same_files(table: TableOverTime) -> None:
    for former in ("iceberg", "folder"):
        table.item["Readers"] = former
        table.apply(("U", row(1, 0)))
        table.item["Readers"] = "both"
        table.apply(("U", row(1, 7)))
        expected = {1: 7, 2: 0, 3: 0}
        assert (seen(table), folder_rows(table)) == (expected, expected)
        assert readers(table).offered == [table.log.head()]
        uuid = readers(table).table.metadata.table_uuid
        before = table.log.head()
        table.apply(("D", row(2)))
        assert (seen(table), folder_rows(table)) == ({1: 7, 3: 0},) * 2
        assert readers(table).table.metadata.table_uuid == uuid
        table.roll_back(before, for_good=True)
        assert (seen(table), folder_rows(table)) == (expected, expected)
        check_files(table.log, table.log.snapshot(table.log.head()))


def test_a_switch_from_both_writes_no_rows_again(table: TableOverTime) -> None:
    table.item["Readers"] = "both"
    table.apply(("U", row(1, 7)))
    before = {file.path for file in table.log.snapshot(table.log.head()).files}
    table.item["Readers"] = "folder"
    table.item["TargetFileBytes"] = "1"
    table.apply(("I", row(50)))
    assert before <= {file.path for file in table.log.snapshot(table.log.head()).files}
    assert folder_rows(table) == {1: 7, 2: 0, 3: 0, 50: 0}


def test_a_clean_up_deletes_only_what_no_reader_needs(table: TableOverTime) -> None:
    for n in range(1, 5):
        table.apply(("U", row(1, n)))
    old = readers(table).table  # a reader that opened the table before
    table.clean_up(HOUR, -HOUR)
    assert readers(table).offered == [4, 5]
    assert old.scan(snapshot_id=2).to_arrow().num_rows == 3
    table.apply(("U", row(1, 9)))
    assert readers(table).offered == [4, 5, 6]
    table.clean_up(HOUR, -HOUR)
    with pytest.raises(FileNotFoundError):
        old.scan(snapshot_id=2).to_arrow()
    assert (seen(table), seen(table, 6)) == ({1: 9, 2: 0, 3: 0},) * 2
    for later in (24, 48):
        table.clean_up(HOUR, timedelta(hours=later))
    assert len(list(readers(table).folder.rglob("*.parquet"))) == len(table.log.snapshot(6).files)
    assert len(list(readers(table).folder.rglob("*.metadata.json"))) == 1
    check_files(table.log, table.log.snapshot(6))


def test_readers_can_choose_the_kept_changes_and_a_time_without_one_finds_none(table: TableOverTime) -> None:
    for n in range(1, 12):
        table.apply(("U", row(1, n)))
    old = readers(table).table
    month, day = timedelta(days=30), timedelta(days=1)
    table.clean_up(month, 2 * day, day)
    kept = table.log.retained().up_to(12)
    assert readers(table).offered == kept
    assert len(kept) == 4
    assert old.scan(snapshot_id=6).to_arrow().num_rows == 3  # until the next clean-up
    table.clean_up(month, 2 * day, day)
    with pytest.raises(FileNotFoundError):
        old.scan(snapshot_id=6).to_arrow()
    for change in kept:
        assert seen(table, change) == {1: change - 1, 2: 0, 3: 0}
    table.apply(("U", row(1, 99)))
    assert readers(table).offered == [*kept, 13]
    opened = readers(table).table
    times = {one.snapshot_id: one.timestamp_ms for one in opened.metadata.snapshots}
    found = [opened.snapshot_as_of_timestamp(times[change] + 1) for change in kept]
    assert [one and one.snapshot_id for one in found] == [None, None, 11, 12]


def test_snapshots_that_are_offered_again_get_their_grace_again(table: TableOverTime) -> None:
    for n in range(1, 4):
        table.apply(("U", row(1, n)))
    metadata = table.lake / table.layout.iceberg_metadata_key(4)
    offered = metadata.read_bytes()
    table.clean_up(HOUR, -HOUR)
    metadata.write_bytes(offered)  # by a run that was paused past its lease
    opened = readers(table).table
    table.clean_up(HOUR, -HOUR)
    assert readers(table).offered == [3, 4]
    assert opened.scan(snapshot_id=1).to_arrow().num_rows == 3
    table.clean_up(HOUR, -HOUR)
    with pytest.raises(FileNotFoundError):
        opened.scan(snapshot_id=1).to_arrow()
    assert seen(table) == {1: 3, 2: 0, 3: 0}


@pytest.mark.parametrize("carried_out", [True, False])
def test_the_clean_up_after_one_that_died_leaves_what_readers_may_have_opened(
    tmp_path: Path, *, carried_out: bool
) -> None:
    offers = set[bool]()
    for call in count(1):
        table = TableOverTime(tmp_path / str(call), COLUMNS, {"PrimaryKey": "id", "Readers": "iceberg"})
        table.load([row(1), row(2)])
        for n in range(1, 4):
            table.apply(("U", row(1, n)))
        now = datetime.now(timezone.utc)
        retention = now - table.next_time() + timedelta(hours=2)
        dying = cast("ObjectStore", DyingStore(table.log.store, Death(call, carried_out)))
        dies = True
        try:
            clean_up(ChangeLog(dying, table.layout), plan_clean_up(table.log, retention, now))
            dies = False
        except DiedError:
            pass
        opened = readers(table).table
        offers.add(opened.snapshot_by_id(1) is not None)
        for hours in (1.5, 3):
            later = timedelta(hours=hours)
            clean_up(table.log, plan_clean_up(table.log, retention + later, now + later))
            if hours < 2 and opened.snapshot_by_id(1):
                assert opened.scan(snapshot_id=1).to_arrow().num_rows == 2
            assert readers(table).offered == [3, 4]
        assert table.log.retained().first == 3
        assert len(list(readers(table).folder.rglob("*.parquet"))) == 2
        if not dies:
            break
    assert offers == ({False} if carried_out else {True, False}), "the first call takes the snapshots out"


def test_a_vanished_file_is_found_and_repaired_only_if_retained(table: TableOverTime) -> None:
    snapshot = table.log.snapshot(1)
    (table.lake / table.layout.data_key(snapshot.files[0].path)).unlink()
    with pytest.raises(LakeFilesError):
        table.apply(("U", row(1, 7)))
    assert compare(table.log, snapshot.files).vanished == (snapshot.files[0].path,)


@pytest.mark.sampled(test=8, ci=13)
@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize(
    ("former", "readers_open"),
    [
        ("iceberg", "iceberg"),
        ("folder", "iceberg"),
        ("both", "both"),
        ("folder", "both"),
        ("iceberg", "both"),
        ("both", "iceberg"),
    ],
)
def test_a_run_that_dies_anywhere_leaves_one_change_or_none(
    table: TableOverTime, *, carried_out: bool, former: str, readers_open: str
) -> None:
    before, after = {1: 0, 2: 0, 3: 0}, {1: 0, 2: 5, 3: 0}
    table.item["Readers"] = former
    table.apply(("U", row(1, 0)))
    table.item["Readers"] = readers_open
    call = 0
    while True:
        call += 1
        table.death = Death(call, carried_out)
        head = table.log.head()
        try:
            table.apply(("U", row(2, 5)))
        except DiedError:
            pass
        else:
            break
        finally:
            table.death = None
        if former != "folder":
            assert seen(table) in (before, after)
        roll_forward(table.log)
        committed = table.log.head() > head
        if committed or former != "folder":
            assert seen(table) == (after if committed else before)
        if (readers_open if committed else former) == "both":
            assert folder_rows(table) == seen(table)
        check_files(table.log, table.log.snapshot(table.log.head()))
        if committed:
            table.roll_back(head)
    assert call > 5
    assert seen(table) == after


def test_a_run_that_pauses_before_it_publishes_does_not_take_readers_back(table: TableOverTime) -> None:
    table.apply(("U", row(1, 7)))
    log = table.log
    late = log.record(2)
    table.apply(("U", row(1, 8)))
    for show in prepare_iceberg(log, late):
        show()
    assert (readers(table).version, seen(table), seen(table, 2)) == (3, {1: 8, 2: 0, 3: 0}, {1: 7, 2: 0, 3: 0})


def test_a_run_that_pauses_while_it_names_the_metadata_offers_no_table_that_was_withdrawn(
    table: TableOverTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.item["Readers"] = "folder"
    table.apply(("U", row(1, 7)))
    assert readers(table).finds_none
    now = 1_000.0

    def reapply() -> None:
        nonlocal now
        now += 600
        table.reapply()  # takes over, and readers list the folder again

    monkeypatch.setattr("time.time", lambda: now)
    paused = cast("ObjectStore", PausingStore(table.log.store, 1, reapply, ("put_if_unchanged",)))
    log = ChangeLog(paused, table.layout)
    with pytest.raises(CommitConflictError):
        apply_undo(log, plan_rollback(log, 1), "paused", table.runs, table.next_time)
    assert table.log.head() == 4
    assert readers(table).finds_none


def test_lost_metadata_is_made_again_for_the_newest_change(
    table: TableOverTime, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (table.lake / table.layout.iceberg_metadata_folder).glob("v*"):
        path.unlink()
    table.apply(("U", row(1, 7)))
    assert seen(table) == {1: 7, 2: 0, 3: 0}
    assert readers(table).offered == [2]
    assert "readers cannot go back" in caplog.text


def test_after_a_clean_up_another_is_due_until_only_the_newest_change_is_left(table: TableOverTime) -> None:
    table.apply(("U", row(1, 7)))
    table.clean_up(HOUR, timedelta(hours=24))
    assert table.log.retained().first == 2
    assert all(deletable_since(table.log, 2))
    table.clean_up(HOUR, timedelta(hours=48))
    assert deletable_since(table.log, 2) == (None, None)


def test_a_rollback_needs_the_manifests_of_the_earlier_change(table: TableOverTime) -> None:
    table.apply(("U", row(1, 7)))
    before = table.log.snapshot(1).iceberg
    assert before
    (table.lake / before.manifest_list).unlink()
    with pytest.raises(PastRetentionError):
        table.roll_back(1)
    assert seen(table) == {1: 7, 2: 0, 3: 0}


def test_after_a_rollback_over_a_wider_type_no_snapshot_has_it(table: TableOverTime) -> None:
    wider = COLUMNS.set(2, pa.field("n", pa.int64()))
    table.apply(("U", row(1, 7)), schema=wider)
    assert readers(table).offered == [1, 2]
    undone = readers(table).table.metadata.last_updated_ms
    assert {one["id"]: one["n"] for one in readers(table).at(undone) or ()} == {1: 7, 2: 0, 3: 0}
    table.roll_back(1)
    assert readers(table).offered == [3]
    assert readers(table).at(undone) is None, "change 1 was the table before that time, not at it"
    assert readers(table).rows("n = 0", ("id",), change=3) == [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.mark.parametrize("hours", [1, 5])
def test_each_change_is_later_than_the_one_before(table: TableOverTime, hours: int) -> None:
    """Of snapshots with equal times, DuckDB takes the first."""
    for n in (7, 8):
        table.clock_is_late += timedelta(hours=hours)
        table.apply(("U", row(1, n)))
    loaded_ms, *times = (one.timestamp_ms for one in readers(table).table.metadata.snapshots)
    assert times == [loaded_ms + 1, loaded_ms + 2]
    seen_at = [next(one["n"] for one in readers(table).at(ms) or () if one["id"] == 1) for ms in (loaded_ms, *times)]
    assert seen_at == [0, 7, 8]
    assert readers(table).at(loaded_ms - 1) is None


NOTED = COLUMNS.append(pa.field("note", pa.string()))


def without_note(table: TableOverTime) -> list[int]:
    """Keys of rows whose note is null, on which both readers agree."""
    return sorted(one["id"] for one in readers(table).rows("note IS NULL", ("id",)))


@pytest.mark.parametrize("kind", ["iceberg", "both"])
def test_rows_of_before_a_column_are_null_in_it(table: TableOverTime, kind: str) -> None:
    """DuckDB skips files without a count of the column's nulls."""
    table.item |= {"Readers": kind, "TargetFileBytes": "1", "History": "true"}
    table.apply(("U", row(1, 7)))
    table.apply(("I", row(9) | {"note": "x"}), schema=NOTED)
    added = table.log.head()
    assert without_note(table) == [1, 2, 3]
    versions = IcebergReaders(table.lake, table.layout.history)
    found = versions.rows("note IS NULL AND validity_flag = 1", ("id",))
    assert sorted(one["id"] for one in found) == [1, 2, 3]
    table.apply(("U", row(9, 1) | {"note": "y"}), schema=NOTED)
    assert without_note(table) == [1, 2, 3]
    table.roll_back(added - 1, for_good=True)
    table.apply(("I", row(8)))
    table.apply(("I", row(10) | {"note": "z"}), schema=NOTED)
    assert without_note(table) == [1, 2, 3, 8]
    table.roll_back(added)
    assert without_note(table) == [1, 2, 3]


@pytest.mark.parametrize("former", ["folder", "both"])
def test_after_a_switch_rows_of_before_a_column_are_null_in_it(table: TableOverTime, former: str) -> None:
    table.item |= {"Readers": former, "TargetFileBytes": "1"}
    table.apply(("U", row(1, 7)))
    table.apply(("I", row(9) | {"note": "x"}), schema=NOTED)
    table.item["Readers"] = "iceberg"
    table.apply(("U", row(9, 1) | {"note": "y"}), schema=NOTED)
    assert without_note(table) == [1, 2, 3]


def test_a_column_is_added_to_each_manifest_once(table: TableOverTime) -> None:
    table.item["TargetFileBytes"], table.limits = "1", EngineLimits(manifest_files=2)

    def listed() -> set[str]:
        files = table.log.snapshot(table.log.head()).iceberg
        assert files
        return {one.key for one in files.manifests if one.files}

    for number in range(10, 14):
        table.apply(("I", row(number)))
    before = listed()
    table.apply(("I", row(20) | {"note": "x"}), schema=NOTED)
    added = listed()
    assert not before & added
    table.apply(("U", row(20, 1) | {"note": "y"}), schema=NOTED)
    assert len(added & listed()) > 1
    assert without_note(table) == [1, 2, 3, 10, 11, 12, 13]
