"""A small world for the control tests: raw and lake bucket, state table, and Spark jobs that only keep the log.

Only the control tests and the function's tests use it: they need a clock, hooks and failures that
`tests.builders.FolderInstallation`, which moves real rows, does not have.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.control.controller import DEFAULT_LIMITS, Plan, PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_item
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.planned_table import Action
from cdclake.control.run.process_table import BatchReport, Ports, TableReport, process_table, process_tables
from cdclake.control.run.spark_batch import file_note, report_failure, run_batch
from cdclake.errors import CdclakeError
from cdclake.model.change.record import ChangeKind, StagedFile
from cdclake.model.due_files import (
    begin_after,
    covered_by_reload,
    first_batch,
    mark_applied,
    mark_loaded,
    mark_seen,
    pending_changes,
)
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, Argument
from cdclake.model.raw.files import ListedObject, file_order
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake.ports import Clock, JobRun, JobState, LineageSink, ObjectStore
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.memory import ManualClock, MemoryJobs, MemoryMetrics, MemoryState, MemoryStore
from tests.builders import SCHEMA, change_record, ended, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from cdclake.control.plan.packing import PackLimits
    from cdclake.control.plan.summary import Summary
    from cdclake.model.snapshot import DataFile, Snapshot

    Rewritten = tuple[Sequence[StagedFile], Sequence[str], Sequence[DataFile]]
    """The staged files of a change, the paths that it retires, and the table's files after it."""

RAW, LAKE, LAKE_PREFIX = "raw-bucket", "lake-bucket", "lake/"
ORDERS = f"{RAW}/dms/shop/orders/"


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """A function that raises an error."""

    def fail(*_: object) -> NoReturn:
        raise error

    return fail


