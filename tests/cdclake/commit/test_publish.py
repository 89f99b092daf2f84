"""Commit, publish and roll forward, on a plain folder and in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.commit.roll_forward import roll_forward
from cdclake.errors import BooksError, CommitConflictError, IntegrityError
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeRecord, StagedFile
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake_devkit.memory import MemoryStore
from tests.builders import LAYOUT, LakeBuilder, change_record
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cdclake.model.layout import FileKeys
    from cdclake.model.rawfiles import ListedObject
    from cdclake.ports import ObjectStore


@pytest.fixture(params=["memory", "folder"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> ChangeLog:
    store: ObjectStore = MemoryStore() if request.param == "memory" else FolderStore(tmp_path)
    return ChangeLog(store, LAYOUT)


def staged_change(log: ChangeLog, number: int, run_id: str = "run", retired: tuple[str, ...] = ()) -> ChangeRecord:
    """A change of one new file with one row, staged and ready to commit."""
    staged = LAYOUT.staging_prefix(number, run_id) + "0.parquet"
    log.store.put(staged, f"rows of {number} by {run_id}".encode())
    path = LAYOUT.data_path(number, 1, ("day",), ("2024-03-05",))
    schema = Schema((Column("id", "bigint"), Column("day", "date")))
    file = DataFile(path, 1, 10, ("2024-03-05",), 1, 9)
    snapshot = Snapshot(number, schema, ("id",), ("day",), "20240305-101500000.parquet", files=(file,))
    before = log.snapshot(number - 1).rows
    return change_record(
        number,
        run_id=run_id,
        fencing_token=number,
        raw_files=("20240305-101500000.parquet",),
        books=Books(read_insert=1, applied=1, inserted=1, rows_before=before, replaced=before, rows_after=1),
        added=(StagedFile(staged, path),),
        retired=retired,
        snapshot_key=log.write_snapshot(snapshot, run_id),
    )


def visible(log: ChangeLog) -> list[str]:
    return [entry.key for entry in log.store.list(LAYOUT.table_prefix)]


def test_finding_the_newest_change_lists_only_records_after_the_newest_published_one() -> None:
    class Listing(MemoryStore):
        def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
            for entry in super().list(prefix, start_after):
                listed.append(entry.key)
                yield entry

    listed: list[str] = []
    lake = LakeBuilder(Listing())
    for _ in range(5):
        lake.change()
    lake.log.commit(lake.stage())
    listed.clear()

    assert lake.log.head() == 6
    assert listed == [LAYOUT.change_key(6)]


def test_the_newest_change_of_an_older_lake_is_found_without_the_mark_of_the_newest_published(log: ChangeLog) -> None:
    lake = LakeBuilder(log)
    for _ in range(3):
        lake.change()
    log.store.delete([LAYOUT.newest_published_key])

    assert log.head() == 3


def test_a_table_without_changes_has_an_empty_snapshot(log: ChangeLog) -> None:
    assert log.head() == 0
    assert log.snapshot(0) == Snapshot()
    assert roll_forward(log) == 0


def test_a_published_change_is_visible_and_leaves_no_staging(log: ChangeLog) -> None:
    record = staged_change(log, 1)
    log.commit(record)
    assert visible(log) == []
    publish(log, record)
    assert visible(log) == ["shop/orders/day=2024-03-05/000000000001-00001.parquet"]
    assert [key.key for key in log.store.list(LAYOUT.control_prefix + "staging/")] == []
    assert log.record(1) == record
    assert log.snapshot(1).files[0].key_max == 9


def test_a_replaced_file_is_retired_when_the_new_one_is_visible(log: ChangeLog) -> None:
    first = staged_change(log, 1)
    log.commit(first)
    publish(log, first)
    second = staged_change(log, 2, retired=(first.added[0].path,))
    log.commit(second)
    publish(log, second)
    assert visible(log) == ["shop/orders/day=2024-03-05/000000000002-00001.parquet"]


def test_old_files_stay_until_the_new_ones_are_live(log: ChangeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    first = staged_change(log, 1)
    log.commit(first)
    publish(log, first)
    second = staged_change(log, 2, retired=(first.added[0].path,))
    log.commit(second)
    retire, seen = log.store.retire, list[list[str]]()

    def look_and_retire(key: str, retired_key: str) -> None:
        seen.append(visible(log))
        retire(key, retired_key)

    monkeypatch.setattr(log.store, "retire", look_and_retire)
    publish(log, second)
    assert seen == [[LAYOUT.data_key(record.added[0].path) for record in (first, second)]]


def test_a_publisher_that_was_paused_looks_for_later_changes_before_its_next_call(
    log: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = staged_change(log, 1)
    log.commit(first)
    publish(log, first)
    second = replace(staged_change(log, 2, retired=(first.added[0].path,)), added=())
    log.commit(second)
    begin_retiring, now = log.store.begin_retiring, 1_000.0

    def begin_and_pause(files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        nonlocal now
        now += 600
        log.commit(staged_change(log, 3, "other"))
        return begin_retiring(files)

    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr(log.store, "begin_retiring", begin_and_pause)
    with pytest.raises(CommitConflictError, match="Another run took over"):
        publish(log, second)
    assert visible(log) == [LAYOUT.data_key(first.added[0].path)]


def test_the_next_run_publishes_a_change_whose_run_crashed_before_publishing(log: ChangeLog) -> None:
    log.commit(staged_change(log, 1))
    assert roll_forward(log) == 1
    assert len(visible(log)) == 1
    assert roll_forward(log) == 1
    assert len(visible(log)) == 1


def test_the_next_run_publishes_a_change_whose_run_crashed_while_publishing(log: ChangeLog) -> None:
    first = staged_change(log, 1)
    log.commit(first)
    publish(log, first)
    second = staged_change(log, 2, retired=(first.added[0].path,))
    log.commit(second)
    log.store.copy(second.added[0].staged_key, LAYOUT.data_key(second.added[0].path))
    log.store.retire(LAYOUT.data_key(first.added[0].path), LAYOUT.retired_key(first.added[0].path))
    assert roll_forward(log) == 2
    assert visible(log) == ["shop/orders/day=2024-03-05/000000000002-00001.parquet"]


def test_the_next_run_retires_the_files_that_a_run_replaced_which_crashed_before(
    log: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise DiedError

    first = staged_change(log, 1)
    log.commit(first)
    publish(log, first)
    second = staged_change(log, 2, retired=(first.added[0].path,))
    log.commit(second)
    with monkeypatch.context() as dying, pytest.raises(DiedError):
        dying.setattr(log.store, "begin_retiring", lambda _: [die])
        publish(log, second)
    assert len(visible(log)) == 2
    assert roll_forward(log) == 2
    assert visible(log) == ["shop/orders/day=2024-03-05/000000000002-00001.parquet"]


def test_the_next_run_deletes_staged_files_of_a_run_that_crashed_after_publishing(log: ChangeLog) -> None:
    record = staged_change(log, 1)
    log.commit(record)
    log.store.copy(record.added[0].staged_key, LAYOUT.data_key(record.added[0].path))
    log.mark_published(1)
    roll_forward(log)
    assert len(visible(log)) == 1
    assert [entry.key for entry in log.store.list(LAYOUT.control_prefix + "staging/")] == []


def test_the_second_of_two_runs_that_commit_one_number_gets_a_conflict_and_changes_nothing(log: ChangeLog) -> None:
    ours, theirs = staged_change(log, 1, "ours"), staged_change(log, 1, "theirs")
    log.commit(theirs)
    with pytest.raises(CommitConflictError):
        log.commit(ours)
    roll_forward(log)
    (key,) = visible(log)
    assert log.store.get(key) == b"rows of 1 by theirs"
    assert [entry.key for entry in log.store.list(LAYOUT.control_prefix + "staging/")] == []


def test_a_run_that_begins_leaves_what_another_run_has_staged_for_the_next_change(log: ChangeLog) -> None:
    first = staged_change(log, 1)
    log.commit(first)
    publish(log, first)
    second = staged_change(log, 2, "by-hand")
    assert roll_forward(log) == 1
    log.commit(second)
    publish(log, second)
    assert len(visible(log)) == 2


def test_of_16_runs_that_commit_one_number_exactly_one_succeeds(log: ChangeLog) -> None:
    records = [staged_change(log, 1, f"run-{i}") for i in range(16)]

    def attempt(record: ChangeRecord) -> bool:
        try:
            log.commit(record)
        except CommitConflictError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(attempt, records)) == 1


def test_books_that_do_not_balance_are_not_committed(log: ChangeLog) -> None:
    record = staged_change(log, 1)
    for wrong in (
        replace(record.books, read_insert=2),
        replace(record.books, inserted=0),
        replace(record.books, rows_after=2),
    ):
        with pytest.raises(BooksError, match="off by"):
            log.commit(replace(record, books=wrong))
    assert log.head() == 0


def test_a_missing_snapshot_is_an_error_that_names_it(log: ChangeLog) -> None:
    record = staged_change(log, 1)
    log.commit(record)
    log.store.delete([record.snapshot_key])
    with pytest.raises(IntegrityError, match="snapshots/000000000001-run"):
        log.snapshot(1)


def test_a_published_change_that_is_marked_as_the_newest_needs_no_mark_of_its_own(log: ChangeLog) -> None:
    """The number is written last, so a run need not ask for both."""
    lake = LakeBuilder(log)
    lake.change()
    staged = LAYOUT.staging_prefix(1, "crashed") + "0.parquet"
    log.store.put(staged, b"left")
    log.store.delete([LAYOUT.published_key(1)])
    assert log.newest_published() == 1
    assert roll_forward(log) == 1
    assert log.store.get(staged) is None
    assert not log.is_published(1)  # it was not published again


def test_a_run_that_crashed_before_it_marked_the_newest_published_change_is_completed(log: ChangeLog) -> None:
    lake = LakeBuilder(log)
    lake.change()
    log.store.delete([LAYOUT.newest_published_key])
    assert (log.newest_published(), roll_forward(log)) == (0, 1)
