"""A full load is taken once it has arrived completely."""

from __future__ import annotations

import pytest

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.fates import Fate
from cdclake.control.plan.planned_table import Action
from cdclake.control.raw_fates import raw_fates
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL
from tests.cdclake.control.world import ORDERS, World

TASK = "arn:aws:dms:eu-central-1:123456789012:task:SHOP"
CHANGE_1, CHANGE_2 = "20240305-100001000.parquet", "20240305-100002000.parquet"
MINUTE = 60


def load(number: int) -> str:
    return f"LOAD{number:08X}.parquet"


def quiet(world: World) -> None:
    """Register the table with the default quiet period."""
    world.register(FullLoadQuietMinutes="10")


def test_a_full_load_is_taken_after_the_quiet_period(world: World):
    quiet(world)
    world.put(load(1))
    world.clock.advance(5 * MINUTE)
    world.put(load(2))
    world.clock.advance(10 * MINUTE - 1)
    decision = world.decision()
    assert decision.kind is DecisionKind.WAITING
    assert decision.reason == (
        "full load still arriving: the newest LOAD file was written at 2024-03-05 10:05:00 UTC, "
        "and no other may arrive until 2024-03-05 10:15:00 UTC"
    )
    assert decision.to_do == ""
    world.clock.advance(1)
    assert world.decision().kind is DecisionKind.FULL_LOAD


def test_a_first_full_load_that_waits_is_taken_into_a_table_that_began_without_one(world: World):
    """With changes alone, or with an adoption: so nobody knows LOAD files that it contains."""
    quiet(world)
    world.put(CHANGE_1)
    world.process()
    world.clock.advance(MINUTE)
    world.put(load(1))
    world.process()
    assert world.decision().kind is DecisionKind.WAITING
    world.clock.advance(10 * MINUTE)
    world.process()
    assert [world.log().record(number).kind for number in (1, 2)] == [ChangeKind.INCREMENTAL, ChangeKind.FULL_LOAD]


def test_a_slow_full_load_is_quiet_after_twice_its_longest_gap(world: World):
    quiet(world)
    for number, minutes in ((1, 12), (2, 15), (3, 1), (4, 0)):
        world.put(load(number))
        world.clock.advance(minutes * MINUTE)
    world.clock.advance(30 * MINUTE - 1)
    assert world.decision().kind is DecisionKind.WAITING
    world.clock.advance(1)
    assert world.decision().kind is DecisionKind.FULL_LOAD


def test_files_of_different_days_wait_hours_and_not_days(world: World):
    quiet(world)
    world.put(load(1))
    world.clock.advance(3 * 24 * 60 * MINUTE)
    world.put(load(2))
    world.clock.advance(4 * 60 * MINUTE)
    assert world.decision().kind is DecisionKind.FULL_LOAD


def test_the_time_since_the_last_full_load_is_no_gap(world: World):
    quiet(world)
    world.put(load(1))
    world.clock.advance(10 * MINUTE)
    world.process()
    world.clock.advance(60 * MINUTE)
    world.put(load(1), load(2))
    world.clock.advance(10 * MINUTE)
    assert world.decision().kind is DecisionKind.FULL_LOAD


def test_no_quiet_period_stays_none(world: World):
    world.register(FullLoadQuietMinutes="0")
    world.put(load(1))
    world.clock.advance(15 * MINUTE)
    world.put(load(2))
    assert world.decision().kind is DecisionKind.FULL_LOAD


def test_the_quiet_period_is_ten_minutes_by_default(world: World):
    world.register(FullLoadQuietMinutes="3")
    world.register(ORDERS.replace("orders", "items")).with_attributes()
    world.put(load(1))
    world.clock.advance(3 * MINUTE)
    items, orders = world.plan().tables
    assert orders.action is Action.START
    assert items.action is Action.NONE


def test_an_event_while_a_full_load_arrives_loads_nothing_and_the_controller_starts_the_run_later(world: World):
    quiet(world)
    world.put(load(1))
    assert world.process().rounds[0].decision.kind is DecisionKind.WAITING
    assert world.loads == []
    assert world.state().item["LastRunState"] == "SUCCEEDED"
    world.clock.advance(60 * MINUTE)
    todo = world.plan()
    assert world.execute(todo).tables[0].outcome == "started"
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL]


def test_changes_wait_with_the_first_full_load_and_are_applied_after_it(world: World):
    quiet(world)
    world.put(load(1), CHANGE_1)
    world.process()
    assert world.loads == []
    world.clock.advance(10 * MINUTE)
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]
    assert world.applied == [CHANGE_1]


