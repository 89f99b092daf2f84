"""`cdclake run` starts the Controller, waits for what follows, and reports the outcome of each table."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from cdclake.commit.log import ChangeLog
from cdclake.control.controller import Plan
from cdclake.control.jobs.arguments import parse_paths, paths_json
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.errors import BadRowError, ConfigurationError, DeadlyFileError, JobRunError
from cdclake.model.change.record import PHASES
from cdclake.model.drift import ColumnDrift
from cdclake.model.names import (
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    Argument,
    RunState,
)
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake.ports import JobRun, JobState
from cdclake_cli.aws.job_history import StartedRun
from cdclake_cli.pipeline import Pipeline
from cdclake_cli.printing.output import OutputFormat
from cdclake_cli.target import Target
from cdclake_cli.verbs.run import show
from cdclake_devkit.memory import MemoryJobs, MemoryState, MemoryStore
from tests.builders import LakeBuilder, ended

TARGET = Target()
STORE, PRODUCT = TableName("shop", "store"), TableName("shop", "product")
SUCCEEDED = ended()
SECONDS = {"list": 0.25, "read": 1.5}


def registered(name, *, active=True):
    return TARGET.installation.new_state(name).with_attributes(ActiveFlag=str(active).lower())


def commit(log, rows, retired=(), quarantined=0, suppressed=0, seconds=SECONDS, **fields):
    staged = LakeBuilder(log).stage(
        rows=rows,
        retired=retired,
        books={
            "read_insert": rows + quarantined,
            "read_unknown": suppressed,
            "quarantined": quarantined,
            "suppressed": suppressed,
        },
        bytes_read=2_000_000,
        bytes_added=1_500_000,
        seconds=seconds,
        **fields,
    )
    log.commit(staged)


@dataclass
class World:
    """A pipeline in memory, whose Controller starts a ProcessTable run for each table that has `work`."""

    states: list[TableState]
    work: dict[str, Callable[[], Any]] = field(default_factory=dict)
    controller_run: JobRun | list[JobState] = SUCCEEDED
    lake: MemoryStore = field(default_factory=MemoryStore)
    state: MemoryState = field(init=False)
    jobs: MemoryJobs = field(init=False)

    def __post_init__(self):
        self.state = MemoryState(self.states)
        self.jobs = MemoryJobs(self.script)

    def script(self, job, arguments):
        if job == JOB_PROCESS_TABLE:
            (one,) = parse_paths(arguments[Argument.PATHS])
            return self.work[one]()
        only = arguments.get(Argument.TABLES, "").split(",")
        for state in self.state.all():
            if state.path in self.work and (only == [""] or str(state.name) in only):
                self.jobs.start(JOB_PROCESS_TABLE, paths(state.name))
        return self.controller_run

    def works(self, name, end=SUCCEEDED, **change):
        """Let the table's run commit a change, and end like this."""

        def work():
            commit(self.log(name), **change)
            return end

        self.work[path(name)] = work

    def log(self, name):
        return ChangeLog(self.lake, TARGET.installation.layout(name))

    @property
    def job_history(self):
        return self

    def since(self, controller_run_id):
        started = [start for start in self.jobs.started if start.job != JOB_CONTROLLER]
        return [StartedRun(start.job, self.jobs.get(start.job, start.run_id)) for start in reversed(started)]

    def run(self, *tables):
        return Pipeline(self, TARGET, sleep=lambda seconds: None).run(tables)


def path(name):
    return TARGET.installation.new_state(name).path


def paths(*names):
    return {Argument.PATHS: paths_json([path(name) for name in names])}


def recorded(run_id, error=""):
    """What a run records in the item of a table when it ends."""
    return {
        Attribute.LAST_RUN_ID: run_id,
        Attribute.LAST_RUN_STATE: RunState.FAILED if error else RunState.SUCCEEDED,
        Attribute.LAST_ERROR: error,
        Attribute.LAST_ERROR_CODE: error.partition(":")[0],
    }


