"""Runs jobs as processes on this machine: queues, starts, monitors and stops them."""

from __future__ import annotations

import logging
import re
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from cdclake.errors import ConfigurationError
from cdclake_cli.aws.spark import spark_environment
from cdclake_devkit.local.processes import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from cdclake_devkit.local.activity import Activity

logger = logging.getLogger(__name__)

_LOG_TAIL_BYTES = 64 * 1024
_SIGNALLED = 128
_NAMED_ERROR = re.compile(r"[A-Za-z_][\w.]*: ")
_JAVA_NOISE = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ |\s+at |\s+\.\.\. \d+ more")


class JobKind(Enum):
    """Runtime of a job; the values are Glue's command names."""

    SPARK = "glueetl"
    PYTHON_SHELL = "pythonshell"


class JobRunState(str, Enum):
    """Glue's states of a job run."""

    STARTING = "STARTING"
    WAITING = "WAITING"
    """Queued, because the limit of concurrent processes is reached."""
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    ERROR = "ERROR"
    """Glue gave up, as on EXPIRED; here no run ends so."""
    EXPIRED = "EXPIRED"

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self not in {JobRunState.STARTING, JobRunState.WAITING, JobRunState.RUNNING, JobRunState.STOPPING}


@dataclass(eq=False)
class Run:
    """One run of a job.

    Attributes:
        job: Name of the job.
        run_id: Glue's id of the run.
        kind: Runtime of the job.
        role: Name or ARN of the job's role.
        script: `s3://` URL of the script.
        arguments: Arguments; names include the dashes, as Glue passes them.
        timeout_seconds: Maximum run time of the process; None for no limit.
        state: Current state.
        error: Reason of a failure; empty if the run did not fail.
        started_utc: Time of the start request.
        process_started_utc: Start time of the process; None before.
        completed_utc: End time of the run; None before.
    """

    job: str
    run_id: str
    kind: JobKind
    role: str
    script: str
    arguments: Mapping[str, str]
    started_utc: datetime
    timeout_seconds: float | None = None
    state: JobRunState = JobRunState.STARTING
    error: str = ""
    process_started_utc: datetime | None = None
    completed_utc: datetime | None = None
    child: Child | None = field(default=None, repr=False)
    future: Future[None] | None = field(default=None, repr=False)
    activity: int = -1

    @property
    def execution_seconds(self) -> int:
        """Run time of the process; 0 until the run has ended."""
        if self.process_started_utc is None or self.completed_utc is None:
            return 0
        return round((self.completed_utc - self.process_started_utc).total_seconds())