def test_changes_wait_while_a_reload_arrives_and_older_ones_are_not_applied_after_it(world: World):
    quiet(world)
    world.put(load(1))
    world.clock.advance(10 * MINUTE)
    world.process()
    world.put(CHANGE_1)
    world.clock.advance(MINUTE)
    world.put(load(1))
    world.clock.advance(MINUTE)
    world.put(CHANGE_2)
    assert world.process().rounds[0].decision.kind is DecisionKind.WAITING
    world.clock.advance(10 * MINUTE)
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]
    assert world.applied == [CHANGE_2]
    assert not world.decision().work


def test_a_reload_of_the_same_rows_keeps_the_watermark_and_leaves_no_more_work(world: World):
    quiet(world)
    world.put(load(1), CHANGE_1)
    world.clock.advance(10 * MINUTE)
    world.process()
    before = world.log().snapshot(world.log().head())
    world.put(load(1))
    world.clock.advance(10 * MINUTE)
    world.process()
    after = world.log().snapshot(world.log().head())
    assert (after.change, after.watermark, after.floor) == (before.change + 1, CHANGE_1, CHANGE_1)
    assert world.applied == [CHANGE_1]
    assert not world.decision().work


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ([load(2)], "LOAD00000001"),
        ([load(1), load(3), load(4)], "LOAD00000002"),
        ([load(n) for n in (*range(1, 10), 11)], "LOAD0000000A"),
        (["p0/" + load(1), "p1/" + load(2)], "p1/LOAD00000001"),
        (["SEGMENT1_" + load(1), "SEGMENT2_" + load(3)], "SEGMENT2_LOAD00000001"),
    ],
)
def test_a_full_load_with_a_gap_waits_and_then_needs_action(world: World, there: list[str], missing: str):
    quiet(world)
    world.put(*there)
    decision = world.decision()
    assert decision.kind is DecisionKind.WAITING
    assert f"{missing} is missing" in decision.reason
    assert decision.to_do == ""
    world.clock.advance(60 * MINUTE)
    assert "begin with the changes, without a full load: list its files in IgnoreFiles" in world.decision().to_do
    world.put(CHANGE_1)
    world.states.set_attributes(ORDERS, {"IgnoreFiles": "*LOAD*"})
    (done,) = world.process().rounds
    assert (done.decision.kind, world.applied) == (DecisionKind.INCREMENTAL, [CHANGE_1])


def test_changes_from_before_the_first_full_load_are_named(world: World):
    world.add_table(CHANGE_1, CHANGE_2)
    world.clock.advance(MINUTE)
    world.put(load(1))
    assert "2 of them written before the LOAD files: if these contain the changes" in world.decision().reason
    assert world.decision().reason.endswith(f"set LastIncrementalFile to {ORDERS}{CHANGE_2}")
    world.states.set_attributes(ORDERS, {"LastIncrementalFile": ORDERS + CHANGE_2})
    assert world.decision().kind is DecisionKind.FULL_LOAD
    assert "before the LOAD files" not in world.decision().reason


def test_a_reload_with_a_gap_can_be_skipped(world: World):
    world.add_table(load(1))
    world.process()
    world.clock.advance(60 * MINUTE)
    world.put(load(1), load(3))
    assert "skip this full load: set LastFullLoadDate to 2024-03-05 11:00:00" in world.decision().to_do
    world.states.set_attributes(ORDERS, {"LastFullLoadDate": "2024-03-05 11:00:00"})
    assert world.decision().kind is DecisionKind.NOTHING_NEW
    found = raw_fates(world.raw, world.state(), world.log(), world.clock(), None)
    assert [(one.file, one.fate, one.reason) for one in found] == [
        (load(number), Fate.IGNORED, "LastFullLoadDate skips it") for number in (1, 3)
    ]


@pytest.mark.parametrize("listed", [True, False])
def test_a_load_file_that_is_to_be_ignored_is_no_gap(world: World, *, listed: bool):
    world.add_table(load(1), load(3), IgnoreFiles=load(2))
    if listed:
        world.put(load(2))
    assert world.decision().files == 2
    world.put(load(5))
    assert "LOAD00000004 is missing" in world.decision().reason
    world.states.set_attributes(ORDERS, {"IgnoreFiles": f"{load(2)},{load(4)}"})
    (done,) = world.process().rounds
    assert (done.decision.kind, done.decision.files) == (DecisionKind.FULL_LOAD, 3)


def test_the_files_of_a_parallel_load_are_counted_in_each_folder(world: World):
    quiet(world)
    for folder in ("p0/", "p1/", "SEGMENT1_", ""):
        world.put(folder + load(1), folder + load(2))
    world.clock.advance(10 * MINUTE)
    assert world.decision().files == 8


