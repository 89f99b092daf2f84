"""The delay from raw file to visible row: which changes have one, and where a run tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.commit.report import newest_changes
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.run.metrics import controller_metrics
from cdclake.control.status import Health, TableStatus, table_statuses
from cdclake.model.names import JOB_LOAD_INCREMENTAL
from tests.cdclake.control.world import ORDERS, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.raw.files import ListedObject

LOAD = "LOAD00000001.parquet"
FIRST, SECOND, THIRD = (f"20240305-1{hour}0000000.parquet" for hour in range(3))


def loaded(world: World, *more: str, **attributes: str) -> None:
    """A table that is up to date after a full load, with the changes in these files."""
    world.add_table(LOAD, *more, **attributes)
    world.clock.advance(60)
    world.process()


def known(world: World) -> list[int | None]:
    """The delay of each change."""
    return [entry.delay.seconds if entry.delay else None for entry in newest_changes(world.log(), 99).entries]


def measured(world: World, title: str = "DelaySeconds") -> list[float]:
    return [metric.value for metric in world.metrics.metrics if metric.measure.title == title]


def status(world: World) -> TableStatus:
    (found,) = table_statuses(world.plan().tables, world.log_of, world.clock(), 180)
    return found


def percentiles(world: World) -> tuple[int | None, int | None]:
    found = status(world)
    return found.delay_p50_seconds, found.delay_p95_seconds


def test_the_delay_is_told_in_the_log_the_item_the_status_and_the_metrics(world: World):
    loaded(world, FIRST)
    assert (known(world), measured(world), percentiles(world)) == ([None, None], [], (None, None))
    world.put(SECOND)
    world.clock.advance(30)
    world.put(THIRD)
    world.clock.advance(60)
    world.during_job = lambda: world.clock.advance(10)
    world.process()
    assert (known(world), measured(world), percentiles(world)) == ([None, None, 100], [100], (100, 100))
    record = world.log().record(3)
    assert (record.oldest_written_utc, record.newest_written_utc) == ("2024-03-05T10:01:00Z", "2024-03-05T10:01:30Z")
    (entry,) = newest_changes(world.log(), 1).entries
    assert entry.delay
    assert entry.delay.newest_seconds == 70
    world.clock.advance(86_400)
    world.process()  # no change came for a day
    assert percentiles(world) == (None, None)


def test_publishing_is_part_of_the_delay_also_if_a_later_run_finishes_it(world: World):
    loaded(world)
    world.put(FIRST)
    world.load(JOB_LOAD_INCREMENTAL, world.log(), world.state(), and_publish=False)
    assert known(world)[-1] is None
    world.clock.advance(500)
    world.process()
    assert (known(world)[-1], measured(world)) == (500, [500])


def test_files_that_are_applied_again_after_a_rollback_have_no_delay(world: World):
    loaded(world)
    world.put(FIRST)
    world.process()
    world.clock.advance(86_400)
    table = RegisteredTable(world.states, world.state(), world.log(), "by-hand", world.clock)
    table.rollback(to=1)
    world.states.set_attributes(ORDERS, {"ActiveFlag": "true"})
    world.put(SECOND)
    world.process()
    assert world.applied == [FIRST, FIRST, SECOND]
    assert known(world) == [None, 0, None, None]
    world.put(THIRD)
    world.clock.advance(9)
    world.process()
    assert known(world)[-1] == 9


def test_files_that_are_applied_again_after_a_reload_have_no_delay_and_new_ones_do(world: World):
    loaded(world)
    world.put(FIRST)
    world.clock.advance(5)
    world.process()
    world.clock.advance(7200)
    world.states.record_run(ORDERS, {"LastFullLoadDate": "1900-01-01 00:00:00"})
    world.put(SECOND)
    world.clock.advance(20)
    world.process()  # the old full load again, then FIRST again and SECOND
    assert world.applied == [FIRST, FIRST, SECOND]
    assert known(world) == [None, 5, None, 20]
    assert measured(world) == [5, 20]


def test_a_status_lists_no_marks_of_the_lake(world: World):
    loaded(world)
    world.put(FIRST)
    world.clock.advance(42)
    world.process()
    listed: list[str] = []
    list_of = world.lake.list

    def counted(prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        listed.append(prefix)
        return list_of(prefix, start_after)

    vars(world.lake)["list"] = counted
    assert percentiles(world) == (42, 42)
    assert listed == []
    assert known(world)[-1] == 42
    assert listed.count("lake/_cdclake/shop/orders/published/") == 1


def test_a_table_later_than_its_bound_is_late_and_raises_the_alarm_of_failures(world: World):
    loaded(world, MaxDelayMinutes="15")
    world.metrics.metrics.clear()
    world.put(FIRST)
    world.clock.advance(15 * 60)
    assert status(world).health is Health.BEHIND
    world.clock.advance(60)
    found = status(world)
    assert (found.health, found.needs_action) == (Health.LATE, True)
    assert found.reason == "the oldest due raw file was written 16 min ago, and MaxDelayMinutes is 15"
    assert found.to_do.startswith(found.reason)
    working = []
    world.during_job = lambda: working.append(status(world))
    world.process()
    assert [one.health for one in working] == [Health.LATE]
    assert "wait for the run at work" in working[0].to_do
    assert status(world).health is Health.UP_TO_DATE
    assert measured(world, "Failures") == [1, 1, 0]  # at the listing, of the change, of the run
    world.put(SECOND)
    world.during_job = lambda: world.clock.advance(20 * 60)  # too slow a load
    world.metrics.metrics.clear()
    world.process()
    assert measured(world, "Failures") == [1, 0]


def test_the_controller_raises_the_alarm_for_a_late_table(world: World):
    loaded(world, MaxDelayMinutes="15")
    world.put(FIRST)
    world.clock.advance(16 * 60)
    found = controller_metrics(world.run_controller().tables, world.clock())
    assert [(one.value, one.table) for one in found if one.measure.title == "Failures"] == [(1, "shop.orders")]
