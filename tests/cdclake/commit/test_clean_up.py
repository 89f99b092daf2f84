"""Clean-up deletes what no retained change needs, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.clean_up import CleanUpPlan, clean_up, has_leftovers, plan_clean_up
from cdclake.commit.log import ChangeLog
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import next_to_reapply, plan_rollback
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.model.retained import Retained
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LAYOUT, LakeBuilder
from tests.cdclake.commit.conftest import in_memory
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.raw.files import ListedObject
    from cdclake.ports import ObjectStore

DAY_SECONDS = 24 * 3600
MONTH = timedelta(days=30)


def plan(lake: LakeBuilder, retention: timedelta = MONTH) -> CleanUpPlan:
    return plan_clean_up(lake.log, retention, lake.clock())


def run(lake: LakeBuilder, retention: timedelta = MONTH) -> CleanUpPlan:
    cleaned = plan(lake, retention)
    clean_up(lake.log, cleaned)
    return cleaned


def rewrite_daily(lake: LakeBuilder, days: int) -> None:
    """Make one change per day, each replacing the table's only file."""
    for _ in range(days):
        lake.change(retired=[file.path for file in lake.snapshot.files], tombstones=1)
        lake.clock.advance(DAY_SECONDS)


def test_a_rollback_can_reach_the_changes_within_the_retention_time_and_none_before(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 6)
    cleaned = run(lake, timedelta(days=3))
    assert cleaned.retained.first == 4  # committed exactly three days ago
    assert cleaned.data_files == tuple(LAYOUT.data_path(number, 1, (), ()) for number in (1, 2, 3))
    assert len(cleaned.snapshots) == len(cleaned.tombstones) == 3
    assert lake.log.retained().first == 4
    for number in (5, 4):
        lake.rollback(to=number)
        assert list(lake.visible()) == [LAYOUT.data_path(number, 1, (), ())]
    with pytest.raises(PastRetentionError, match=r"Change 3 .* no longer retained\. Use change 4 or a later one"):
        plan_rollback(lake.log, 3)
    with pytest.raises(PastRetentionError):
        plan_rollback(lake.log)
    assert lake.log.record(1).change == 1  # change records stay


@in_memory
def test_the_lease_is_renewed_while_a_clean_up_is_planned(lake: LakeBuilder) -> None:
    """A service may take seconds for a request, and a lease ends after five minutes."""
    rewrite_daily(lake, 10)
    requests, since_renewal = [0], [0]

    class Slow:
        def __getattr__(self, name: str) -> Any:
            requests[0] += 1
            return getattr(lake.store, name)

    def renew() -> None:
        since_renewal.append(requests[0])

    plan_clean_up(ChangeLog(cast("ObjectStore", Slow()), LAYOUT), MONTH, lake.clock(), 10, None, renew)
    gaps = [after - before for before, after in zip(since_renewal, [*since_renewal[1:], requests[0]], strict=True)]
    assert max(gaps) < 16 < sum(gaps)


def test_only_a_retained_change_is_offered_to_reapply(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 3)
    lake.rollback(to=2)
    assert next_to_reapply(lake.log, 4) == 3
    lake.clock.advance(DAY_SECONDS)
    run(lake, timedelta())
    lake.rollback(to=0)
    assert next_to_reapply(lake.log, 5) is None


@in_memory
def test_the_current_table_is_kept_however_old_it_is(lake: LakeBuilder) -> None:
    lake.change(files=2, tombstones=3)
    was, visible = lake.snapshot, lake.visible()
    lake.clock.advance(400 * DAY_SECONDS)
    assert run(lake).retained.first == 1
    assert (lake.snapshot, lake.visible()) == (was, visible)
    assert lake.store.get(was.tombstones[0].key) is not None


def test_the_next_clean_up_finishes_one_that_crashed(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 6)
    cleaned = plan(lake, timedelta(days=2))
    lake.log.mark_retained(cleaned.retained)
    path = cleaned.data_files[0]
    lake.store.discard(LAYOUT.data_key(path), LAYOUT.retired_key(path))
    lake.store.delete([cleaned.snapshots[0]])
    run(lake, timedelta(days=2))
    for path in cleaned.data_files:
        assert not lake.store.is_retained(LAYOUT.data_key(path), LAYOUT.retired_key(path))
    assert plan(lake, timedelta(days=2)).count == 0


