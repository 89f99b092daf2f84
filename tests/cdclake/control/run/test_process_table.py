"""ProcessTable starts the Spark runs that tables need, hands its leases over, and notices runs that have died."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.control.run.process_table import PAUSE_SECONDS, WAIT_FOR_ROOM
from cdclake.control.run.spark_run import MAX_GIVEN_UP, MAX_STARTS, SparkRun
from cdclake.errors import NoRoomError, RetryableError
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobRun, JobState
from tests.cdclake.control.run.three_tables import CHANGE, LOAD, PATHS, A, B, C, add_tables, ends, item
from tests.cdclake.control.world import RAW, World, raising
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cdclake.model.table.state import TableState


@pytest.fixture(autouse=True)
def three_tables(world: World) -> None:
    add_tables(world)


def spark_runs(world: World) -> list[tuple[str, str]]:
    """The job and the tables of each Spark run that was started."""
    starts = [start for start in world.jobs.started if start.job != JOB_PROCESS_TABLE]
    return [(start.job, "".join(path[-2] for path in json.loads(start.arguments[Argument.PATHS]))) for start in starts]


def nothing_is_left(world: World) -> bool:
    return all(map(world.is_free, PATHS)) and not any(item(world, path)[Attribute.LAST_SPARK_RUN] for path in PATHS)


def loaded(world: World) -> None:
    """All tables are loaded, and have a change that is due."""
    world.process_all(*PATHS, run_id="before")
    for path in PATHS:
        world.put(CHANGE, path=path)


def run_it(world: World, *paths: str) -> None:
    """Trigger tables, and do all that follows. Starts of ProcessTable run it, as do Glue's events."""

    def start(job: str, arguments: Mapping[str, str]) -> None:
        if job == JOB_PROCESS_TABLE:
            todo.append(json.loads(arguments[Argument.PATHS]))
        given(job, arguments)

    todo, given = [list(paths or PATHS)], world.before_start
    world.before_start = start
    for number in range(100):
        if not todo:
            return
        world.run_process_table(*todo.pop(0), run_id=f"run-{number}")
        world.run_spark()
    raise AssertionError(todo)


def test_one_spark_run_loads_all_tables_and_their_changes(world: World):
    world.put(CHANGE, path=B)
    report = world.run_process_table(*PATHS)
    assert spark_runs(world) == [(JOB_LOAD_INITIAL, "abc")]
    assert {(one.outcome, one.follow_up) for one in report.tables} == {("handed on", world.jobs.started[0].run_id)}
    assert world.loads == []
    world.run_spark()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL]
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert item(world, A)[Attribute.LAST_RUN_ID] == world.jobs.started[0].run_id
    assert nothing_is_left(world)


def test_full_loads_and_changes_have_spark_runs_of_different_jobs(world: World):
    world.process_all(A, run_id="before")
    world.put(CHANGE, path=A)
    world.run_process_table(*PATHS)
    assert spark_runs(world) == [(JOB_LOAD_INITIAL, "bc"), (JOB_LOAD_INCREMENTAL, "a")]


def test_no_other_run_gets_a_table_between_processtable_and_its_spark_run(world: World):
    world.run_process_table(*PATHS)
    assert [one.outcome for one in world.process_all(*PATHS, run_id="other").tables] == [
        f"busy: leased by run-1 until {item(world, A)[Attribute.LEASE_EXPIRES_UTC]}"
    ] * 3
    world.run_spark()
    assert world.loads == [JOB_LOAD_INITIAL] * 3
    assert [world.log(path).record(1).fencing_token for path in PATHS] == [1] * 3


def test_a_file_that_comes_before_the_spark_run_begins_is_in_its_plan(world: World):
    loaded(world)
    world.run_process_table(*PATHS)
    world.deliver("20240305-100002000.parquet", path=A)
    world.run_spark()
    assert item(world, A)[Attribute.LAST_INCREMENTAL_FILE] == f"{A}20240305-100002000.parquet"
    assert world.loads[3:] == [JOB_LOAD_INCREMENTAL] * 3
    assert Attribute.WORK_REQUESTED_UTC not in item(world, A)


