"""ProcessTable waits for its Spark jobs: all states of a run, no room, a service that does not answer, its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.control.run.job_polling import LONGEST_PAUSE_SECONDS, MAX_UNANSWERED_POLLS, OutOfTimeError
from cdclake.control.run.process_table import MAX_SPARK_RUNS
from cdclake.errors import JobRunError, NoRoomError, RetryableError
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobRun, JobState
from tests.cdclake.control.world import World, raising

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


LOAD = "LOAD00000001.parquet"
ACTIVE, SUCCEEDED = JobState.ACTIVE, JobState.SUCCEEDED
HOUR_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def table_with_work(world: World) -> None:
    world.add_table(LOAD)


def answers(world: World, *runs: JobRun | list[JobState]) -> Iterator[JobRun | list[JobState]]:
    """Make the first Spark runs end like this, without doing their work."""
    left = iter(runs)
    world.instead = lambda _job, _arguments: next(left, None)
    return left


def ended(state: JobState, detail: str, error: str = "") -> JobRun:
    return JobRun("", state, detail, error)


def last_error(world: World) -> str:
    item = world.state().item
    assert item[Attribute.LAST_RUN_STATE] == "FAILED"
    return item[Attribute.LAST_ERROR]


@pytest.mark.parametrize("detail", ["EXPIRED", "ERROR"])
def test_a_run_that_the_service_gave_up_is_restarted(world: World, detail: str):
    answers(world, *[ended(JobState.GIVEN_UP, detail)] * (MAX_SPARK_RUNS - 1))
    report = world.process()
    assert [job.outcome for job in report.rounds[0].jobs] == [detail] * (MAX_SPARK_RUNS - 1) + ["SUCCEEDED"]
    assert world.state().item[Attribute.LAST_RUN_STATE] == "SUCCEEDED"
    assert len(world.slept) == MAX_SPARK_RUNS - 1


def test_a_run_that_the_service_gives_up_repeatedly_fails_the_table(world: World):
    answers(world, *[ended(JobState.GIVEN_UP, "EXPIRED")] * 99)
    with pytest.raises(JobRunError, match="ended as EXPIRED"):
        world.process()
    assert len(world.jobs.started) == MAX_SPARK_RUNS
    assert "EXPIRED" in last_error(world)
    assert world.is_free()


@pytest.mark.parametrize(
    ("state", "detail", "message"),
    [
        (JobState.FAILED, "TIMEOUT", "Give the job more time"),
        (JobState.STOPPED, "STOPPED", "program stopped it"),
    ],
)
def test_a_run_that_took_too_long_or_was_stopped_is_not_restarted(
    world: World, state: JobState, detail: str, message: str
):
    answers(world, ended(state, detail))
    with pytest.raises(JobRunError, match=message):
        world.process()
    assert world.spark_starts() == [JOB_LOAD_INITIAL]
    assert f"{JOB_LOAD_INITIAL} ended as {detail}" in last_error(world)
    assert world.is_free()


def test_a_run_in_the_queue_is_waited_for(world: World):
    world.states_of_job = [ACTIVE] * 200 + [SUCCEEDED]
    world.process()
    assert sum(world.slept) > 0.5 * HOUR_SECONDS
    assert max(world.slept) == LONGEST_PAUSE_SECONDS
    assert world.is_free()


def test_runs_that_began_together_do_not_poll_together(world: World):
    world.states_of_job = [ACTIVE] * 50 + [SUCCEEDED]
    world.random = iter([0.0, 1.0] * 50).__next__  # type: ignore[method-assign]  # draws low and high
    world.process()
    assert set(world.slept[-2:]) == {0.75 * LONGEST_PAUSE_SECONDS, 1.25 * LONGEST_PAUSE_SECONDS}


def test_a_start_without_room_waits_within_the_runs_time(world: World):
    refusals = iter(range(30))

    def refuse(_job: str, _arguments: Mapping[str, str]) -> None:
        if next(refusals, None) is not None:
            assert world.state().leased(world.clock())
            raise NoRoomError("Glue has no room for another run now")

    world.before_start = refuse
    world.process()
    assert world.state().item[Attribute.LAST_CHANGE_ID] == "1"
    assert len(world.slept) == 30


def test_a_start_that_never_gets_room_fails_the_table_and_releases_the_lease(world: World):
    world.before_start = raising(NoRoomError("Glue has no room for another run now"))
    with pytest.raises(OutOfTimeError, match="time is over"):
        world.process(timeout_seconds=HOUR_SECONDS)
    assert sum(world.slept) == pytest.approx(HOUR_SECONDS)
    assert "OutOfTimeError" in last_error(world)
    assert world.is_free()


def test_when_the_runs_time_is_over_the_job_is_stopped_and_the_lease_released(world: World):
    world.states_of_job = [ACTIVE] * 9999
    begin = world.clock()
    with pytest.raises(OutOfTimeError, match="time is over"):
        world.process(timeout_seconds=HOUR_SECONDS)
    assert (world.clock() - begin).total_seconds() == pytest.approx(HOUR_SECONDS)
    assert world.jobs.get(JOB_LOAD_INITIAL, world.jobs.started[0].run_id).detail == "STOPPED"
    assert "OutOfTimeError" in last_error(world)
    assert world.is_free()


def test_the_lease_is_released_only_after_a_slow_job_has_stopped(world: World):
    world.states_of_job = [ACTIVE] * 9999
    stop = world.jobs.stop

    def stopping(job: str, run_id: str) -> JobRun:
        stop(job, run_id)
        world.jobs._runs[job, run_id][:0] = [ended(ACTIVE, "STOPPING")] * 3
        return ended(ACTIVE, "STOPPING")

    world.jobs.stop = stopping  # type: ignore[method-assign]  # a Spark job stops within a minute or so
    with pytest.raises(OutOfTimeError):
        world.process(timeout_seconds=HOUR_SECONDS)
    assert world.is_free()


def test_a_service_that_does_not_answer_for_a_while_is_polled_again(world: World):
    get, asked = world.jobs.get, iter(range(MAX_UNANSWERED_POLLS - 1))

    def throttled(job: str, run_id: str) -> JobRun:
        if next(asked, None) is not None:
            raise RetryableError("AWS answered ThrottlingException to GetJobRun")
        return get(job, run_id)

    world.jobs.get = throttled  # type: ignore[method-assign]  # the service is busy
    world.process()
    assert world.state().item[Attribute.LAST_RUN_STATE] == "SUCCEEDED"
