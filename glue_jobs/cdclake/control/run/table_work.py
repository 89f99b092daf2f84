"""One table of a run, under the table's lease: what is due, and the result."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake import logs
from cdclake.commit.clean_up import clean_up, deletable_since, plan_clean_up
from cdclake.commit.ledger import recorded
from cdclake.commit.log import ChangeLog
from cdclake.commit.roll_forward import roll_forward
from cdclake.control.catalog.sync import sync_catalog
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.full_load_gate import dms_table_state
from cdclake.control.plan.known_files import KnownFiles
from cdclake.control.plan.loaded_files import LoadedFiles
from cdclake.control.plan.lost_files import PendingNote
from cdclake.control.plan.plan_table import plan_table
from cdclake.control.plan.raw_scan import run_begin, scan_start
from cdclake.control.run import metrics
from cdclake.control.run.item_sync import (
    check_not_ahead,
    is_emptied,
    lake_attributes,
    open_findings,
    unknown_rollback,
    was_loaded,
)
from cdclake.control.run.lineage import lineage_events
from cdclake.control.run.spark_run import SparkRun, aftermath, run_error
from cdclake.errors import (
    CdclakeError,
    ConfigurationError,
    DeadlyFileError,
    JobRunError,
    LeaseLostError,
    RawFilesLostError,
    SchemaDriftError,
    UnknownTableError,
)
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, RunState, Sentinel
from cdclake.model.raw.files import RawFiles
from cdclake.model.retained import Retained
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake.model.times import iso_utc
from cdclake.ports import JobRun, JobState
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cdclake.commit.publish import KeepAlive
    from cdclake.control.run.lease import Lease
    from cdclake.model.layout import LakeLayout
    from cdclake.model.raw.ledger import Recorded
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import (
        Catalog,
        Clock,
        JobRunner,
        LineageSink,
        MetricSink,
        ObjectStore,
        StateStore,
        TaskStatistics,
    )

_SET_BY_HAND = attributes_that(lambda declared: declared.resettable)
MAX_CHANGES_MEASURED = 20
"""A rebuilt item knows no change, and metrics of old changes are useless. Nor is their lineage told again."""


@dataclass(frozen=True)
class Ports:
    """Everything outside that a run works with.

    Attributes:
        jobs: Starts runs of the jobs, and tells how they ended.
        open_bucket: Opens the store of a bucket.
        metrics: Takes lag, changes, failures and durations.
        statistics: Reads table states of DMS tasks; None: only the files decide whether a full load is complete.
        catalog: Catalog database for the lake tables; None for none.
        lineage: Takes the lineage of changes, besides the log; None: only the log.
    """

    states: StateStore
    jobs: JobRunner
    open_bucket: Callable[[str], ObjectStore]
    clock: Clock
    metrics: MetricSink
    statistics: TaskStatistics | None = None
    catalog: Catalog | None = None
    lineage: LineageSink | None = None


class DueLoad(NamedTuple):
    """What a run loads into one lake table as one change, with everything that the plan was made from.

    Attributes:
        job: `JOB_LOAD_INITIAL` replaces the table with a full load, `JOB_LOAD_INCREMENTAL` applies change files.
        state: The table's item.
        files: What is in the raw folder.
        lake: The newest snapshot.
        recorded: Those of the listed change files that the lake's ledger contains.
        begin: For a full load: the last change file that it contains, if an operator set it; else empty.
        end: For changes: the last change file to apply. Both are relative.
        token: Fencing token of the lease.
        note_file: Called with each raw file before it is read alone, and with "" afterwards, as an earlier run died at
            this table; None: several are read at a time.
    """

    job: str
    layout: LakeLayout
    state: TableState
    files: RawFiles
    lake: Snapshot
    recorded: Recorded
    begin: str
    end: str
    token: int
    note_file: Callable[[str], None] | None


@dataclass
class Round:
    """One round of a table: what was decided, loaded and committed.

    Attributes:
        loads: Names of the jobs whose work was done.
        changes: Numbers of the lake's changes that the item did not know at the start of the round.
    """

    decision: Decision
    loads: list[str] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """JSON data."""
        return {"decision": self.decision.to_json(), "loads": self.loads, "changes": self.changes}


@dataclass
class TableReport:
    """What a run did for one table.

    Attributes:
        table: `schema.table`, or the path of a table that is not registered.
        outcome: `done`, `inactive`, `busy: ...`, `failed`, or `handed on` to the run `follow_up`.
        failure: The error, if the run failed.
        catalog_error: Why the catalog could not be updated; empty if it could. This is no failure of the table.
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
        """The error on one line; empty if there is none."""
        return error_line(self.failure) if self.failure else ""

    def to_json(self) -> dict[str, object]:
        """JSON data."""
        return {
            "table": self.table,
            "run_id": self.run_id,
            "outcome": self.outcome,
            "rounds": [one.to_json() for one in self.rounds],
            "follow_up": self.follow_up,
            "error": self.error,
            "catalog_error": self.catalog_error,
        }


