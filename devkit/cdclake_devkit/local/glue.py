"""AWS Glue: moto stores the jobs, and their runs are real processes."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import moto.glue.models
from moto.core.responses import ActionResult
from moto.glue.exceptions import ConcurrentRunsExceededException, InvalidInputException, JobRunNotFoundException
from moto.glue.models import FakeJob, FakeJobRun
from moto.glue.responses import GlueResponse

from cdclake_devkit.local.jobs import JobKind, JobRuns, Run
from cdclake_devkit.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

_MINUTE_SECONDS = 60


class LocalJobRun(FakeJobRun):
    """The API's view of a run on this machine."""

    run: Run

    @property
    def status(self) -> str | None:
        """Glue's name of the run's state."""
        return self.run.state.value

    @status.setter
    def status(self, value: str) -> None:
        raise NotImplementedError(value)  # the process determines the state

    def as_dict(self) -> dict[str, Any]:
        """The API's `JobRun` structure."""
        fields = {
            **super().as_dict(),
            "StartedOn": self.run.started_utc,
            "LastModifiedOn": self.run.completed_utc or self.run.process_started_utc or self.run.started_utc,
            "CompletedOn": self.run.completed_utc,
            "ExecutionTime": self.run.execution_seconds,
            "ErrorMessage": self.run.error,
            "LogGroupName": "/aws-glue/jobs",
        }
        return {name: value for name, value in fields.items() if value not in (None, "")}


class LocalJob(FakeJob):
    """A job whose runs are real processes.

    `MaxRetries` is ignored: a failed run is not retried.
    """

    def __init__(self, runs: JobRuns, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  moto's own arguments
        super().__init__(*args, **kwargs)
        self._runs = runs
        self._start_lock = threading.Lock()

    def start_job_run(self, **overrides: Any) -> str:  # type: ignore[override]  # noqa: ANN401  called by name only
        """Start a run, unless the job has reached its concurrency limit. Queued runs count."""
        with self._start_lock:
            limit = self.execution_property.get("MaxConcurrentRuns", 1)
            if sum(not job_run.run.state.ended for job_run in self._local_runs()) >= limit:
                message = f"Concurrent runs exceeded for {self.name}"
                raise ConcurrentRunsExceededException(message)
            job_run = self._new_run(**overrides)
            self.job_runs.append(job_run)
            self._runs.start(job_run.run)
            return job_run.job_run_id

    def _new_run(
        self,
        *,
        arguments: dict[str, str] | None,
        timeout: int | None,
        previous_run_id: str | None,
        **capacity: Any,  # noqa: ANN401  passed on
    ) -> LocalJobRun:
        command: dict[str, str] = self.command or {}  # type: ignore[assignment]  # moto declares another type
        try:
            kind = JobKind(command.get("Name", ""))
        except ValueError as error:
            message = f"Only glueetl and pythonshell jobs are supported, but {self.name} is '{command.get('Name')}'"
            raise InvalidInputException("StartJobRun", message) from error
        timeout_minutes = timeout or self.timeout
        job_run = LocalJobRun(
            job_name=self.name,
            job_run_id=previous_run_id,
            # Arguments that cannot be overridden come last.
            arguments={**self.default_arguments, **(arguments or {}), **(self.non_overridable_arguments or {})},
            timeout=timeout_minutes,
            **{name: value or getattr(self, name) for name, value in capacity.items()},
        )
        job_run.run = Run(
            job=self.name,
            run_id=job_run.job_run_id,
            kind=kind,
            role=self.role,
            script=command.get("ScriptLocation", ""),
            arguments=job_run.arguments or {},
            started_utc=datetime.now(timezone.utc),
            timeout_seconds=timeout_minutes * _MINUTE_SECONDS if timeout_minutes else None,
        )
        return job_run

    def get_job_run(self, run_id: str) -> FakeJobRun:
        """The run with this id."""
        for job_run in self.job_runs:
            if job_run.job_run_id == run_id:
                return job_run
        raise JobRunNotFoundException(run_id)

    def get_job_runs(self) -> list[FakeJobRun]:
        """All runs, newest first."""
        return self.job_runs[::-1]

    def stop(self, run_id: str) -> str:
        """Stop a run; returns an error message if it cannot be stopped, otherwise an empty string."""
        run = next((job_run.run for job_run in self._local_runs() if job_run.job_run_id == run_id), None)
        if run is None:
            return f"Job run {run_id} not found"
        return "" if self._runs.stop(run) else f"Job run {run_id} is {run.state.value}"

    def _local_runs(self) -> list[LocalJobRun]:
        return [job_run for job_run in self.job_runs if isinstance(job_run, LocalJobRun)]


def batch_stop_job_run(response: GlueResponse) -> ActionResult:
    """`BatchStopJobRun`, which moto does not implement."""
    job = response.glue_backend.get_job(response.parameters["JobName"])
    stopped, errors = [], []
    for run_id in response.parameters["JobRunIds"]:
        entry = {"JobName": job.name, "JobRunId": run_id}
        problem = job.stop(run_id) if isinstance(job, LocalJob) else f"Job run {run_id} is not a local run"
        if problem:
            errors.append({**entry, "ErrorDetail": {"ErrorCode": "InvalidInputException", "ErrorMessage": problem}})
        else:
            stopped.append(entry)
    return ActionResult({"SuccessfulSubmissions": stopped, "Errors": errors})


@contextmanager
def real_job_runs(runs: JobRuns) -> Iterator[None]:
    """Let moto's Glue run jobs as real processes."""

    def create(*args: Any, **kwargs: Any) -> LocalJob:  # noqa: ANN401  moto's own arguments
        return LocalJob(runs, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(replaced(moto.glue.models, "FakeJob", create))
        stack.callback(delattr, GlueResponse, "batch_stop_job_run")
        GlueResponse.batch_stop_job_run = batch_stop_job_run  # type: ignore[attr-defined]
        yield
