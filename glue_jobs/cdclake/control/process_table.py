"""ProcessTable: brings one lake table up to date, under the table's lease, by running the Spark jobs it needs.

A run goes in rounds. Each looks at the raw files, runs the jobs that are due and writes down the outcome; when somebody
asked for the table meanwhile, the lease is kept and there is another round. See `cdclake.control.wake`.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake import logs
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import roll_forward
from cdclake.control import metrics
from cdclake.control.arguments import item_json
from cdclake.control.decision import Decision, DecisionKind
from cdclake.control.entry import error_line
from cdclake.control.full_load_gate import task_word
from cdclake.control.job_runs import check_succeeded, wait_for_run
from cdclake.control.lake_state import check_not_ahead, is_emptied, lake_attributes, last_change
from cdclake.control.lease import Lease
from cdclake.control.planning import plan_table
from cdclake.control.wake import wake_table
from cdclake.errors import (
    CdclakeError,
    ConfigurationError,
    JobRunError,
    LeaseHeldError,
    LeaseLostError,
    RawFilesLostError,
    UnknownTableError,
)
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, Argument, Attribute, Sentinel
from cdclake.model.times import utc_text
from cdclake.ports import JobState
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.ports import Clock, JobRunner, MetricSink, ObjectStore, StateStore, TaskStatistics

MOST_ROUNDS = 20
"""A table that never comes to rest is handed to a fresh run before the job's time limit ends this one."""
MOST_CHANGES_MEASURED = 20
"""An item that was built anew knows of no change, and metrics of the last years are of no use to anybody."""
RUN_SUCCEEDED, RUN_FAILED = "SUCCEEDED", "FAILED"


@dataclass(frozen=True)
class Outside:
    """What a run needs of the outside.

    Attributes:
        open_bucket: Gives the store of a bucket.
        sleep: Pauses for so many seconds.
        metrics: Is told of lag, changes, failures and durations.
        statistics: Tells how far the DMS tasks are that tables name; None: full loads are judged by their files alone.
    """

    states: StateStore
    jobs: JobRunner
    open_bucket: Callable[[str], ObjectStore]
    clock: Clock
    sleep: Callable[[float], None]
    metrics: MetricSink
    statistics: TaskStatistics | None = None


@dataclass
class StartedJob:
    """A job that a round started, and how it ended."""

    job: str
    run_id: str
    outcome: str = ""


@dataclass
class Round:
    """One look at the table: what was decided, run and committed.

    Attributes:
        changes: Numbers of the changes that are new in the lake since the item was last written.
    """

    decision: Decision
    jobs: list[StartedJob] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        return {"decision": self.decision.to_json(), "jobs": [asdict(j) for j in self.jobs], "changes": self.changes}


@dataclass
class Report:
    """What a run did.

    Attributes:
        outcome: `done`, `inactive`, `busy: ...`, or `handed on` to the run `follow_up`.
    """

    table: str
    run_id: str
    outcome: str = "done"
    rounds: list[Round] = field(default_factory=list)
    follow_up: str = ""

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        return {**asdict(self), "rounds": [one.to_json() for one in self.rounds]}


def process_table(path: str, out_bucket: str, out_prefix: str, run_id: str, outside: Outside) -> Report:
    """Bring one lake table up to date.

    A table that is inactive, or that another run is working on, is left alone; neither is an error.

    Args:
        path: Key of the table's item.
        out_bucket: Lake bucket.
        out_prefix: Lake prefix, empty or with a trailing slash.
        run_id: Holder of the lease.
        outside: State table, jobs, buckets, time.

    Raises:
        UnknownTableError: The table is not registered.
        LeaseLostError: Another run took the table over while this one waited.
        CdclakeError: What went wrong; it stands in the item as well.
    """
    state = _read(outside.states, path)
    report = Report(str(state.name), run_id)
    if not state.active:
        outside.states.clear_request(path)  # or it would hold up the first event after somebody turns the table on
        report.outcome = "inactive"
        return report
    try:
        lease = Lease(outside.states, path, state.name, run_id, outside.clock)
    except LeaseHeldError as error:
        report.outcome = f"busy: leased by {error.details.get('holder')} until {error.details.get('until')}"
        return report
    layout = LakeLayout(out_bucket, out_prefix, state.name)
    if not _LeasedRun(path, lease, layout, outside, report).rounds():
        outside.states.clear_request(path)
        woken = wake_table(outside.states, outside.jobs, path, outside.clock(), even_if_requested=True)
        report.outcome, report.follow_up = "handed on", woken.run_id
    return report


