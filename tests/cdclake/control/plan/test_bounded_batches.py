"""A change takes a bounded part of a backlog, oldest files first."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.plan_table import plan_table
from cdclake.model.due_files import first_batch, mark_applied, pending_changes
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE
from cdclake.model.raw.files import ListedObject, RawFile, RawFiles, file_order, raw_files
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.builders import SCHEMA, recorded
from tests.cdclake.control.world import ORDERS, World

if TYPE_CHECKING:
    from collections.abc import Sequence


T0 = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
LATER = T0 + timedelta(days=30)
PREFIX = "dms/shop/orders/"


def change(minute: int) -> str:
    return f"{T0 + timedelta(minutes=minute):%Y%m%d-%H%M%S}000.parquet"


def listed(minutes: list[int], size_bytes: int = 10) -> Sequence[RawFile]:
    return raw_files([ListedObject(PREFIX + change(minute), size_bytes, LATER) for minute in minutes], PREFIX).changes


def active(**attributes: str) -> TableState:
    return TableState.new("raw", "dms/shop/", "orders/").with_attributes(ActiveFlag="true", **attributes)


def test_a_backlog_is_applied_oldest_first_and_each_batch_moves_the_watermark(world: World):
    world.register(MaxFilesPerRun="3")
    names = [change(minute) for minute in range(8)]
    world.put(*reversed(names))
    report = world.process()
    assert world.applied == names
    assert world.loads == [JOB_LOAD_INCREMENTAL] * 3
    watermarks = [one.decision.new_watermark for one in report.rounds]
    assert watermarks == [names[2], names[5], names[7]]
    assert [one.decision.left for one in report.rounds] == [5, 2, 0]
    assert "8 change files after the full load; the oldest 3 of them first" in report.rounds[0].decision.reason
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + names[7]


def test_a_backlog_too_large_for_one_run_is_handed_over_to_a_new_run(world: World):
    world.register(MaxFilesPerRun="1")
    for minute in range(25):
        world.put(change(minute))
    assert world.process().outcome == "handed on"
    assert len(world.applied) == 20
    assert world.jobs.started[-1].job == JOB_PROCESS_TABLE
    assert world.process(run_id="run-2").outcome == "done"
    assert world.applied == [change(minute) for minute in range(25)]


def test_the_first_full_load_is_followed_by_the_backlog_in_batches(world: World):
    world.add_table("LOAD00000001.parquet", MaxFilesPerRun="2")
    for minute in range(3):
        world.put(change(minute))
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, JOB_LOAD_INCREMENTAL]
    assert world.applied == [change(minute) for minute in range(3)]


def test_late_files_are_bounded_too_and_none_leaves_the_window_while_it_waits(world: World):
    world.add_table(change(50), MaxFilesPerRun="2", LateWindowHours="1")
    world.process()
    late = [change(minute) for minute in (1, 2, 3, 4, 5)]
    world.put(*late, change(100), change(200))
    report = world.process()
    assert world.applied == [change(50), *late, change(100), change(200)]
    assert [one.decision.files for one in report.rounds] == [2, 2, 2, 1]
    assert report.rounds[0].decision.new_watermark == change(2)


def test_late_files_left_for_the_next_run_are_kept_if_this_run_dies(world: World):
    world.add_table(change(50), MaxFilesPerRun="2")
    world.process()
    world.clock.advance(60)
    for minute in range(4):
        world.put(change(minute))

    world.clock.advance(60)
    world.after_job = lambda: world.failures.update({JOB_LOAD_INCREMENTAL: "boom"})
    with pytest.raises(Exception, match="boom"):
        world.process()
    world.failures.clear()
    changes = raw_files(world.raw.list(PREFIX), PREFIX).changes
    assert plan_table(world.state(), RawFiles(changes=changes), world.clock()).kind is DecisionKind.RESCAN
    world.process()
    assert world.applied == [change(minute) for minute in (50, 0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("most_files", "most_bytes", "taken"), [(3, 1000, 3), (100, 35, 3), (100, 30, 3), (100, 1, 1), (1, 1000, 1)]
)
def test_a_batch_is_limited_in_files_and_bytes_and_holds_at_least_one_file(
    most_files: int, most_bytes: int, taken: int
):
    files = listed(list(range(5)))
    assert list(first_batch(files, most_files, most_bytes)) == files[:taken]
    assert first_batch([], most_files, most_bytes) == []


@given(
    applied=st.lists(st.integers(0, 6000), max_size=20, unique=True),
    there=st.lists(st.integers(0, 6000), max_size=40, unique=True),
    most_files=st.integers(1, 10),
    most_bytes=st.integers(1, 120),
)
def test_planner_and_job_select_the_same_files(applied: list[int], there: list[int], most_files: int, most_bytes: int):
    lake = mark_applied(Snapshot(change=1, schema=SCHEMA), listed(applied), 72)
    files = listed(sorted({*there, *applied}))
    state = active(MaxFilesPerRun=str(most_files), MaxBytesPerRun=str(most_bytes), LateWindowHours="72")
    left = len(pending_changes(lake, files, 72, recorded(lake, files)).due)
    while left:
        seen = recorded(lake, files)
        decision = plan_table(state, RawFiles(changes=files), LATER, lake, recorded=seen)
        assert decision.incremental
        end = file_order(decision.new_watermark)
        due = [file for file in pending_changes(lake, files, 72, seen).due if not end or file.order <= end]
        job = first_batch(due, most_files, most_bytes)
        assert list(job) == due  # the job's own limits exclude no planned file
        assert len(job) == decision.files <= most_files
        assert decision.first == job[0].relative
        assert decision.left == left - len(job)
        assert len(job) == 1 or decision.bytes <= most_bytes
        lake = mark_applied(lake, job, 72)
        left_over = plan_table(state, RawFiles(changes=files), LATER, lake, recorded=recorded(lake, files))
        assert not left_over.repeats(decision)
        left -= len(job)
    done = plan_table(state, RawFiles(changes=files), LATER, lake, recorded=recorded(lake, files))
    assert done.kind is DecisionKind.NOTHING_NEW
