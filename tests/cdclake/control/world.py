"""A small world for the control tests: raw and lake bucket, state table, and Spark jobs that only keep the log.

Only the control tests and the function's tests use it: they need a clock, hooks and failures that
`tests.builders.FolderInstallation`, which moves real rows, does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from cdclake.commit.ledger import recorded, seal
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.control.controller import DEFAULT_LIMITS, Plan, PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.planned_table import Action
from cdclake.control.run.bring_up_to_date import Host, bring_up_to_date
from cdclake.control.run.dead_spark_run import continue_after
from cdclake.control.run.process_table import process_tables
from cdclake.errors import JobRunError
from cdclake.model.change.delay import written_utc
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
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, Argument
from cdclake.model.raw.files import ListedObject, file_order
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.seen import Seen
from cdclake.model.table.state import TableState
from cdclake.model.times import parse_iso_utc
from cdclake.ports import Ports
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.memory import ManualClock, MemoryJobs, MemoryMetrics, MemoryState, MemoryStore, Work
from tests.builders import SCHEMA, change_record, ended
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from cdclake.control.plan.packing import PackLimits
    from cdclake.control.plan.summary import Summary
    from cdclake.control.run.planned_round import DueLoad
    from cdclake.control.run.report import RunReport, TableReport
    from cdclake.model.raw.files import RawFiles
    from cdclake.model.snapshot import DataFile, Snapshot
    from cdclake.ports import Clock, JobRun, LineageSink, ObjectStore

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
        self.objects_listed = 0

    after_listing: Callable[[], None] = staticmethod(lambda: None)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        self.listed.append(prefix)
        listed = super().list(prefix, start_after)
        self.after_listing()
        return map(self._counted, listed)

    def _counted(self, entry: ListedObject) -> ListedObject:
        self.objects_listed += 1
        return entry


class Statistics:
    """DMS tasks, with a state for each table."""

    def __init__(self) -> None:
        self.words: dict[tuple[str, str], str] = {}

    def table_state(self, task: str, name: TableName) -> str | None:
        return self.words.get((task, str(name)))


def seen(listed_utc: str = "", tail_from: str = "") -> str:
    """`LastSeen` of a table of which a run began to list the raw files at that time."""
    return str(Seen(parse_iso_utc(listed_utc) if listed_utc else None, tail_from=tail_from))


class World:
    """Everything a Controller or a run touches, in memory.

    Loads commit one change each, as the real ones do, but move no rows.

    Attributes:
        failures: Error messages of loads, by job name.
        broken: Exceptions that a load raises for a table, by path; `DiedError` ends the run.
        killed: How such a run ends.
        deadly_file: The raw file at which a run that reads each alone is then.
        instead: Called instead of the work of a Spark run; returns None to let the run do it.
        before_start: Called before each start of a job; an exception prevents the start.
        during_job: Called when a load begins.
        after_job: Called when a load has listed and committed.
        rewrite: Stages the files of a change.
        lineage: Takes lineage besides the log, if it is set.
        loads: The jobs whose work was done, in order.
        applied: Change files in the order in which loads applied them, with repetitions.
        segment_files: About how many files a segment of the ledger has; 0: the snapshot holds all.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.raw = RawBucket(clock)
        self.lake: ObjectStore = MemoryStore(clock)
        self.states = MemoryState()
        self.jobs = MemoryJobs(self.run_job)
        self.metrics = MemoryMetrics()
        self.slept: list[float] = []
        self.loads: list[str] = []
        self.applied: list[str] = []
        self.segment_files = 0
        self.failures: dict[str, str] = {}
        self.before_start: Callable[[str, Mapping[str, str]], None] = lambda _job, _arguments: None
        self.broken: dict[str, BaseException] = {}
        self.killed = ended("killed")
        self.deadly_file = ""
        self.instead: Callable[[str, Mapping[str, str]], JobRun | None] = lambda _job, _arguments: None
        self.during_job: Callable[[], None] = lambda: None
        self.after_job: Callable[[], None] = lambda: None
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
        return execute(todo, self.states, self.jobs, self.clock, limits)

    @property
    def ports(self) -> Ports:
        clients = (self.states, self.jobs, self.open_bucket, self.clock)
        return Ports(*clients, self.metrics, self.statistics, lineage=self.lineage)

    def open_bucket(self, bucket: str) -> ObjectStore:
        return self.raw if bucket == RAW else self.lake

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
            Attribute.LAST_REPEATED_SINCE_UTC: "",
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

    def process(self, path: str = ORDERS, run_id: str = "run-1", host: Host = Host()) -> TableReport:  # noqa: B008
        """Bring a table up to date in this process."""
        return self.process_all(path, run_id=run_id, host=host).only

    def process_all(self, *paths: str, run_id: str = "run-1", host: Host = Host()) -> RunReport:  # noqa: B008
        return bring_up_to_date(paths, LAKE, LAKE_PREFIX, run_id, self.ports, self.load_due, host)

    def run_process_table(self, *paths: str, run_id: str = "run-1") -> RunReport:
        """Run ProcessTable. The Spark runs that it starts wait for `run_spark`."""
        return process_tables(paths, LAKE, LAKE_PREFIX, run_id, self.ports, {}, self.sleep)

    def run_spark(self, *, events: bool = True) -> None:
        """Run the Spark runs that wait.

        Args:
            events: Whether the event of a run that failed arrives, and with it the next run of ProcessTable.
        """
        self.jobs.run_waiting(self.after_failed_run if events else lambda _job, _run_id: None)

    def after_failed_run(self, job: str, run_id: str) -> None:
        """Do what the function does with the event of a Spark run that failed."""
        if job != JOB_PROCESS_TABLE:
            continue_after(self.states, self.jobs, job, run_id, self.clock())

    def run_job(self, job: str, arguments: Mapping[str, str]) -> JobRun | Work:
        self.before_start(job, arguments)
        if job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
            return lambda run_id: self.run_spark_job(job, arguments, run_id)
        return ended()

    def run_spark_job(self, job: str, arguments: Mapping[str, str], run_id: str) -> JobRun:
        """The work of a Spark run; returns how it ended."""
        answer = self.instead(job, arguments)
        if answer is not None:
            return answer
        host = Host(job, arguments[Argument.LEASE_HOLDER])
        try:
            report = self.process_all(*parse_paths(arguments[Argument.PATHS]), run_id=run_id, host=host)
        except DiedError:
            return self.killed
        return ended(str(report.to_json()["error"]))

    def load_due(self, due: DueLoad) -> None:
        """Do the work of a load."""
        due.note_due()
        self.during_job()
        if due.note_file:
            due.note_file(self.deadly_file)
        if due.job in self.failures:
            raise JobRunError(self.failures[due.job])
        if due.state.path in self.broken:
            raise self.broken[due.state.path]
        self.loads.append(due.job)
        end, files = due.planned.decision.new_watermark, due.planned.files
        self.load(due.job, due.changes, due.state, end, token=due.token, files=files)
        self.after_job()

    def load(
        self,
        job: str,
        log: ChangeLog,
        state: TableState,
        new_file: str = "",
        *,
        token: int = 0,
        files: RawFiles | None = None,
        and_publish: bool = True,
    ) -> None:
        """Commit the change of a Spark job, if files are due. Without `files`, it lists them, as a job by hand does."""
        token = token or log.fencing_token(log.head())
        before, written = log.snapshot(log.head()), ("", "")
        files = files or list_raw_files(self.raw, state.raw_prefix, state.settings)
        loads, changes = files.full_load, files.changes
        hours = state.settings.late_window_hours
        if job == JOB_LOAD_INITIAL:
            kind = ChangeKind.FULL_LOAD
            covered_to = covered_by_reload(before, loads, changes) if before.exists else ""
            after = mark_loaded(
                before, loads, files.all_changes, covered_to, recorded(log, before.ledger, files.all_changes)
            )
        else:
            kind = ChangeKind.INCREMENTAL
            start = before if before.exists else begin_after(before, state.watermark)
            end = file_order(new_file)
            seen = recorded(log, start.ledger, changes)
            pending = pending_changes(start, changes, hours, seen).due
            due = [file for file in pending if not new_file or file.order <= end]
            due = list(first_batch(due, state.settings.max_files_per_run, state.settings.max_bytes_per_run))
            if not due:
                return
            self.applied += [file.relative for file in due]
            written = written_utc(due, state.seen.listed_utc)
            after = mark_applied(mark_seen(start, files.all_changes), due, hours)
        number = before.change + 1
        if self.segment_files:
            after = replace(after, ledger=seal(log, after.ledger, number, f"jr-{number}", self.segment_files))
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
            oldest_written_utc=written[0],
            newest_written_utc=written[1],
        )
        log.commit(record)
        if and_publish:
            publish(log, record)