def test_only_changes_of_the_run_are_reported():
    world = World([registered(STORE)])
    commit(world.log(STORE), rows=8)
    polls = [JobState.ACTIVE, JobState.ACTIVE, JobState.SUCCEEDED]
    world.works(STORE, polls, rows=9, retired=("000000000001-00001.parquet",))
    outcome = world.run()
    assert not outcome.failed
    (table,) = outcome.tables
    assert (table.name, table.outcome) == (STORE, "changed")
    (change,) = table.changes
    assert (change.change, change.rows, change.inserted) == (2, 9, 9)
    assert (change.files_rewritten, change.files_before, change.files_added) == (1, 1, 1)
    assert change.seconds == 1.75


def test_tables_without_work_are_nothing_new_or_inactive():
    outcome = World([registered(STORE), registered(PRODUCT, active=False)]).run()
    assert [(table.name, table.outcome) for table in outcome.tables] == [(PRODUCT, "inactive"), (STORE, "nothing new")]
    assert not outcome.failed


def test_a_table_that_has_no_place_in_the_lake_does_not_stop_the_others():
    world = World([registered(STORE), registered(TableName("_iceberg", "shop"))])
    world.works(STORE, rows=8)
    assert {str(table.name): table.outcome for table in world.run().tables} == {
        "_iceberg.shop": "nothing new",
        "shop.store": "changed",
    }


def test_a_table_whose_full_load_is_arriving_is_waiting():
    outcome = World([registered(STORE), registered(PRODUCT)]).run()
    assert outcome.succeeded == [PRODUCT, STORE]
    waiting = Decision(DecisionKind.WAITING, "full load still arriving: ...")
    idle = Decision(DecisionKind.NOTHING_NEW, "every raw file is accounted for")
    plan = Plan(
        (
            PlannedTable(registered(STORE), Action.NONE, waiting),
            PlannedTable(registered(PRODUCT), Action.NONE, idle),
        )
    )
    refined = outcome.with_plan(plan)
    assert [(table.outcome, table.reason) for table in refined.tables] == [
        ("nothing new", ""),
        ("waiting", "full load still arriving: ..."),
    ]
    assert not refined.failed


def test_a_table_with_due_work_is_reported_as_not_started():
    outcome = World([registered(STORE)]).run()
    due = Decision(DecisionKind.INCREMENTAL, "2 change files after the full load", files=2)
    (table,) = outcome.with_plan(Plan((PlannedTable(registered(STORE), Action.START, due),))).tables
    assert (table.outcome, table.reason) == ("not started", "2 change files after the full load")


def test_findings_of_the_plan_belong_to_the_outcome_of_every_table(changed, capsys):
    found = Decision(DecisionKind.NOTHING_NEW, "every raw file is accounted for", findings=("1 file is unread",))
    refined = changed.with_plan(Plan((PlannedTable(registered(STORE), Action.NONE, found),)))
    assert [(table.outcome, table.findings) for table in refined.tables] == [
        ("inactive", ()),
        ("changed", ("1 file is unread",)),
    ]
    show(refined, OutputFormat.TABLE)
    assert "shop.store: 1 file is unread" in capsys.readouterr().out


def test_a_table_that_is_frozen_or_cannot_be_planned_is_reported_as_failed():
    outcome = World([registered(STORE), registered(PRODUCT)]).run()
    frozen = Decision(DecisionKind.FROZEN, "3 change files vanished", to_do="Bring them back")
    plan = Plan(
        (
            PlannedTable(registered(STORE), Action.NONE, error=ConfigurationError("LastIncrementalFile is 'x'")),
            PlannedTable(registered(PRODUCT), Action.NONE, frozen),
        )
    )
    refined = outcome.with_plan(plan)
    assert refined.failed
    assert [table.outcome for table in refined.tables] == ["failed", "failed"]
    assert "3 change files vanished. Bring them back" in str(refined.tables[0].error)
    assert "LastIncrementalFile is 'x'" in str(refined.error())


def test_a_table_that_the_controller_registers_is_inactive_and_does_not_report_older_changes():
    world = World([])
    commit(world.log(STORE), rows=8)
    script = world.script

    def register(job, arguments):
        world.state.register(registered(STORE, active=False))
        return script(job, arguments)

    world.jobs = MemoryJobs(register)
    assert [(table.outcome, table.changes) for table in world.run().tables] == [("inactive", ())]


