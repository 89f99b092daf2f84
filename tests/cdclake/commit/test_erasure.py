"""An erasure deletes every copy of the files that it replaces, and nothing of other runs, on every kind of store."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Callable, cast

import pytest

from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.erasure import (
    Replacement,
    commit_erasure,
    delete_unreferenced,
    rewrite_snapshots,
    unfinished_erasure,
)
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import FENCE_SECONDS
from cdclake.commit.takeover import take_over
from cdclake.errors import CommitConflictError, PastRetentionError
from cdclake.model.snapshot import DataFile, ErasedKeys
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LAYOUT, LakeBuilder
from tests.cdclake.commit.conftest import in_memory
from tests.dying_store import CALLS, PausingStore

if TYPE_CHECKING:
    from cdclake.model.change.record import ChangeRecord
    from cdclake.ports import ObjectStore


def commit(lake: LakeBuilder, replacement: Replacement) -> ChangeRecord:
    before = lake.snapshot
    erased = ErasedKeys(before.change + 1, "2024-03-05T12:00:00", ("id",), "secret", (), "", "", "")
    erased_before = (*before.erased, erased)
    run_id = f"eraser-{erased.change}"
    return commit_erasure(lake.log, before, replacement, run_id, lake.token, lake.clock, erased=erased_before)


def complete(lake: LakeBuilder, replacement: Replacement, log: ChangeLog | None = None, unfinished: int = 0) -> None:
    """Do what an erasure does after its commit."""
    log = log or lake.log
    head = lake.snapshot
    rewrite_snapshots(log, head, replacement, unfinished=unfinished)
    delete_unreferenced(log, head.change)
    lake.store.put(LAYOUT.erasure_key(head.change), b"{}")


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "retired"])
def test_no_version_of_an_erased_file_is_left(lake: LakeBuilder, is_live: bool) -> None:
    erased, other = (file.path for file in lake.change(files=2).added)
    lake.change(retired=[other if is_live else erased])
    replacement = Replacement({erased: None})
    commit(lake, replacement)
    complete(lake, replacement)
    assert not lake.store.is_retained(LAYOUT.data_key(erased), LAYOUT.retired_key(erased))
    assert lake.store.is_retained(LAYOUT.data_key(other), LAYOUT.retired_key(other))


@in_memory
def test_what_a_later_run_has_written_stays(lake: LakeBuilder) -> None:
    lake.change(tombstones=1)
    head = lake.log.head()
    lake.stage(run_id="at-work", tombstones=1)
    before = lake.control_keys()
    delete_unreferenced(lake.log, head)
    assert lake.control_keys() == before


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets so much time pass that an overtaken run looks for a later change before its next call."""
    now = [time.time()]
    monkeypatch.setattr("cdclake.commit.publish.time.time", lambda: now[0])
    return lambda: now.append(now.pop() + FENCE_SECONDS + 1)


@pytest.mark.parametrize("finds_rows", [True, False])
def test_no_snapshot_names_a_file_that_another_erasure_deleted_during_a_pause(
    finds_rows: bool, sleep: Callable[[], None]
) -> None:
    """The pause may be within a call, so that no look at the log can come between it and the call."""
    for call in count(1):
        lake = LakeBuilder(MemoryStore(), ManualClock())
        old, other = (file.path for file in lake.change(files=2).added)
        lake.change()
        lake.change(retired=[old, other])
        new = DataFile(LAYOUT.data_path(4, 1, (), ()), 9, 6)
        lake.store.put(LAYOUT.retired_key(new.path), b"erased")
        replacement = Replacement({old: new})
        commit(lake, replacement)

        def erase_other() -> None:
            sleep()
            unfinished = unfinished_erasure(lake.log, lake.snapshot)  # noqa: B023 - used at once
            take_over(lake.log, "eraser-5", lake.token, "", lake.clock)  # noqa: B023
            of_others = Replacement({other: None} if finds_rows else {})  # noqa: B023
            if finds_rows:
                commit(lake, of_others)  # noqa: B023
            complete(lake, of_others, unfinished=unfinished)  # noqa: B023

        store = PausingStore(lake.store, call, erase_other, CALLS | {"purge"})
        head, log = lake.log.head(), ChangeLog(cast("ObjectStore", store), LAYOUT)
        with suppress(CommitConflictError):
            rewrite_snapshots(log, log.snapshot(head), replacement)
            delete_unreferenced(log, head)
        if store.calls < call:
            break
        for change in range(1, lake.log.head() + 1):
            for file in lake.log.snapshot(change).all_files:
                key = LAYOUT.data_key(file.path)
                assert lake.store.is_retained(key, LAYOUT.retired_key(file.path)), (call, change, file.path)
    assert call > 20


def test_a_paused_erasure_deletes_nothing_that_a_later_change_needs(sleep: Callable[[], None]) -> None:
    for call in count(1):
        lake = LakeBuilder(MemoryStore(), ManualClock())
        lake.change(tombstones=1)
        commit(lake, Replacement())

        def go_on() -> None:
            sleep()
            lake.change(snapshot={"tombstones": lake.snapshot.tombstones})  # noqa: B023 - used at once
            later = lake.clock() + timedelta(days=9)  # noqa: B023
            clean_up(lake.log, plan_clean_up(lake.log, timedelta(days=1), later))  # noqa: B023

        store = PausingStore(lake.store, call, go_on, CALLS | {"purge"})
        with suppress(CommitConflictError, PastRetentionError):
            delete_unreferenced(ChangeLog(cast("ObjectStore", store), LAYOUT), 2)
        if store.calls < call:
            break
        assert lake.log.retained().first == 3
        (tombstones,) = lake.snapshot.tombstones
        assert lake.store.get(tombstones.key), call
    assert call > 15


def test_the_last_erasure_that_did_not_finish_is_known(lake: LakeBuilder) -> None:
    lake.change()
    assert unfinished_erasure(lake.log, lake.snapshot) == 0
    for change in (2, 3, 4):
        commit(lake, Replacement())
        if change != 3:
            lake.store.put(LAYOUT.erasure_key(change), b"{}")
    assert unfinished_erasure(lake.log, lake.snapshot) == 3