class JobRuns:
    """Runs jobs, with a limit of concurrent processes per kind; further runs wait and start in order.

    Args:
        environment: The complete environment of every run, without the variables that its kind adds.
        assume_role: Returns variables with credentials of a role, by its name or ARN.
        read_object: Returns the content of an object, by bucket and key.
        data_dir: Existing folder for logs and for the working folders of runs.
        limits: Maximum number of concurrent processes of each kind.
        activity: Tracks every run from start to end.
        ended: Called with every run that has ended, before it counts as idle; returns at once.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        assume_role: Callable[[str], Mapping[str, str]],
        read_object: Callable[[str, str], bytes],
        data_dir: Path,
        limits: Mapping[JobKind, int],
        activity: Activity,
        ended: Callable[[Run], None],
    ) -> None:
        self._environment = environment
        self._assume_role = assume_role
        self._read_object = read_object
        self._data_dir = data_dir
        self._limits = limits
        self._activity = activity
        self._ended = ended
        self._lock = threading.Lock()
        self._active: list[Run] = []
        self._pools = {
            kind: ThreadPoolExecutor(limit, thread_name_prefix=f"job-{kind.value}") for kind, limit in limits.items()
        }

    def log_path(self, job: str, run_id: str) -> Path:
        """File with all output of a run."""
        # Quoted, because a job's name may contain a slash or be two dots.
        folder = quote(job, safe=" ").replace(".", "%2E")
        return self._data_dir / "logs" / folder / f"{run_id}.log"

    def start(self, run: Run) -> None:
        """Start a run, or queue it."""
        with self._lock:
            busy = sum(other.kind is run.kind and other.state is not JobRunState.WAITING for other in self._active)
            run.state = JobRunState.STARTING if busy < self._limits[run.kind] else JobRunState.WAITING
            run.activity = self._activity.begin(f"run {run.run_id} of job {run.job}")
            self._active.append(run)
            run.future = self._pools[run.kind].submit(self._execute, run)

    def stop(self, run: Run) -> bool:
        """Kill a run, or remove it from the queue; returns False if it has ended."""
        with self._lock:
            if run.state.ended:
                return False
            if run.future is not None and run.future.cancel():
                self._finish(run, JobRunState.STOPPED)
                return True
            run.state = JobRunState.STOPPING
            if run.child is not None:
                run.child.kill()
            return True

    def close(self) -> None:
        """Stop all runs and wait until their processes have ended."""
        with self._lock:
            active = list(self._active)
        for run in reversed(active):  # waiting runs first, so that none of them starts
            self.stop(run)
        for pool in self._pools.values():
            pool.shutdown()

    def _execute(self, run: Run) -> None:
        folder = self._data_dir / "runs" / run.run_id
        try:
            folder.mkdir(parents=True)
            state, error = self._run_process(run, folder)
        except Exception as problem:  # every run must end in a final state
            logger.exception("Job %s: run %s could not be started", run.job, run.run_id)
            state, error = JobRunState.FAILED, f"{type(problem).__name__}: {problem}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # ended processes may still be closing files
        with self._lock:
            self._finish(run, state, error)

    def _run_process(self, run: Run, folder: Path) -> tuple[JobRunState, str]:
        """Run the script to its end; returns the final state and the error."""
        script = self._fetch_script(run, folder)
        environment = {**self._environment, **self._assume_role(run.role), "TMPDIR": str(folder)}
        if run.kind is JobKind.SPARK:
            environment |= spark_environment(folder, sys.executable)
        log_path = self.log_path(run.job, run.run_id)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("wb") as log:
            child = Child(
                [sys.executable, str(script), *_argv(run)], cwd=folder, env=environment, stdout=log, stderr=log
            )
        with self._lock:
            run.child = child
            run.process_started_utc = _now()
            if run.state is JobRunState.STOPPING:
                child.kill()
            else:
                run.state = JobRunState.RUNNING
        try:
            exit_code = child.wait(run.timeout_seconds)
        except TimeoutError:
            child.kill()
            child.wait()
            return JobRunState.TIMEOUT, f"Run exceeded its timeout of {run.timeout_seconds:g} seconds"
        if run.state is JobRunState.STOPPING:
            return JobRunState.STOPPED, ""
        if exit_code == 0:
            return JobRunState.SUCCEEDED, ""
        return JobRunState.FAILED, error_message(_tail(log_path), exit_code)

    def _fetch_script(self, run: Run, folder: Path) -> Path:
        url = urlsplit(run.script)
        key = url.path.lstrip("/")
        if url.scheme != "s3" or not url.netloc or not key:
            message = f"The script location '{run.script}' is not an object's s3:// URL"
            raise ConfigurationError(message, remedy="Correct the job's Command.ScriptLocation", job=run.job)
        path = folder / (PurePosixPath(key).name if PurePosixPath(key).name != ".." else "script.py")
        path.write_bytes(self._read_object(url.netloc, key))
        return path

    def _finish(self, run: Run, state: JobRunState, error: str = "") -> None:
        """Record the end of a run. The caller holds the lock."""
        run.completed_utc = _now()
        run.state, run.error, run.child = state, error, None
        self._active.remove(run)
        if state in {JobRunState.FAILED, JobRunState.TIMEOUT}:
            log = self.log_path(run.job, run.run_id)
            logger.error("Job %s: run %s ended %s: %s (log: %s)", run.job, run.run_id, state.value, error, log)
        else:
            logger.info("Job %s: run %s ended %s", run.job, run.run_id, state.value)
        self._ended(run)
        self._activity.end(run.activity)


def error_message(log: str, exit_code: int) -> str:
    """Why a run failed, from the end of its log, in the form that Glue reports.

    It is the last line if that names an error (`module.Name: message`); else the exception of the last traceback, as a
    message can have many lines; else the last line or the exit code. Java's shutdown messages are ignored.
    """
    if exit_code > _SIGNALLED:
        return f"The process was ended by signal {exit_code - _SIGNALLED}"
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and not _JAVA_NOISE.match(line)]
    if not lines:
        return f"The script ended with exit code {exit_code} and wrote nothing"
    if _NAMED_ERROR.match(lines[-1]):
        return lines[-1]
    tracebacks = [index for index, line in enumerate(lines) if line.startswith("Traceback (most recent call last):")]
    after = lines[tracebacks[-1] + 1 :] if tracebacks else []
    return next((line for line in after if not line.startswith(" ")), lines[-1])


def _argv(run: Run) -> list[str]:
    own = {"--JOB_NAME": run.job, "--JOB_RUN_ID": run.run_id}
    return [word for pair in {**own, **run.arguments}.items() for word in pair]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")


def _now() -> datetime:
    return datetime.now(timezone.utc)