def test_a_failed_table_fails_the_run_and_the_others_are_reported():
    world = World([registered(STORE), registered(PRODUCT)])

    def fails():
        world.state.record_run(path(STORE), recorded("run-1", "BadRowError: row 7 of file x. Correct it"))
        return ended("exit 3")

    world.work[path(STORE)] = fails
    world.works(PRODUCT, rows=5)
    outcome = world.run()
    assert outcome.failed
    assert [(table.name, table.outcome) for table in outcome.tables] == [(PRODUCT, "changed"), (STORE, "failed")]
    error = outcome.error()
    assert "1 of 2 tables failed: shop.store: BadRowError: row 7 of file x" in str(error)
    assert error.exit_code == BadRowError.exit_code


TABLES = tuple(TableName("shop", f"t{number:02d}") for number in range(10))


def shared_run(outcomes, error="IntegrityError: 3 of 10 tables failed: ..."):
    """A pipeline with one run of ten tables, which fails; `outcomes` maps some tables to the errors that it recorded.

    A table without an error has a change of the run.
    """
    world = World([registered(name).with_attributes(**recorded("run-0")) for name in TABLES])

    def script(job, arguments):
        if job == JOB_CONTROLLER:
            world.jobs.start(JOB_PROCESS_TABLE, paths(*TABLES))
            return SUCCEEDED
        for name, text in outcomes.items():
            if not text:
                commit(world.log(name), rows=5)
            world.state.record_run(path(name), recorded("run-1", text))
        return ended(error)

    world.jobs = MemoryJobs(script)
    return world


def test_no_table_of_a_shared_run_shows_the_error_of_another():
    """Some tables were busy or recorded their outcome before: the run writes nothing into their items."""
    failing = {name: f"BadRowError: row 7 of {name}" for name in TABLES[:3]}
    outcome = shared_run({**failing, TABLES[4]: ""}).run()
    errors = {table.name: str(table.error) for table in outcome.tables if table.error}
    assert errors == {name: f"row 7 of {name}" for name in TABLES[:3]}
    expected = ["failed"] * 3 + ["nothing new", "changed"] + ["nothing new"] * 5
    assert [table.outcome for table in outcome.tables] == expected
    assert str(outcome.error()).startswith("3 of 10 tables failed: shop.t00: BadRowError: row 7 of shop.t00; ")


def test_a_shared_run_that_no_table_explains_fails_the_tables_for_which_it_recorded_nothing():
    outcome = shared_run({TABLES[4]: ""}, error="Command failed with exit code 137").run()
    assert [table.outcome for table in outcome.tables].count("failed") == 9
    assert outcome.tables[4].outcome == "changed"
    assert {str(table.error) for table in outcome.tables if table.error} == {
        "DMSCDC_ProcessTable ended as FAILED: Command failed with exit code 137 (run jr_000002)"
    }


def test_a_limited_run_does_not_show_the_error_of_a_table_that_it_leaves_out():
    world = shared_run({TABLES[0]: "BadRowError: row 7"})
    (table,) = world.run(TABLES[9]).tables
    assert (table.name, table.outcome, table.error) == (TABLES[9], "nothing new", None)


def test_the_end_of_each_table_is_noted_when_its_run_ends():
    world = World([registered(STORE), registered(PRODUCT)])
    world.works(STORE, [JobState.ACTIVE] * 3 + [JobState.SUCCEEDED], rows=9)
    world.works(PRODUCT, ended("exit 3"), rows=9)
    notes: list[str] = []
    steps: list[str] = []
    Pipeline(world, TARGET, steps.append, notes.append, lambda _: None).run()
    controller = next(start.run_id for start in world.jobs.started if start.job == JOB_CONTROLLER)
    assert notes == [
        f"Started the Controller, run {controller}",
        "shop.product: failed 0 s after the start",
        "shop.store: done 0 s after the start",
    ]
    assert steps[0] == "The Controller searches for new files"
    assert steps[-1] == "DMSCDC_ProcessTable works on 1 table: shop.store"


class Stopped(BaseException):
    """Stands for a signal."""


