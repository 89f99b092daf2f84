"""An erasure deletes every copy of the files that it replaces, and nothing of other runs, on every kind of store."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, cast

import pytest

from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.erasure import (
    Replacement,
    claim_snapshots,
    commit_erasure,
    delete_unreferenced,
    rewrite_snapshots,
)
from cdclake.commit.log import ChangeLog
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


def complete(lake: LakeBuilder, replacement: Replacement) -> None:
    """Do what an erasure does after its commit."""
    head = lake.snapshot
    rewrite_snapshots(lake.log, head, replacement)
    delete_unreferenced(lake.log, head.change)
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


@pytest.mark.parametrize("finds_rows", [True, False])
def test_no_snapshot_names_a_file_that_another_erasure_deleted_during_a_pause(finds_rows: bool) -> None:
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
            take_over(lake.log, "eraser-5", lake.token, "", lake.clock)  # noqa: B023 - used at once
            claim_snapshots(lake.log, lake.snapshot, 4)  # noqa: B023
            of_others = Replacement({other: None} if finds_rows else {})  # noqa: B023
            if finds_rows:
                commit(lake, of_others)  # noqa: B023
            complete(lake, of_others)  # noqa: B023

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


@pytest.mark.parametrize("is_head", [True, False])
def test_a_clean_up_during_a_pause_keeps_what_older_states_will_need(is_head: bool) -> None:
    clock = ManualClock()
    lake = LakeBuilder(MemoryStore(clock), clock)
    old = lake.change().added[0].path
    clock.advance(timedelta(days=2).total_seconds())
    lake.change(retired=[old])
    new = DataFile(LAYOUT.data_path(3, 1, (), ()), 9, 6)
    lake.store.put(LAYOUT.retired_key(new.path), b"erased")
    tombstones = f"{LAYOUT.tombstones_key(3, 'eraser-3')}-erased-00001.parquet"
    lake.store.put(tombstones, b"deletes")
    replacement = Replacement({old: new})
    commit(lake, replacement)
    if not is_head:
        lake.change()
    later = clock() + timedelta(days=5)
    clean_up(lake.log, plan_clean_up(lake.log, timedelta(days=30), later, keep_every=timedelta(days=1)))
    assert 1 in lake.log.retained().kept
    assert lake.log.retained().through >= 2
    assert lake.store.get(LAYOUT.retired_key(new.path))
    assert lake.store.get(tombstones)


def test_a_paused_erasure_deletes_nothing_that_a_later_change_needs() -> None:
    for call in count(1):
        lake = LakeBuilder(MemoryStore(), ManualClock())
        lake.change(tombstones=1)
        commit(lake, Replacement())

        def go_on() -> None:
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


def test_the_erasures_that_did_not_finish_are_known(lake: LakeBuilder) -> None:
    lake.change()
    assert lake.log.unfinished_erasures(lake.snapshot) == ()
    for change in (2, 3, 4):
        commit(lake, Replacement())
        if change != 3:
            lake.store.put(LAYOUT.erasure_key(change), b"{}")
    assert [one.change for one in lake.log.unfinished_erasures(lake.snapshot)] == [3]