def _read(states: StateStore, path: str) -> TableState:
    state = states.get(path)
    if state is None:
        message = f"No table with the path {path} is registered"
        raise UnknownTableError(message, remedy="Run the Controller, which registers the tables it finds")
    return state


class Known(NamedTuple):
    """A table's item and its lake table, at the same moment."""

    state: TableState
    lake: Snapshot


class _LeasedRun:
    """The part of a run that holds the lease."""

    def __init__(self, path: str, lease: Lease, layout: LakeLayout, outside: Outside, report: Report) -> None:
        self._path = path
        self._lease = lease
        self._layout = layout
        self._outside = outside
        self._states = outside.states
        self._report = report
        self._changes = ChangeLog(outside.open_bucket(layout.bucket), layout)
        self._running: tuple[str, str] | None = None  # job and run id, which is empty if it was not told
        self._log = logs.bind(__name__, table=str(layout.name))
        self._begun = outside.clock()

    def rounds(self) -> bool:
        """Go round until nobody asks for more, and give the lease back. False if there is still more to do."""
        try:
            for _ in range(MOST_ROUNDS):
                if self._round():
                    continue  # one change could not take all there is
                if self._lease.release(even_if_requested=False):
                    return True
            self._lease.release(even_if_requested=True)
        except LeaseLostError:
            raise  # the item is the other run's now
        except BaseException as error:
            self._record_end(RUN_FAILED, error_line(error))
            if self._stop_job():
                # A mark that was left meanwhile stays, and so holds the events of a broken table to one try each
                # quarter of an hour; the hourly Controller tries as well.
                self._lease.release(even_if_requested=True)
            raise
        return False

    def _round(self) -> bool:
        """Look at the raw files and apply what one change takes. True if there is more."""
        self._begun = self._outside.clock()
        self._states.clear_request(self._path)  # before listing: a file that comes later leaves a new mark
        state = _read(self._states, self._path)
        if not state.active:
            self._report.rounds.append(Round(plan_table(state, (), (), self._outside.clock())))
            return False
        change = last_change(state)
        known = self._in_line_with_lake(state)
        listed_utc = self._outside.clock()
        raw = self._outside.open_bucket(state.bucket)
        files = list_raw_files(raw, state.raw_prefix, state.settings.cdc_path)
        word = task_word(self._outside.statistics, known.state, files[0])

        def plan(known: Known) -> Decision:
            return plan_table(known.state, *files, listed_utc, known.lake, word)

        decision = plan(known)
        this_round = Round(decision)
        self._report.rounds.append(this_round)
        self._outside.metrics.put(metrics.lag(self._report.table, decision, listed_utc))
        self._log.log(
            logging.WARNING if decision.too_late else logging.INFO,
            decision.kind.value,
            extra={"reason": decision.reason},
        )
        if decision.kind is DecisionKind.FROZEN:
            raise RawFilesLostError(decision.reason, remedy=decision.to_do, table=self._layout.name)
        if decision.work:
            known = self._note_pending(known, decision.note)
        if decision.full_load:
            known = self._load(JOB_LOAD_INITIAL, known, decision, this_round)
            decision = plan(known)  # the lake tells which change files it holds
            _require(not decision.full_load, decision)
        if decision.incremental:
            known = self._load(JOB_LOAD_INCREMENTAL, known, decision, this_round)
            applied, decision = decision, plan(known)
            _require(not decision.repeats(applied), decision)
        this_round.changes = list(range(change + 1, known.lake.change + 1))
        outcome = {Attribute.LAST_PENDING: decision.note}
        if decision.kind is DecisionKind.NOTHING_NEW:
            outcome[Attribute.LAST_LISTED_UTC] = utc_text(listed_utc)
        self._record_end(RUN_SUCCEEDED, "", outcome)
        return decision.incremental

    def _in_line_with_lake(self, state: TableState) -> Known:
        """Finish what a run that died left undone, and bring the item in line with the lake.

        The date of the last full load is left as it is in an item that knows the newest change: a person may have set
        it back to have the table loaded anew.
        """
        change = roll_forward(self._changes, self._lease.keep)
        check_not_ahead(state, change)
        self._lease.shut_out_earlier_runs(self._changes)
        lake = self._changes.snapshot(self._changes.head())
        return self._record_lake(state, lake, full_load_date=last_change(state) < change)

    def _load(self, job: str, known: Known, decision: Decision, this_round: Round) -> Known:
        """Run one job to its end; returns the lake table, and the item as it then is."""
        self._lease.keep()
        jobs = self._outside.jobs
        arguments = job_arguments(job, known, decision, self._layout, self._lease.token)
        started = StartedJob(job, self._start(job, arguments))
        this_round.jobs.append(started)
        self._log.info("started %s", job, extra={"started": started.run_id})
        run = wait_for_run(jobs, job, started.run_id, self._outside.sleep, self._lease.keep)
        self._running = None
        started.outcome = run.detail or run.state.value
        self._log.info("%s ended as %s", job, started.outcome, extra={"started": started.run_id})
        check_succeeded(job, run)
        lake = self._changes.snapshot(self._changes.head())
        return self._record_lake(known.state, lake, full_load_date=job == JOB_LOAD_INITIAL)

    def _note_pending(self, known: Known, note: str) -> Known:
        """Note what is waiting before any of it is applied, see `cdclake.control.raw_guard`."""
        noted = {Attribute.LAST_PENDING: note}
        if known.state.item.get(Attribute.LAST_PENDING, "") != note:
            self._states.record_run(self._path, noted)
        return Known(known.state.with_attributes(**noted), known.lake)

    def _start(self, job: str, arguments: Mapping[str, str]) -> str:
        self._running = (job, "")
        try:
            run_id = self._outside.jobs.start(job, arguments)
        except (JobRunError, ConfigurationError):
            self._running = None  # it was refused; after any other error it may have started
            raise
        self._running = (job, run_id)
        return run_id

    def _record_lake(self, state: TableState, lake: Snapshot, *, full_load_date: bool) -> Known:
        """Write into the item what the lake says otherwise."""
        attributes = lake_attributes(state, lake, emptied=is_emptied(self._changes, lake))
        if not full_load_date:
            attributes.pop(Attribute.LAST_FULL_LOAD_DATE, None)
        news = {name: value for name, value in attributes.items() if state.item.get(name) != value}
        if news:
            self._lease.keep()
            self._states.record_run(self._path, news)
            self._log.info("the item is in line with the lake", extra={"change": lake.change})
            new = range(max(last_change(state), lake.change - MOST_CHANGES_MEASURED) + 1, lake.change + 1)
            self._outside.metrics.put(metrics.of_changes(self._report.table, map(self._changes.record, new)))
        return Known(state.with_attributes(**news), lake)

    def _record_end(self, outcome: str, error: str, more: Mapping[str, str] | None = None) -> None:
        self._states.record_run(
            self._path,
            {
                Attribute.LAST_RUN_STATE: outcome,
                Attribute.LAST_RUN_ID: self._report.run_id,
                Attribute.LAST_RUN_UTC: utc_text(self._outside.clock()),
                Attribute.LAST_ERROR: error,
                **(more or {}),
            },
        )
        seconds = (self._outside.clock() - self._begun).total_seconds()
        self._outside.metrics.put(metrics.of_end(self._report.table, seconds, failed=outcome == RUN_FAILED))

    def _stop_job(self) -> bool:
        """Stop the job that is still running, if any. False if it may run on: then the lease is left to run out.

        Who takes the lease over shuts such a job out; who finds it free relies on there being none.
        """
        if self._running is None:
            return True
        job, run_id = self._running
        if not run_id:
            return False
        try:
            run = self._outside.jobs.stop(job, run_id)
        except CdclakeError:
            self._log.exception("could not stop %s", job, extra={"started": run_id})
            return False
        return run.state is not JobState.ACTIVE