@pytest.mark.parametrize("polls", [0, 1, 2])
def test_what_glue_goes_on_with_is_known_at_any_moment(polls):
    world = World([registered(STORE), registered(PRODUCT)], controller_run=[JobState.ACTIVE, JobState.SUCCEEDED])
    world.works(STORE, [JobState.ACTIVE] * 9, rows=9)
    world.works(PRODUCT, rows=9)
    left = [polls]

    def sleep(_):
        if not left[0]:
            raise Stopped
        left[0] -= 1

    pipeline = Pipeline(world, Target(name_prefix="test-"), sleep=sleep)
    assert pipeline.unfinished == []
    with pytest.raises(Stopped):
        pipeline.run()
    (controller,) = (start.run_id for start in world.jobs.started if start.job == JOB_CONTROLLER)
    (table,) = (start.run_id for start in world.jobs.started if start.arguments == paths(STORE))
    table_run = f"test-DMSCDC_ProcessTable, run {table}: shop.store"
    assert pipeline.unfinished == [table_run if polls else f"test-DMSCDC_Controller, run {controller}"]


@dataclass
class StepByStep(World):
    """A pipeline in memory in which a step happens while the Controller works, and one in each pause of the command."""

    steps: list[Callable[[], object]] = field(default_factory=list)
    runs: dict[str, StartedRun] = field(default_factory=dict)
    slept: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def script(self, job, arguments):
        self.steps.pop(0)()
        return SUCCEEDED

    def since(self, controller_run_id):
        return list(reversed(self.runs.values()))

    def begin(self, run_id, job, *names, earlier=""):
        """Start a run, as ProcessTable does with `earlier`, the holder of the leases."""
        arguments = {**paths(*names), **({Argument.LEASE_HOLDER: earlier} if earlier else {})}
        self.runs[run_id] = StartedRun(job, JobRun(run_id, JobState.ACTIVE, "RUNNING", "", arguments))
        for name in names if earlier else ():
            self.state.acquire_lease(path(name), earlier, NOW, 300)

    def end(self, run_id, error="", state=None):
        """Let a run end, without any effect on its tables."""
        last = ended(error)
        state = state or last.state
        run = self.runs[run_id].run._replace(state=state, detail=state.value, error=error)
        self.runs[run_id] = self.runs[run_id]._replace(run=run)

    def record(self, name, run_id, error="", rows=0):
        """Let a run commit rows, record how it ended for a table, and release the lease."""
        if rows:
            commit(self.log(name), rows=rows)
        self.state.record_run(path(name), recorded(run_id, error))
        self.release(name)

    def release(self, name):
        """Let whoever holds a table's lease release it."""
        assert self.state.release_lease(*self.lease(name), even_if_requested=True)

    def expire(self, name):
        """Let a table's lease expire, as the event of a dead run does."""
        assert self.state.renew_lease(*self.lease(name), now=NOW, seconds=0)

    def lease(self, name: TableName) -> tuple[str, str, int]:
        """A table's path, the holder of its lease, and the fencing token."""
        state = self.state.get(path(name))
        assert state
        return state.path, state.item[Attribute.LEASE_HOLDER], state.fencing_token

    def sleep(self, seconds):
        self.slept.append(seconds)
        if self.steps:
            self.steps.pop(0)()

    def pipeline(self, prefix=""):
        target = Target(name_prefix=prefix)
        return Pipeline(self, target, self.texts.append, self.notes.append, self.sleep)

    def run(self, *tables):
        return self.pipeline().run(tables)


NOW = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)


def all_of(*steps):
    """A step of several."""
    return lambda: [step() for step in steps]


def starts_spark(world, number, *names, job=JOB_LOAD_INCREMENTAL):
    """ProcessTable's run of this number starts the Spark run of this number, and ends."""
    return all_of(
        lambda: world.begin(f"s{number}", job, *names, earlier=f"run-p{number}"),
        lambda: world.end(f"p{number}"),
    )