class RawBucket(MemoryStore):
    """A bucket with a hook after each listing, which records the listed prefixes."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.listed: list[str] = []

    after_listing: Callable[[], None] = staticmethod(lambda: None)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        self.listed.append(prefix)
        listed = super().list(prefix, start_after)
        self.after_listing()
        return listed


class Statistics:
    """DMS tasks, with a state for each table."""

    def __init__(self) -> None:
        self.words: dict[tuple[str, str], str] = {}

    def table_state(self, task: str, name: TableName) -> str | None:
        return self.words.get((task, str(name)))


class World:
    """Everything a Controller or ProcessTable run touches, in memory.

    The Spark jobs commit one change each, as the real ones do, but move no rows.

    Attributes:
        failures: Error messages of failing jobs, by job name.
        broken: Exceptions that a Spark job raises for a table, by path. One that is not a `CdclakeError` kills the run.
        deadly_file: The raw file at which a run for one table is then.
        instead: Called instead of a Spark job; returns None to let the job do its work.
        before_start: Called before each start of a job; an exception prevents the start.
        during_job: Called while a Spark job runs.
        after_job: Called when a Spark job has listed and committed.
        rewrite: Stages the files of a change.
        lineage: Takes lineage besides the log, if it is set.
        states_of_job: State of a Spark job at each poll.
        applied: Change files in the order in which the Spark jobs applied them, with repetitions.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.raw = RawBucket(clock)
        self.lake: ObjectStore = MemoryStore(clock)
        self.states = MemoryState()
        self.jobs = MemoryJobs(self.run_job)
        self.metrics = MemoryMetrics()
        self.slept: list[float] = []
        self.applied: list[str] = []
        self.failures: dict[str, str] = {}
        self.before_start: Callable[[str, Mapping[str, str]], None] = lambda _job, _arguments: None
        self.broken: dict[str, Exception] = {}
        self.deadly_file = ""
        self.instead: Callable[[str, Mapping[str, str]], JobRun | list[JobState] | None] = lambda _job, _arguments: None
        self.during_job: Callable[[], None] = lambda: None
        self.after_job: Callable[[], None] = lambda: None
        self.states_of_job: list[JobState] = [JobState.SUCCEEDED]
        self.statistics = Statistics()
        self.lineage: LineageSink | None = None
        self.rewrite: Callable[[ChangeLog, Snapshot], Rewritten] = lambda _log, before: ([], [], before.files)

    def copy(self) -> World:
        """A world with the same objects and items, and with a clock, hooks and failures of its own."""
        other = World(ManualClock(self.clock()))
        for of, to in ((self.raw, other.raw), (self.lake, other.lake)):
            assert isinstance(of, MemoryStore)
            assert isinstance(to, MemoryStore)
            to._objects.update(of._objects)
        other.states = MemoryState(self.states.all())
        other.jobs.started += self.jobs.started
        return other

    @property
    def plan_inputs(self) -> PlanInputs:
        return PlanInputs(self.raw, self.states, RAW, "dms/", self.statistics)

    def plan(self, only: Collection[str] | None = None) -> Plan:
        return plan(self.plan_inputs, self.clock(), [TableName.parse(name) for name in only or ()])

    def decision(self) -> Decision:
        """The decision for the only table."""
        (table,) = self.plan().tables
        assert table.decision, table.error
        idle = Action.ASK if table.decision.kind is DecisionKind.BUSY else Action.NONE
        unsure = table.decision.kind is DecisionKind.FROZEN and table.action is Action.START
        assert unsure or table.action is (Action.START if table.decision.work else idle)
        return table.decision

    def run_controller(self, only: Collection[str] | None = None, limits: PackLimits = DEFAULT_LIMITS) -> Summary:
        return self.execute(self.plan(only), limits)

    def execute(self, todo: Plan, limits: PackLimits = DEFAULT_LIMITS) -> Summary:
        return execute(todo, self.states, self.jobs, self.clock(), limits)

    @property
    def ports(self) -> Ports:
        clients = (self.states, self.jobs, self.open_bucket, self.clock, self.sleep)
        return Ports(*clients, self.metrics, self.statistics, self.random, lineage=self.lineage)

    def open_bucket(self, bucket: str) -> ObjectStore:
        return self.raw if bucket == RAW else self.lake

    @staticmethod
    def random() -> float:
        return 0.5

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    def register(self, path: str = ORDERS, **attributes: str) -> TableState:
        bucket, _, rest = path.partition("/")
        schema_prefix, table = rest.rstrip("/").rsplit("/", 1)
        state = TableState.new(bucket, f"{schema_prefix}/", f"{table}/")
        defaults = {
            Attribute.ACTIVE_FLAG: "true",
            Attribute.FULL_LOAD_QUIET_MINUTES: "0",
            Attribute.LAST_RETIRED_SINCE_UTC: "",
        }
        state = state.with_attributes(**{**defaults, **attributes})
        assert self.states.register(state)
        return state

    def add_table(self, *relatives: str, path: str = ORDERS, **attributes: str) -> None:
        """Register a table whose raw files have arrived."""
        self.register(path, **attributes)
        self.put(*relatives, path=path)

    def put(self, *relatives: str, path: str = ORDERS) -> None:
        """DMS writes raw files, now."""
        for relative in relatives:
            rows = f"rows of {self.clock()}" if "LOAD" in relative else "rows"  # a reload never repeats a file exactly
            self.raw.put(path.partition("/")[2] + relative, rows.encode())

    def deliver(self, *relatives: str, path: str = ORDERS) -> None:
        """Write raw files, each with its event."""
        for relative in relatives:
            self.put(relative, path=path)
            self.states.request_work(path, self.clock(), 900)

    def is_free(self, path: str = ORDERS) -> bool:
        return Attribute.LEASE_HOLDER not in self.state(path).item

    def state(self, path: str = ORDERS) -> TableState:
        state = self.states.get(path)
        assert state
        return state

    def log(self, path: str = ORDERS) -> ChangeLog:
        return ChangeLog(self.lake, LakeLayout(LAKE, LAKE_PREFIX, self.state(path).name))

    def log_of(self, name: TableName) -> ChangeLog:
        return ChangeLog(self.lake, LakeLayout(LAKE, LAKE_PREFIX, name))

    def process(self, path: str = ORDERS, run_id: str = "run-1", **more: Any) -> TableReport:
        return process_table(path, LAKE, LAKE_PREFIX, run_id, self.ports, **more)

    def process_all(self, *paths: str, run_id: str = "run-1", **more: Any) -> BatchReport:
        return process_tables(paths, LAKE, LAKE_PREFIX, run_id, self.ports, **more)

    def spark_starts(self) -> list[str]:
        return [start.job for start in self.jobs.started if start.job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)]

    def run_job(self, job: str, arguments: Mapping[str, str]) -> JobRun | list[JobState]:
        self.before_start(job, arguments)
        if job in self.failures:
            return ended(self.failures[job])
        if job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
            answer = self.instead(job, arguments)
            if answer is not None:
                return answer
            self.during_job()
            try:
                error = self.load_all(job, arguments)
            except Exception as problem:  # noqa: BLE001 - whatever a job raises, its run has failed
                error = f"{type(problem).__name__}: {problem}"
            if error:
                return ended(error)
            self.after_job()
        return self.states_of_job

    def load_all(self, job: str, arguments: Mapping[str, str]) -> str:
        """Do the work of a Spark job for one table or a batch. Returns the error of a batch's run, if any."""
        load = partial(self.load_one, job)
        if Argument.BATCH not in arguments:
            _, _, key = arguments[Argument.PROGRESS].partition(f"s3://{LAKE}/")
            if Argument.NAME_FILES in arguments:
                file_note(self.lake, key, arguments)(self.deadly_file)
            try:
                load(arguments)
            except CdclakeError as error:
                report_failure(self.lake, key, arguments, error)
                raise
            return ""
        _, _, key = arguments[Argument.BATCH].partition(f"s3://{LAKE}/")
        return str(run_batch(self.lake, key, load, lambda: False)["error"])

    def load_one(self, job: str, arguments: Mapping[str, str]) -> dict[str, object]:
        state = TableState(parse_item(arguments[Argument.ITEM]))
        if state.path in self.broken:
            raise self.broken[state.path]
        log = ChangeLog(self.lake, LakeLayout.from_arguments(arguments[Argument.OUT_PATH], arguments[Argument.FOLDER]))
        if arguments.get(Argument.BASE_CHANGE, str(log.head())) == str(log.head()):
            token = int(arguments[Argument.FENCING_TOKEN])
            self.load(job, log, state, arguments.get(Argument.NEW_INCREMENTAL_FILE, ""), token=token)
        return {"table": str(state.name)}

    def load(
        self,
        job: str,
        log: ChangeLog,
        state: TableState,
        new_file: str = "",
        *,
        token: int = 0,
        and_publish: bool = True,
    ) -> None:
        """Commit the change of a Spark job, if files are due."""
        token = token or log.fencing_token(log.head())
        before = log.snapshot(log.head())
        files = list_raw_files(self.raw, state.raw_prefix, state.settings)
        loads, changes = files.full_load, files.changes
        hours = state.settings.late_window_hours
        if job == JOB_LOAD_INITIAL:
            kind = ChangeKind.FULL_LOAD
            covered_to = covered_by_reload(before, loads, changes) if before.exists else ""
            after = mark_loaded(before, loads, files.all_changes, covered_to, recorded(before, files.all_changes))
        else:
            kind = ChangeKind.INCREMENTAL
            start = before if before.exists else begin_after(before, state.watermark)
            end = file_order(state.with_attributes(LastIncrementalFile=new_file).watermark)
            seen = recorded(start, changes)
            pending = pending_changes(start, changes, hours, seen).due
            due = [file for file in pending if not new_file or file.order <= end]
            due = list(first_batch(due, state.settings.max_files_per_run, state.settings.max_bytes_per_run))
            if not due:
                return
            self.applied += [file.relative for file in due]
            after = mark_applied(mark_seen(start, files.all_changes), due, hours)
        number = before.change + 1
        staged, retired, files_after = self.rewrite(log, before)
        key = log.write_snapshot(
            replace(
                after,
                change=number,
                files=tuple(files_after),
                schema=SCHEMA,
                primary_key=state.settings.primary_key,
                partition_key=state.settings.partition_key,
                order_column=state.settings.order_column,
            ),
            f"jr-{number}",
        )
        record = change_record(
            number,
            kind=kind,
            created_utc=self.clock().isoformat(),
            run_id=f"jr-{number}",
            fencing_token=token,
            snapshot_key=key,
            added=tuple(staged),
            retired=tuple(retired),
        )
        log.commit(record)
        if and_publish:
            publish(log, record)