def test_what_needs_no_rows_needs_no_spark_run(world: World):
    world.process_all(*PATHS, run_id="before")
    report = world.run_process_table(*PATHS)
    assert world.jobs.started == []
    assert [(one.outcome, one.rounds[0].decision.kind) for one in report.tables] == [
        ("done", DecisionKind.NOTHING_NEW)
    ] * 3
    assert item(world, A)[Attribute.LAST_RUN_ID] == "run-1"


def test_a_spark_run_without_leases_does_nothing(world: World):
    """Its leases have expired in Glue's queue, and operators' commands have taken two of the tables over."""
    world.run_process_table(*PATHS)
    world.clock.advance(LEASE_SECONDS + 1)
    for path in (A, B):
        world.states.acquire_lease(path, "by-hand", world.clock(), LEASE_SECONDS)
    world.states.release_lease(A, "by-hand", 2, even_if_requested=True)
    world.run_spark(events=False)
    assert [world.log(path).head() for path in PATHS] == [0, 0, 1]
    assert (world.is_free(A), item(world, B)[Attribute.LEASE_HOLDER]) == (True, "by-hand")


def test_a_run_of_loadincremental_leaves_a_full_load_to_one_of_loadinitial(world: World):
    loaded(world)
    world.run_process_table(*PATHS)
    world.clock.advance(60)
    world.put(LOAD, path=B)
    world.run_spark()
    assert world.jobs.started[-1].job == JOB_PROCESS_TABLE
    assert json.loads(world.jobs.started[-1].arguments[Argument.PATHS]) == [B]
    assert [item(world, path)[Attribute.LAST_CHANGE_ID] for path in PATHS] == ["2", "1", "2"]
    assert nothing_is_left(world)
    run_it(world, B)
    assert spark_runs(world)[-1] == (JOB_LOAD_INITIAL, "b")
    assert item(world, B)[Attribute.LAST_CHANGE_ID] == "2"  # the full load contains the change


def killing(world: World, *paths: str) -> None:
    """A Spark run dies at each of these tables, at the LOAD file."""
    world.broken, world.deadly_file = dict.fromkeys(paths, DiedError()), LOAD


def test_a_table_that_kills_the_spark_run_gets_one_of_its_own_and_then_fails_alone(world: World):
    killing(world, B)
    run_it(world)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert spark_runs(world) == [(JOB_LOAD_INITIAL, "abc"), (JOB_LOAD_INITIAL, "c"), (JOB_LOAD_INITIAL, "b")]
    error = item(world, B)[Attribute.LAST_ERROR]
    assert error.startswith("DeadlyFileError: A Spark run died while it read a raw file, after another had died")
    assert "DMSCDC_LoadInitial ended as FAILED: killed" in error
    assert f"(file {LOAD}, run jr_" in error
    assert "Have DMS write the file again" in error
    assert item(world, B)[Attribute.LAST_ERROR_CODE] == "DeadlyFileError"
    assert nothing_is_left(world)


def test_a_table_that_survives_a_run_of_its_own_is_loaded_and_forgiven(world: World):
    killing(world, B)
    world.run_process_table(*PATHS)
    world.run_spark(events=False)
    world.broken = {}
    world.after_failed_run(JOB_LOAD_INITIAL, world.jobs.started[0].run_id)
    run_it(world, B, C)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert spark_runs(world)[1:] == [(JOB_LOAD_INITIAL, "c"), (JOB_LOAD_INITIAL, "b")]
    assert item(world, B)[Attribute.LAST_DEATHS] == ""
    assert not item(world, A).get(Attribute.LAST_DEATHS)
    assert nothing_is_left(world)


@pytest.mark.parametrize("killers", [4, 7])
def test_no_number_of_tables_that_kill_runs_fails_one_that_no_run_reached(world: World, killers: int):
    paths = [f"{RAW}/dms/shop/{name}/" for name in "ABCDEFG"[:killers]]
    for path in paths:
        world.add_table(LOAD, path=path)
    killing(world, *paths)
    run_it(world, *paths, *PATHS)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert all(f"file {LOAD}" in item(world, path)[Attribute.LAST_ERROR] for path in paths)
    assert len(spark_runs(world)) == 2 * killers + 1
    assert nothing_is_left(world)