class _RoundState(NamedTuple):
    """What a round listed, and the current state of the table.

    Attributes:
        listed_utc: When the listing of the raw files began.
        files: What is in the raw folder.
        dms_state: State of the table in its DMS task.
        change_before: Newest change that the item knew.
        recorded: Those of the listed change files that the lake's ledger contains.
        decision: What is still due.
    """

    listed_utc: datetime
    files: RawFiles
    dms_state: str | None
    change_before: int
    state: TableState
    lake: Snapshot
    recorded: Recorded
    decision: Decision

    def after(self, state: TableState, lake: Snapshot, seen: Recorded) -> _RoundState:
        """The state after a load: the lake shows which change files it holds.

        Args:
            seen: Those of the listed change files that the lake's ledger contains.
        """
        state = state.with_attributes(**{Attribute.LAST_LEFT_OUT: self.decision.left_out})
        decision = plan_table(state, self.files, self.listed_utc, lake, self.dms_state, recorded=seen)
        return self._replace(state=state, lake=lake, recorded=seen, decision=decision)


class TableWork:
    """One table of a run, from taking its lease until releasing it.

    Args:
        path: Key of the table's item.
        ports: State table, buckets, time.
        report: Collects what was done.
        keep_alive: Renews the leases of the run.
        note: What the run notes in the item while it works on the table; None: nothing, as no job's run does the work.

    Attributes:
        open: Whether the run still works on the table.
        set_aside: Whether the table waits for the end of the run's rounds.
        starts: See `Aftermath`.
    """

    def __init__(
        self,
        path: str,
        lease: Lease,
        layout: LakeLayout,
        ports: Ports,
        report: TableReport,
        keep_alive: KeepAlive,
        note: SparkRun | None = None,
    ) -> None:
        self.path = path
        self.lease = lease
        self.report = report
        self.open = True
        self.set_aside = False
        self.starts = 0
        self._layout = layout
        self._ports = ports
        self._states = ports.states
        self._renew_leases = keep_alive
        self._note = note
        self._changes = ChangeLog(ports.open_bucket(layout.bucket), layout)
        self._round: _RoundState | None = None
        self._begun = ports.clock()
        self._change: int | None = None

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of every log line: the table's name, and its newest known change."""
        return {"table": str(self._layout.name), "change": self._change}

    @property
    def _log(self) -> logs.BoundLogger:
        return logs.bind(__name__, **self.log_fields)

    def begin_round(self) -> None:
        """Update the item from the lake, list the raw files, and decide what is due."""
        self._round = None
        self._begun = self._ports.clock()
        self._keep_alive()  # after a pause, the table and the notes in its item may be another run's
        state = read_state(self._states, self.path)
        if not state.active:
            self._clear_request(None)
            self.report.rounds.append(Round(plan_table(state, RawFiles(), self._ports.clock())))
            return
        state.check_types()
        change = state.last_change
        self._change = change or None
        started = SparkRun.of(state.item)
        if self._note and started and started.run == self._note.run:
            self._note = self._note._replace(starts=started.starts)
        self._clear_request(self._note)
        state, lake = self._sync_with_lake(state)
        self._round = self._plan(state, lake, change, run_begin(state, lake, self._ports.clock()))
        decision, listed_utc = self._round.decision, self._round.listed_utc
        self.report.rounds.append(Round(decision))
        self._ports.metrics.put(metrics.lag_metrics(self.report.table, decision, listed_utc))
        self._log.info(decision.kind.value, extra={"reason": decision.reason})
        for finding in decision.findings:
            self._log.warning(finding)
        if decision.kind is DecisionKind.FROZEN:
            raise RawFilesLostError(decision.reason, remedy=decision.to_do, table=self._layout.name)
        self._settle_unended_run()

    def _clear_request(self, note: SparkRun | None) -> None:
        """Remove the pending request, before the raw files are listed: a later file sets a new one.

        Args:
            note: What a run that notes itself leaves in the item; None: nothing.
        """
        if self._note:
            self.lease.record({Attribute.LAST_SPARK_RUN: str(note or "")}, clears_request=True)
        else:
            self._states.clear_request(self.path)

    def _plan(self, state: TableState, lake: Snapshot, change_before: int, begin: str) -> _RoundState:
        """List the raw files, and decide what is due.

        Args:
            begin: See `run_begin`. If nothing that was listed is to be loaded, or a full load is, all are listed.
        """
        listed_utc = self._ports.clock()
        raw = self._ports.open_bucket(state.bucket)
        files = list_raw_files(raw, state.raw_prefix, state.settings, begin)
        dms_state = dms_table_state(self._ports.statistics, state, files.full_load)
        noted = PendingNote.of_item(state.item)
        seen = recorded(self._changes, lake.ledger, files.all_changes, noted.missing(files.all_changes))
        decision = plan_table(state, files, listed_utc, lake, dms_state, recorded=seen)
        if begin and decision.kind is not DecisionKind.INCREMENTAL:
            return self._plan(state, lake, change_before, "")
        return _RoundState(listed_utc, files, dms_state, change_before, state, lake, seen, decision)

    @property
    def due_job(self) -> str:
        """The job whose work is due next; empty if none is. A full load comes first."""
        if not (self.open and self._round):
            return ""
        decision = self._round.decision
        if decision.full_load:
            return JOB_LOAD_INITIAL
        return JOB_LOAD_INCREMENTAL if decision.incremental else ""

    @property
    def needs_own_run(self) -> bool:
        """Whether a run died at the table, and none has succeeded since: the next may die, too."""
        return bool(self._round and self._round.state.deaths)

    def load(self, load: Callable[[DueLoad], object]) -> None:
        """Load what is due next in this process, update the item, and decide what is still due.

        Raises:
            JobRunError: The lake lacks what was loaded.
        """
        assert self._round is not None
        job = self.due_job
        self._log.info("loads", extra={"job": job})
        note = self._pending_note()
        if self._round.state.item.get(Attribute.LAST_PENDING, "") != note[Attribute.LAST_PENDING]:
            self._record(note)  # before any file is applied
        load(self._due_load(job))
        self.report.rounds[-1].loads.append(job)
        self._sync_after(job)

    def _due_load(self, job: str) -> DueLoad:
        assert self._round is not None
        plan = self._round
        return DueLoad(
            job,
            self._layout,
            plan.state,
            plan.files,
            plan.lake,
            plan.recorded,
            plan.decision.load_begin,
            plan.decision.new_watermark,
            self.lease.token,
            self._note_file if self.needs_own_run else None,
        )

    def _note_file(self, file: str) -> None:
        if self._note:
            self.lease.record({Attribute.LAST_SPARK_RUN: str(self._note._replace(file=file))})

    def hand_to(self, run: SparkRun) -> None:
        """Leave the table, with its lease, to a Spark run that was started for it."""
        self._log.info("started %s", run.job, extra={"started": run.run})
        with suppress(LeaseLostError):  # that run has the lease already, and writes its own note
            self.lease.record({Attribute.LAST_SPARK_RUN: str(run), **self._pending_note()})
        self.open = False
        self.report.outcome, self.report.follow_up = "handed on", run.run

    def _settle_unended_run(self) -> None:
        """If an earlier Spark run recorded no end for the table, find out how it ended.

        Raises:
            CdclakeError: The table fails because of that.
        """
        assert self._round is not None
        state = self._round.state
        run = SparkRun.of(state.item)
        if run is None or self._note:  # the run that works on the table has just written its own
            return
        try:
            ended = self._ports.jobs.get(run.job, run.run)
        except JobRunError:  # Glue keeps runs for months
            ended = JobRun(run.run, JobState.FAILED)
        after = aftermath(run, ended, state.deaths, had_lease=self.lease.taken_over_from == run.run)
        self.starts = after.starts
        changed = {Attribute.LAST_SPARK_RUN: ""}
        if after.died:
            changed[Attribute.LAST_DEATHS] = str(state.deaths + 1)
        self._record(changed)
        error = run_error(run.job, ended)
        if after.died or after.fails:
            self._log.warning("an earlier run ended", extra={"error": error_line(error)})
        if after.fails:
            raise self._deadly(run, error) if after.died else error

    def record_defect(self, error: Exception) -> None:
        """Record an error that is none of cdclake's: a defect, or that a worker of Spark died.

        The first one counts as a death of the run at this table: it goes on, and reads each raw file alone. After a
        second one the table fails.
        """
        assert self._round is not None
        known = self._round.state.deaths
        self._record({Attribute.LAST_DEATHS: str(known + 1)})
        if known:
            self.fail(JobRunError(error_line(error), remedy="Read the log of the run", **self._raw_files("")))
            return
        self._log.exception("failed, and is tried once more", exc_info=error)

    def _deadly(self, run: SparkRun, error: CdclakeError) -> CdclakeError:
        at = "while it read a raw file" if run.file else "at this table"
        message = f"A Spark run died {at}, after another had died at this table: {error.message}"
        remedy = (
            "Nothing was applied, and other tables go on. Have DMS write the file again, or, if its rows are not"
            f" needed, add it to {Attribute.IGNORE_FILES}. If the run lacked memory, give the Spark jobs larger workers"
        )
        return DeadlyFileError(message, remedy=remedy, **self._raw_files(run.file), **error.details)

    def _raw_files(self, file: str) -> dict[str, str]:
        """The raw files that are due, for an error.

        Args:
            file: The only one, if it is known.
        """
        assert self._round is not None
        decision, loads = self._round.decision, self._round.files.full_load
        first = last = ""
        if self.due_job == JOB_LOAD_INITIAL:
            first, last = loads[0].relative, loads[-1].relative
        elif self.due_job:
            first, last = decision.first, decision.new_watermark
        return {"file": file or first} if file or first == last else {"files": f"{first} to {last}"}

    def _sync_after(self, job: str) -> None:
        """Read the result of a load from the lake, update the item, and decide what is still due."""
        assert self._round is not None
        before = self._round.decision
        lake = self._changes.snapshot(self._changes.head())
        state = self._record_lake(self._round.state, lake)
        state = self._sync_catalog(state, lake)
        if state.deaths:
            state = state.with_attributes(**{Attribute.LAST_DEATHS: ""})
        seen = recorded(self._changes, lake.ledger, self._round.files.all_changes)
        self._round = self._round.after(state, lake, seen)
        left = self._round.decision
        reload_requested = left.full_load and state.full_load_date_by_hand  # while the job worked
        undone = left.full_load if job == JOB_LOAD_INITIAL else left.repeats(before)
        if undone and not reload_requested:
            message = f"The load succeeded, but the lake lacks what it should have loaded: {left.reason}"
            raise JobRunError(message, remedy="Read the log of the run; the next run tries again")

    def finish_round(self) -> None:
        """Record the end of the round, and release the lease, unless there is more work, or a new trigger."""
        if self._round is None:  # the table is inactive
            self.open = not self.lease.release(even_if_requested=False)
            return
        lake, decision = self._round.lake, self._round.decision
        self.report.rounds[-1].changes = list(range(self._round.change_before + 1, lake.change + 1))
        files = self._round.files
        outcome = {Attribute.LAST_PENDING: decision.note, Attribute.LAST_LEFT_OUT: decision.left_out}
        look_from = scan_start(files.changes, lake.watermark)
        if look_from or not files.begin:
            outcome[Attribute.LAST_LOOK_FROM] = look_from
        if not files.begin:
            outcome[Attribute.LAST_RECONCILED_UTC] = iso_utc(self._round.listed_utc)
        state, loads = self._round.state, files.full_load
        if Attribute.LAST_DEATHS in state.item:
            outcome[Attribute.LAST_DEATHS] = ""
        if lake.exists and not (state.item.get(Attribute.LAST_FULL_LOAD_FILES) or decision.full_load):
            outcome[Attribute.LAST_FULL_LOAD_FILES] = str(LoadedFiles.of_files(loads))  # the lake knows none
        if decision.kind is DecisionKind.NOTHING_NEW:  # otherwise some listed files are not applied yet
            outcome[Attribute.LAST_LISTED_UTC] = iso_utc(self._round.listed_utc)
            known = KnownFiles.of(state.with_attributes(**outcome), files.changes, complete=not files.begin)
            outcome[Attribute.LAST_KNOWN_FILES] = str(known)
            found = open_findings(self._round.state, self._changes, lake)
            outcome[Attribute.LAST_FINDINGS] = str(found)
            outcome |= self._clean_up(state, lake.change)
        more = decision.kind is DecisionKind.INCREMENTAL  # one change could not take all due files
        self._end(RunState.SUCCEEDED, keeps_lease=more, even_if_requested=False, more=outcome)
        if self.report.catalog_error:
            self._ports.metrics.put(metrics.catalog_failure_metrics(self.report.table))

    def _clean_up(self, state: TableState, head: int) -> dict[str, str]:
        """Delete what is not retained any more, if that is due.

        What a crashed run has left of a later change than `head` stays until that change is committed: the run may only
        be paused.

        Returns:
            Attributes that changed.
        """
        if not head:
            return {}
        if state.needs_clean_up(self._ports.clock()):
            retention, keep_every = state.settings.retention, state.settings.keep_every
            plan = plan_clean_up(self._changes, retention, self._ports.clock(), head, keep_every)
            if self.report.catalog_error:
                plan = plan.without_iceberg()
            clean_up(self._changes, plan, self._keep_alive)
            self._log.info("cleaned up", extra={"objects": plan.count, "retained": str(plan.retained)})
            since = deletable_since(self._changes, head, just_cleaned=True)
        elif state.item.get(Attribute.LAST_RETIRED_SINCE_UTC) and state.item.get(Attribute.LAST_REPEATED_SINCE_UTC):
            return {}
        else:
            since = deletable_since(self._changes, head)
        names = (Attribute.LAST_RETIRED_SINCE_UTC, Attribute.LAST_REPEATED_SINCE_UTC)
        return {name: iso_utc(utc) if utc else "" for name, utc in zip(names, since)}

    def hand_over(self) -> None:
        """Release the lease although there is more work, so that another ProcessTable run can start it."""
        ended = {Attribute.LAST_SPARK_RUN: ""} if self._note else {}
        self.lease.release(even_if_requested=True, attributes=ended)
        self.open = False
        self.report.outcome = "handed on"
        self._states.clear_request(self.path)

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
        self._log.error("failed", extra={"error": self.report.error}, exc_info=defect)
        try:
            # A mark that was set meanwhile stays. So events start at most one run of a broken table per quarter of an
            # hour. The hourly Controller tries too.
            self._end(RunState.FAILED, error, even_if_requested=True, more=self._pending_note() if self._round else {})
        except StoppedError:
            raise
        except CdclakeError:
            self._log.exception("could not record the failure; the lease will expire")

    def _sync_with_lake(self, state: TableState) -> tuple[TableState, Snapshot]:
        """Finish the work of a run that died, and update the item from the lake.

        A watermark and a date of the last full load that an operator set stay, see `lake_attributes`.
        """
        change = roll_forward(self._changes, self._keep_alive)
        check_not_ahead(state, self._layout, change)
        self.lease.fence_earlier_holder(self._changes, change, self._keep_alive)
        lake = self._changes.snapshot(self._changes.head())
        rollback = unknown_rollback(self._changes, state, lake.change)
        state = self._record_lake(state, lake)
        if rollback:
            self._turn_off(rollback)
        return self._sync_catalog(state, lake), lake

    def _turn_off(self, rollback: int) -> None:
        """Turn the table off again, as a rollback did that the item does not know: it was restored from before it.

        Raises:
            ConfigurationError: Always, so that an operator sees it.
        """
        self._keep_alive()
        off = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE, Attribute.LAST_OFF_BY_ROLLBACK: Sentinel.ACTIVE}
        self._states.set_attributes(self.path, off)
        name = self._layout.name
        message = f"Change {rollback} rolled {name} back and turned it off. Its item, which was on, is older than that"
        remedy = (
            f"The table is off again, and nothing was applied. To let runs apply the due files: cdclake tables activate"
            f" {name.typed}; to leave it off: cdclake tables pause {name.typed}"
        )
        raise ConfigurationError(message, remedy=remedy)

    def _pending_note(self) -> dict[str, str]:
        """Which change files are due, see `cdclake.control.plan.lost_files`."""
        assert self._round is not None
        return {Attribute.LAST_PENDING: self._round.decision.note}

    def _record(self, changed: Mapping[str, str]) -> None:
        """Write attributes into the item, and into the state that the round works with."""
        assert self._round is not None
        self.lease.record(changed)
        self._round = self._round._replace(state=self._round.state.with_attributes(**changed))

    def _keep_alive(self) -> None:
        self._renew_leases()
        if self.report.failure:
            raise self.report.failure

    def _record_lake(self, state: TableState, lake: Snapshot) -> TableState:
        """Write the attributes into the item that differ from the lake, and none that an operator set in between."""
        self._change = lake.change or None
        loaded = was_loaded(self._changes, state, lake)
        attributes = lake_attributes(state, lake, emptied=is_emptied(self._changes, lake), loaded=loaded)
        item = read_state(self._states, self.path).item
        edited = {name: item[name] for name in _SET_BY_HAND if name in item and item[name] != state.item.get(name)}
        if lake.change:
            attributes[Attribute.LAST_FINDINGS] = str(open_findings(state, self._changes, lake))
            attributes[Attribute.LAST_LINEAGE_CHANGE] = str(self._tell_lineage(state, lake))
        changed = {
            name: value for name, value in attributes.items() if state.item.get(name) != value and name not in edited
        }
        if changed:
            self._keep_alive()
            self.lease.record(changed)
            self._log.info("updated the item from the lake")
            new = range(max(state.last_change, lake.change - MAX_CHANGES_MEASURED) + 1, lake.change + 1)
            self._ports.metrics.put(metrics.change_metrics(self.report.table, map(self._changes.record, new)))
        return state.with_attributes(**changed, **edited)

    def _tell_lineage(self, state: TableState, lake: Snapshot) -> int:
        """Log and send the lineage of changes that no run has told, also of those that operators made.

        Returns:
            The newest change that was told. If it could not be sent, the next run tells it again.
        """
        told = max(state.last_lineage_change, lake.change - MAX_CHANGES_MEASURED)
        retained = self._changes.retained() if told < lake.change - 1 else Retained()
        for number in range(told + 1, lake.change + 1):
            if number != lake.change and number not in retained:
                continue
            snapshot = lake if number == lake.change else self._changes.snapshot(number)
            events = lineage_events(self._changes.record(number), snapshot, self._layout, state)
            if events:  # the start tells nothing that the end does not
                self._log.info("lineage", extra={"openlineage": events[-1]})
            if self._ports.lineage and not self._ports.lineage.send(events):
                break
            told = number
        return min(told, lake.change)

    def _sync_catalog(self, state: TableState, lake: Snapshot) -> TableState:
        """Update the catalog from the lake table. A failure does not affect the rows."""
        changed = sync_catalog(self._ports.catalog, state, self._layout, lake, self._keep_alive)
        if changed:
            self.lease.record(changed)
        state = state.with_attributes(**changed)
        self.report.catalog_error = state.item.get(Attribute.LAST_CATALOG_ERROR, "")
        return state

    def _end(
        self,
        outcome: str,
        error: BaseException | None = None,
        *,
        even_if_requested: bool,
        keeps_lease: bool = False,
        more: Mapping[str, str],
    ) -> None:
        """Record how the round ended, and release the lease with the same write."""
        attributes = {
            Attribute.LAST_RUN_STATE: outcome,
            Attribute.LAST_RUN_ID: self.report.run_id,
            Attribute.LAST_RUN_UTC: iso_utc(self._ports.clock()),
            Attribute.LAST_ERROR: error_line(error) if error else "",
            Attribute.LAST_ERROR_CODE: error.code if isinstance(error, CdclakeError) else "",
            Attribute.LAST_DRIFT: str(error.details["columns"]) if isinstance(error, SchemaDriftError) else "",
            **({Attribute.LAST_SPARK_RUN: ""} if self._note else {}),
            **more,
        }
        released = not keeps_lease and self.lease.release(even_if_requested=even_if_requested, attributes=attributes)
        if not released:
            self.lease.record(attributes)
        self.open = not released
        seconds = (self._ports.clock() - self._begun).total_seconds()
        self._ports.metrics.put(metrics.run_end_metrics(self.report.table, seconds, failed=outcome == RunState.FAILED))


def read_state(states: StateStore, path: str) -> TableState:
    """Read a registered table's item.

    Raises:
        UnknownTableError: It is not registered.
    """
    state = states.get(path)
    if state is None:
        message = f"No table with the path {path} is registered"
        raise UnknownTableError(message, remedy="Run the Controller, which registers the tables it finds")
    return state
