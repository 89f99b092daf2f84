"""Rollback and reapply on every kind of store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.ancestry import content_change
from cdclake.commit.publish import publish
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import check_files_retained, plan_reapply, plan_rollback
from cdclake.errors import CommitConflictError, ConfigurationError, LeaseLostError, PastRetentionError
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LAYOUT, LakeBuilder
from tests.cdclake.commit.conftest import in_memory
from tests.dying_store import DiedError
from tests.examples import examples


def first_files(record: ChangeRecord, count: int = 1) -> list[str]:
    return [file.path for file in record.added[:count]]


def test_a_rollback_restores_the_same_files_and_a_reapply_the_later_ones(lake: LakeBuilder) -> None:
    first = lake.change(files=3)
    before = lake.visible()
    lake.change(files=2, retired=first_files(first, 2))
    after = lake.visible()
    assert before != after
    for _ in range(3):
        undone = lake.rollback()
        assert lake.visible() == before
        assert (undone.kind, undone.as_of, undone.content_change) == (ChangeKind.ROLLBACK, 1, 1)
        reapplied = lake.reapply()
        assert lake.visible() == after
        assert (reapplied.kind, reapplied.as_of) == (ChangeKind.REAPPLY, 2)
    assert lake.log.head() == 8
    assert lake.control_keys("staging/") == []


@in_memory
def test_the_watermark_and_the_rest_of_the_snapshot_go_back_with_the_files(lake: LakeBuilder) -> None:
    lake.change(tombstones=2)
    was = lake.snapshot
    lake.change(tombstones=3)
    lake.rollback()
    now = lake.snapshot
    assert now.change == 3
    assert (now.watermark, now.tombstones, now.files) == (was.watermark, was.tombstones, was.files)


def test_rollbacks_undo_change_by_change_and_reapplies_bring_them_back(lake: LakeBuilder) -> None:
    states = [lake.visible()]
    for _ in range(4):
        retired = first_files(lake.log.record(lake.log.head())) if lake.log.head() else []
        lake.change(files=2, retired=retired)
        states.append(lake.visible())
    for change in (3, 2, 1, 0):
        lake.rollback()
        assert lake.visible() == states[change]
    with pytest.raises(ConfigurationError, match="no change to undo"):
        lake.rollback()
    for change in (1, 2, 3, 4):
        lake.reapply()
        assert lake.visible() == states[change]
    with pytest.raises(ConfigurationError, match="no change to reapply"):
        lake.reapply()


@in_memory
def test_a_rollback_can_undo_many_changes_at_once(lake: LakeBuilder) -> None:
    for _ in range(5):
        lake.change()
    lake.rollback(to=2)
    assert len(lake.visible()) == 2
    lake.reapply()
    assert len(lake.visible()) == 3
    lake.rollback(to=6)  # a rollback can be rolled back to as well
    assert len(lake.visible()) == 2


@in_memory
def test_a_change_after_a_rollback_starts_a_new_branch(lake: LakeBuilder) -> None:
    lake.change()
    lake.change()
    lake.rollback()
    lake.change()
    with pytest.raises(ConfigurationError, match="no change to reapply"):
        lake.reapply()
    lake.rollback()
    assert content_change(lake.log, lake.log.head()) == 1
    lake.reapply()
    assert content_change(lake.log, lake.log.head()) == 4
    lake.rollback(to=2)  # the other branch is still retained
    assert sorted(lake.visible()) == ["000000000001-00001.parquet", "000000000002-00001.parquet"]


@in_memory
def test_a_plan_describes_its_effect_and_changes_nothing(lake: LakeBuilder) -> None:
    first = lake.change(files=3)
    lake.change(files=1, retired=first_files(first, 2))
    before, objects = lake.visible(), lake.control_keys()
    plan = plan_rollback(lake.log)
    assert plan.to_json() == {
        "kind": "rollback",
        "change": 3,
        "as_of": 1,
        "changes": [2],
        "rows_before": 20,
        "rows_after": 30,
        "files_restored": 2,
        "bytes_restored": sum(file.bytes for file in plan.restored),
        "files_retired": 1,
        "bytes_retired": plan.retired[0].bytes,
        "watermark_before": "20240302-000000000.parquet",
        "watermark_after": "20240301-000000000.parquet",
        "full_load_before": "",
        "full_load_after": "",
    }
    assert (lake.visible(), lake.control_keys()) == (before, objects)


@in_memory
def test_plans_have_equal_fingerprints_if_and_only_if_they_have_the_same_effect(lake: LakeBuilder) -> None:
    first = lake.change(files=2)
    lake.change(files=1, retired=first_files(first, 1))
    by_default, by_number, to_the_start = (
        plan_rollback(lake.log),
        plan_rollback(lake.log, 1),
        plan_rollback(lake.log, 0),
    )
    assert by_default.fingerprint == by_number.fingerprint != to_the_start.fingerprint
    assert by_default.has_same_effect(by_number)
    assert not by_default.has_same_effect(to_the_start)
    lake.change()
    assert plan_rollback(lake.log, 1).fingerprint != by_number.fingerprint


@in_memory
@pytest.mark.parametrize(("to", "problem"), [(2, "no change 2"), (-1, "no change -1"), (7, "no change 7")])
def test_a_rollback_to_an_impossible_change_is_refused(lake: LakeBuilder, to: int, problem: str) -> None:
    lake.change()
    lake.change()
    with pytest.raises(ConfigurationError, match=problem):
        lake.rollback(to)
    lake.rollback(to=1)
    with pytest.raises(ConfigurationError, match="already is as it was after change 1"):
        lake.rollback(to=1)


@in_memory
def test_a_table_without_changes_has_nothing_to_undo(lake: LakeBuilder) -> None:
    with pytest.raises(ConfigurationError, match="no change to undo"):
        plan_rollback(lake.log)
    with pytest.raises(ConfigurationError, match="no change to reapply"):
        plan_reapply(lake.log)


def test_a_rollback_to_files_that_are_not_retained_is_refused_and_changes_nothing(lake: LakeBuilder) -> None:
    first = lake.change(files=2)
    lake.change(retired=first_files(first))
    path = first_files(first)[0]
    lake.store.discard(LAYOUT.data_key(path), LAYOUT.retired_key(path))
    before = lake.visible()
    with pytest.raises(PastRetentionError, match=f"1 of the 1 files to restore are no longer retained: {path}"):
        check_files_retained(lake.log, plan_rollback(lake.log))
    with pytest.raises(PastRetentionError):
        lake.rollback()
    assert (lake.visible(), lake.log.head()) == (before, 2)


def test_the_next_run_publishes_a_rollback_that_crashed(lake: LakeBuilder) -> None:
    first = lake.change(files=2)
    before = lake.visible()
    lake.change(retired=first_files(first))

    def crash_once_committed() -> None:
        if lake.log.head() == 3:
            raise DiedError

    with pytest.raises(DiedError):
        lake.apply(plan_rollback(lake.log), crash_once_committed)
    assert roll_forward(lake.log) == 3
    assert lake.visible() == before


@in_memory
def test_a_rollback_is_refused_if_a_change_was_committed_after_its_plan(lake: LakeBuilder) -> None:
    lake.change()
    lake.change()
    plan = plan_rollback(lake.log)
    lake.change()
    with pytest.raises(CommitConflictError):
        lake.apply(plan)
    assert len(lake.visible()) == 3


def test_a_paused_publisher_does_not_retire_files_restored_by_a_rollback(lake: LakeBuilder) -> None:
    first = lake.change(files=2)
    before = lake.visible()
    record = lake.change(retired=first_files(first))
    lake.rollback()
    with pytest.raises(CommitConflictError, match="Another run took over"):  # it was paused while publishing change 2
        publish(lake.log, record)
    assert lake.visible() == before


def test_a_publisher_that_pauses_while_it_copies_does_not_retire_files_restored_by_a_rollback(
    lake: LakeBuilder,
) -> None:
    first = lake.change(files=2)
    before = lake.visible()
    record = lake.stage(retired=first_files(first))
    lake.log.commit(record)

    def finish_and_undo() -> None:
        if lake.log.head() == record.change:
            roll_forward(lake.log)
            lake.rollback()

    with pytest.raises(CommitConflictError, match="Another run took over"):
        publish(lake.log, record, finish_and_undo)  # the lease expires after the first copy
    assert lake.visible() == before


@in_memory
def test_rollback_and_reapply_skip_a_takeover(lake: LakeBuilder) -> None:
    lake.change()
    lake.change()
    take_over(lake.log, "later", 2, "the lease of run x ran out", lake.clock)
    lake.token = 2
    assert len(lake.visible()) == 2
    lake.rollback()
    assert len(lake.visible()) == 1
    lake.reapply()
    assert len(lake.visible()) == 2


def test_a_run_under_an_older_lease_can_neither_commit_nor_roll_back(lake: LakeBuilder) -> None:
    lake.change()
    staged = lake.stage()
    take_over(lake.log, "later", 2, "the lease of run x ran out", lake.clock)
    with pytest.raises(CommitConflictError):
        lake.log.commit(staged)
    with pytest.raises(LeaseLostError, match="its token is 1, and token 2 has written"):
        lake.rollback()
    assert len(lake.visible()) == 1


def test_a_takeover_that_loses_a_race_to_a_commit_takes_the_next_number(lake: LakeBuilder) -> None:
    lake.change()
    staged = lake.stage()
    put_if_absent = lake.store.put_if_absent

    def commit_first(key: str, data: bytes) -> bool:
        lake.store.put_if_absent = put_if_absent  # type: ignore[method-assign]
        lake.log.commit(staged)  # the paused run continues now
        return put_if_absent(key, data)

    lake.store.put_if_absent = commit_first  # type: ignore[method-assign]
    assert take_over(lake.log, "later", 2, "the lease of run x ran out", lake.clock) == 3
    assert len(lake.visible()) == 2
    assert lake.log.record(2).kind is ChangeKind.INCREMENTAL


steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 3), st.integers(0, 2)),
        st.just(("rollback",)),
        st.tuples(st.just("to"), st.integers(0, 12)),
        st.just(("reapply",)),
    ),
    max_size=12,
)


@examples(thorough=3000, ci=300, test=100)
@given(steps=steps)
def test_any_sequence_of_changes_and_rollbacks_restores_the_content_of_each_number(
    steps: list[tuple[Any, ...]],
) -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    shown = {0: lake.visible()}
    for step in steps:
        try:
            if step[0] == "change":
                live = [file.path for file in lake.snapshot.files]
                lake.change(files=step[1], retired=live[: step[2]])
            elif step[0] == "rollback":
                made = content_change(lake.log, lake.log.head())
                lake.rollback()
                assert lake.visible() == shown[made - 1]
            elif step[0] == "to":
                lake.rollback(to=step[1])
                assert lake.visible() == shown[step[1]]
            else:
                lake.reapply()
        except ConfigurationError:
            pass
        head = lake.log.head()
        shown.setdefault(head, lake.visible())
        assert lake.visible() == shown[head] == shown[content_change(lake.log, head)]
        assert sorted(file.path for file in lake.snapshot.files) == sorted(lake.visible())
        lake.log.record(head).books.check() if head else None