@in_memory
def test_a_plan_changes_nothing(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 5)
    before = lake.control_keys(), lake.visible()
    cleaned = plan(lake, timedelta(days=2))
    assert cleaned.to_json() == {
        "first_retained": 4,
        "all_retained_from": 4,
        "data_files": 3,
        "snapshots": 3,
        "tombstones": 3,
        "ledger": 0,
        "quarantine": 0,
        "staging": 0,
        "copies": 0,
        "marks": 4,
        "iceberg": 0,
    }
    assert (lake.control_keys(), lake.visible()) == before


@in_memory
def test_a_longer_retention_time_does_not_bring_back_deleted_changes(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 6)
    run(lake, timedelta(days=2))
    assert plan(lake, timedelta(days=365)).retained.first == 5


def test_a_file_restored_by_a_rollback_is_kept(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 3)
    lake.rollback(to=1)
    visible = lake.visible()
    lake.clock.advance(40 * DAY_SECONDS)
    lake.change()
    cleaned = run(lake)
    assert cleaned.retained.first == 4
    assert cleaned.data_files == tuple(LAYOUT.data_path(number, 1, (), ()) for number in (2, 3))
    assert lake.snapshot.tombstones[0].key not in cleaned.tombstones
    lake.rollback()
    assert lake.visible() == visible


@in_memory
def test_a_file_that_a_rollback_restored_is_kept_after_a_later_change_retired_it(lake: LakeBuilder) -> None:
    rewrite_daily(lake, 1)
    visible = lake.visible()
    rewrite_daily(lake, 1)
    lake.rollback()
    rewrite_daily(lake, 1)
    assert run(lake, timedelta(days=2)).retained.first == 2
    lake.rollback(to=3)
    assert lake.visible() == visible


def test_leftovers_of_crashed_runs_are_deleted_and_quarantined_rows_stay(lake: LakeBuilder) -> None:
    quarantined = lake.change(bad_rows=b"{}", tombstones=1).quarantine
    lake.stage(run_id="crashed", tombstones=1, bad_rows=b"{}")
    lake.change(tombstones=1)
    leftover = lake.stage(run_id="paused", tombstones=1, bad_rows=b"{}")
    assert has_leftovers(lake.log, 2)
    take_over(lake.log, "by-hand", lake.token, "a run had left an unfinished change", lake.clock)
    assert not has_leftovers(lake.log, 3)
    run(lake)
    assert lake.control_keys("staging/") == []
    assert lake.control_keys("quarantine/") == list(quarantined)
    assert not [key for key in lake.control_keys() if "crashed" in key or "paused" in key]
    assert lake.store.get(leftover.snapshot_key) is None


@in_memory
def test_foreign_files_among_those_of_runs_stay_and_do_not_stop_a_clean_up(lake: LakeBuilder) -> None:
    lake.change(tombstones=1, bad_rows=b"{}")
    names = ("notes.txt", ".keep", "20240305/rows.csv", "-x", "000000000001", "0000000000001-x", "\u0661" * 12 + "-x")
    foreign = [folder + name for folder in LAYOUT.run_folders for name in names]
    foreign += [LAYOUT.published_folder + name for name in ("", *names) if name != "000000000001"]
    for key in foreign:
        lake.store.put(key, b"")
    assert not has_leftovers(lake.log, 1)
    lake.stage(run_id="crashed", bad_rows=b"{}")
    assert has_leftovers(lake.log, 1)
    take_over(lake.log, "by-hand", lake.token, "a run had left an unfinished change", lake.clock)
    run(lake)
    assert not [key for key in lake.control_keys() if "crashed" in key]
    assert set(foreign) <= set(lake.control_keys())


def test_copies_made_for_reading_are_deleted_after_a_day(clock: ManualClock) -> None:
    lake = LakeBuilder(MemoryStore(clock), clock)
    lake.change()
    lake.store.put(LAYOUT.as_of_key("old.parquet"), b"")
    clock.advance(DAY_SECONDS)
    lake.store.put(LAYOUT.as_of_key("new.parquet"), b"")
    clock.advance(1)
    assert run(lake).copies == (LAYOUT.as_of_key("old.parquet"),)


