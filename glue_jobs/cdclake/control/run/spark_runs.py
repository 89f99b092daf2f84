"""Runs the Spark jobs of one ProcessTable run: starts them for one or several tables, waits, and reads the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.control.run.job_polling import OutOfTimeError, check_succeeded, start_run, stop_run, wait_for_run
from cdclake.control.run.spark_batch import (
    batch_key,
    delete_batch,
    progress_key,
    read_progress,
    table_path,
    write_batch,
)
from cdclake.errors import ConfigurationError, JobRunError
from cdclake.model.names import Argument
from cdclake.ports import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.control.run.job_polling import PollPolicy
    from cdclake.control.run.spark_batch import Arguments, BatchProgress
    from cdclake.errors import CdclakeError
    from cdclake.ports import JobRun, JobRunner, ObjectStore


RETRY_PAUSE_SECONDS = 20.0
_TIMEOUT = "TIMEOUT"
"""Glue's state of a run that took too long. With a single table, another run would take as long."""


class Death(NamedTuple):
    """Where a run died.

    Attributes:
        path: Path of the table. A run for one table may also have died before it began.
        began: Whether it is known that the run had begun with the table.
        file: The raw file that it was reading, relative; empty if it is not known.
        reported: Whether the run itself went on, and reported an error that is none of cdclake's: a defect, or that a
            worker of Spark died.
    """

    path: str
    began: bool
    file: str = ""
    reported: bool = False


class BatchOutcome(NamedTuple):
    """The outcome of a run for its tables, by path.

    Attributes:
        run: The run, after its end.
        succeeded: Tables that succeeded.
        failed: Errors of the tables that failed.
        defects: Failed tables whose error is none of cdclake's, see `Death.reported`.
        not_reached: Tables that the run did not reach, through no fault of theirs.
        death: Where it died, or where the service gave it up: then that table is among those not reached. None if it
            did not die, or nobody knows where.
    """

    run: JobRun
    succeeded: tuple[str, ...] = ()
    failed: Mapping[str, CdclakeError] = {}
    not_reached: tuple[str, ...] = ()
    death: Death | None = None
    defects: tuple[str, ...] = ()


class SparkRuns:
    """Runs Spark jobs, one at a time.

    Args:
        jobs: Starts and stops them.
        lake: The lake bucket.
        lake_prefix: Lake prefix, empty or with a trailing slash.
        run_id: The ProcessTable run; names its batches and their progress.
    """

    def __init__(
        self, jobs: JobRunner, lake: ObjectStore, lake_bucket: str, lake_prefix: str, run_id: str, policy: PollPolicy
    ) -> None:
        self._jobs = jobs
        self._lake, self._lake_bucket, self._lake_prefix = lake, lake_bucket, lake_prefix
        self._run_id = run_id
        self._policy = policy
        self._runs = 0
        self._running: tuple[str, str] | None = None  # job and run id; the id is empty if unknown

    def run(self, job: str, tables: Sequence[Arguments], started: Callable[[str], None]) -> BatchOutcome:
        """Run a job to its end. Passes the arguments of a single table as they are, of several as a batch.

        Args:
            started: Called with the run's id.

        Raises:
            OutOfTimeError: There is no time left to wait.
            LeaseLostError: Other runs took over all tables.
            CdclakeError: It could not be started, or the service does not answer.
        """
        paths = tuple(table_path(one) for one in tables)
        self._runs += 1
        key = batch_key(self._lake_prefix, f"{self._run_id}-{self._runs}")
        if len(tables) == 1:
            arguments = {**tables[0], Argument.PROGRESS: self._url(progress_key(key))}
        else:
            write_batch(self._lake, key, tables)
            arguments = {Argument.BATCH: self._url(key)}
        run = self._to_end(job, arguments, started)
        # A single table's run writes only its error, or its files.
        wrote = len(tables) > 1 or run.state is not JobState.SUCCEEDED or Argument.NAME_FILES in tables[0]
        outcome = batch_outcome(job, run, paths, read_progress(self._lake, key) if wrote else None)
        if wrote:
            delete_batch(self._lake, key)
        if outcome.not_reached:
            self._policy.pause(RETRY_PAUSE_SECONDS)
        return outcome

    def _url(self, key: str) -> str:
        return f"s3://{self._lake_bucket}/{key}"

    def stop(self) -> bool:
        """Stop the active run, if any. False if it may still be running."""
        if self._running is None:
            return True
        job, run_id = self._running
        if not (run_id and stop_run(self._jobs, job, run_id, self._policy)):
            return False
        self._running = None
        return True

    def _to_end(self, job: str, arguments: Arguments, started: Callable[[str], None]) -> JobRun:
        self._running = (job, "")
        try:
            run_id = start_run(self._jobs, job, arguments, self._policy)
        except (JobRunError, ConfigurationError, OutOfTimeError):
            self._running = None  # it was refused; after any other error it may have started
            raise
        self._running = (job, run_id)
        started(run_id)
        run = wait_for_run(self._jobs, job, run_id, self._policy)
        self._running = None
        return run


def batch_outcome(job: str, run: JobRun, paths: tuple[str, ...], progress: BatchProgress | None) -> BatchOutcome:
    """Derive the outcome for each table from a run's end and its progress.

    Args:
        run: The run, after its end.
        paths: Paths of its tables, in order.
        progress: What the run wrote; None if it wrote none.
    """
    if len(paths) == 1 and run.state is JobState.SUCCEEDED:
        return BatchOutcome(run, succeeded=paths)
    done = progress.done if progress else {}
    succeeded = tuple(path for path in paths if done.get(path) == "")
    failed: dict[str, CdclakeError] = {
        path: _table_error(job, run, progress, path) for path in paths if progress and done.get(path)
    }
    defects = tuple(path for path in failed if progress and path not in progress.errors)
    left = tuple(path for path in paths if path not in done)
    death = Death(progress.at, began=True, file=progress.file) if progress and progress.at in left else None
    if run.state is JobState.GIVEN_UP:
        return BatchOutcome(run, succeeded, failed, left, death, defects)
    if run.state is JobState.FAILED and len(paths) == 1:
        death = None if run.detail == _TIMEOUT or not left else death or Death(paths[0], began=False)
    if run.state is JobState.FAILED and death:
        left = tuple(path for path in left if path != death.path)
        return BatchOutcome(run, succeeded, failed, left, death, defects)
    failed.update({path: run_error(job, run) for path in left})
    return BatchOutcome(run, succeeded, failed, defects=defects)


def _table_error(job: str, run: JobRun, progress: BatchProgress, path: str) -> CdclakeError:
    """The error of a table that a run reported."""
    error = progress.error_of(path)
    if error is None:
        return JobRunError(f"{job} failed for this table: {progress.done[path]}", run=run.run_id)
    error.details["run"] = run.run_id
    return error


def run_error(job: str, run: JobRun) -> JobRunError:
    """The error of a table that a run did not load although it should have."""
    try:
        check_succeeded(job, run)
    except JobRunError as error:
        return error
    return JobRunError(f"{job} succeeded, but reported nothing for this table", remedy="Read its log", run=run.run_id)