def test_the_spark_run_that_process_table_starts_decides_the_outcome():
    world = StepByStep([registered(STORE)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE),
        starts_spark(world, 1, STORE),
        lambda: None,
        all_of(lambda: world.record(STORE, "s1", rows=9), lambda: world.end("s1")),
    ]
    (table,) = world.run().tables
    assert (table.outcome, table.run_id, [change.rows for change in table.changes]) == ("changed", "s1", [9])
    assert world.steps == []
    assert world.texts[1:] == [
        "DMSCDC_ProcessTable works on 1 table: shop.store",
        *["DMSCDC_LoadIncremental works on 1 table: shop.store"] * 2,
    ]
    assert world.notes[1:] == ["shop.store: done 0 s after the start"]


def test_a_spark_run_that_is_listed_too_late_is_waited_for():
    """ProcessTable starts it and ends between the requests of one list."""
    world = StepByStep([registered(STORE)])
    world.steps = [
        all_of(lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE), lambda: world.end("p1")),
        lambda: world.begin("s1", JOB_LOAD_INCREMENTAL, STORE, earlier="run-p1"),
        all_of(lambda: world.record(STORE, "s1", rows=9), lambda: world.end("s1")),
    ]
    assert world.run().tables[0].outcome == "changed"


def test_a_chain_of_runs_is_followed_to_its_end():
    world = StepByStep([registered(STORE)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE),
        starts_spark(world, 1, STORE, job=JOB_LOAD_INITIAL),
        all_of(  # the Spark run hands the rest of its work on
            lambda: world.record(STORE, "s1", rows=9),
            lambda: world.begin("p2", JOB_PROCESS_TABLE, STORE),
            lambda: world.end("s1"),
        ),
        starts_spark(world, 2, STORE),
        all_of(lambda: world.record(STORE, "s2", rows=4), lambda: world.end("s2")),
    ]
    (table,) = world.run().tables
    assert (table.outcome, table.run_id, [change.rows for change in table.changes]) == ("changed", "s2", [9, 13])


def test_a_table_is_done_although_an_event_starts_its_next_run():
    world = StepByStep([registered(STORE), registered(PRODUCT)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE, PRODUCT),
        starts_spark(world, 1, STORE),
        all_of(lambda: world.record(STORE, "s1", rows=9), lambda: world.end("s1")),
        lambda: None,
        lambda: world.begin("p2", JOB_PROCESS_TABLE, STORE),
    ]
    assert [table.outcome for table in world.run().tables] == ["nothing new", "changed"]
    assert len(world.steps) == 1


def dies(world, run_id, error="The process was ended by signal 9"):
    return lambda: world.end(run_id, error)


@pytest.mark.parametrize("pauses", [0, 3])
def test_tables_of_a_dead_spark_run_go_on_in_another(pauses):
    world = StepByStep([registered(STORE), registered(PRODUCT)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE, PRODUCT),
        starts_spark(world, 1, STORE, PRODUCT),
        all_of(lambda: world.record(PRODUCT, "s1", rows=1), dies(world, "s1")),
        *[lambda: None] * pauses,
        lambda: world.expire(STORE),
        lambda: world.begin("p2", JOB_PROCESS_TABLE, STORE),
        all_of(lambda: world.state.acquire_lease(path(STORE), "run-p2", NOW, 300), starts_spark(world, 2, STORE)),
        lambda: None,
        all_of(lambda: world.record(STORE, "s2", rows=9), lambda: world.end("s2")),
    ]
    outcome = world.run()
    assert not outcome.failed
    expected = [(PRODUCT, "changed", "s1"), (STORE, "changed", "s2")]
    assert [(table.name, table.outcome, table.run_id) for table in outcome.tables] == expected


def test_a_table_that_fails_after_its_spark_run_died_shows_the_recorded_error():
    world = StepByStep([registered(STORE)])
    error = "DeadlyFileError: A Spark run died while it read a raw file"
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE),
        starts_spark(world, 1, STORE),
        dies(world, "s1"),
        lambda: world.begin("p2", JOB_PROCESS_TABLE, STORE),
        all_of(lambda: world.record(STORE, "run-p2", error), lambda: world.end("p2", error)),
    ]
    (table,) = world.run().tables
    assert (table.outcome, type(table.error), table.run_id) == ("failed", DeadlyFileError, "p2")


