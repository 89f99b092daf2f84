"""Which loads a function does itself, and which it leaves to Spark, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cdclake.control.run.process_table import process_tables
from cdclake.control.run.small_loads import MOST_RAW_BYTES, SmallLoads, why_spark
from cdclake.errors import DiskFullError, NeedsSparkError, NoRoomError, RetryableError, TooLargeError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE
from cdclake.model.table.attributes import Attribute
from tests.cdclake.control.run.three_tables import CHANGE, LOAD, PATHS, A, B, C
from tests.cdclake.control.world import LAKE, LAKE_PREFIX, World
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.control.run.report import RunReport

LATER = "20240305-200000000.parquet"


@pytest.fixture(autouse=True)
def loaded_tables(world: World) -> None:
    for path in PATHS:
        world.add_table(LOAD, path=path)
    world.process_all(*PATHS, run_id="before")
    world.loads.clear()
    for path in PATHS:
        world.put(CHANGE, path=path)


def call(world: World, *paths: str, request: str = "request-1") -> RunReport:
    """Call the function for tables."""
    small = SmallLoads(request, world.load_due, 300)
    return process_tables(paths, LAKE, LAKE_PREFIX, request, world.ports, {}, world.sleep, small)


def spark_reasons(world: World) -> dict[str, str]:
    """Why Spark is to load tables, by the letter of the table, as their items say."""
    notes = {path[-2]: world.state(path).item.get(Attribute.LAST_SPARK_RUN) for path in PATHS}
    return {letter: json.loads(note)["reason"] for letter, note in notes.items() if note}


def spark_loads_the_rest(world: World, *, loads: int = 1) -> bool:
    """Whether one Spark run loads what the function left."""
    assert [start.job for start in world.jobs.started] == [JOB_LOAD_INCREMENTAL]
    world.run_spark()
    return len(world.loads) == loads and all(map(world.is_free, PATHS))


@pytest.mark.parametrize(
    ("job", "raw_bytes", "deaths", "reason"),
    [
        (JOB_LOAD_INCREMENTAL, 0, 0, ""),
        (JOB_LOAD_INCREMENTAL, MOST_RAW_BYTES, 0, ""),
        (JOB_LOAD_INCREMENTAL, MOST_RAW_BYTES + 1, 0, "its raw files have 16,777,217 bytes, of at most 16,777,216"),
        (JOB_LOAD_INCREMENTAL, 1, 1, "a run died at the table"),
        (JOB_LOAD_INITIAL, 1, 0, "it is a full load"),
    ],
)
def test_why_spark(job: str, raw_bytes: int, deaths: int, reason: str) -> None:
    assert why_spark(job, raw_bytes, deaths) == reason


def test_the_function_loads_several_tables_and_starts_no_run(world: World) -> None:
    assert {table.outcome for table in call(world, *PATHS).tables} == {"done"}
    assert world.loads == [JOB_LOAD_INCREMENTAL] * 3
    assert world.jobs.started == []
    assert all(map(world.is_free, PATHS))


def test_a_file_that_comes_during_the_load_is_loaded_in_another_round(world: World) -> None:
    def comes_once() -> None:
        world.after_job = lambda: None
        world.deliver(LATER, path=A)

    world.after_job = comes_once
    call(world, A)
    assert world.loads == [JOB_LOAD_INCREMENTAL] * 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NeedsSparkError("it rewrites too much"), "it rewrites too much"),
        (TooLargeError("Rows need more memory than there is"), "Rows need more memory than there is"),
        (DiskFullError("A disk is full"), "A disk is full"),
        (ImportError("No module named 'lost'"), "the function failed: ImportError: No module named 'lost'"),
    ],
)
def test_what_the_function_cannot_load_goes_to_spark_once_with_the_reason(
    world: World, error: Exception, reason: str
) -> None:
    world.broken[B] = error
    outcomes = [table.outcome for table in call(world, *PATHS).tables]
    assert outcomes == ["done", "handed on", "done"]
    assert spark_reasons(world) == {"b": reason}
    assert Attribute.LAST_ERROR not in world.state(B).item or not world.state(B).item[Attribute.LAST_ERROR]
    del world.broken[B]
    assert spark_loads_the_rest(world, loads=3)


def test_a_request_that_comes_twice_leaves_the_table_to_the_run_that_it_started(world: World) -> None:
    world.broken[A] = NeedsSparkError("it rewrites too much")
    call(world, A)
    (table,) = call(world, A).tables
    assert table.outcome.startswith("busy")
    assert not world.state(A).item.get(Attribute.LAST_DEATHS)
    del world.broken[A]
    assert spark_loads_the_rest(world)


def test_an_error_of_the_table_stays_with_it(world: World) -> None:
    world.broken[B] = RetryableError("S3 is busy")
    (report,) = call(world, B).tables
    assert isinstance(report.failure, RetryableError)
    assert world.jobs.started == []
    assert world.is_free(B)


def test_after_a_death_the_function_takes_over_at_once_and_after_a_second_one_spark_loads(world: World) -> None:
    world.broken[A] = DiedError()
    for deaths in ("", "1"):
        with pytest.raises(DiedError):
            call(world, A)
        assert world.state(A).item.get(Attribute.LAST_DEATHS, "") == deaths
    call(world, A)
    assert spark_reasons(world) == {"a": "a run died at the table"}
    del world.broken[A]
    assert spark_loads_the_rest(world)


def test_after_one_death_the_function_loads_all_that_is_due(world: World) -> None:
    world.broken[A] = DiedError()
    with pytest.raises(DiedError):
        call(world, A, C)
    del world.broken[A]

    def comes_once() -> None:
        world.after_job = lambda: None
        world.deliver(LATER, path=A)

    world.after_job = comes_once
    call(world, A, C)
    assert world.loads == [JOB_LOAD_INCREMENTAL] * 3
    assert world.jobs.started == []
    assert not world.state(A).item[Attribute.LAST_DEATHS]


def test_a_death_is_not_counted_for_tables_that_wait_for_spark(world: World) -> None:
    for path in (A, B):
        world.raw.put(path.partition("/")[2] + LATER, bytes(MOST_RAW_BYTES))
    world.broken[C] = DiedError()
    with pytest.raises(DiedError):
        call(world, *PATHS)
    del world.broken[C]
    call(world, *PATHS)
    assert {world.state(path).deaths for path in PATHS} == {0}
    assert spark_loads_the_rest(world, loads=3)


def test_a_table_at_which_a_spark_run_died_is_not_tried(world: World) -> None:
    world.states.record_run(A, {Attribute.LAST_DEATHS: "1"})
    call(world, A)
    assert spark_reasons(world) == {"a": "a run died at the table"}
    assert world.loads == []


@pytest.mark.parametrize("full", [(JOB_LOAD_INCREMENTAL,), (JOB_LOAD_INCREMENTAL, JOB_PROCESS_TABLE)])
def test_the_function_leaves_the_waiting_for_room_to_processtable(world: World, full: tuple[str, ...]) -> None:
    def start(job: str, _arguments: Mapping[str, str]) -> None:
        if job in full:
            raise NoRoomError("Glue is full")

    world.before_start = start
    world.broken[A] = NeedsSparkError("it is large")
    (report,) = call(world, A).tables
    assert world.slept == []
    assert world.is_free(A)
    if JOB_PROCESS_TABLE in full:
        assert isinstance(report.failure, NoRoomError)
    else:
        assert (report.outcome, report.failure) == ("handed on", None)
        assert [start.job for start in world.jobs.started] == [JOB_PROCESS_TABLE]
