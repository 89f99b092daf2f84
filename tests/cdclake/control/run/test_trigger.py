"""No trigger is lost, and a burst of triggers starts one run."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from cdclake.control.run.trigger import STALE_AFTER_SECONDS, TriggerOutcome, trigger_table, trigger_tables
from cdclake.errors import JobRunError
from cdclake.model.names import JOB_PROCESS_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobState
from cdclake_devkit.memory import MemoryJobs, MemoryState
from tests.cdclake.control.world import ORDERS, World, raising

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from cdclake.ports import WorkRequest


def trigger(world: World) -> TriggerOutcome:
    return trigger_table(world.states, world.jobs, ORDERS, world.clock()).outcome


def change_file(number: int) -> str:
    return f"20240305-{number:09d}.parquet"


@pytest.mark.parametrize(("mark_is_first", "outcome"), [(False, TriggerOutcome.STARTED), (True, TriggerOutcome.BUSY)])
def test_either_the_trigger_starts_a_run_or_the_holder_of_the_lease_finds_its_mark(
    world: World, mark_is_first: bool, outcome: TriggerOutcome
):
    class HolderEnds(MemoryState):
        def request_work(self, path: str, now: datetime, stale_after_seconds: int) -> WorkRequest:
            assert mark_is_first or self.release_lease(path, "other", 1, even_if_requested=False)
            marked = super().request_work(path, now, stale_after_seconds)
            assert not (mark_is_first and self.release_lease(path, "other", 1, even_if_requested=False))
            return marked

    world.states = HolderEnds()
    world.register()
    world.states.acquire_lease(ORDERS, "other", world.clock(), 300)
    assert trigger(world) is outcome


def test_an_event_after_the_run_has_ended_starts_another(world: World):
    world.add_table(change_file(1))
    trigger(world)
    world.process()
    assert trigger(world) is TriggerOutcome.STARTED


def test_the_mark_of_a_run_that_never_began_becomes_stale(world: World):
    world.register()
    trigger(world)
    world.clock.advance(STALE_AFTER_SECONDS - 1)
    assert trigger(world) is TriggerOutcome.COLLAPSED
    world.clock.advance(1)
    assert trigger(world) is TriggerOutcome.STARTED


def test_a_run_that_is_started_although_one_was_requested_is_relied_on_from_then_on(world: World):
    world.register()
    trigger(world)
    world.clock.advance(STALE_AFTER_SECONDS - 1)
    result = trigger_tables(world.states, world.jobs, [ORDERS], world.clock(), even_if_requested=[ORDERS])[ORDERS]
    assert result.outcome is TriggerOutcome.STARTED
    world.clock.advance(STALE_AFTER_SECONDS - 1)
    assert trigger(world) is TriggerOutcome.COLLAPSED


def test_the_expired_lease_of_a_dead_run_does_not_delay_events(world: World):
    world.register()
    world.states.acquire_lease(ORDERS, "dead", world.clock(), 300)
    world.clock.advance(300)
    assert trigger(world) is TriggerOutcome.STARTED


def test_a_run_that_cannot_be_started_leaves_no_mark(world: World):
    world.register()
    world.before_start = raising(JobRunError("Glue has no room for another run now"))
    with pytest.raises(JobRunError):
        trigger(world)
    world.before_start = lambda *_: None
    assert trigger(world) is TriggerOutcome.STARTED


def test_a_failed_start_does_not_clear_the_mark_of_another_trigger(world: World):
    world.register()
    trigger(world)
    world.before_start = raising(JobRunError("Glue has no room for another run now"))
    result = trigger_tables(world.states, world.jobs, [ORDERS], world.clock(), even_if_requested=[ORDERS])[ORDERS]
    assert result.outcome is TriggerOutcome.FAILED
    assert Attribute.WORK_REQUESTED_UTC in world.state().item


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("attempt", range(5))
def test_no_trigger_is_lost_when_events_and_runs_race(world: World, attempt: int):
    """Writers deliver files and events while runs come and go in threads of their own.

    The clock stands still, so nothing goes stale, and a trigger that is lost stays lost.
    """
    world.register()
    runs: list[Future[object]] = []

    def start(job: str, arguments: Mapping[str, str]) -> list[JobState]:
        run_id = f"run-{len(runs)}"
        if job == JOB_PROCESS_TABLE:
            runs.append(pool.submit(world.run_process_table, ORDERS, run_id=run_id))
        else:
            runs.append(pool.submit(world.run_spark_job, job, arguments, run_id))
        return [JobState.ACTIVE]

    jobs = world.jobs = MemoryJobs(start)
    numbers = iter(range(300))

    def deliver() -> None:
        for number in numbers:
            world.put(change_file(number))
            trigger_table(world.states, jobs, ORDERS, world.clock())

    with ThreadPoolExecutor(12) as pool:
        for writer in [pool.submit(deliver) for _ in range(4)]:
            writer.result()
        for run in runs:  # grows during the loop: each run may start another
            run.result()
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + change_file(299)
    assert Attribute.LEASE_HOLDER not in world.state().item