def test_the_dead_run_is_kept_from_committing(world: World):
    """Glue says that it has ended, but nobody knows whether all its processes have."""
    killing(world, B)
    world.run_process_table(B)
    world.run_spark(events=False)
    world.after_failed_run(JOB_LOAD_INITIAL, world.jobs.started[0].run_id)
    world.run_process_table(B, run_id="next")
    assert world.log(B).record(1).kind is ChangeKind.TAKEOVER


def test_an_event_that_is_lost_is_made_up_for_by_the_controller(world: World):
    killing(world, B)
    world.run_process_table(*PATHS)
    world.run_spark(events=False)
    assert ends(world) == {"a": "SUCCEEDED", "b": None, "c": None}
    world.run_controller()
    assert [start.job for start in world.jobs.started] == [JOB_LOAD_INITIAL]  # the leases have not expired
    world.clock.advance(LEASE_SECONDS + 1)
    world.run_controller()
    paths = json.loads(world.jobs.started[-1].arguments[Argument.PATHS])
    assert paths == [B, C]
    world.run_process_table(*paths, run_id="run-2")
    assert spark_runs(world)[1:] == [(JOB_LOAD_INITIAL, "c"), (JOB_LOAD_INITIAL, "b")]
    assert item(world, B)[Attribute.LAST_DEATHS] == "1"


def test_an_event_that_comes_twice_or_late_starts_nothing_more(world: World):
    killing(world, B)
    world.run_process_table(*PATHS)
    world.run_spark(events=False)
    dead = world.jobs.started[0].run_id
    world.after_failed_run(JOB_LOAD_INITIAL, dead)
    world.after_failed_run(JOB_LOAD_INITIAL, dead)
    assert [start.job for start in world.jobs.started].count(JOB_PROCESS_TABLE) == 2  # the lease had just ended
    world.run_process_table(B, C, run_id="run-2")
    world.after_failed_run(JOB_LOAD_INITIAL, dead)
    assert [start.job for start in world.jobs.started].count(JOB_PROCESS_TABLE) == 2
    assert {item(world, path)[Attribute.LEASE_HOLDER] for path in (B, C)} == {"run-2"}


def test_an_event_of_a_run_that_failed_by_itself_starts_nothing(world: World):
    world.failures[JOB_LOAD_INITIAL] = "the disk is full"
    world.run_process_table(*PATHS)
    world.run_spark()
    assert ends(world) == dict.fromkeys("abc", "FAILED")
    assert len(world.jobs.started) == 1


def ending(world: World, *runs: JobRun, at: str = "") -> None:
    """The first Spark runs end like this and do nothing, after they have begun with the table `at`, if it is given."""
    left = iter(runs)

    def instead(job: str, arguments: Mapping[str, str]) -> JobRun | None:
        run = next(left, None)
        if run and at:
            run_id = world.jobs.started[-1].run_id
            for path in json.loads(arguments[Argument.PATHS]):
                token = world.state(path).fencing_token
                holder = arguments[Argument.LEASE_HOLDER]
                assert world.states.renew_lease(path, holder, token, world.clock(), LEASE_SECONDS, to=run_id)
            world.states.record_run(at, {Attribute.LAST_SPARK_RUN: str(begun(world, at))})
        return run

    world.instead = instead


def begun(world: World, path: str) -> SparkRun:
    run = SparkRun.of(item(world, path))
    assert run
    return run._replace(began=True)


def as_state(state: JobState, detail: str, error: str = "") -> JobRun:
    return JobRun("", state, detail, error)


FAILED_AT_ONCE = as_state(JobState.FAILED, "FAILED", "ModuleNotFoundError: No module named 'pyarrow'")
GIVEN_UP = as_state(JobState.GIVEN_UP, "EXPIRED")