@pytest.mark.parametrize("began", [True, False])
def test_a_table_with_which_no_run_goes_on_fails_after_a_short_time(began):
    world = StepByStep([registered(STORE), registered(PRODUCT)])

    def adopt():
        assert world.state.renew_lease(*world.lease(STORE), now=NOW, seconds=300, to="s1")

    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE, PRODUCT),
        starts_spark(world, 1, STORE, PRODUCT),
        all_of(
            *([adopt] if began else []),
            lambda: world.record(PRODUCT, "s1", rows=1),
            lambda: world.end("s1", "Out of memory"),
        ),
    ]
    outcome = world.run()
    assert [(table.name, table.outcome) for table in outcome.tables] == [(PRODUCT, "changed"), (STORE, "failed")]
    assert error_line(outcome.tables[1].error) == (
        "JobRunError: DMSCDC_LoadIncremental ended as FAILED: Out of memory (run s1)."
        " The hourly Controller starts the next run when the lease of this one has expired"
    )
    assert outcome.error().exit_code == JobRunError.exit_code
    assert 30 <= sum(world.slept) < 60
    assert world.texts[-1] == "Waiting for the lease of 1 table: shop.store"
    assert [note.split()[:2] for note in world.notes[1:]] == [["shop.product:", "done"], ["shop.store:", "failed"]]


def test_a_run_that_finds_the_lease_of_a_dead_run_is_not_taken_for_success():
    world = StepByStep([registered(STORE)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE),
        starts_spark(world, 1, STORE),
        dies(world, "s1"),
        all_of(lambda: world.begin("p2", JOB_PROCESS_TABLE, STORE), lambda: world.end("p2")),
    ]
    (table,) = world.run().tables
    assert table.outcome == "failed"
    assert "signal 9 (run s1)" in str(table.error)


@pytest.mark.parametrize("state", [JobState.STOPPED, JobState.GIVEN_UP])
def test_a_spark_run_that_glue_ended_fails_its_table(state):
    world = StepByStep([registered(STORE)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE),
        starts_spark(world, 1, STORE),
        lambda: world.end("s1", state=state),
    ]
    (table,) = world.run().tables
    assert f"DMSCDC_LoadIncremental ended as {state.value}" in str(table.error)


def test_each_table_of_a_spark_run_has_its_own_outcome():
    good, bad, dead, busy = TABLES[:4]
    world = StepByStep([registered(name).with_attributes(**recorded("s0", "BadRowError: old")) for name in TABLES[:4]])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, good, bad, dead, busy),
        starts_spark(world, 1, good, bad, dead),
        all_of(
            lambda: world.record(good, "s1", rows=9),
            lambda: world.record(bad, "s1", "BadRowError: row 7 of file x"),
            dies(world, "s1"),
        ),
    ]
    found = {table.name: (table.outcome, str(table.error or "")) for table in world.run().tables}
    assert found[good] == ("changed", "")
    assert found[bad] == ("failed", "row 7 of file x")
    assert found[dead][0] == "failed"
    assert "signal 9" in found[dead][1]
    assert found[busy] == ("nothing new", "")


def test_a_run_that_works_since_before_counts_by_what_it_records_since_the_start():
    """A run records an outcome after each of its rounds."""
    first = {**recorded("s0"), Attribute.LAST_RUN_UTC: "2024-03-05T10:00:00Z"}
    second = {**recorded("s0", "BadRowError: row 7"), Attribute.LAST_RUN_UTC: "2024-03-05T10:01:00Z"}
    world = StepByStep([registered(STORE).with_attributes(**first)])
    world.begin("s0", JOB_LOAD_INCREMENTAL, STORE)
    world.steps = [
        lambda: None,
        all_of(lambda: world.state.record_run(path(STORE), second), lambda: world.end("s0", "BadRowError: row 7")),
    ]
    (table,) = world.run().tables
    assert (type(table.error), str(table.error)) == (BadRowError, "row 7")