@pytest.mark.parametrize("word", ["Before load", "Full load", "Table is being reloaded", "Table does not exist"])
def test_a_table_with_a_dms_task_waits_until_the_task_reports_it_complete(world: World, word: str):
    world.add_table(load(1), DmsTask=TASK)
    world.statistics.words[TASK, "shop.orders"] = word
    decision = world.decision()
    assert decision.kind is DecisionKind.WAITING
    assert f"the DMS task reports '{word}'" in decision.reason
    assert world.process().rounds[0].decision.kind is DecisionKind.WAITING
    world.statistics.words[TASK, "shop.orders"] = "Table completed"
    assert world.decision().kind is DecisionKind.FULL_LOAD
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL]


def test_a_full_load_that_failed_in_dms_needs_action(world: World):
    world.add_table(load(1), DmsTask=TASK)
    world.statistics.words[TASK, "shop.orders"] = "Table error"
    decision = world.decision()
    assert decision.kind is DecisionKind.WAITING
    assert "reload" in decision.to_do


def test_if_the_dms_task_does_not_know_the_table_only_the_files_count(world: World):
    world.add_table(load(1), DmsTask=TASK)
    assert world.decision().kind is DecisionKind.FULL_LOAD


def test_a_complete_dms_task_does_not_end_the_quiet_period(world: World):
    world.add_table(load(1), DmsTask=TASK, FullLoadQuietMinutes="10")
    world.statistics.words[TASK, "shop.orders"] = "Table completed"
    assert world.decision().kind is DecisionKind.WAITING


def loaded(world: World, *names: str) -> None:
    """A table that was loaded from these files, with the default quiet period, which is over."""
    quiet(world)
    world.put(*names)
    world.clock.advance(10 * MINUTE)
    assert not world.process().error
    assert not world.decision().work


@pytest.mark.parametrize(
    ("before", "after", "days", "sign"),
    [
        (load(1), "SEGMENT1_" + load(1), 0, "named otherwise"),
        ("SEGMENT1_" + load(1), load(1), 0, "named otherwise"),
        (load(1), "p1/" + load(1), 0, "named otherwise"),
        (load(1), load(2), 2, "written more than a day after"),
    ],
)
def test_load_files_of_another_full_load_wait_for_an_operator(
    world: World, before: str, after: str, days: int, sign: str
):
    loaded(world, before)
    world.clock.advance(days * 86_400)
    world.put(after)
    assert world.decision().to_do == ""
    world.clock.advance(10 * MINUTE)
    decision = world.decision()
    assert decision.kind is DecisionKind.WAITING
    assert f"mixed: 1 file ({after}) {sign}" in decision.reason
    assert f"1 file ({before}) not" in decision.reason
    assert "delete the files of the older full load" in decision.to_do
    world.states.set_attributes(ORDERS, {"LastFullLoadDate": "1900-01-01 00:00:00"})
    assert (world.decision().kind, world.decision().files) == (DecisionKind.FULL_LOAD, 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [(load(1), load(2)), ("SEGMENT1_" + load(1), "SEGMENT12_" + load(1)), ("north/" + load(1), "east/" + load(1))],
)
def test_a_late_file_of_the_same_full_load_is_loaded(world: World, before: str, after: str):
    loaded(world, before)
    world.clock.advance(20 * 60 * MINUTE)
    world.put(after)
    world.clock.advance(10 * MINUTE)
    assert (world.decision().kind, world.decision().files) == (DecisionKind.FULL_LOAD, 2)


def written_again_without_one(world: World) -> None:
    """A table of which DMS wrote the first LOAD file again with the same content, and removed the second."""
    loaded(world, load(1), load(2))
    key = f"{ORDERS.partition('/')[2]}{load(1)}"
    content = world.raw.get(key)
    assert content
    world.clock.advance(60 * MINUTE)
    world.raw.delete([f"{ORDERS.partition('/')[2]}{load(2)}"])
    assert not world.decision().work
    world.raw.put(key, content)


def test_the_same_load_files_without_one_of_them_wait_for_an_operator(world: World):
    written_again_without_one(world)
    assert (world.decision().kind, world.decision().to_do) == (DecisionKind.WAITING, "")
    world.clock.advance(10 * MINUTE)
    decision = world.process().rounds[0].decision
    assert decision.kind is DecisionKind.WAITING
    assert "1 of the last full load is gone" in decision.reason
    assert world.decision().to_do == decision.to_do


@pytest.mark.parametrize(
    ("date", "kind"),
    [("1900-01-01 00:00:00", DecisionKind.FULL_LOAD), ("2024-03-05 11:10:00", DecisionKind.NOTHING_NEW)],
)
def test_an_operator_decides_whether_the_same_load_files_without_one_are_a_reload(
    world: World, date: str, kind: DecisionKind
):
    written_again_without_one(world)
    world.clock.advance(10 * MINUTE)
    assert date in world.decision().to_do
    world.states.set_attributes(ORDERS, {"LastFullLoadDate": date})
    assert world.decision().kind is kind
    assert not world.process().error
    assert world.decision().kind is DecisionKind.NOTHING_NEW
