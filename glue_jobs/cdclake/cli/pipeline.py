"""Runs the pipeline like the hourly workflow: the Controller job, then every ProcessTable run that it starts."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, Protocol

from cdclake.commit.report import ChangeSummary, change_summaries
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.summary import NOT_STARTED
from cdclake.errors import ConfigurationError, JobRunError, error_of_kind, gravest_kind
from cdclake.model.names import JOB_CONTROLLER, JOB_PROCESS_TABLE, Argument, Attribute, RunState
from cdclake.ports import JobRun, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.cli.aws.job_history import StartedRun
    from cdclake.cli.target import Target
    from cdclake.commit.log import ChangeLog
    from cdclake.control.controller import Plan
    from cdclake.control.plan.planned_table import PlannedTable
    from cdclake.errors import CdclakeError
    from cdclake.model.table import TableName, TableState
    from cdclake.ports import JobRunner, StateStore

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


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
    def succeeded(self) -> list[str]:
        """Active tables that did not fail."""
        return [str(table.name) for table in self.tables if table.outcome in ("changed", "nothing new")]

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


def _succeeded(before: TableState | None, after: TableState) -> bool:
    """Whether a run since `before` succeeded for this table, even if it failed for another one."""
    ran = before is None or after.item.get(Attribute.LAST_RUN_ID) != before.item.get(Attribute.LAST_RUN_ID)
    return ran and after.item.get(Attribute.LAST_RUN_STATE) == RunState.SUCCEEDED


class Pipeline:
    """The pipeline of one target.

    Args:
        services: Adapters of the target.
        target: What the pipeline works on.
        describe: Receives a short text about the current step.
        sleep: Waits a number of seconds.
    """

    def __init__(
        self,
        services: PipelineServices,
        target: Target,
        describe: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._services = services
        self._target = target
        self._describe = describe
        self._sleep = sleep

    def run(self, tables: tuple[TableName, ...] = ()) -> PipelineOutcome:
        """Start the Controller, and wait for it and for every run that it starts.

        Args:
            tables: Limit the run to these tables; empty for all.

        Raises:
            JobRunError: The Controller job cannot be started.
        """
        before = {state.name: state for state in self._states(tables)}
        heads: dict[TableName, int] = {}
        for name in before:
            with suppress(ConfigurationError):  # the Controller reports it
                heads[name] = self._services.log(name).head()
        limit = {Argument.TABLES: ",".join(map(str, tables))} if tables else {}
        self._describe("The Controller searches for new files")
        run_id = self._services.jobs.start(JOB_CONTROLLER, {**self._target.job_arguments, **limit})
        controller = self._wait(JOB_CONTROLLER, run_id)
        runs = self._wait_for_tables(run_id)
        shared = Counter(run.run_id for run in runs.values())
        after = []
        for state in self._states(tables):
            run = runs.get(state.path)
            if run and shared[run.run_id] > 1 and _succeeded(before.get(state.name), state):
                run = run._replace(state=JobState.SUCCEEDED)  # it failed for another of its tables
            after.append(self._outcome(state, run, heads.get(state.name)))
        return PipelineOutcome(controller, tuple(sorted(after, key=lambda table: table.name)))

    def _states(self, tables: tuple[TableName, ...]) -> list[TableState]:
        states = self._services.state.all(self._target.installation.state_prefix)
        return [state for state in states if not tables or state.name in tables]

    def _wait(self, job: str, run_id: str) -> JobRun:
        pause_seconds = _FIRST_PAUSE_SECONDS
        while (run := self._services.jobs.get(job, run_id)).state is JobState.ACTIVE:
            self._sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
        return run

    def _wait_for_tables(self, controller_run_id: str) -> dict[str, JobRun]:
        """Wait for the newest run of each table; returns the ended runs by path.

        File events start runs too, and the Controller starts none for a table that such a run is working on. So this
        waits for every active run.
        """
        ended: dict[str, JobRun] = {}
        for path, run_id in self._services.job_history.since(controller_run_id):
            if path.startswith(self._target.installation.state_prefix):
                self._describe(f"ProcessTable is working on {path}")
                ended.setdefault(path, self._wait(JOB_PROCESS_TABLE, run_id))
        return ended

    def _outcome(self, state: TableState, run: JobRun | None, head_before: int | None) -> TableOutcome:
        """The outcome of a table. `head_before` is None if this run registered it: all its changes are older."""
        changes = () if head_before is None else tuple(change_summaries(self._services.log(state.name), head_before))
        run_id = run.run_id if run else ""
        if run and run.state is not JobState.SUCCEEDED:
            return TableOutcome(state.name, "failed", _last_error(state, run), run_id, changes)
        if changes:
            return TableOutcome(state.name, "changed", None, run_id, changes)
        return TableOutcome(state.name, "nothing new" if state.active else "inactive", None, run_id)


def _last_error(state: TableState, run: JobRun) -> CdclakeError:
    """The error that a failed run stored in the table's item; Glue's own if it stored none."""
    text, code = state.item.get(Attribute.LAST_ERROR), state.item.get(Attribute.LAST_ERROR_CODE)
    if text and code:
        return error_of_kind(code)(text.removeprefix(f"{code}: "))
    return JobRunError(text or run.error or run.detail, run=run.run_id)