def test_runs_of_other_installations_are_not_waited_for():
    world = StepByStep([registered(STORE)])
    other = {Argument.PATHS: paths_json(["other-raw/shop/store/"])}
    world.runs["s9"] = StartedRun(JOB_LOAD_INCREMENTAL, JobRun("s9", JobState.ACTIVE, "RUNNING", "", other))
    world.runs["s8"] = StartedRun(JOB_LOAD_INITIAL, JobRun("s8", JobState.ACTIVE, "RUNNING", "", {"folder": "store/"}))
    world.steps = [lambda: None]
    assert [table.outcome for table in world.run().tables] == ["nothing new"]
    assert world.slept == []


def test_a_limited_run_waits_for_its_tables_alone():
    world = StepByStep([registered(STORE), registered(PRODUCT)])
    world.steps = [
        lambda: world.begin("s0", JOB_LOAD_INITIAL, PRODUCT),
    ]
    assert [table.outcome for table in world.run(STORE).tables] == ["nothing new"]
    assert world.slept == []


def stop():
    raise Stopped


def test_a_command_that_is_stopped_while_a_spark_run_works_names_that_run():
    world = StepByStep([registered(STORE), registered(PRODUCT)])
    world.steps = [
        all_of(
            lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE, PRODUCT),
            lambda: world.begin("p2", JOB_PROCESS_TABLE, TABLES[0]),
        ),
        starts_spark(world, 1, STORE, PRODUCT),
        stop,
    ]
    pipeline = world.pipeline("test-")
    with pytest.raises(Stopped):
        pipeline.run()
    assert pipeline.unfinished == [
        "test-DMSCDC_ProcessTable, run p2: shop.t00",
        "test-DMSCDC_LoadIncremental, run s1: shop.store, shop.product",
    ]


def test_a_command_that_is_stopped_after_a_spark_run_died_names_its_tables():
    world = StepByStep([registered(STORE)])
    world.steps = [
        lambda: world.begin("p1", JOB_PROCESS_TABLE, STORE),
        starts_spark(world, 1, STORE),
        dies(world, "s1"),
        lambda: None,
        stop,
    ]
    pipeline = world.pipeline()
    with pytest.raises(Stopped):
        pipeline.run()
    assert pipeline.unfinished == ["DMSCDC_ProcessTable, if the event of a dead run starts it: shop.store"]


def test_nothing_goes_on_after_a_run_or_if_its_start_was_refused():
    world = World([registered(STORE)])
    pipeline = Pipeline(world, TARGET, sleep=lambda _: None)
    pipeline.run()
    assert pipeline.unfinished == []

    def refused(*_):
        raise JobRunError("Glue refuses")

    world.jobs = MemoryJobs(refused)
    pipeline = Pipeline(world, TARGET)
    with pytest.raises(JobRunError):
        pipeline.run()
    assert pipeline.unfinished == []


def test_a_failed_controller_fails_the_run_even_if_all_tables_are_well():
    world = World([registered(STORE)], controller_run=ended("the raw location is empty"))
    outcome = world.run()
    assert outcome.failed
    assert "the raw location is empty" in str(outcome.error())


def test_a_run_can_be_limited_to_tables():
    world = World([registered(STORE), registered(PRODUCT)])
    world.work = {path(STORE): lambda: SUCCEEDED, path(PRODUCT): lambda: SUCCEEDED}
    assert [table.name for table in world.run(STORE).tables] == [STORE]
    controller = next(start for start in world.jobs.started if start.job == JOB_CONTROLLER)
    assert controller.arguments[Argument.TABLES] == "shop.store"
    assert controller.arguments[Argument.BUCKET] == "cdclake-raw"
    started = [start.arguments for start in world.jobs.started if start.job == JOB_PROCESS_TABLE]
    assert started == [paths(STORE)]


def test_the_newest_run_of_a_table_decides_its_outcome():
    world = World([registered(STORE)])
    first = ended("lease held")
    ends = iter([first, SUCCEEDED])
    world.work[path(STORE)] = lambda: next(ends)
    world.jobs.start(JOB_PROCESS_TABLE, paths(STORE))
    assert world.run().tables[0].outcome == "nothing new"


@pytest.fixture
def changed():
    world = World([registered(STORE), registered(PRODUCT, active=False)])
    world.works(STORE, rows=1_345)
    return world.run()


