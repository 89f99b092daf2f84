"""Runs delete what is past retention, also of tables without new files."""

from __future__ import annotations

import pytest

from cdclake.commit.undo import plan_rollback
from cdclake.control.plan.decision import DecisionKind
from cdclake.errors import PastRetentionError
from cdclake.model.retained import Retained
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import MemoryState
from tests.cdclake.control.world import ORDERS, World

LOAD = "LOAD00000001.parquet"
HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS


def change_file(number: int) -> str:
    return f"20240305-1{number:02}000000.parquet"


def change_hourly(world: World, changes: int, **attributes: str) -> None:
    """Load the table, and apply a change each hour. Unless told otherwise, all states are kept until retention."""
    attributes = {"KeepEveryState": "30", **attributes}
    world.add_table(LOAD, **attributes)
    world.process()
    for number in range(changes):
        world.clock.advance(HOUR_SECONDS)
        world.put(change_file(number))
        world.process()


def retired_since(world: World) -> str | None:
    return world.state().item.get(Attribute.LAST_RETIRED_SINCE_UTC)


def run_if_due(world: World) -> bool:
    """Let the Controller decide, and run what it starts; returns whether it started a run."""
    started = any(result.run_id for result in world.run_controller().tables)
    if started:
        world.process(run_id="cleaning")
    return started


def test_a_table_without_new_files_is_cleaned_up_when_files_are_past_retention(world: World) -> None:
    change_hourly(world, 3)
    assert retired_since(world) == "2024-03-05T11:00:00Z"  # when the first change file replaced what was loaded
    world.clock.advance(33 * DAY_SECONDS - 3 * HOUR_SECONDS)
    assert world.decision().kind is DecisionKind.NOTHING_NEW
    world.clock.advance(HOUR_SECONDS)
    decision = world.decision()
    assert decision.kind is DecisionKind.CLEAN_UP
    assert decision.reason == "states are no longer to be kept (RetentionDays: 30, KeepEveryState: 30)"
    assert run_if_due(world)
    assert world.log().retained().first == 4
    assert retired_since(world) == ""
    assert not run_if_due(world)


def test_changes_within_the_retention_time_stay(world: World) -> None:
    change_hourly(world, 2)
    world.clock.advance(32 * DAY_SECONDS)
    world.put("20240406-100000000.parquet")
    world.process()
    world.clock.advance(2 * DAY_SECONDS)
    assert run_if_due(world)
    assert plan_rollback(world.log(), 3)
    with pytest.raises(PastRetentionError):
        plan_rollback(world.log(), 2)
    assert retired_since(world) == "2024-04-06T12:00:00Z"


def test_a_new_retention_time_counts_from_the_next_run_on(world: World) -> None:
    change_hourly(world, 2)
    world.clock.advance(9 * DAY_SECONDS)
    assert not run_if_due(world)
    world.states.set_attributes(ORDERS, {Attribute.RETENTION_DAYS: "7"})
    assert run_if_due(world)
    assert world.log().retained().first == 3


def test_manual_clean_up(world: World) -> None:
    change_hourly(world, 2, CleanUp="manual")
    world.clock.advance(100 * DAY_SECONDS)
    assert not run_if_due(world)
    world.process()
    assert world.log().retained().first == 1


@pytest.mark.parametrize("stored", [None, "yesterday"])
def test_a_table_of_an_earlier_version_is_cleaned_up_once(world: World, stored: str | None) -> None:
    change_hourly(world, 2)
    if stored is None:
        item = {name: value for name, value in world.state().item.items() if name != Attribute.LAST_RETIRED_SINCE_UTC}
        world.states = MemoryState([TableState(item)])
    else:
        world.states.set_attributes(ORDERS, {Attribute.LAST_RETIRED_SINCE_UTC: stored})
    assert run_if_due(world)
    assert retired_since(world) == "2024-03-05T11:00:00Z"
    assert not run_if_due(world)


def test_what_a_run_left_of_a_later_change_stays(world: World) -> None:
    """The run may only be paused."""
    change_hourly(world, 2)
    layout = world.log().layout
    staged = {number: f"{layout.staging_prefix(number, 'run')}00000.parquet" for number in (2, 4)}
    for key in staged.values():
        world.lake.put(key, b"rows")
    world.clock.advance(40 * DAY_SECONDS)
    assert run_if_due(world)
    assert [entry.key for entry in world.lake.list(layout.staging_folder)] == [staged[4]]


def test_a_table_that_was_never_loaded_has_nothing_to_delete(world: World) -> None:
    world.register()
    world.process()
    world.clock.advance(100 * DAY_SECONDS)
    assert not run_if_due(world)
    assert not retired_since(world)


def test_states_of_a_few_hours_are_thinned_six_hours_after_their_last_day(world: World) -> None:
    change_hourly(world, 4, KeepEveryState="1")  # from 10:00 to 14:00; the last state before 12:00 is that of 11:00
    world.clock.advance(26 * HOUR_SECONDS + 1800)
    assert not run_if_due(world)
    world.clock.advance(1800)  # 30 hours after 11:00, when the state of 10:00 was replaced
    assert world.decision().reason == "states are no longer to be kept (RetentionDays: 30, KeepEveryState: 1)"
    assert run_if_due(world)
    assert world.log().retained().up_to(5) == [2, 4, 5]  # the state of 13:00 is that before the newest
    assert not run_if_due(world)
    world.clock.advance(33 * DAY_SECONDS)
    assert run_if_due(world)
    assert world.log().retained().up_to(5) == [5]
    assert not run_if_due(world)


def test_rare_states_need_no_clean_up_before_their_retention_is_over(world: World) -> None:
    change_hourly(world, 0, KeepEveryState="1")
    for _ in range(20):
        world.clock.advance(DAY_SECONDS)
        world.put(f"{world.clock():%Y%m%d-%H%M%S}000.parquet")
        world.process()
        assert not run_if_due(world)
        assert world.state().item[Attribute.LAST_REPEATED_SINCE_UTC] == ""
    assert world.log().retained() == Retained()


def test_files_that_no_clean_up_deletes_start_none(world: World) -> None:
    change_hourly(world, 4, KeepEveryState="1")
    layout = world.log().layout
    foreign, dead = (
        layout.iceberg_metadata_folder + "notes.txt",
        layout.iceberg_data_prefix(6, "dead") + "00000.parquet",
    )
    for key in (foreign, dead):
        world.lake.put(key, b"")
    world.clock.advance(30 * HOUR_SECONDS)
    assert run_if_due(world)
    world.clock.advance(20 * DAY_SECONDS)
    assert not run_if_due(world)
    world.clock.advance(20 * DAY_SECONDS)
    assert run_if_due(world)
    assert not run_if_due(world)
    assert all(world.lake.get(key) is not None for key in (foreign, dead))
