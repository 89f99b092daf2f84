"""Runs the pipeline like the hourly workflow: the Controller job, then every ProcessTable run that it starts."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Callable, Protocol

from cdclake.commit.report import ChangeSummary, change_summaries
from cdclake.control.jobs.arguments import tables_text
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.summary import NOT_STARTED
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
_LONGEST_PAUSE_SECONDS = 5.0
_MOST_POLLS_PER_SECOND = 4
"""Glue throttles callers that ask about many runs at once."""
_MOST_NAMES = 5


class JobHistory(Protocol):
    """Lists ProcessTable runs."""

    def since(self, controller_run_id: str) -> Sequence[StartedRun]:
        """Runs that started since a Controller run started, or are still active; newest first."""
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
        """The runs of the ProcessTable job."""
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
        run_id: Id of the ProcessTable run; empty if there was none.
        changes: Changes that the run committed.
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


def _recorded(before: TableState | None, after: TableState) -> bool:
    """Whether a run since `before` recorded an outcome of the table."""
    return before is None or after.item.get(Attribute.LAST_RUN_ID) != before.item.get(Attribute.LAST_RUN_ID)


def _has_failed(state: TableState) -> bool:
    return state.item.get(Attribute.LAST_RUN_STATE) == RunState.FAILED


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
        self._active: dict[str, list[str]] = {}  # paths of the tables of each run

    @property
    def unfinished(self) -> list[str]:
        """What Glue goes on with if this process stops waiting: a text for each run; empty if nothing was started."""
        controller, table_run = (f"{self._target.name_prefix}{job}" for job in (JOB_CONTROLLER, JOB_PROCESS_TABLE))
        if self._controller is not None:
            run = f"run {self._controller}" if self._controller else "if Glue has accepted its start"
            return [f"{controller}, {run}, and the runs of {table_run} that it starts"]
        return [f"{table_run}, run {run_id}: {_names(paths)}" for run_id, paths in self._active.items()]

    def run(self, tables: tuple[TableName, ...] = ()) -> PipelineOutcome:
        """Start the Controller, and wait for it and for every run that it starts.

        Args:
            tables: Limit the run to these tables; empty for all.

        Raises:
            JobRunError: The Controller job cannot be started.
        """
        self._before = {state.path: state for state in self._states(tables)}
        heads: dict[str, int] = {}
        for path, state in self._before.items():
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
        runs = self._wait_for_tables(self._controller)
        after = [self._outcome(state, runs.get(state.path), heads.get(state.path)) for state in self._states(tables)]
        return PipelineOutcome(controller, tuple(sorted(after, key=lambda table: table.name)))

    def _states(self, tables: tuple[TableName, ...]) -> list[TableState]:
        states = self._services.state.all(self._target.installation.state_prefix)
        return [state for state in states if not tables or state.name in tables]

    def _wait_for_controller(self, run_id: str) -> JobRun:
        for pause_seconds in _pauses():
            run = self._services.jobs.get(JOB_CONTROLLER, run_id)
            if run.state is not JobState.ACTIVE:
                return run
            self._sleep(pause_seconds)
        raise AssertionError  # _pauses() never ends

    def _wait_for_tables(self, controller_run_id: str) -> dict[str, JobRun]:
        """Wait for the newest run of each table; returns the ended runs by path, each as it is for that table.

        File events start runs too, and the Controller starts none for a table that such a run is working on. So this
        waits for every active run.
        """
        prefix = self._target.installation.state_prefix
        history = self._services.job_history.since(controller_run_id)
        own = {run_id for path, run_id in history if path.startswith(prefix)}
        started = [run for run in history if run.run_id in own]
        for path, run_id in started:
            self._active.setdefault(run_id, []).append(path)
        self._controller = None
        ended: dict[str, dict[str, JobRun]] = {}
        for pause_seconds in _pauses():
            for run_id in list(self._active):
                run = self._services.jobs.get(JOB_PROCESS_TABLE, run_id)
                if run.state is not JobState.ACTIVE:
                    ended[run_id] = self._by_table(run, self._active.pop(run_id))
                    self._note_end(ended[run_id])
            if not self._active:
                break
            paths = list(chain.from_iterable(self._active.values()))
            self._describe(f"Waiting for {_counted(paths)}: {_names(paths)}")
            self._sleep(max(pause_seconds, len(self._active) / _MOST_POLLS_PER_SECOND))
        runs: dict[str, JobRun] = {}
        for path, run_id in started:
            runs.setdefault(path, ended[run_id][path])
        return runs

    def _by_table(self, run: JobRun, paths: Sequence[str]) -> dict[str, JobRun]:
        """An ended run as it is for each of its tables: the failure of one table is no failure of another.

        If no table has an error, the run itself failed, and with it each table for which it recorded no success.
        """
        if run.state is JobState.SUCCEEDED or len(paths) == 1:
            return dict.fromkeys(paths, run)
        states = {path: self._services.state.get(path) for path in paths}
        failed = {path for path, state in states.items() if state and _has_failed(state)}
        if not failed:
            failed = {path for path, state in states.items() if not state or not self._was_recorded(state)}
        return {path: run if path in failed else run._replace(state=JobState.SUCCEEDED) for path in paths}

    def _was_recorded(self, after: TableState) -> bool:
        return _recorded(self._before.get(after.path), after)

    def _note_end(self, runs: Mapping[str, JobRun]) -> None:
        seconds = time.monotonic() - self._begun
        for path, run in runs.items():
            what = "done" if run.state is JobState.SUCCEEDED else "failed"
            self._note(f"{_name(path)}: {what} {seconds:,.0f} s after the start")

    def _outcome(self, state: TableState, run: JobRun | None, head_before: int | None) -> TableOutcome:
        """The outcome of a table. `head_before` is None if this run registered it: all its changes are older."""
        changes = () if head_before is None else tuple(change_summaries(self._services.log(state.name), head_before))
        run_id = run.run_id if run else ""
        if run and run.state is not JobState.SUCCEEDED:
            return TableOutcome(state.name, "failed", _last_error(state, run), run_id, changes)
        if changes:
            return TableOutcome(state.name, "changed", None, run_id, changes)
        return TableOutcome(state.name, "nothing new" if state.active else "inactive", None, run_id)


def _pauses() -> Iterator[float]:
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        yield pause_seconds
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def _name(path: str) -> TableName:
    return TableState({Attribute.PATH: path}).name


def _counted(paths: Sequence[str]) -> str:
    return f"{len(paths):,} table{'' if len(paths) == 1 else 's'}"


def _names(paths: Sequence[str]) -> str:
    listed = [str(_name(path)) for path in paths[:_MOST_NAMES]]
    return ", ".join([*listed, *([f"and {len(paths) - _MOST_NAMES:,} more"] if len(paths) > _MOST_NAMES else [])])


def _last_error(state: TableState, run: JobRun) -> CdclakeError:
    """The error that a failed run stored in the table's item; Glue's own if it stored none."""
    text, code = state.item.get(Attribute.LAST_ERROR), state.item.get(Attribute.LAST_ERROR_CODE)
    if text and code:
        return error_of_kind(code)(text.removeprefix(f"{code}: "))
    return JobRunError(text or run.error or run.detail, run=run.run_id)
