"""Writers whose clocks differ: changes are dated in their order, and reads as of a time find them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.adapters.aws import ServerClock
from cdclake.commit.clean_up import plan_clean_up
from cdclake.commit.describe import change_fields, clock_text, entry_fields
from cdclake.commit.report import newest_changes
from cdclake.commit.takeover import take_over
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LakeBuilder
from tests.cdclake.commit.conftest import in_memory

if TYPE_CHECKING:
    from cdclake.ports import Clock


def off_by(clock: Clock, skew: timedelta) -> Clock:
    """The clock of another machine."""
    return lambda: clock() + skew


def stamps(lake: LakeBuilder) -> list[datetime]:
    return [datetime.fromisoformat(record.created_utc) for record in lake.log.records(1, lake.log.head())]


def newest_at(lake: LakeBuilder, moment: datetime) -> int:
    return lake.log.newest_before(moment, lake.log.head())


@in_memory
@pytest.mark.parametrize("skew", [timedelta(hours=-2), timedelta(minutes=-10)])
def test_a_rollback_by_a_clock_that_is_behind_is_not_dated_before_what_it_undoes(
    lake: LakeBuilder, clock: ManualClock, skew: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        lake.change()
        clock.advance(60)
    true_time, lake.clock = clock, off_by(clock, skew)
    last = stamps(lake)[-1]
    undone = lake.rollback()
    assert stamps(lake) == sorted(stamps(lake))
    assert datetime.fromisoformat(undone.created_utc) == last
    assert datetime.fromisoformat(undone.clock_utc) == true_time() + skew
    assert f"the clock shows {(true_time() + skew).isoformat()}" in caplog.text
    assert newest_at(lake, last - timedelta(seconds=1)) == 3
    lake.clock = true_time
    clock.advance(60)
    reapplied = lake.reapply()
    assert (datetime.fromisoformat(reapplied.created_utc), reapplied.clock_utc) == (true_time(), "")
    assert newest_at(lake, true_time() - timedelta(seconds=1)) == 5


@in_memory
def test_with_the_time_that_all_share_a_read_between_two_changes_finds_the_first(
    lake: LakeBuilder, clock: ManualClock
) -> None:
    """Change 4 at 10:03, its rollback at 10:05 from a machine two hours behind, a reapply from one two hours ahead."""
    for _ in range(4):
        lake.change()
        clock.advance(60)
    clock.advance(60)
    for hours, act in ((-2, lake.rollback), (2, lake.reapply)):
        machine = ServerClock(off_by(clock, timedelta(hours=hours)))
        machine.skew = timedelta(hours=hours)
        lake.clock = machine
        act()
        clock.advance(60)
    start = datetime.fromisoformat(lake.log.record(1).created_utc)
    assert [newest_at(lake, start + timedelta(seconds=seconds)) for seconds in (179, 180, 299, 300, 359, 360)] == [
        3,
        4,
        4,
        5,
        5,
        6,
    ]
    assert all(record.clock_utc == "" for record in lake.log.records(1, 6))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-300, 300)), min_size=1, max_size=12))
def test_whatever_the_clocks_show_the_log_ascends_and_each_time_finds_the_last_change_up_to_it(
    steps: list[tuple[int, int]],
) -> None:
    clock, lake = ManualClock(), LakeBuilder(MemoryStore())
    lake.clock = clock
    for seconds, skew in steps:
        clock.advance(seconds)
        take_over(lake.log, "run", 1, "test", off_by(clock, timedelta(seconds=skew)))
    times = stamps(lake)
    assert times == sorted(times)
    for moment in {*times, *(time - timedelta(seconds=1) for time in times)}:
        expected = max((number for number, time in enumerate(times, start=1) if time <= moment), default=0)
        assert newest_at(lake, moment) == expected


@in_memory
def test_changes_of_one_second_have_its_time_and_as_of_it_the_last_counts(
    lake: LakeBuilder, clock: ManualClock
) -> None:
    for number in range(3):
        clock.advance(0.2)
        take_over(lake.log, f"run-{number}", 1, "test", clock)
    assert stamps(lake) == [ManualClock().now] * 3
    assert newest_at(lake, ManualClock().now) == 3
    assert all(record.clock_utc == "" for record in lake.log.records(1, 3))


@in_memory
def test_a_change_says_that_its_writers_clock_was_behind(lake: LakeBuilder, clock: ManualClock) -> None:
    lake.change()
    clock.advance(-3600)
    take_over(lake.log, "run", 1, "test", clock)
    record = lake.log.record(2)
    text = "the writer's clock showed 2024-03-05 09:00:00 UTC, so the time is from change 1"
    assert clock_text(record) == text
    assert change_fields(record)["clock_utc"] == "2024-03-05T09:00:00+00:00"
    (_, entry) = newest_changes(lake.log, 2).entries
    assert text in str(entry_fields(entry)["note"])


@in_memory
@pytest.mark.parametrize("hours", [-48, 48])
def test_retention_keeps_what_is_younger_whatever_the_clock_of_one_writer_showed(
    lake: LakeBuilder, clock: ManualClock, hours: int
) -> None:
    first = lake.change()
    clock.advance(3600)
    lake.change(retired=[file.path for file in first.added])
    clock.advance(3600)
    lake.clock = off_by(clock, timedelta(hours=hours))
    lake.rollback()
    lake.clock = clock
    clock.advance(3600)
    lake.reapply()
    assert plan_clean_up(lake.log, timedelta(hours=4), clock()).retained.first == 1