def _require(done: bool, left: Decision) -> None:
    if not done:
        message = f"The jobs ended well, but the lake lacks what they were to load: {left.reason}"
        raise JobRunError(message, remedy="Look in the log of the last job; the next run tries again")


def job_arguments(job: str, known: Known, decision: Decision, layout: LakeLayout, fencing_token: int) -> dict[str, str]:
    """Arguments of a Spark job's run, the walkthrough's and ours beside them."""
    state = known.state
    arguments = {
        Argument.BUCKET: state.bucket,
        Argument.PREFIX: state.raw_prefix,
        Argument.FOLDER: f"{state.name.table}/",
        Argument.OUT_PATH: layout.out_path,
        Argument.PARTITION_KEY: state.item.get(Attribute.PARTITION_KEY, Sentinel.NONE),
        Argument.PRIMARY_KEY: state.item.get(Attribute.PRIMARY_KEY, Sentinel.NONE),
        Argument.ITEM: item_json(state.item),
        Argument.FENCING_TOKEN: str(fencing_token),
    }
    if job == JOB_LOAD_INITIAL:
        arguments[Argument.BASE_CHANGE] = str(known.lake.change)
    if job == JOB_LOAD_INCREMENTAL:
        arguments[Argument.LAST_INCREMENTAL_FILE] = state.last_incremental_file
        arguments[Argument.NEW_INCREMENTAL_FILE] = state.as_watermark(decision.new_watermark)
        arguments[Argument.NEW_INCREMENTAL_FILES] = str(decision.files)
    return arguments
