"""One table of a run, under the table's lease: what is due, and the result."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Callable

from cdclake.commit.ledger import recorded
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.plan_table import plan_table
from cdclake.control.run import metrics
from cdclake.control.run.planned_round import DueLoad, PlannedRound, plan_round
from cdclake.control.run.report import Round
from cdclake.control.run.spark_run import SparkRun, aftermath, deadly_error, run_error
from cdclake.control.run.table_clean_up import clean_up_if_due
from cdclake.errors import CdclakeError, JobRunError, LeaseLostError, RawFilesLostError
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake.model.raw.files import RawFiles
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobRun, JobState

if TYPE_CHECKING:
    from cdclake.control.run.table_item import TableItem


class TableWork:
    """One table of a run, from taking its lease until releasing it.

    Args:
        note: What the run notes in the item while it works on the table; None: nothing, as no job's run does the work.

    Attributes:
        item: The table's item.
        open: Whether the run still works on the table.
        set_aside: Whether the table waits for the end of the run's rounds.
        starts: See `Aftermath`.
        spark_reason: Why a Spark run is to load it, and not the function that works on it; empty if none does.
    """

    def __init__(self, item: TableItem, note: SparkRun | None = None) -> None:
        self.item, self.path, self.lease, self.report = item, item.state.path, item.lease, item.report
        self.open = True
        self.set_aside = False
        self.starts = 0
        self.spark_reason = ""
        self._note = note
        self._round: PlannedRound | None = None
        self._known_change = 0

    @property
    def _planned(self) -> PlannedRound:
        assert self._round is not None
        return self._round

    def begin_round(self) -> None:
        """Update the item from the lake, list the raw files, and decide what is due."""
        self._round = None
        item, ports, unended = self.item, self.item.ports, None
        if self._note:
            begun = SparkRun.of(item.state.item)
            if begun and begun.run == self._note.run:
                self._note = self._note._replace(starts=begun.starts, reason=begun.reason)
            item.begin_round({Attribute.LAST_SPARK_RUN: str(self._note)})
        else:
            item.begin_round({})
            unended = SparkRun.of(item.state.item)
        if not item.state.active:
            self.report.rounds.append(Round(plan_table(item.state, RawFiles(), ports.clock())))
            return
        self._known_change = item.state.last_change
        lake = item.sync_with_lake()
        with item.shown_in_catalog(lake):
            self._round = plan_round(ports, item.state, item.changes, lake)
        decision, listed_utc = self._round.decision, self._round.listed_utc
        self.report.rounds.append(Round(decision))
        ports.metrics.put(metrics.lag_metrics(item.state, decision, listed_utc))
        item.log.info(decision.kind.value, extra={"reason": decision.reason})
        for finding in decision.findings:
            item.log.warning(finding)
        if decision.kind is DecisionKind.FROZEN:
            raise RawFilesLostError(decision.reason, remedy=decision.to_do, table=item.layout.name)
        if unended:
            self._settle(unended)

    @property
    def due_job(self) -> str:
        """The job whose work is due next; empty if none is."""
        return self._round.due_job if self.open and self._round else ""

    @property
    def due_bytes(self) -> int:
        """Size of the raw files that are due."""
        return self._planned.decision.bytes

    @property
    def needs_own_run(self) -> bool:
        """Whether a run died at the table, and none has succeeded since: the next may die, too."""
        return bool(self._round and self.deaths)

    @property
    def deaths(self) -> int:
        """How many runs died at the table since one succeeded."""
        return self.item.state.deaths

    def count_death(self) -> None:
        """Note that a run died at the table."""
        self.item.record({Attribute.LAST_DEATHS: str(self.deaths + 1)})

    def load(self, load: Callable[[DueLoad], object]) -> None:
        """Load what is due next in this process, update the item, and decide what is still due.

        Raises:
            JobRunError: The lake lacks what was loaded.
        """
        planned, job, item = self._planned, self.due_job, self.item
        item.log.info("loads", extra={"job": job})
        note_file = self._note_file if self.needs_own_run else None
        reason = self._note.reason if self._note else ""
        load(DueLoad(job, item.changes, item.state, planned, self.lease.token, self._note_due, note_file, reason))
        self.report.rounds[-1].loads.append(job)
        self._sync_after(job)

    def _note_due(self) -> None:
        if self.item.state.item.get(Attribute.LAST_PENDING, "") != self._planned.decision.note:
            self.item.record(self._planned.note)

    def _note_file(self, file: str) -> None:
        if self._note:
            self.item.record({Attribute.LAST_SPARK_RUN: str(self._note._replace(file=file))})

    def hand_to(self, run: SparkRun) -> None:
        """Leave the table, with its lease, to a Spark run that was started for it."""
        self.item.log.info("started %s", run.job, extra={"started": run.run})
        with suppress(LeaseLostError):  # that run has the lease already, and writes its own note
            self.item.record({Attribute.LAST_SPARK_RUN: str(run), **self._planned.note})
        self.open = False
        self.report.outcome, self.report.follow_up = "handed on", run.run

    def _settle(self, run: SparkRun) -> None:
        """Find out how an earlier Spark run ended, which recorded no end for the table.

        Raises:
            CdclakeError: The table fails because of that.
        """
        deaths = self.item.state.deaths
        try:
            ended = self.item.ports.jobs.get(run.job, run.run)
        except JobRunError:  # Glue keeps runs for months
            ended = JobRun(run.run, JobState.FAILED)
        after = aftermath(run, ended, deaths, had_lease=self.lease.taken_over_from == run.run)
        self.starts = after.starts
        died = {Attribute.LAST_DEATHS: str(deaths + 1)} if after.died else {}
        self.item.record({Attribute.LAST_SPARK_RUN: "", **died})
        error = run_error(run.job, ended)
        if after.died or after.fails:
            self.item.log.warning("an earlier run ended", extra={"error": error_line(error)})
        if after.fails:
            raise deadly_error(run, error, self._planned.raw_files(run.file)) if after.died else error

    def record_defect(self, error: Exception) -> None:
        """Record an error that is none of cdclake's: a defect, or that a worker of Spark died.

        The first one counts as a death of the run at this table: it goes on, and reads each raw file alone. After a
        second one the table fails.
        """
        self.count_death()
        if self.deaths > 1:
            self.fail(JobRunError(error_line(error), remedy="Read the log of the run", **self._planned.raw_files()))
            return
        self.item.log.exception("failed, and is tried once more", exc_info=error)

    def _sync_after(self, job: str) -> None:
        """Read the result of a load from the lake, update the item, and decide what is still due."""
        before, item = self._planned, self.item
        lake = item.sync_after_load()
        seen = recorded(item.changes, lake.ledger, before.files.all_changes)
        alive = {Attribute.LAST_DEATHS: ""} if item.state.deaths else {}
        item.state = item.state.with_attributes(**{Attribute.LAST_LEFT_OUT: before.decision.left_out, **alive})
        self._round = before.after(item.state, lake, seen)
        left = self._round.decision
        reload_requested = left.full_load and item.state.full_load_date_by_hand  # while the job worked
        undone = left.full_load if job == JOB_LOAD_INITIAL else left.repeats(before.decision)
        if undone and not reload_requested:
            message = f"The load succeeded, but the lake lacks what it should have loaded: {left.reason}"
            raise JobRunError(message, remedy="Read the log of the run; the next run tries again")

    def finish_round(self) -> None:
        """Record the end of the round, and release the lease, unless there is more work, or a new trigger."""
        if self._round is None:  # the table is inactive
            self.open = not self.lease.release(even_if_requested=False, attributes=self._without_note)
            return
        lake, decision, item = self._round.lake, self._round.decision, self.item
        self.report.rounds[-1].changes = list(range(self._known_change + 1, lake.change + 1))
        outcome = self._round.outcome(item.state)
        if decision.kind is DecisionKind.NOTHING_NEW:
            outcome |= clean_up_if_due(item, lake.change)
        more = decision.kind is DecisionKind.INCREMENTAL  # one change could not take all due files
        self.open = not item.end(keeps_lease=more, more={**self._without_note, **outcome})
        if self.report.catalog_error:
            item.ports.metrics.put(metrics.catalog_failure_metrics(self.report.table))

    def hand_over(self) -> None:
        """Release the lease although there is more work, so that another ProcessTable run can start it."""
        self.lease.release(even_if_requested=True, attributes=self._without_note)
        self.open = False
        self.report.outcome = "handed on"
        self.item.ports.states.clear_request(self.path)

    @property
    def _without_note(self) -> dict[str, str]:
        return {Attribute.LAST_SPARK_RUN: ""} if self._note else {}

    def abandon(self, error: BaseException) -> None:
        """Stop the work because of an error, without touching the item or the lease."""
        self.open = False
        self.report.outcome, self.report.failure = "failed", error

    def fail(self, error: BaseException) -> None:
        """Record an error and release the lease."""
        if not self.open:
            return  # another run holds its lease, and so owns its item
        self.abandon(error)
        defect = None if isinstance(error, CdclakeError) else error
        self.item.log.error("failed", extra={"error": self.report.error}, exc_info=defect)
        try:
            pending = self._round.note if self._round else {}
            self.open = not self.item.end(error, more={**self._without_note, **pending})
        except StoppedError:
            raise
        except CdclakeError:
            self.item.log.exception("could not record the failure; the lease will expire")