@pytest.mark.parametrize(("end", "most"), [(FAILED_AT_ONCE, MAX_STARTS), (GIVEN_UP, MAX_GIVEN_UP)])
def test_runs_that_never_begin_are_started_again_a_few_times_and_no_table_is_to_blame(
    world: World, end: JobRun, most: int
):
    ending(world, *[end] * 99)
    run_it(world)
    assert spark_runs(world) == [(JOB_LOAD_INITIAL, "abc")] * most
    assert ends(world) == dict.fromkeys("abc", "FAILED")
    assert item(world, C)[Attribute.LAST_ERROR].startswith(f"JobRunError: DMSCDC_LoadInitial ended as {end.detail}")
    assert not any(item(world, path).get(Attribute.LAST_DEATHS) for path in PATHS)
    assert nothing_is_left(world)
    run_it(world)  # the next hour
    assert spark_runs(world)[most:] == [(JOB_LOAD_INITIAL, "abc")] * most


def test_runs_that_died_at_other_tables_are_no_starts_in_vain(world: World):
    killing(world, A)
    world.run_process_table(*PATHS)
    world.run_spark(events=False)
    world.broken = {}
    world.after_failed_run(JOB_LOAD_INITIAL, world.jobs.started[0].run_id)
    ending(world, FAILED_AT_ONCE, FAILED_AT_ONCE)  # one of A, one of the others
    run_it(world)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")


@pytest.mark.parametrize(("end", "most"), [(FAILED_AT_ONCE, MAX_STARTS), (GIVEN_UP, MAX_GIVEN_UP)])
def test_a_run_that_begins_at_last_loads_all_tables(world: World, end: JobRun, most: int):
    ending(world, *[end] * (most - 1))
    run_it(world)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert len(spark_runs(world)) == most


def test_a_table_at_which_the_service_gives_up_run_after_run_counts_as_deadly_and_the_next_are_loaded(world: World):
    killing(world, B)
    world.killed = GIVEN_UP
    run_it(world)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}  # as if the events of such runs came
    runs = [(JOB_LOAD_INITIAL, "abc"), *[(JOB_LOAD_INITIAL, "bc")] * (MAX_GIVEN_UP - 1), (JOB_LOAD_INITIAL, "c")]
    assert spark_runs(world) == runs
    assert "DeadlyFileError" in item(world, B)[Attribute.LAST_ERROR]


def test_a_run_that_waits_in_glues_queue_is_not_overtaken(world: World):
    world.run_process_table(*PATHS)
    world.clock.advance(LEASE_SECONDS + 1)
    report = world.run_process_table(*PATHS, run_id="an hour later")
    assert {one.outcome for one in report.tables} == {"busy: run jr_000001 waits in Glue's queue"}
    assert len(world.jobs.started) == 1
    world.run_spark()
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert [world.log(path).head() for path in PATHS] == [1, 1, 1]  # no takeover


def test_a_running_run_that_could_not_take_a_lease_does_not_keep_the_table_for_hours(world: World):
    world.run_process_table(A, B)
    read, outcomes = world.states.get, list[str]()

    def no_answer(path: str) -> TableState | None:
        if path != B:
            return read(path)
        world.states.get = read  # type: ignore[method-assign]
        raise RetryableError("AWS did not answer")

    def an_hour_later() -> None:
        world.during_job = lambda: None
        world.clock.advance(3600)
        outcomes.append(world.run_process_table(B, run_id="an hour later").only.outcome)

    world.states.get, world.during_job = no_answer, an_hour_later  # type: ignore[method-assign]
    world.run_spark(events=False)
    assert outcomes == ["handed on"]
    assert item(world, B)[Attribute.LAST_RUN_STATE] == "SUCCEEDED"


def test_a_table_that_is_turned_off_before_its_run_begins_does_not_fail_with_it(world: World):
    killing(world, B)
    world.killed = as_state(JobState.STOPPED, "STOPPED")
    world.run_process_table(A, B)
    world.states.set_attributes(A, {Attribute.ACTIVE_FLAG: "false"})
    world.run_spark(events=False)
    assert item(world, A)[Attribute.LAST_SPARK_RUN] == ""
    world.states.set_attributes(A, {Attribute.ACTIVE_FLAG: "true"})
    world.run_process_table(A, run_id="next")
    assert Attribute.LAST_RUN_STATE not in item(world, A)


def overtaken(world: World) -> None:
    """The Spark run at work is cut off for so long that another run takes the table A over, and ends."""
    world.clock.advance(LEASE_SECONDS + 1)
    world.process(A, run_id="other")


