"""One table of a ProcessTable run, under the table's lease: what is due, and what came of it."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from random import random as random_number
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake import logs
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import roll_forward
from cdclake.control.catalog.sync import sync_catalog
from cdclake.control.jobs.arguments import item_json
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.full_load_gate import dms_table_state
from cdclake.control.plan.plan_table import plan_table
from cdclake.control.plan.raw_scan import scan_start
from cdclake.control.run import metrics
from cdclake.control.run.item_sync import check_not_ahead, is_emptied, lake_attributes
from cdclake.errors import CdclakeError, JobRunError, RawFilesLostError, UnknownTableError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, Argument, Attribute, RunState, Sentinel
from cdclake.model.times import iso_utc
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from cdclake.commit.publish import KeepAlive
    from cdclake.control.run.lease import Lease
    from cdclake.model.layout import LakeLayout
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.ports import Catalog, Clock, JobRun, JobRunner, MetricSink, ObjectStore, StateStore, TaskStatistics

MAX_CHANGES_MEASURED = 20
"""An item that was built anew knows of no change, and metrics of the last years are of no use to anybody."""


@dataclass(frozen=True)
class Ports:
    """What a run needs of the ports.

    Attributes:
        open_bucket: Gives the store of a bucket.
        sleep: Pauses for so many seconds.
        metrics: Is told of lag, changes, failures and durations.
        statistics: Tells how far the DMS tasks are that tables name; None: full loads are judged by their files alone.
        random: Gives numbers from 0 to 1.
        catalog: Database that shows the lake tables to query engines; None: none does.
    """

    states: StateStore
    jobs: JobRunner
    open_bucket: Callable[[str], ObjectStore]
    clock: Clock
    sleep: Callable[[float], None]
    metrics: MetricSink
    statistics: TaskStatistics | None = None
    random: Callable[[], float] = random_number
    catalog: Catalog | None = None


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
    """What a run did for one table.

    Attributes:
        table: `schema.table`, or the path of a table that is not registered.
        outcome: `done`, `inactive`, `busy: ...`, `failed`, or `handed on` to the run `follow_up`.
        failure: What went wrong, if anything did.
        catalog_error: Why the catalog could not be brought in line; empty if it was. No failure of the table.
    """

    table: str
    run_id: str
    outcome: str = "done"
    rounds: list[Round] = field(default_factory=list)
    follow_up: str = ""
    failure: BaseException | None = None
    catalog_error: str = ""

    @property
    def error(self) -> str:
        """What went wrong, on one line; empty if nothing did."""
        return error_line(self.failure) if self.failure else ""

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        return {
            "table": self.table,
            "run_id": self.run_id,
            "outcome": self.outcome,
            "rounds": [one.to_json() for one in self.rounds],
            "follow_up": self.follow_up,
            "error": self.error,
            "catalog_error": self.catalog_error,
        }


class _Look(NamedTuple):
    """What a round found, and how the table stands by now.

    Attributes:
        listed_utc: When the listing of the raw files began.
        files: The LOAD files and the change files.
        dms_table_state: What the table's DMS task says of it.
        change_before: Newest change that the item knew of.
        decision: What is due yet.
    """

    listed_utc: datetime
    files: tuple[Sequence[RawFile], Sequence[RawFile]]
    dms_table_state: str | None
    change_before: int
    state: TableState
    lake: Snapshot
    decision: Decision

    def after(self, state: TableState, lake: Snapshot) -> _Look:
        """The same once a job has ended: the lake tells which change files it holds."""
        decision = plan_table(state, *self.files, self.listed_utc, lake, self.dms_table_state)
        return self._replace(state=state, lake=lake, decision=decision)


class TableWork:
    """One table of a run, from the taking of its lease until that is given back.

    Args:
        path: Key of the table's item.
        lease: The table's lease.
        layout: Where the lake table lies.
        ports: State table, buckets, time.
        report: Where to tell what was done.
        keep_leases: Renews the leases of all tables of the run.

    Attributes:
        open: Whether the run still works on the table.
    """

    def __init__(
        self, path: str, lease: Lease, layout: LakeLayout, ports: Ports, report: Report, keep_leases: KeepAlive
    ) -> None:
        self.path = path
        self.lease = lease
        self.report = report
        self.open = True
        self._layout = layout
        self._ports = ports
        self._states = ports.states
        self._keep_leases = keep_leases
        self._changes = ChangeLog(ports.open_bucket(layout.bucket), layout)
        self._look: _Look | None = None
        self._more = False
        self._begun = ports.clock()
        self._change: int | None = None

    @property
    def about(self) -> dict[str, object]:
        """What every log line says of the table: its name, and its newest change as far as is known."""
        return {"table": str(self._layout.name), "change": self._change}

    @property
    def _log(self) -> logs.BoundLogger:
        return logs.bind(__name__, **self.about)

    def look(self) -> None:
        """Bring the item in line with the lake, list the raw files, and decide what is due."""
        self._look, self._more = None, False
        self._begun = self._ports.clock()
        self._states.clear_request(self.path)  # before listing: a file that comes later leaves a new mark
        state = read_state(self._states, self.path)
        if not state.active:
            self.report.rounds.append(Round(plan_table(state, (), (), self._ports.clock())))
            return
        change = state.last_change
        self._change = change or None
        state, lake = self._in_line_with_lake(state)
        listed_utc = self._ports.clock()
        raw = self._ports.open_bucket(state.bucket)
        files = list_raw_files(raw, state.raw_prefix, state.settings.cdc_path)
        word = dms_table_state(self._ports.statistics, state, files[0])
        decision = plan_table(state, *files, listed_utc, lake, word)
        self.report.rounds.append(Round(decision))
        self._ports.metrics.put(metrics.lag(self.report.table, decision, listed_utc))
        self._log.log(
            logging.WARNING if decision.too_late else logging.INFO,
            decision.kind.value,
            extra={"reason": decision.reason},
        )
        if decision.kind is DecisionKind.FROZEN:
            raise RawFilesLostError(decision.reason, remedy=decision.to_do, table=self._layout.name)
        if decision.work:
            state = self._note_pending(state, decision.note)
        self._look = _Look(listed_utc, files, word, change, state, lake, decision)

    def is_due(self, job: str) -> bool:
        """Whether a Spark job is to be run now. The incremental waits for a full load that is due."""
        if not (self.open and self._look):
            return False
        decision = self._look.decision
        return decision.full_load if job == JOB_LOAD_INITIAL else decision.incremental and not decision.full_load

    def job_arguments(self, job: str) -> dict[str, str]:
        """Arguments of a Spark job's run for this table, the walkthrough's and ours beside them."""
        assert self._look is not None
        state, layout = self._look.state, self._layout
        arguments = {
            Argument.BUCKET: state.bucket,
            Argument.PREFIX: state.raw_prefix,
            Argument.FOLDER: f"{state.name.table}/",
            Argument.OUT_PATH: layout.out_path,
            Argument.PARTITION_KEY: state.item.get(Attribute.PARTITION_KEY, Sentinel.NONE),
            Argument.PRIMARY_KEY: state.item.get(Attribute.PRIMARY_KEY, Sentinel.NONE),
            Argument.ITEM: item_json(state.item),
            Argument.FENCING_TOKEN: str(self.lease.token),
        }
        if job == JOB_LOAD_INITIAL:
            arguments[Argument.BASE_CHANGE] = str(self._look.lake.change)
        if job == JOB_LOAD_INCREMENTAL:
            arguments[Argument.LAST_INCREMENTAL_FILE] = state.last_incremental_file
            arguments[Argument.NEW_INCREMENTAL_FILE] = state.as_watermark(self._look.decision.new_watermark)
            arguments[Argument.NEW_INCREMENTAL_FILES] = str(self._look.decision.files)
        return arguments

    def job_started(self, job: str, run_id: str) -> None:
        """Note a run of a Spark job."""
        self.report.rounds[-1].jobs.append(StartedJob(job, run_id))
        self._log.info("started %s", job, extra={"started": run_id})

    def job_ended(self, job: str, run: JobRun) -> None:
        """Note how that run ended."""
        started = self.report.rounds[-1].jobs[-1]
        started.outcome = run.detail or run.state.value
        self._log.info("%s ended as %s", job, started.outcome, extra={"started": run.run_id})

    def sync_after_job(self, job: str) -> None:
        """See in the lake what a job did, bring the item in line with it, and decide what is due yet.

        Raises:
            JobRunError: The job left undone what it was run for.
        """
        assert self._look is not None
        before = self._look.decision
        lake = self._changes.snapshot(self._changes.head())
        state = self._record_lake(self._look.state, lake, full_load_date=job == JOB_LOAD_INITIAL)
        state = self._show(state, lake)
        self._look = self._look.after(state, lake)
        left = self._look.decision
        if left.full_load if job == JOB_LOAD_INITIAL else left.repeats(before):
            message = f"The jobs ended well, but the lake lacks what they were to load: {left.reason}"
            raise JobRunError(message, remedy="Look in the log of the last job; the next run tries again")

    def finish_round(self) -> None:
        """Write down how the round ended."""
        if self._look is None:
            return
        lake, decision = self._look.lake, self._look.decision
        self.report.rounds[-1].changes = list(range(self._look.change_before + 1, lake.change + 1))
        outcome = {
            Attribute.LAST_PENDING: decision.note,
            Attribute.LAST_LOOK_FROM: scan_start(self._look.files[1], lake.watermark),
        }
        if decision.kind is DecisionKind.NOTHING_NEW:  # else not all that was listed is seen to
            outcome[Attribute.LAST_LISTED_UTC] = iso_utc(self._look.listed_utc)
        self._record_end(RunState.SUCCEEDED, "", outcome)
        if self.report.catalog_error:
            self._ports.metrics.put(metrics.catalog_failure_metrics(self.report.table))
        self._more = decision.incremental  # one change could not take all there is

    def release_if_done(self) -> bool:
        """Give the lease back, unless there is more to do or somebody asked for the table meanwhile; then False."""
        if self._more or not self.lease.release(even_if_requested=False):
            return False
        self.open = False
        return True

    def hand_over(self) -> None:
        """Give the lease back although there is more to do, for another run to do it."""
        self.lease.release(even_if_requested=True)
        self.open = False
        self.report.outcome = "handed on"
        self._states.clear_request(self.path)

    def lose(self, error: BaseException) -> None:
        """The lease is another run's, and so is the item."""
        self.open = False
        self.report.outcome, self.report.failure = "failed", error

    def fail(self, error: BaseException, *, job_may_run: bool = False) -> None:
        """Write down what went wrong and give the lease back.

        Args:
            error: What went wrong.
            job_may_run: A Spark job of the table may be running: then the lease is left to run out. Who takes the
                lease over shuts such a job out; who finds it free relies on there being none.
        """
        if not self.open:
            return  # its lease, and so its item, is another run's by now
        self.lose(error)
        defect = None if isinstance(error, CdclakeError) else error
        self._log.error("failed", extra={"error": self.report.error}, exc_info=defect)
        try:
            self._record_end(RunState.FAILED, error_line(error))
            if not job_may_run:
                # A mark that was left meanwhile stays, and so holds the events of a broken table to one try each
                # quarter of an hour; the hourly Controller tries as well.
                self.lease.release(even_if_requested=True)
        except StoppedError:
            raise
        except CdclakeError:
            self._log.exception("could not write down the failure; the lease runs out by itself")

    def _in_line_with_lake(self, state: TableState) -> tuple[TableState, Snapshot]:
        """Finish what a run that died left undone, and bring the item in line with the lake.

        The date of the last full load is left as it is in an item that knows the newest change: a person may have set
        it back to have the table loaded anew.
        """
        change = roll_forward(self._changes, self._keep)
        check_not_ahead(state, change)
        self.lease.fence_earlier_holder(self._changes, self._keep)
        lake = self._changes.snapshot(self._changes.head())
        state = self._record_lake(state, lake, full_load_date=state.last_change < change)
        return self._show(state, lake), lake

    def _note_pending(self, state: TableState, note: str) -> TableState:
        """Note what is waiting before any of it is applied, see `cdclake.control.plan.lost_files`."""
        noted = {Attribute.LAST_PENDING: note}
        if state.item.get(Attribute.LAST_PENDING, "") != note:
            self._states.record_run(self.path, noted)
        return state.with_attributes(**noted)

    def _keep(self) -> None:
        self._keep_leases()
        if self.report.failure:
            raise self.report.failure

    def _record_lake(self, state: TableState, lake: Snapshot, *, full_load_date: bool) -> TableState:
        """Write into the item what the lake says otherwise."""
        self._change = lake.change or None
        attributes = lake_attributes(state, lake, emptied=is_emptied(self._changes, lake))
        if not full_load_date:
            attributes.pop(Attribute.LAST_FULL_LOAD_DATE, None)
        news = {name: value for name, value in attributes.items() if state.item.get(name) != value}
        if news:
            self._keep()
            self._states.record_run(self.path, news)
            self._log.info("the item is in line with the lake")
            new = range(max(state.last_change, lake.change - MAX_CHANGES_MEASURED) + 1, lake.change + 1)
            self._ports.metrics.put(metrics.change_metrics(self.report.table, map(self._changes.record, new)))
        return state.with_attributes(**news)

    def _show(self, state: TableState, lake: Snapshot) -> TableState:
        """Have the catalog show the lake table as it is. If that fails, the rows are right all the same."""
        news = sync_catalog(self._ports.catalog, state, self._layout, lake, self._keep)
        if news:
            self._states.record_run(self.path, news)
        state = state.with_attributes(**news)
        self.report.catalog_error = state.item.get(Attribute.LAST_CATALOG_ERROR, "")
        return state

    def _record_end(self, outcome: str, error: str, more: Mapping[str, str] | None = None) -> None:
        self._states.record_run(
            self.path,
            {
                Attribute.LAST_RUN_STATE: outcome,
                Attribute.LAST_RUN_ID: self.report.run_id,
                Attribute.LAST_RUN_UTC: iso_utc(self._ports.clock()),
                Attribute.LAST_ERROR: error,
                **(more or {}),
            },
        )
        seconds = (self._ports.clock() - self._begun).total_seconds()
        self._ports.metrics.put(metrics.run_end_metrics(self.report.table, seconds, failed=outcome == RunState.FAILED))


def read_state(states: StateStore, path: str) -> TableState:
    """A registered table's item.

    Raises:
        UnknownTableError: It is not registered.
    """
    state = states.get(path)
    if state is None:
        message = f"No table with the path {path} is registered"
        raise UnknownTableError(message, remedy="Run the Controller, which registers the tables it finds")
    return state
