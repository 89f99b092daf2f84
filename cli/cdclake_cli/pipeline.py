"""Runs the pipeline like the hourly workflow: the Controller, the ProcessTable runs that it starts, and what follows.

A ProcessTable run starts a Spark run for tables with due files, and ends. A Spark run with more work than time starts
another ProcessTable run. Each starts before the one that starts it ends. If a Spark run dies, Glue's event ends its
leases and starts a ProcessTable run, see `cdclake.control.run.trigger`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, NamedTuple, Protocol

from cdclake.commit.report import ChangeSummary, change_summaries
from cdclake.control.jobs.arguments import tables_text
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.summary import NOT_STARTED
from cdclake.control.run.spark_run import run_error
from cdclake.errors import ConfigurationError, JobRunError, error_of_kind, gravest_kind
from cdclake.model.names import JOB_CONTROLLER, JOB_PROCESS_TABLE, Argument, RunState
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.ports import JobRun, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.control.controller import Plan
    from cdclake.control.plan.planned_table import PlannedTable
    from cdclake.errors import CdclakeError
    from cdclake.model.table.name import TableName
    from cdclake.ports import JobRunner, StateStore
    from cdclake_cli.aws.job_history import StartedRun
    from cdclake_cli.target import Target

_FIRST_PAUSE_SECONDS = 0.2
_FIRST_PAUSE_BETWEEN_LISTS_SECONDS = 1.0
"""A list takes a request for each of three jobs, and Glue throttles callers that ask often."""
_LONGEST_PAUSE_SECONDS = 5.0
_GRACE_SECONDS = 30.0
"""Time that the event of a dead run has to start the next run."""
_MOST_NAMES = 5


class JobHistory(Protocol):
    """Lists the runs of ProcessTable and of the Spark jobs."""

    def since(self, controller_run_id: str) -> Sequence[StartedRun]:
        """Runs that worked at any time since a Controller run started; newest first."""
        ...


class PipelineServices(Protocol):
    """The adapters that the pipeline uses."""

    @property
    def state(self) -> StateStore:
        """The state table."""
        ...

    @property
    def jobs(self) -> JobRunner:
        """The Glue jobs."""
        ...

    @property
    def job_history(self) -> JobHistory:
        """The runs of ProcessTable and of the Spark jobs."""
        ...

    def log(self, name: TableName) -> ChangeLog:
        """A lake table's change log."""
        ...


@dataclass(frozen=True)
class TableOutcome:
    """What a pipeline run did to one table.

    Attributes:
        outcome: `changed`, `nothing new`, `waiting`, `not started`, `inactive` or `failed`.
        error: The error; None unless `failed`.
        run_id: Glue's id of its newest run; empty if there was none.
        changes: Changes that its runs committed.
        reason: What a `waiting` table waits for, or the work that was `not started`.
        findings: What was left out or needs an operator's attention although the table works, each with its remedy.
    """

    name: TableName
    outcome: str
    error: Exception | None = None
    run_id: str = ""
    changes: tuple[ChangeSummary, ...] = ()
    reason: str = ""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class PipelineOutcome:
    """What a pipeline run did.

    Attributes:
        controller: The Controller's run.
        tables: By name.
    """

    controller: JobRun
    tables: tuple[TableOutcome, ...]

    @property
    def failed(self) -> bool:
        """Whether the Controller or a table failed."""
        return self.controller.state is not JobState.SUCCEEDED or any(t.outcome == "failed" for t in self.tables)

    def error(self) -> CdclakeError:
        """The error of a failed run, of the kind of its gravest table's error."""
        failed = {table.name: table.error for table in self.tables if table.error}
        if failed:
            text = "; ".join(f"{name}: {error_line(error)}" for name, error in failed.items())
            return gravest_kind(failed.values())(f"{len(failed)} of {len(self.tables)} tables failed: {text}")
        controller = self.controller
        message = f"The Controller job failed: {controller.error or controller.detail}"
        remedy = "" if controller.error else "Check the log of the run"  # the job's own error contains the remedy
        return JobRunError(message, remedy=remedy, run=controller.run_id)

    @property
    def succeeded(self) -> list[TableName]:
        """Active tables that did not fail."""
        return [table.name for table in self.tables if table.outcome in ("changed", "nothing new")]

    def with_plan(self, plan: Plan) -> PipelineOutcome:
        """Add the findings of a plan that was made after the run, and refine the outcome of tables with nothing new.

        A full load may still be arriving. Work that is still due was not started, because Glue had no room or the files
        arrived just now. A table that is frozen or cannot be planned failed.
        """
        planned = {entry.state.name: entry for entry in plan.tables}
        return replace(self, tables=tuple(_refined(table, planned.get(table.name)) for table in self.tables))


