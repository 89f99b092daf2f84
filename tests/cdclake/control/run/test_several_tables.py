"""A run of several tables: each has rounds of its own, and a failure of one does not stop the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cdclake.control.jobs.entry import StoppedError
from cdclake.control.run.bring_up_to_date import Host
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.errors import BadRowError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from tests.cdclake.control.run.three_tables import CHANGE, LOAD, PATHS, A, B, C, add_tables, ends, item
from tests.cdclake.control.world import RAW, World

if TYPE_CHECKING:
    from datetime import datetime


@pytest.fixture(autouse=True)
def three_tables(world: World) -> None:
    add_tables(world)


def test_one_run_loads_all_tables_and_each_has_its_own_change(world: World):
    world.put(CHANGE, path=B)
    report = world.process_all(*PATHS)
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL]
    assert [item(world, path)[Attribute.LAST_CHANGE_ID] for path in PATHS] == ["1", "2", "1"]
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    printed = json.loads(json.dumps(report.to_json()))
    assert printed["error"] == ""
    assert [(one["table"], one["outcome"]) for one in printed["tables"]] == [(f"shop.{name}", "done") for name in "abc"]
    assert all(map(world.is_free, PATHS))


def test_a_table_that_fails_keeps_its_error_and_the_others_are_loaded(world: World):
    world.put(CHANGE, path=B)
    world.broken[B] = BadRowError("Op is X", remedy="Correct it", file=LOAD, row=7)
    report = world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert item(world, B)[Attribute.LAST_ERROR].startswith(f"BadRowError: Op is X (file {LOAD}, row 7)")
    assert item(world, B)[Attribute.LAST_ERROR_CODE] == "BadRowError"
    assert item(world, A)[Attribute.LAST_ERROR_CODE] == ""
    assert str(report.to_json()["error"]).startswith("InputError: ")
    assert JOB_LOAD_INCREMENTAL not in world.loads  # none after a failed full load
    assert "1 of 3 tables failed: shop.b" in str(report.to_json()["error"])
    assert all(map(world.is_free, PATHS))


def test_a_table_whose_load_has_a_defect_is_tried_once_more_and_then_fails_with_its_files(world: World):
    files = []
    world.broken[B], world.deadly_file = ZeroDivisionError("a defect"), LOAD
    world.during_job = lambda: files.append(item(world, B).get(Attribute.LAST_DEATHS))
    world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED"}
    assert files == [None, None, "1", "1"]  # b again after c
    error = item(world, B)[Attribute.LAST_ERROR]
    assert error.startswith("JobRunError: ZeroDivisionError: an unexpected error")
    assert f"file {LOAD}" in error
    assert item(world, B)[Attribute.LAST_DEATHS] == "2"


def test_a_table_whose_second_try_succeeds_is_loaded_and_forgiven(world: World):
    def mended() -> None:
        if item(world, B).get(Attribute.LAST_DEATHS):
            world.broken.clear()

    world.broken[B], world.during_job = ZeroDivisionError("a worker died"), mended
    world.process_all(*PATHS)
    assert ends(world) == dict.fromkeys("abc", "SUCCEEDED")
    assert item(world, B)[Attribute.LAST_DEATHS] == ""
    assert not item(world, A).get(Attribute.LAST_DEATHS)


def test_a_process_that_cannot_go_on_leaves_what_is_left_to_a_new_run(world: World):
    world.broken[B] = ZeroDivisionError("the JVM is gone")
    with pytest.raises(StoppedError, match="cannot go on: ZeroDivisionError"):
        world.process_all(*PATHS, host=Host(can_continue=lambda: False))
    assert ends(world) == {"a": "SUCCEEDED", "b": None, "c": None}
    assert item(world, B)[Attribute.LAST_DEATHS] == "1"
    assert all(map(world.is_free, PATHS))
    (start,) = world.jobs.started
    assert (start.job, json.loads(start.arguments[Argument.PATHS])) == (JOB_PROCESS_TABLE, [B, C])


def test_busy_inactive_and_unknown_tables_are_left_out(world: World):
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
    assert all(map(world.is_free, PATHS))


def test_a_table_whose_lease_is_lost_is_left_to_its_new_holder_and_the_others_are_loaded(world: World):
    renew = world.states.renew_lease

    def not_of_b(path: str, holder: str, token: int, now: datetime, seconds: int, *, to: str | None = None) -> bool:
        if path == B and item(world, B)[Attribute.LEASE_HOLDER] == "run-1":
            world.states.release_lease(B, "run-1", 1, even_if_requested=True)
            world.states.acquire_lease(B, "other", world.clock(), LEASE_SECONDS)
        return renew(path, holder, token, now, seconds, to=to)

    world.states.renew_lease = not_of_b  # type: ignore[method-assign]  # an operator broke the lease
    world.during_job = lambda: world.clock.advance(LEASE_SECONDS / 2)
    report = world.process_all(*PATHS)
    assert ends(world) == {"a": "SUCCEEDED", "b": None, "c": "SUCCEEDED"}
    assert item(world, B)[Attribute.LEASE_HOLDER] == "other"
    assert "LeaseLostError" in report.tables[1].error


def test_a_trigger_for_one_table_leads_to_another_round_of_that_table_alone_after_the_others(world: World):
    world.after_job = lambda: world.deliver(*[CHANGE] * (len(world.loads) == 2), path=B)
    assert [len(one.rounds) for one in world.process_all(*PATHS).tables] == [1, 2, 1]
    assert world.loads == [JOB_LOAD_INITIAL] * 3 + [JOB_LOAD_INCREMENTAL]
    assert item(world, B)[Attribute.LAST_INCREMENTAL_FILE] == B + CHANGE
    assert all(map(world.is_free, PATHS))


@pytest.mark.parametrize("error", [StoppedError("stopped"), KeyboardInterrupt()])
def test_a_stopped_run_releases_all_leases(world: World, error: BaseException):
    def stop() -> None:
        raise error

    world.after_job = stop
    with pytest.raises(type(error)):
        world.process_all(*PATHS)
    assert ends(world) == dict.fromkeys("abc", "FAILED")
    assert item(world, C)[Attribute.LAST_ERROR].startswith(type(error).__name__)
    assert all(map(world.is_free, PATHS))


def test_work_left_after_half_of_the_time_is_handed_over_to_one_new_run(world: World):
    names = iter(f"20240305-1000{n:02d}000.parquet" for n in range(60))

    def files_come() -> None:
        world.clock.advance(700)
        name = next(names)
        for path in (A, C):
            world.deliver(name, path=path)

    world.after_job = files_come
    report = world.process_all(*PATHS, host=Host(timeout_seconds=8000))
    outcomes = [(one.outcome, len(one.rounds)) for one in report.tables]
    assert outcomes == [("handed on", 2), ("done", 1), ("handed on", 2)]
    last = world.jobs.started[-1]
    assert last.job == JOB_PROCESS_TABLE
    assert json.loads(last.arguments[Argument.PATHS]) == [A, C]
    assert {one.follow_up for one in report.tables} == {"", last.run_id}