def test_a_run_that_was_overtaken_does_not_write_its_failure(world: World):
    loaded(world)
    world.run_process_table(A)

    def cut_off() -> None:
        world.during_job = lambda: None
        overtaken(world)
        raise RetryableError("AWS did not answer")

    world.during_job = cut_off
    world.run_spark(events=False)
    assert (item(world, A)[Attribute.LAST_RUN_STATE], item(world, A)[Attribute.LAST_RUN_ID]) == ("SUCCEEDED", "other")


def test_a_processtable_run_that_was_overtaken_while_it_started_a_run_leaves_no_note(world: World):
    world.before_start = lambda _job, _arguments: overtaken(world)
    world.run_process_table(A)
    assert item(world, A)[Attribute.LAST_RUN_ID] == "other"
    assert Attribute.LAST_SPARK_RUN not in item(world, A)


def test_a_run_that_was_overtaken_between_two_rounds_leaves_no_note(world: World):
    loaded(world)
    world.run_process_table(A)
    release = world.states.release_lease

    def cut_off(path: str, holder: str, token: int, **options: Any) -> bool:
        world.states.release_lease = release  # type: ignore[method-assign]
        released = release(path, holder, token, **options)
        overtaken(world)
        world.put("20240305-100003000.parquet", path=A)
        return released

    def a_file_comes() -> None:
        world.after_job = lambda: None
        world.deliver("20240305-100002000.parquet", path=A)
        world.states.release_lease = cut_off  # type: ignore[method-assign]

    world.after_job = a_file_comes
    world.run_spark(events=False)
    assert item(world, A)[Attribute.LAST_SPARK_RUN] == ""


def test_a_run_in_the_queue_is_replaced_if_a_command_took_its_table_over_and_died(world: World):
    world.run_process_table(B)
    world.clock.advance(LEASE_SECONDS + 1)
    world.states.acquire_lease(B, "by-hand", world.clock(), LEASE_SECONDS)
    world.clock.advance(LEASE_SECONDS + 1)
    world.run_process_table(B, run_id="next")
    assert spark_runs(world) == [(JOB_LOAD_INITIAL, "b")] * 2
    world.run_spark()
    assert (ends(world)["b"], world.loads) == ("SUCCEEDED", [JOB_LOAD_INITIAL])


def test_a_run_in_the_queue_whose_lease_is_gone_is_replaced(world: World):
    world.run_process_table(B)
    token = world.state(B).fencing_token
    world.states.release_lease(B, "run-1", token, even_if_requested=True)  # an operator's command took it, and ended
    world.run_process_table(B, run_id="next")
    assert spark_runs(world) == [(JOB_LOAD_INITIAL, "b")] * 2
    world.run_spark()
    assert world.loads == [JOB_LOAD_INITIAL]


@pytest.mark.parametrize(
    ("tables", "end", "message"),
    [
        ((B,), as_state(JobState.FAILED, "TIMEOUT"), "Give the job more time"),
        ((B,), as_state(JobState.STOPPED, "STOPPED"), "program stopped it"),
        (PATHS, as_state(JobState.STOPPED, "STOPPED"), "program stopped it"),
    ],
)
def test_a_run_that_took_too_long_or_was_stopped_is_not_started_again(
    world: World, tables: tuple[str, ...], end: JobRun, message: str
):
    ending(world, end, at=B)
    run_it(world, *tables)
    assert len(spark_runs(world)) == 1
    for path in tables:
        assert item(world, path)[Attribute.LAST_RUN_STATE] == "FAILED"
        assert f"{JOB_LOAD_INITIAL} ended as {end.detail}" in item(world, path)[Attribute.LAST_ERROR]
        assert message in item(world, path)[Attribute.LAST_ERROR]
        assert world.is_free(path)


def test_a_table_that_took_too_long_among_others_gets_a_run_of_its_own(world: World):
    ending(world, as_state(JobState.FAILED, "TIMEOUT"), at=B)
    run_it(world)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert spark_runs(world)[1:] == [(JOB_LOAD_INITIAL, "ac"), (JOB_LOAD_INITIAL, "b")]


