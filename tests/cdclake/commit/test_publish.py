"""Commit, publish and roll forward, on a plain folder and in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.commit.log import MARKED_EVERY, ChangeLog
from cdclake.commit.publish import publish
from cdclake.commit.roll_forward import complete_newest, roll_forward
from cdclake.errors import BooksError, CommitConflictError, IntegrityError
from cdclake.model.snapshot import Snapshot
from cdclake_devkit.memory import MemoryStore
from tests.builders import LAYOUT, LakeBuilder
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.layout import FileKeys
    from cdclake.model.raw.files import ListedObject


FIRST, SECOND = (LAYOUT.data_key(LAYOUT.data_path(change, 1, (), ())) for change in (1, 2))
"""Keys of the files of the first changes."""


@pytest.fixture(params=["memory", "folder"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeBuilder:
    return LakeBuilder(MemoryStore() if request.param == "memory" else FolderStore(tmp_path))


@pytest.fixture
def log(lake: LakeBuilder) -> ChangeLog:
    return lake.log


@pytest.fixture
def replacement(lake: LakeBuilder) -> ChangeRecord:
    """A committed change that replaces the file of a published one, but is not published."""
    first = lake.change()
    record = lake.stage(retired=[first.added[0].path])
    lake.log.commit(record)
    return record


def visible(log: ChangeLog) -> list[str]:
    return [entry.key for entry in log.store.list(LAYOUT.table_prefix)]


def test_finding_the_newest_change_lists_only_records_after_the_last_marked_one() -> None:
    class Listing(MemoryStore):
        def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
            for entry in super().list(prefix, start_after):
                listed.append(entry.key)
                yield entry

    listed: list[str] = []
    lake = LakeBuilder(Listing())
    for _ in range(2 * MARKED_EVERY + 1):
        lake.change()
    lake.log.commit(lake.stage())
    listed.clear()

    assert lake.log.head() == 2 * MARKED_EVERY + 2
    assert listed == [LAYOUT.change_key(2 * MARKED_EVERY + 1), LAYOUT.change_key(2 * MARKED_EVERY + 2)]


def test_the_newest_change_is_found_without_the_mark(lake: LakeBuilder, log: ChangeLog) -> None:
    for _ in range(MARKED_EVERY):
        lake.change()
    log.store.delete([LAYOUT.newest_published_key])

    assert log.head() == MARKED_EVERY


def test_a_table_without_changes_has_an_empty_snapshot(log: ChangeLog) -> None:
    assert log.head() == 0
    assert log.snapshot(0) == Snapshot()
    assert roll_forward(log) == 0


def test_a_published_change_is_visible_and_leaves_no_staging(lake: LakeBuilder, log: ChangeLog) -> None:
    record = lake.stage()
    log.commit(record)
    assert visible(log) == []
    publish(log, record)
    assert visible(log) == [FIRST]
    assert lake.control_keys("staging/") == []
    assert log.record(1) == record
    assert [LAYOUT.data_key(file.path) for file in log.snapshot(1).files] == [FIRST]


def test_a_replaced_file_is_retired_when_the_new_one_is_visible(log: ChangeLog, replacement: ChangeRecord) -> None:
    publish(log, replacement)
    assert visible(log) == [SECOND]


def test_old_files_stay_until_the_new_ones_are_live(
    log: ChangeLog, replacement: ChangeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    retire, seen = log.store.retire, list[list[str]]()

    def look_and_retire(key: str, retired_key: str) -> None:
        seen.append(visible(log))
        retire(key, retired_key)

    monkeypatch.setattr(log.store, "retire", look_and_retire)
    publish(log, replacement)
    assert seen == [[FIRST, SECOND]]


def test_a_publisher_that_was_paused_looks_for_later_changes_before_its_next_call(
    lake: LakeBuilder, log: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lake.change()
    second = lake.stage(files=0, retired=[first.added[0].path])
    log.commit(second)
    begin_retiring, now = log.store.begin_retiring, 1_000.0

    def begin_and_pause(files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        nonlocal now
        now += 600
        log.commit(lake.stage(run_id="other"))
        return begin_retiring(files)

    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr(log.store, "begin_retiring", begin_and_pause)
    with pytest.raises(CommitConflictError, match="Another run took over"):
        publish(log, second)
    assert visible(log) == [FIRST]


def test_a_publisher_looks_for_later_changes_at_once_if_its_commit_was_a_while_ago(
    lake: LakeBuilder, log: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    record = lake.stage()
    looked = log.commit(record)
    now += 600
    log.commit(replace(lake.stage(run_id="other"), change=2))
    with pytest.raises(CommitConflictError, match="Another run took over"):
        publish(log, record, looked=looked)
    assert visible(log) == []


def test_a_publisher_that_another_run_overtakes_while_both_publish_the_same_change_is_done(
    log: ChangeLog, replacement: ChangeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = log.store.copy

    def copy_later(source: str, target: str, size_bytes: int | None = None) -> None:
        monkeypatch.setattr(log.store, "copy", copy)
        publish(log, replacement)  # the other run, which also deletes what was staged
        copy(source, target, size_bytes)

    monkeypatch.setattr(log.store, "copy", copy_later)
    publish(log, replacement)
    assert visible(log) == [SECOND]


def test_a_publisher_that_misses_a_staged_file_reports_it(log: ChangeLog, replacement: ChangeRecord) -> None:
    log.store.delete([replacement.added[0].staged_key])
    with pytest.raises(IntegrityError, match="An object to copy is missing"):
        publish(log, replacement)


@pytest.mark.parametrize("known", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("marked", [0, 1, 2])
def test_the_newest_change_is_found_and_completed_from_any_number_that_a_caller_knows(
    log: ChangeLog, replacement: ChangeRecord, known: int, marked: int
) -> None:
    if marked:
        log.store.put(LAYOUT.newest_published_key, str(marked).encode())
    assert complete_newest(log, known=known) == replacement.change == 2
    assert visible(log) == [SECOND]


def test_the_next_run_publishes_a_change_whose_run_crashed_before_publishing(lake: LakeBuilder, log: ChangeLog) -> None:
    log.commit(lake.stage())
    for _ in range(2):
        assert roll_forward(log) == 1
        assert visible(log) == [FIRST]


def test_the_next_run_publishes_a_change_whose_run_crashed_while_publishing(
    log: ChangeLog, replacement: ChangeRecord
) -> None:
    log.store.copy(replacement.added[0].staged_key, SECOND)
    log.store.retire(FIRST, LAYOUT.retired_key(replacement.retired[0]))
    assert roll_forward(log) == 2
    assert visible(log) == [SECOND]


def test_the_next_run_retires_the_files_that_a_run_replaced_which_crashed_before(
    log: ChangeLog, replacement: ChangeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise DiedError

    with monkeypatch.context() as dying, pytest.raises(DiedError):
        dying.setattr(log.store, "begin_retiring", lambda _: [die])
        publish(log, replacement)
    assert visible(log) == [FIRST, SECOND]
    assert roll_forward(log) == 2
    assert visible(log) == [SECOND]


def test_the_next_run_deletes_staged_files_of_a_run_that_crashed_after_publishing(
    lake: LakeBuilder, log: ChangeLog
) -> None:
    record = lake.stage()
    log.commit(record)
    log.store.copy(record.added[0].staged_key, FIRST)
    log.mark_published(1)
    roll_forward(log)
    assert visible(log) == [FIRST]
    assert lake.control_keys("staging/") == []


def test_a_foreign_file_among_staged_ones_stays_and_does_not_keep_a_change_from_readers(
    log: ChangeLog, replacement: ChangeRecord
) -> None:
    foreign = f"{LAYOUT.staging_folder}notes.txt"
    log.store.put(foreign, b"")
    publish(log, replacement)
    assert visible(log) == [SECOND]
    assert log.store.get(foreign) == b""


def test_the_second_of_two_runs_that_commit_one_number_gets_a_conflict_and_changes_nothing(
    lake: LakeBuilder, log: ChangeLog
) -> None:
    ours, theirs = (lake.stage(run_id=run_id) for run_id in ("ours", "theirs"))
    log.commit(theirs)
    with pytest.raises(CommitConflictError):
        log.commit(ours)
    roll_forward(log)
    assert list(lake.contents().values()) == [f"rows {theirs.added[0].staged_key}".encode()]
    assert lake.control_keys("staging/") == []


def test_a_run_that_begins_leaves_what_another_run_has_staged_for_the_next_change(
    lake: LakeBuilder, log: ChangeLog
) -> None:
    lake.change()
    second = lake.stage(run_id="by-hand")
    assert roll_forward(log) == 1
    log.commit(second)
    publish(log, second)
    assert visible(log) == [FIRST, SECOND]


def test_of_16_runs_that_commit_one_number_exactly_one_succeeds(lake: LakeBuilder, log: ChangeLog) -> None:
    records = [lake.stage(run_id=f"run-{i}") for i in range(16)]

    def attempt(record: ChangeRecord) -> bool:
        try:
            log.commit(record)
        except CommitConflictError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(attempt, records)) == 1


@pytest.mark.parametrize("wrong", [{"read_insert": 2}, {"inserted": 0}, {"rows_after": 2}], ids=str)
def test_books_that_do_not_balance_are_not_committed(lake: LakeBuilder, wrong: dict[str, int]) -> None:
    with pytest.raises(BooksError, match="off by"):
        lake.change(books=wrong)
    assert lake.log.head() == 0


def test_a_missing_snapshot_is_an_error_that_names_it(lake: LakeBuilder, log: ChangeLog) -> None:
    log.store.delete([lake.change().snapshot_key])
    with pytest.raises(IntegrityError, match="snapshots/000000000001-run"):
        log.snapshot(1)


def test_a_snapshot_that_an_erasure_rewrites_is_read_anew(lake: LakeBuilder, log: ChangeLog) -> None:
    record = lake.change()
    erased = replace(log.snapshot(1), files=())
    log.store.put(record.snapshot_key, erased.to_bytes())
    assert log.snapshot(1) == erased
    assert log.after_commit() != erased


def test_the_table_after_a_commit_is_that_of_the_newest_change(lake: LakeBuilder, log: ChangeLog) -> None:
    assert log.after_commit() == Snapshot()
    lake.change()
    lake.change()
    assert log.after_commit() == ChangeLog(log.store, LAYOUT).snapshot(2)
    log.write_snapshot(replace(log.snapshot(2), change=3), "loser")  # which commits nothing
    assert log.after_commit() == log.snapshot(2)
