"""A Controller that starts while the runs of the last one wait or work, as with a schedule of five minutes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.plan.packing import PackLimits
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.control.run.trigger import STALE_AFTER_SECONDS
from cdclake.errors import JobRunError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import ManualClock
from tests.cdclake.control.world import RAW, World, raising

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cdclake_devkit.memory import JobStart

A, B, C = PATHS = tuple(f"{RAW}/dms/shop/{name}/" for name in "abc")
PERIOD_SECONDS = 300


def change_file(number: int) -> str:
    return f"20240305-10{number:07d}.parquet"


@pytest.fixture
def loaded(world: World) -> World:
    """A world with three loaded tables, without due files."""
    for path in PATHS:
        world.add_table("LOAD00000001.parquet", path=path)
    world.process_all(*PATHS, run_id="full load")
    world.clock.advance(PERIOD_SECONDS)
    return world


def paths_of(start: JobStart) -> list[str]:
    return parse_paths(start.arguments[Argument.PATHS])


def process_starts(world: World) -> list[list[str]]:
    """The tables of each run of ProcessTable that was started."""
    return [paths_of(start) for start in world.jobs.started if start.job == JOB_PROCESS_TABLE]


def outcomes(world: World) -> dict[str, str]:
    """Run the Controller; returns the outcomes of the tables with work, by path."""
    results = world.run_controller().tables
    return {result.planned.state.path: result.outcome for result in results if result.outcome}


def test_a_run_that_has_not_begun_yet_is_not_started_again_and_the_other_tables_are(loaded: World) -> None:
    for path in (A, B):
        loaded.put(change_file(1), path=path)
    assert outcomes(loaded) == {A: "started", B: "started"}
    loaded.clock.advance(PERIOD_SECONDS)
    loaded.put(change_file(2), path=B)
    loaded.put(change_file(2), path=C)
    assert outcomes(loaded) == {A: "collapsed", B: "collapsed", C: "started"}
    assert process_starts(loaded) == [[A, B], [C]]
    loaded.run_process_table(A, B)
    loaded.run_spark()
    assert loaded.applied == [change_file(1), change_file(1), change_file(2)]


def test_a_run_that_died_before_it_began_is_started_again_when_its_request_is_stale(loaded: World) -> None:
    loaded.put(change_file(1), path=A)
    found = []
    for _ in range(4):
        found.append(outcomes(loaded)[A])
        loaded.clock.advance(PERIOD_SECONDS)
    assert found == ["started", "collapsed", "collapsed", "started"]


def test_tables_whose_spark_run_works_get_another_round_of_it_and_the_other_tables_a_run(loaded: World) -> None:
    loaded.put(change_file(1), path=A)
    outcomes(loaded)
    loaded.run_process_table(A, run_id="first")

    def next_controller() -> None:
        loaded.after_job = lambda: None
        loaded.clock.advance(PERIOD_SECONDS - 1)
        loaded.put(change_file(2), path=A)
        loaded.put(change_file(1), path=B)
        assert outcomes(loaded) == {A: "busy", B: "started"}

    loaded.after_job = next_controller
    loaded.run_spark()
    assert process_starts(loaded) == [[A], [B]]
    assert loaded.applied == [change_file(1), change_file(2)]
    assert loaded.is_free(A)


def test_a_spark_run_in_glues_queue_is_looked_at_once_per_quarter_of_an_hour(loaded: World) -> None:
    """Its lease expires there, and only a run of ProcessTable can see in Glue that it waits."""
    loaded.put(change_file(1), path=A)
    outcomes(loaded)
    loaded.run_process_table(A, run_id="first")
    spark_runs = len(loaded.jobs.started) - 1
    found = []
    for number in range(6):
        loaded.clock.advance(PERIOD_SECONDS)
        found.append(outcomes(loaded)[A])
        if found[-1] == "started":
            report = loaded.run_process_table(A, run_id=f"look {number}")
            assert report.tables[0].outcome.startswith("busy: run")
    assert found == ["started", "collapsed", "collapsed", "started", "collapsed", "collapsed"]
    loaded.run_spark()
    assert loaded.applied == [change_file(1)]
    assert len(loaded.jobs.started) == 3 + spark_runs


def test_a_request_that_was_left_to_a_run_which_died_delays_no_controller(loaded: World) -> None:
    """The event of its death was lost, so its lease has to expire first."""
    loaded.put(change_file(1), path=A)
    loaded.states.acquire_lease(A, "dead", loaded.clock(), LEASE_SECONDS)
    assert outcomes(loaded) == {A: "busy"}
    loaded.clock.advance(LEASE_SECONDS)
    assert outcomes(loaded) == {A: "started"}
    loaded.clock.advance(PERIOD_SECONDS)
    assert outcomes(loaded) == {A: "collapsed"}


def test_a_request_that_a_failed_run_left_delays_no_controller(loaded: World) -> None:
    loaded.put(change_file(1), path=A)
    loaded.after_job = raising(JobRunError("Spark gave up"))
    loaded.during_job = lambda: loaded.deliver(change_file(2), path=A)
    with pytest.raises(JobRunError):
        loaded.process(A)
    assert Attribute.WORK_REQUESTED_UTC in loaded.state(A).item
    loaded.clock.advance(60)
    assert outcomes(loaded) == {A: "started"}
    loaded.clock.advance(PERIOD_SECONDS)
    assert outcomes(loaded) == {A: "collapsed"}


def test_a_run_that_glue_had_no_room_for_is_started_by_the_next_controller(loaded: World) -> None:
    loaded.put(change_file(1), path=A)
    loaded.before_start = raising(JobRunError("Glue has no room for another run now"))
    assert outcomes(loaded) == {}
    loaded.before_start = lambda *_: None
    loaded.clock.advance(PERIOD_SECONDS)
    assert outcomes(loaded) == {A: "started"}


def test_tables_that_an_operator_names_get_a_run_even_if_one_was_requested(loaded: World) -> None:
    loaded.put(change_file(1), path=A)
    assert outcomes(loaded) == {A: "started"}
    summary = loaded.run_controller(["shop.a"])
    assert [table.outcome for table in summary.tables] == ["started"]


def test_a_controller_that_plans_for_minutes_starts_no_run_beside_one_that_began_meanwhile(loaded: World) -> None:
    """The lease of that run ends later than any could at the time of the plan."""
    loaded.put(change_file(1), path=A)
    planned = loaded.plan()
    loaded.clock.advance(2 * PERIOD_SECONDS)
    loaded.states.acquire_lease(A, "event's", loaded.clock(), LEASE_SECONDS)
    assert [table.outcome for table in loaded.execute(planned).tables] == ["busy", "", ""]
    assert process_starts(loaded) == []


def test_a_controller_that_starts_runs_for_minutes_knows_the_time(loaded: World) -> None:
    for path in PATHS:
        loaded.put(change_file(1), path=path)

    def slow(_job: str, _arguments: Mapping[str, str]) -> None:
        loaded.clock.advance(2 * PERIOD_SECONDS)
        if not process_starts(loaded):
            loaded.states.acquire_lease(B, "event's", loaded.clock(), 2 * PERIOD_SECONDS)

    loaded.before_start = slow
    summary = loaded.run_controller(limits=PackLimits(tables=1))
    assert [table.outcome for table in summary.tables] == ["started", "busy", "started"]


class Glue:
    """Glue, which begins runs some time after they were started, while a schedule starts the Controller.

    Attributes:
        delays: Minutes until a run begins, in turns.
        had_late_spark: Whether a Spark run began after the lease that it was handed had expired.
    """

    def __init__(self, delays: list[int]) -> None:
        self.world = World(ManualClock())
        self._delays, self._begun, self._starts = delays, 0, 0
        self._due: list[tuple[datetime, JobStart]] = []
        self._oldest_spark: datetime | None = None
        self.had_late_spark = False

    def minute(self) -> None:
        """Begin the runs whose time has come."""
        for start in self.world.jobs.started[self._starts :]:
            if start.job == JOB_PROCESS_TABLE:
                delay = self._delays[self._starts % len(self._delays)]
                self._due.append((self.world.clock() + timedelta(minutes=delay), start))
            else:
                self._oldest_spark = self._oldest_spark or self.world.clock()
            self._starts += 1
        for when, start in [one for one in self._due if one[0] <= self.world.clock()]:
            self._due.remove((when, start))
            self.world.run_process_table(*paths_of(start), run_id=start.run_id)
        self.world.clock.advance(60)

    def run_spark(self) -> None:
        """Begin the Spark runs that wait. They were started up to a minute before they were noticed."""
        if self._oldest_spark:
            waited = self.world.clock() - self._oldest_spark
            self.had_late_spark |= waited.total_seconds() >= LEASE_SECONDS - 60
        self.world.run_spark()
        self._oldest_spark = None

    @property
    def waiting(self) -> list[str]:
        """The tables of the runs that have not begun."""
        return [path for _, start in self._due for path in paths_of(start)]


@pytest.mark.slow
@given(
    delays=st.lists(st.integers(0, STALE_AFTER_SECONDS // 60 - 1), min_size=1, max_size=4),
    spark_minutes=st.sets(st.integers(1, 59)) | st.just(set(range(1, 60))),
    files=st.lists(st.tuples(st.sampled_from(PATHS), st.integers(1, 50)), max_size=12),
)
def test_whatever_waits_no_table_has_two_runs_to_begin_and_every_file_is_applied_once(
    delays: list[int], spark_minutes: set[int], files: list[tuple[str, int]]
) -> None:
    """Of runs that begin before their request counts as stale. Spark runs begin at any time.

    One that begins after its lease expired lists the files in place of the run that was started meanwhile, and clears
    its mark. That run has nothing to do then, and a new file gets another.
    """
    glue = Glue(delays)
    world = glue.world
    for path in PATHS:
        world.add_table("LOAD00000001.parquet", path=path)
    world.process_all(*PATHS, run_id="full load")
    world.clock.advance(60)
    for minute in range(180):
        for number, (path, when) in enumerate(files):
            if when == minute:
                world.put(change_file(number), path=path)
        if minute % 5 == 0:
            world.run_controller()
        glue.minute()
        assert glue.had_late_spark or len(set(glue.waiting)) == len(glue.waiting)
        if minute in spark_minutes or minute > 60:
            glue.run_spark()
    assert sorted(world.applied) == sorted(change_file(number) for number in range(len(files)))
    assert all(world.is_free(path) for path in PATHS)
    planned = json.dumps(world.plan().to_json())
    assert planned.count('"nothing new"') == len(PATHS)