def test_a_run_whose_process_ended_without_a_word_long_ago_counts_as_dead(world: World):
    run = SparkRun(JOB_LOAD_INITIAL, "jr_gone", began=True)
    world.states.acquire_lease(B, run.run, world.clock(), 0)
    world.states.record_run(B, {Attribute.LAST_SPARK_RUN: str(run)})
    world.run_process_table(B)
    assert item(world, B)[Attribute.LAST_DEATHS] == "1"


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.STOPPED])
def test_the_end_of_a_run_that_an_operators_command_overtook_says_nothing(world: World, state: JobState):
    ending(world, JobRun("", state), at=B)
    world.run_process_table(B)
    world.run_spark(events=False)
    world.clock.advance(LEASE_SECONDS + 1)
    world.states.acquire_lease(B, "by-hand", world.clock(), LEASE_SECONDS)
    world.states.release_lease(B, "by-hand", 2, even_if_requested=True)
    run_it(world, B)
    assert ends(world)["b"] == "SUCCEEDED"
    assert not item(world, B).get(Attribute.LAST_DEATHS)


@pytest.mark.parametrize("state", [JobState.ACTIVE, JobState.SUCCEEDED])
def test_a_run_that_lost_its_lease_is_not_to_blame(world: World, state: JobState):
    world.states.acquire_lease(B, "jr_000001", world.clock(), LEASE_SECONDS)
    ending(world, JobRun("", state), at="")
    world.jobs.start(JOB_LOAD_INITIAL, {Argument.PATHS: json.dumps([B])})
    world.run_spark(events=False)
    run = SparkRun(JOB_LOAD_INITIAL, "jr_000001", began=True)
    world.states.record_run(B, {Attribute.LAST_SPARK_RUN: str(run)})
    world.clock.advance(LEASE_SECONDS + 1)
    world.instead = lambda _job, _arguments: None
    world.run_process_table(B)
    assert not item(world, B).get(Attribute.LAST_DEATHS)
    world.run_spark()
    assert item(world, B)[Attribute.LAST_RUN_STATE] == "SUCCEEDED"


def test_a_table_that_killed_a_run_shares_none_of_the_controllers_runs(world: World):
    world.states.record_run(B, {Attribute.LAST_DEATHS: "1"})
    world.run_controller()
    processed = [start.arguments for start in world.jobs.started if start.job == JOB_PROCESS_TABLE]
    assert sorted(json.loads(one[Argument.PATHS]) for one in processed) == [[A, C], [B]]


def test_tables_at_which_processtable_died_share_no_run_any_more(world: World):
    """One of them may have too many raw files for it. It must not keep the others from being loaded for ever."""
    world.raw.after_listing = raising(DiedError())
    with pytest.raises(DiedError):
        world.run_process_table(*PATHS)
    world.raw.after_listing = lambda: None
    world.clock.advance(LEASE_SECONDS + 1)
    world.run_controller()
    assert [json.loads(start.arguments[Argument.PATHS]) for start in world.jobs.started] == [[path] for path in PATHS]


def test_a_start_without_room_waits_and_keeps_its_leases(world: World):
    refusals = iter(range(30))

    def refuse(job: str, _arguments: Mapping[str, str]) -> None:
        if next(refusals, None) is not None:
            assert all(world.state(path).leased(world.clock()) for path in PATHS)
            raise NoRoomError("Glue has no room for another run now")

    world.before_start = refuse
    run_it(world)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert world.slept == [PAUSE_SECONDS] * 30


@pytest.mark.parametrize(
    ("error", "slept"),
    [
        (NoRoomError("Glue has no room for another run now"), WAIT_FOR_ROOM.total_seconds()),
        (RetryableError("AWS did not answer"), 0),
    ],
)
def test_a_start_that_is_refused_fails_the_tables_of_that_job_and_releases_their_leases(
    world: World, error: Exception, slept: float
):
    world.process_all(*PATHS, run_id="before")
    world.put(CHANGE, path=A)
    refuse: Callable[..., None] = raising(error)
    world.before_start = refuse
    report = world.run_process_table(*PATHS)
    assert [one.outcome for one in report.tables] == ["failed", "done", "done"]
    assert sum(world.slept) == pytest.approx(slept)
    assert item(world, A)[Attribute.LAST_ERROR].startswith(type(error).__name__)
    assert all(map(world.is_free, PATHS))
