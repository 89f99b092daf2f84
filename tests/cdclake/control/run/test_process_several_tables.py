"""A ProcessTable run of several tables: one Spark run for all, and a failure of one does not stop the others."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from cdclake.control.jobs.arguments import parse_item
from cdclake.control.jobs.entry import StoppedError
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.control.run.spark_batch import report_failure, run_batch
from cdclake.errors import BadRowError, RetryableError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobRun, JobState
from tests.builders import ended
from tests.cdclake.control.world import LAKE, LAKE_PREFIX, RAW, World, raising

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


LOAD, CHANGE = "LOAD00000001.parquet", "20240305-100001000.parquet"
A, B, C = PATHS = tuple(f"{RAW}/dms/shop/{name}/" for name in "abc")


@pytest.fixture(autouse=True)
def three_tables(world: World) -> None:
    for path in PATHS:
        world.add_table(LOAD, path=path)


def item(world: World, path: str) -> Mapping[str, str]:
    return world.state(path).item


def ends(world: World) -> dict[str, str | None]:
    return {path[-2]: item(world, path).get(Attribute.LAST_RUN_STATE) for path in PATHS}


def nothing_is_left(world: World) -> bool:
    free = all(map(world.is_free, PATHS))
    return free and not list(world.lake.list(f"{LAKE_PREFIX}_cdclake/batch-"))


def test_one_spark_run_loads_all_tables_and_each_has_its_own_change(world: World):
    world.put(CHANGE, path=B)
    report = world.process_all(*PATHS)
    assert world.spark_starts() == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]
    assert [item(world, path)[Attribute.LAST_CHANGE_ID] for path in PATHS] == ["1", "2", "1"]
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    printed = json.loads(json.dumps(report.to_json()))
    assert printed["error"] == ""
    assert [(one["table"], one["outcome"]) for one in printed["tables"]] == [(f"shop.{name}", "done") for name in "abc"]
    assert nothing_is_left(world)


def test_a_batch_is_passed_as_an_object_and_a_single_table_as_arguments(world: World):
    world.put(CHANGE, path=B)
    world.process_all(*PATHS)
    initial, incremental = (start.arguments for start in world.jobs.started)
    assert set(initial) == {Argument.BATCH}
    assert incremental[Argument.NEW_INCREMENTAL_FILE] == B + CHANGE


def test_a_table_that_fails_in_the_batch_keeps_its_error_and_the_others_are_loaded(world: World):
    world.put(CHANGE, path=B)
    world.broken[B] = BadRowError("Op is X", remedy="Correct it", file=LOAD, row=7)
    report = world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert item(world, B)[Attribute.LAST_ERROR].startswith(f"BadRowError: Op is X (file {LOAD}, row 7, run jr_")
    assert item(world, B)[Attribute.LAST_ERROR_CODE] == "BadRowError"
    assert item(world, "raw-bucket/dms/shop/a/")[Attribute.LAST_ERROR_CODE] == ""
    assert str(report.to_json()["error"]).startswith("InputError: ")
    assert world.spark_starts() == [JOB_LOAD_INITIAL]  # no incremental after a failed full load
    assert "1 of 3 tables failed: shop.b" in str(report.to_json()["error"])
    assert nothing_is_left(world)


def prefixes(world: World) -> list[str]:
    """Raw prefix of each Spark run for one table; empty for a batch."""
    return [start.arguments.get(Argument.PREFIX, "")[-2:-1] for start in world.jobs.started]


def test_a_table_that_kills_the_spark_run_gets_one_of_its_own_after_the_others_and_then_fails_alone(world: World):
    world.put(CHANGE, path=A)
    world.broken[B], world.deadly_file = MemoryError("the driver ran out of memory"), LOAD
    world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert world.spark_starts() == [JOB_LOAD_INITIAL, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL]
    assert prefixes(world) == ["", "c", "a", "b"]
    error = item(world, B)[Attribute.LAST_ERROR]
    assert error.startswith("DeadlyFileError: A Spark run died while it read a raw file, after another had died")
    assert "ran out of memory" in error
    assert f"(file {LOAD}, run jr_" in error
    assert "Have DMS write the file again" in error
    assert item(world, B)[Attribute.LAST_ERROR_CODE] == "DeadlyFileError"
    assert nothing_is_left(world)


def test_a_table_that_survives_a_run_of_its_own_is_loaded_and_forgiven(world: World):
    def dies_once(job: str, arguments: Mapping[str, str]) -> None:
        world.broken = {B: MemoryError("the machine went away")} if Argument.BATCH in arguments else {}

    world.before_start = dies_once
    world.process_all(*PATHS)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert prefixes(world) == ["", "c", "b"]
    assert item(world, B)[Attribute.LAST_DEATHS] == ""
    assert Attribute.LAST_DEATHS not in item(world, A)


@pytest.mark.parametrize("killers", [4, 7])
def test_no_number_of_tables_that_kill_runs_fails_one_that_no_run_reached(world: World, killers: int):
    paths = [f"{RAW}/dms/shop/{name}/" for name in "ABCDEFG"[:killers]]
    for path in paths:
        world.add_table(LOAD, path=path)
    world.broken, world.deadly_file = dict.fromkeys(paths, MemoryError("killed")), LOAD
    report = world.process_all(*paths, *PATHS)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert [bool(one.failure) for one in report.tables] == [True] * killers + [False] * 3
    assert all(f"file {LOAD}" in item(world, path)[Attribute.LAST_ERROR] for path in paths)
    assert prefixes(world) == [""] * (killers + 1) + list("ABCDEFG"[:killers])
    assert nothing_is_left(world)


def test_a_table_that_killed_a_run_has_one_start_an_hour_after_the_others(world: World):
    world.broken, world.deadly_file = {A: MemoryError("killed")}, LOAD
    world.process_all(*PATHS)
    world.jobs.started.clear()
    for path in (B, C):
        world.put(CHANGE, path=path)
    world.process_all(*PATHS, run_id="run-2")
    assert prefixes(world) == ["", "a"]
    assert ends(world) == {"a": "FAILED", "b": "SUCCEEDED", "c": "SUCCEEDED"}
    assert item(world, A)[Attribute.LAST_DEATHS] == "3"
    world.broken.clear()
    world.process_all(*PATHS, run_id="run-3")
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert item(world, A)[Attribute.LAST_DEATHS] == ""


def test_a_death_is_known_to_the_next_run_if_this_one_dies_too(world: World):
    world.broken = {A: MemoryError("killed")}

    def stopped(job: str, arguments: Mapping[str, str]) -> None:
        if Argument.NAME_FILES in arguments:
            raise StoppedError("stopped")

    world.before_start = stopped
    with pytest.raises(StoppedError):
        world.process_all(*PATHS)
    assert item(world, A)[Attribute.LAST_DEATHS] == "1"
    assert ends(world) == {"a": "FAILED", "b": "SUCCEEDED", "c": "SUCCEEDED"}
    assert all(map(world.is_free, (B, C)))  # they did not wait for its run


def test_the_last_table_of_a_pack_gets_a_second_run_too(world: World):
    world.broken, world.deadly_file = {C: MemoryError("killed")}, LOAD
    world.process_all(C)
    assert prefixes(world) == ["c", "c"]
    assert [Argument.NAME_FILES in start.arguments for start in world.jobs.started] == [False, True]
    assert f"file {LOAD}" in item(world, C)[Attribute.LAST_ERROR]


def test_a_run_of_one_table_that_never_begins_fails_it_without_blaming_its_files(world: World):
    world.failures[JOB_LOAD_INITIAL] = "ModuleNotFoundError: No module named 'pyarrow'"
    for run_id, starts in (("run-1", 2), ("run-2", 1)):
        world.jobs.started.clear()
        world.process_all(C, run_id=run_id)
        assert len(world.jobs.started) == starts
        assert item(world, C)[Attribute.LAST_ERROR].startswith(
            "JobRunError: DMSCDC_LoadInitial ended as FAILED: Module"
        )
        assert item(world, C)[Attribute.LAST_DEATHS] == "1"


def test_a_table_at_which_the_service_gives_up_run_after_run_counts_as_deadly_and_the_next_are_loaded(world: World):
    def gives_up(job: str, arguments: Mapping[str, str]) -> JobRun | None:
        world.broken = {B: MemoryError("gone")}
        try:
            world.load_all(job, arguments)
        except MemoryError:
            return JobRun("", JobState.GIVEN_UP, "ERROR")
        return None

    world.instead = gives_up
    world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert "DeadlyFileError" in item(world, B)[Attribute.LAST_ERROR]


def test_a_table_at_which_a_worker_dies_gets_a_run_of_its_own_that_finds_the_file(world: World):
    def worker_dies(job: str, arguments: Mapping[str, str]) -> JobRun | None:
        """Spark reports that, and goes on; the run of the table alone reads the file itself."""
        if Argument.BATCH not in arguments:
            return None
        world.broken.clear()
        load = world.load_one

        def load_or_report(job: str, table: Mapping[str, str]) -> dict[str, object]:
            if table[Argument.PREFIX].endswith("/b/"):
                raise ZeroDivisionError("Python worker exited unexpectedly")
            return load(job, table)

        key = arguments[Argument.BATCH].partition(f"s3://{LAKE}/")[2]
        error = run_batch(world.lake, key, partial(load_or_report, job), lambda: True)["error"]
        world.broken, world.deadly_file = {B: MemoryError("killed")}, LOAD
        return ended(str(error))

    world.instead = worker_dies
    world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert prefixes(world) == ["", "b"]
    assert "DeadlyFileError" in item(world, B)[Attribute.LAST_ERROR]
    assert f"file {LOAD}" in item(world, B)[Attribute.LAST_ERROR]


def test_a_table_with_a_defect_has_the_error_of_its_own_run_with_its_files(world: World):
    def defective(job: str, arguments: Mapping[str, str]) -> JobRun | None:
        if Argument.BATCH in arguments:
            return None
        key = arguments[Argument.PROGRESS].partition(f"s3://{LAKE}/")[2]
        report_failure(world.lake, key, arguments, ZeroDivisionError("a defect"))
        return ended("ZeroDivisionError: a defect")

    world.instead = defective
    world.process_all(B)
    assert prefixes(world) == ["b", "b"]
    error = item(world, B)[Attribute.LAST_ERROR]
    assert error.startswith(
        "JobRunError: DMSCDC_LoadInitial failed for this table: ZeroDivisionError: an unexpected error"
    )
    assert f"file {LOAD}" in error


def test_a_table_that_killed_a_run_shares_none_of_the_controllers_runs(world: World):
    world.states.record_run(B, {Attribute.LAST_DEATHS: "1"})
    world.run_controller()
    processed = [start.arguments for start in world.jobs.started if start.job == JOB_PROCESS_TABLE]
    assert [json.loads(one[Argument.PATHS]) for one in processed if Argument.PATHS in one] == [[A, C]]
    assert [parse_item(one[Argument.ITEM])["path"] for one in processed if Argument.ITEM in one] == [B]


def test_a_run_that_dies_before_its_first_table_fails_all_and_is_not_retried(world: World):
    world.failures[JOB_LOAD_INITIAL] = "ModuleNotFoundError: No module named 'pyarrow'"
    world.process_all(*PATHS)
    assert ends(world) == dict.fromkeys("abc", "FAILED")
    assert "pyarrow" in item(world, C)[Attribute.LAST_ERROR]
    assert world.spark_starts() == [JOB_LOAD_INITIAL]
    assert nothing_is_left(world)


def test_after_a_run_that_the_service_gave_up_the_tables_not_reached_are_retried(world: World):
    def killed_after_a(job: str, arguments: Mapping[str, str]) -> JobRun | None:
        if len(world.jobs.started) > 0:
            return None
        world.broken[B] = MemoryError("the machine went away")
        assert "machine" in died(world, job, arguments)
        world.broken.clear()
        return JobRun("", JobState.GIVEN_UP, "ERROR")

    world.instead = killed_after_a
    world.process_all(*PATHS)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert [item(world, path)[Attribute.LAST_CHANGE_ID] for path in PATHS] == ["1"] * 3
    assert world.spark_starts() == [JOB_LOAD_INITIAL] * 2


def died(world: World, job: str, arguments: Mapping[str, str]) -> str:
    with pytest.raises(MemoryError) as caught:
        world.load_all(job, arguments)
    return str(caught.value)


def test_a_stopped_run_keeps_loaded_tables_and_fails_the_rest(world: World):
    def stopped_at_b(job: str, arguments: Mapping[str, str]) -> JobRun:
        world.broken[B] = MemoryError("stopped")
        assert died(world, job, arguments)
        return JobRun("", JobState.STOPPED, "STOPPED")

    world.instead = stopped_at_b
    world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "FAILED"}
    assert "program stopped it" in item(world, C)[Attribute.LAST_ERROR]
    assert nothing_is_left(world)


def test_busy_inactive_and_unknown_tables_are_left_out_of_the_batch(world: World):
    world.states.acquire_lease(A, "other", world.clock(), LEASE_SECONDS)
    world.states.set_attributes(B, {Attribute.ACTIVE_FLAG: "false"})
    unknown = f"{RAW}/dms/shop/unknown/"
    report = world.process_all(A, B, C, unknown)
    outcomes = [one.outcome.partition(":")[0] for one in report.tables]
    assert outcomes == ["busy", "inactive", "done", "failed"]
    assert "UnknownTableError" in report.tables[3].error
    assert ends(world) == {"a": None, "b": None, "c": "SUCCEEDED"}


def test_a_table_that_cannot_be_planned_does_not_stop_the_others(world: World):
    world.states.set_attributes(A, {Attribute.LATE_WINDOW_HOURS: "many"})
    world.process_all(*PATHS)
    assert ends(world) == {"a": "FAILED", "b": "SUCCEEDED", "c": "SUCCEEDED"}
    assert "LateWindowHours" in item(world, A)[Attribute.LAST_ERROR]
    assert nothing_is_left(world)


def test_all_leases_are_renewed_while_the_batch_runs(world: World):
    world.states_of_job = [JobState.ACTIVE] * 60 + [JobState.SUCCEEDED]
    sleep = world.sleep

    def still_leased_after(seconds: float) -> None:
        sleep(seconds)
        assert all(world.state(path).leased(world.clock()) for path in PATHS)

    world.sleep = still_leased_after  # type: ignore[method-assign]  # checked whenever the run pauses
    world.process_all(*PATHS)
    assert sum(world.slept) > LEASE_SECONDS


def test_a_table_whose_lease_is_lost_is_left_to_its_new_holder_and_the_others_are_loaded(world: World):
    world.states_of_job = [JobState.ACTIVE] * 40 + [JobState.SUCCEEDED]
    renew = world.states.renew_lease

    def not_of_b(path: str, holder: str, token: int, now: datetime, seconds: int) -> bool:
        if path == B and item(world, B)[Attribute.LEASE_HOLDER] == "run-1":
            world.states.release_lease(B, "run-1", 1, even_if_requested=True)
            world.states.acquire_lease(B, "other", world.clock(), LEASE_SECONDS)
        return renew(path, holder, token, now, seconds)

    world.states.renew_lease = not_of_b  # type: ignore[method-assign]  # an operator broke the lease
    report = world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": None, "c": "SUCCEEDED"}
    assert item(world, B)[Attribute.LEASE_HOLDER] == "other"
    assert "LeaseLostError" in report.tables[1].error


def test_a_trigger_for_one_table_leads_to_another_round_of_that_table_alone(world: World):
    arrivals = iter([CHANGE])
    world.after_job = lambda: world.deliver(*arrivals, path=B)
    assert [len(one.rounds) for one in world.process_all(*PATHS).tables] == [1, 2, 1]
    assert item(world, B)[Attribute.LAST_INCREMENTAL_FILE] == B + CHANGE
    assert nothing_is_left(world)


def test_a_refused_start_fails_the_tables_of_that_job_and_releases_their_leases(world: World):
    def refuse(job: str, _arguments: Mapping[str, str]) -> None:
        if job == JOB_LOAD_INCREMENTAL:
            raise RetryableError("AWS did not answer")

    world.process_all(*PATHS)
    world.put(CHANGE, path=A)
    world.before_start = refuse
    report = world.process_all(*PATHS, run_id="run-2")
    assert [one.outcome for one in report.tables] == ["failed", "done", "done"]
    assert Attribute.LEASE_HOLDER in item(world, A)  # the job may have begun
    assert Attribute.LEASE_HOLDER not in item(world, B)


@pytest.mark.parametrize("error", [StoppedError("stopped"), KeyboardInterrupt(), ZeroDivisionError("defect")])
def test_a_stopped_or_failing_run_stops_its_job_and_releases_all_leases(world: World, error: BaseException):
    world.states_of_job = [JobState.ACTIVE] * 9
    world.sleep = raising(error)  # type: ignore[method-assign]  # a signal arrives while the run waits
    with pytest.raises(type(error)):
        raise world.process_all(*PATHS).tables[0].failure or AssertionError  # a defect is in the reports
    assert world.jobs.get(JOB_LOAD_INITIAL, world.jobs.started[0].run_id).detail == "STOPPED"
    assert ends(world) == dict.fromkeys("abc", "FAILED")
    assert item(world, C)[Attribute.LAST_ERROR].startswith(type(error).__name__)
    assert all(map(world.is_free, PATHS))


def test_work_left_after_half_of_the_time_is_handed_over_to_one_new_run(world: World):
    names = iter(f"20240305-1000{n:02d}000.parquet" for n in range(60))

    def files_come() -> None:
        world.clock.advance(2000)
        name = next(names)
        for path in (A, C):
            world.deliver(name, path=path)

    world.after_job = files_come
    report = world.process_all(*PATHS, timeout_seconds=5000)
    outcomes = [(one.outcome, len(one.rounds)) for one in report.tables]
    assert outcomes == [("handed on", 2), ("done", 1), ("handed on", 2)]
    last = world.jobs.started[-1]
    assert last.job == JOB_PROCESS_TABLE
    assert json.loads(last.arguments[Argument.PATHS]) == [A, C]
    assert {one.follow_up for one in report.tables} == {"", last.run_id}