def _refined(table: TableOutcome, planned: PlannedTable | None) -> TableOutcome:
    decision = planned.decision if planned else None
    if planned and planned.failure:
        return replace(table, outcome="failed", error=planned.failure)
    table = replace(table, findings=decision.findings if decision else ())
    if table.outcome != "nothing new":
        return table
    if decision and decision.kind is DecisionKind.WAITING:
        return replace(table, outcome="waiting", reason=decision.reason)
    if decision and (decision.full_load or decision.incremental):
        return replace(table, outcome=NOT_STARTED, reason=decision.reason)
    return table


class _End(NamedTuple):
    """How the work on a table ended.

    Attributes:
        run_id: Id of its newest run.
        error: The error; None unless it failed.
    """

    run_id: str = ""
    error: CdclakeError | None = None


class Pipeline:
    """The pipeline of one target.

    Args:
        services: Adapters of the target.
        target: What the pipeline works on.
        describe: Receives a short text about the current step.
        note: Receives a line about what has happened: what was started, and the end of each table.
        sleep: Waits a number of seconds.
    """

    def __init__(
        self,
        services: PipelineServices,
        target: Target,
        describe: Callable[[str], None] = lambda _: None,
        note: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._services = services
        self._target = target
        self._describe = describe
        self._note = note
        self._sleep = sleep
        self._begun = time.monotonic()
        self._before: dict[str, TableState] = {}
        self._controller: str | None = None  # the run that may start others; empty if its id is not known yet
        self._active: list[StartedRun] = []
        self._held: list[str] = []  # paths of tables without an active run whose lease is held

    @property
    def unfinished(self) -> list[str]:
        """What Glue goes on with if this process stops waiting: a text for each run; empty if nothing was started."""
        if self._controller is not None:
            run = f"run {self._controller}" if self._controller else "if Glue has accepted its start"
            return [f"{self._deployed(JOB_CONTROLLER)}, {run}"]
        active = [f"{self._deployed(one.job)}, run {one.run.run_id}: {_names(one.paths)}" for one in self._active]
        if not self._held:
            return active
        return [
            *active,
            f"{self._deployed(JOB_PROCESS_TABLE)}, if the event of a dead run starts it: {_names(self._held)}",
        ]

    def run(self, tables: tuple[TableName, ...] = ()) -> PipelineOutcome:
        """Start the Controller, and wait for it and for all runs that follow from it.

        Args:
            tables: Limit the run to these tables; empty for all.

        Raises:
            JobRunError: The Controller job cannot be started.
        """
        self._before = self._states()
        heads: dict[str, int] = {}
        for path, state in self._before.items():
            if tables and state.name not in tables:
                continue
            with suppress(ConfigurationError):  # the Controller reports it
                heads[path] = self._services.log(state.name).head()
        limit = {Argument.TABLES: tables_text(tables)} if tables else {}
        self._describe("The Controller searches for new files")
        self._begun = time.monotonic()
        self._controller = ""
        try:
            self._controller = self._services.jobs.start(JOB_CONTROLLER, {**self._target.job_arguments, **limit})
        except (JobRunError, ConfigurationError):  # it was refused; after any other error it may have started
            self._controller = None
            raise
        self._note(f"Started the Controller, run {self._controller}")
        controller = self._wait_for_controller(self._controller)
        ends = self._wait_for_tables(self._controller, tables)
        after = [state for state in self._states().values() if not tables or state.name in tables]
        outcomes = [self._outcome(state, ends.get(state.path, _End()), heads.get(state.path)) for state in after]
        return PipelineOutcome(controller, tuple(sorted(outcomes, key=lambda table: table.name)))

    def _states(self) -> dict[str, TableState]:
        return {state.path: state for state in self._services.state.all(self._target.installation.state_prefix)}

    def _deployed(self, job: str) -> str:
        return f"{self._target.name_prefix}{job}"

    def _wait_for_controller(self, run_id: str) -> JobRun:
        for pause_seconds in _pauses(_FIRST_PAUSE_SECONDS):
            run = self._services.jobs.get(JOB_CONTROLLER, run_id)
            if run.state is not JobState.ACTIVE:
                return run
            self._sleep(pause_seconds)
        raise AssertionError  # _pauses() never ends

    def _wait_for_tables(self, controller_run_id: str, tables: tuple[TableName, ...]) -> dict[str, _End]:
        """Wait until no run works on the tables that have runs; returns how the work on each ended, by path.

        That is so once a list shows no run of a table but those that the list before showed as ended. If its lease is
        still held then, its run died, and has some time to be followed by another.

        The runs of file events count, too: the Controller starts none for a table that one of them works on. A table's
        later runs do not count: where files arrive all the time, some table always has one.
        """
        ends: dict[str, _End] = {}
        waiting: list[str] | None = None
        ended: dict[str, set[str]] = {}  # the runs of each table of which none was active
        grace_seconds: dict[str, float] = {}
        for pause_seconds in _pauses(_FIRST_PAUSE_BETWEEN_LISTS_SECONDS):
            states = self._states() if ended else {}  # before the list, which shows the run of any later lease
            runs = self._list_runs(controller_run_id, tables)
            waiting = list(runs) if waiting is None else waiting
            ids = {path: {one.run.run_id for one in runs[path]} for path in waiting}
            quiet = [path for path in waiting if ids[path] == ended.get(path)]
            self._held = [path for path in quiet if _holder(states, path) and grace_seconds.get(path, 1) > 0]
            for path in quiet:
                if path not in self._held:
                    ends[path] = self._end(path, runs[path], states)
                    self._note_end(path, ends[path])
            waiting = [path for path in waiting if path not in ends]
            active = {one.run.run_id: one for path in waiting for one in runs[path] if one.active}
            self._active, self._controller = list(active.values()), None
            if not waiting:
                break
            self._describe_wait(waiting)
            ended = {path: ids[path] for path in waiting if ids[path].isdisjoint(active)}
            if ended.keys() - self._held:  # look before an event starts another run
                pause_seconds = _FIRST_PAUSE_BETWEEN_LISTS_SECONDS
            self._sleep(pause_seconds)
            for path in self._held:
                grace_seconds[path] = grace_seconds.get(path, _GRACE_SECONDS) - pause_seconds
        return ends

    def _list_runs(self, controller_run_id: str, tables: tuple[TableName, ...]) -> dict[str, list[StartedRun]]:
        """The runs of each table, by path, newest first."""
        prefix = self._target.installation.state_prefix
        runs: dict[str, list[StartedRun]] = {}
        for run in self._services.job_history.since(controller_run_id):
            for path in run.paths:
                if path.startswith(prefix) and (not tables or _name(path) in tables):
                    runs.setdefault(path, []).append(run)
        return runs

    def _describe_wait(self, waiting: Sequence[str]) -> None:
        parts = []
        for job in dict.fromkeys(one.job for one in self._active):
            at_work = {path for one in self._active if one.job == job for path in one.paths}
            paths = [path for path in waiting if path in at_work]
            parts.append(f"{self._deployed(job)} works on {_counted(paths)}: {_names(paths)}")
        if self._held:
            parts.append(f"Waiting for the lease of {_counted(self._held)}: {_names(self._held)}")
        if parts:
            self._describe("; ".join(parts))

    def _end(self, path: str, runs: Sequence[StartedRun], states: Mapping[str, TableState]) -> _End:
        """How the work on a table ended, by its item, or by its newest run if none recorded anything.

        If a run of several tables failed because of some of them, it does not count for the others.
        """
        newest = runs[0]
        error: CdclakeError | None = None
        if dead := _dead_holder(states, path, runs):
            message = run_error(self._deployed(dead.job), dead.run).message
            remedy = "The hourly Controller starts the next run when the lease of this one has expired"
            error = JobRunError(message, remedy=remedy, run=dead.run.run_id)
        elif self._was_recorded(path, states):
            error = _recorded_error(states[path])
        elif newest.run.state is not JobState.SUCCEEDED and not self._is_explained(newest, states):
            error = run_error(self._deployed(newest.job), newest.run)
        return _End(newest.run.run_id, error)

    def _is_explained(self, failed: StartedRun, states: Mapping[str, TableState]) -> bool:
        """Whether a run failed because of tables that show it."""
        return any(
            _dead_holder(states, path, [failed]) or (self._was_recorded(path, states) and _recorded_error(states[path]))
            for path in failed.paths
        )

    def _was_recorded(self, path: str, states: Mapping[str, TableState]) -> bool:
        """Whether a run recorded an outcome of the table since the start."""
        return _last_outcome(states, path) != _last_outcome(self._before, path)

    def _note_end(self, path: str, end: _End) -> None:
        seconds = time.monotonic() - self._begun
        self._note(f"{_name(path)}: {'failed' if end.error else 'done'} {seconds:,.0f} s after the start")

    def _outcome(self, state: TableState, end: _End, head_before: int | None) -> TableOutcome:
        """The outcome of a table. `head_before` is None if this run registered it: all its changes are older."""
        changes = () if head_before is None else tuple(change_summaries(self._services.log(state.name), head_before))
        if end.error:
            return TableOutcome(state.name, "failed", end.error, end.run_id, changes)
        if changes:
            return TableOutcome(state.name, "changed", None, end.run_id, changes)
        return TableOutcome(state.name, "nothing new" if state.active else "inactive", None, end.run_id)


def _pauses(first_seconds: float) -> Iterator[float]:
    pause_seconds = first_seconds
    while True:
        yield pause_seconds
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def _name(path: str) -> TableName:
    return TableState({Attribute.PATH: path}).name


def _holder(states: Mapping[str, TableState], path: str) -> str:
    """The holder of a table's lease, also of one that has expired; empty if it is released."""
    return states[path].item.get(Attribute.LEASE_HOLDER, "") if path in states else ""


def _dead_holder(states: Mapping[str, TableState], path: str, runs: Sequence[StartedRun]) -> StartedRun | None:
    """The Spark run that ended without releasing the table's lease; None if there is none."""
    holder = _holder(states, path)
    return next((one for one in runs if holder in one.holders), None)


def _last_outcome(states: Mapping[str, TableState], path: str) -> tuple[str | None, ...]:
    item = states[path].item if path in states else {}
    return item.get(Attribute.LAST_RUN_ID), item.get(Attribute.LAST_RUN_UTC)


def _counted(paths: Sequence[str]) -> str:
    return f"{len(paths):,} table{'' if len(paths) == 1 else 's'}"


def _names(paths: Sequence[str]) -> str:
    listed = [str(_name(path)) for path in paths[:_MOST_NAMES]]
    return ", ".join([*listed, *([f"and {len(paths) - _MOST_NAMES:,} more"] if len(paths) > _MOST_NAMES else [])])


def _recorded_error(state: TableState) -> CdclakeError | None:
    """The error of the newest run that recorded how it ended; None if it succeeded."""
    if state.item.get(Attribute.LAST_RUN_STATE) != RunState.FAILED:
        return None
    text, code = state.item.get(Attribute.LAST_ERROR, ""), state.item.get(Attribute.LAST_ERROR_CODE, "")
    if not code:
        return JobRunError(text or "The run failed", run=state.item.get(Attribute.LAST_RUN_ID, ""))
    return error_of_kind(code)(text.removeprefix(f"{code}: "))