def test_json_is_one_object_for_each_table(changed, capsys):
    show(changed, OutputFormat.JSON)
    product, store = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    expected: dict[str, object] = {
        "table": "shop.product",
        "outcome": "inactive",
        "error": None,
        "reason": None,
        "findings": [],
        "run_id": None,
        "steps": [],
    }
    assert product == expected
    (step,) = store["steps"]
    assert step.pop("phase_seconds") == {"list": 0.25, "read": 1.5}
    assert store["steps"] == [
        {
            "change": 1,
            "kind": "incremental",
            "raw_files": 1,
            "rows_read": 1345,
            "rows": 1345,
            "inserted": 1345,
            "updated": 0,
            "deleted": 0,
            "superseded": 0,
            "quarantined": 0,
            "files_rewritten": 0,
            "files_before": 0,
            "files_added": 1,
            "bytes_read": 2_000_000,
            "bytes_added": 1_500_000,
            "seconds": 1.75,
            "drift": [],
            "missing_columns": [],
            "suppressed": 0,
            "unknown_keys": 0,
            "files": "0 of 0",
        }
    ]


def test_text_has_a_line_for_each_change_and_a_hint_for_inactive_tables(changed, capsys):
    show(changed, OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    done, cost = [line.split() for line in out.splitlines() if "shop.store" in line]
    assert done == ["shop.store", "incremental", "1,345", "1,345", "0", "0", "0", "of", "0", "1.8"]
    assert cost == ["shop.store", "1", "0.2", "1.5", "2.0", "1.5"]
    assert "cdclake tables activate" in out


def test_text_shows_the_seconds_of_each_phase(capsys):
    world = World([registered(STORE)])
    world.works(STORE, rows=3, seconds={phase: i + 0.5 for i, phase in enumerate(PHASES)})
    show(world.run(), OutputFormat.TABLE)
    *_, cost = (line.split() for line in capsys.readouterr().out.splitlines() if "shop.store" in line)
    assert cost[2:-2] == [str(i + 0.5) for i in range(len(PHASES))]


def test_text_shows_a_tables_changes_and_its_failure(capsys):
    world = World([registered(STORE)])
    world.works(STORE, ended("exit 3"), rows=3)
    show(world.run(), OutputFormat.TABLE)
    runs, _ = capsys.readouterr().out.split("Seconds per phase")
    assert [line.split()[1] for line in runs.splitlines() if "shop.store" in line] == ["incremental", "failed"]


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"quarantined": 2}, "rows quarantined: 2. To show them: cdclake quarantine show shop.store\n"),
        ({"unknown_keys": 2}, "updates that may have changed the key unseen: 2."),
        ({"suppressed": 2}, "rows left out because their keys were erased after them: 2\n"),
        ({"missing_columns": ("note", "size")}, "columns missing in updates: note, size\n"),
    ],
    ids=str,
)
def test_text_reports_what_a_change_left_out(capsys, change, remark):
    world = World([registered(STORE)])
    world.works(STORE, rows=3, **change)
    outcome = world.run()
    show(outcome, OutputFormat.TABLE)
    assert f"shop.store, change 1, {remark}" in capsys.readouterr().out
    assert not outcome.failed


@pytest.mark.parametrize(("count", "more"), [(10, False), (300, True)])
def test_text_shows_some_columns_that_changed_and_where_to_see_all(capsys, count, more):
    world = World([registered(STORE)])
    drift = tuple(ColumnDrift("added", f"c{number}", "string") for number in range(count))
    missing = tuple(f"m{number}" for number in range(count))
    world.works(STORE, rows=3, drift=drift, missing_columns=missing)
    show(world.run(), OutputFormat.TABLE)
    shown = " ".join(capsys.readouterr().out.split())
    rest = "and 290 more. To show them all: cdclake changes show shop.store 1"
    for what, texts, separator in (
        ("changed at the source", map(str, drift[:10]), "; "),
        ("missing in updates", missing[:10], ", "),
    ):
        listed = separator.join([*texts, *([rest] if more else [])])
        assert f"shop.store, change 1, columns {what}: {listed}" in shown
    assert len(shown) < 1500


def test_text_without_tables_is_empty(capsys):
    show(World([]).run(), OutputFormat.TABLE)
    assert capsys.readouterr().out == ""