def test_a_table_without_changes_loses_only_leftovers_of_crashed_runs(lake: LakeBuilder) -> None:
    lake.stage(run_id="crashed")
    assert has_leftovers(lake.log, 0)
    assert len(run(lake).staging) == 1
    assert lake.control_keys("staging/") == []


@in_memory
def test_a_clean_up_paused_past_its_lease_keeps_the_files_of_other_runs(lake: LakeBuilder) -> None:
    lake.change(tombstones=1)
    known = lake.log.head()
    lake.change(tombstones=1, bad_rows=b"{}")
    lake.stage(run_id="at-work", tombstones=1, bad_rows=b"{}")
    before = lake.control_keys()
    cleaned = plan_clean_up(lake.log, MONTH, lake.clock(), known)
    clean_up(lake.log, cleaned)
    assert (cleaned.count, set(before) - set(lake.control_keys())) == (0, set())


def test_iceberg_files_that_another_clean_up_expires_meanwhile_keep_their_grace(clock: ManualClock) -> None:
    class Overtaken(MemoryStore):
        """Another clean-up moves the mark right after this one looked how old it is."""

        def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
            found = super().list(prefix, start_after)
            if prefix == LAYOUT.retained_key:
                lake.log.mark_retained(Retained(3))
            return found

    lake = LakeBuilder(Overtaken(clock), clock)
    rewrite_daily(lake, 4)
    manifest = LAYOUT.manifest_prefix(2, lake.log.record(2).run_id) + "-m0.avro"
    lake.store.put(manifest, b"entries")
    assert plan(lake).iceberg == ()
    assert lake.log.retained().first == 4
    clock.advance(DAY_SECONDS)
    assert plan(lake).iceberg == (manifest,)


def test_the_mark_of_the_oldest_retained_change_never_moves_back() -> None:
    class Overtaken(MemoryStore):
        """Another clean-up moves the mark right after this one read it."""

        def get(self, key: str) -> bytes | None:
            found = super().get(key)
            if key == LAYOUT.retained_key:
                self.put(key, Retained(9, (2, 6, 7)).to_bytes())
            return found

    for before in ({}, {LAYOUT.retained_key: Retained(1).to_bytes()}):
        store = Overtaken()
        for key, data in before.items():
            store.put(key, data)
        log = ChangeLog(store, LAYOUT)
        log.mark_retained(Retained(6, (2, 3, 6)))
        assert log.retained() == Retained(9, (2, 6, 7))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 2), st.integers(0, 2)),
        st.just(("rollback",)),
        st.tuples(st.just("to"), st.integers(0, 12)),
        st.just(("reapply",)),
        st.tuples(st.just("days"), st.integers(1, 20)),
        st.tuples(st.just("clean up"), st.integers(1, 30)),
        st.just(("crashed run",)),
    ),
    max_size=16,
)


@examples(thorough=3000, ci=300, test=100)
@given(steps=steps)
def test_a_rollback_can_reach_every_retained_change_after_any_history(steps: list[tuple[Any, ...]]) -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    shown = {0: lake.visible()}
    for step in steps:
        with suppress(ConfigurationError):  # nothing to undo, or past retention
            if step[0] == "change":
                live = [file.path for file in lake.snapshot.files]
                lake.change(files=step[1], retired=live[: step[2]], tombstones=step[1])
            elif step[0] == "rollback":
                lake.rollback()
            elif step[0] == "to":
                lake.rollback(to=step[1])
            elif step[0] == "reapply":
                lake.reapply()
            elif step[0] == "days":
                lake.clock.advance(step[1] * DAY_SECONDS)
            elif step[0] == "crashed run":
                lake.stage(run_id="crashed", tombstones=1)
            else:
                run(lake, timedelta(days=step[1]))
        shown.setdefault(lake.log.head(), lake.visible())
    head = lake.log.head()
    assert lake.visible() == shown[head]
    for number in range(lake.log.retained().first, head):
        with suppress(ConfigurationError):  # the table already is
            lake.rollback(to=number)
        assert lake.visible() == shown[number]
        for tombstones in lake.snapshot.tombstones:
            assert lake.store.get(tombstones.key) is not None
