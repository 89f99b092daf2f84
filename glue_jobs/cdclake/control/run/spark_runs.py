"""The Spark jobs' runs of one ProcessTable run: started for one table or for several, waited for, judged, stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.control.run.job_polling import OutOfTimeError, check_succeeded, start_run, stop_run, wait_for_run
from cdclake.control.run.spark_batch import batch_key, delete_batch, read_progress, table_path, write_batch
from cdclake.errors import ConfigurationError, JobRunError
from cdclake.model.names import Argument
from cdclake.ports import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.control.run.job_polling import PollPolicy
    from cdclake.control.run.spark_batch import Arguments, Progress
    from cdclake.errors import CdclakeError
    from cdclake.ports import JobRun, JobRunner, ObjectStore


RETRY_PAUSE_SECONDS = 20.0


class BatchOutcome(NamedTuple):
    """What the end of a run means for its tables, each named by its path.

    Attributes:
        run: How the run ended.
        good: Tables that went well.
        failed: Tables that did not, and why.
        again: Tables that the run did not come to, through no fault of theirs.
    """

    run: JobRun
    good: tuple[str, ...] = ()
    failed: Mapping[str, CdclakeError] = {}
    again: tuple[str, ...] = ()


class SparkRuns:
    """Runs Spark jobs, one at a time.

    Args:
        jobs: Where they run.
        lake: The lake bucket.
        lake_bucket: Its name.
        lake_prefix: Lake prefix, empty or with a trailing slash.
        run_id: The ProcessTable run; names its batches.
        policy: How to wait.
    """

    def __init__(
        self, jobs: JobRunner, lake: ObjectStore, lake_bucket: str, lake_prefix: str, run_id: str, policy: PollPolicy
    ) -> None:
        self._jobs = jobs
        self._lake, self._lake_bucket, self._lake_prefix = lake, lake_bucket, lake_prefix
        self._run_id = run_id
        self._patience = policy
        self._batches = 0
        self._running: tuple[str, str] | None = None  # job and run id, which is empty if it was not told

    def run(self, job: str, tables: Sequence[Arguments], started: Callable[[str], None]) -> BatchOutcome:
        """Run a job to its end. A single table gets its arguments as they are, several get theirs as a batch.

        Args:
            job: Name of the job.
            tables: Arguments of each table's run.
            started: Called with the run's id.

        Raises:
            OutOfTimeError: There is no time left to wait.
            LeaseLostError: All tables were taken over by others.
            CdclakeError: It could not be started, or the service does not answer.
        """
        paths = tuple(table_path(one) for one in tables)
        if len(tables) == 1:
            verdict = judge(job, self._to_end(job, tables[0], started), paths, None)
        else:
            verdict = self._batch(job, tables, paths, started)
        if verdict.again:
            self._patience.pause(RETRY_PAUSE_SECONDS)
        return verdict

    def _batch(
        self, job: str, tables: Sequence[Arguments], paths: tuple[str, ...], started: Callable[[str], None]
    ) -> BatchOutcome:
        self._batches += 1
        key = batch_key(self._lake_prefix, f"{self._run_id}-{self._batches}")
        write_batch(self._lake, key, tables)
        run = self._to_end(job, {Argument.BATCH: f"s3://{self._lake_bucket}/{key}"}, started)
        verdict = judge(job, run, paths, read_progress(self._lake, key))
        delete_batch(self._lake, key)
        return verdict

    def stop(self) -> bool:
        """Stop the run that is still going, if any. False if it may go on."""
        if self._running is None:
            return True
        job, run_id = self._running
        if not (run_id and stop_run(self._jobs, job, run_id, self._patience)):
            return False
        self._running = None
        return True

    def _to_end(self, job: str, arguments: Arguments, started: Callable[[str], None]) -> JobRun:
        self._running = (job, "")
        try:
            run_id = start_run(self._jobs, job, arguments, self._patience)
        except (JobRunError, ConfigurationError, OutOfTimeError):
            self._running = None  # it was refused; after any other error it may have started
            raise
        self._running = (job, run_id)
        started(run_id)
        run = wait_for_run(self._jobs, job, run_id, self._patience)
        self._running = None
        return run


def judge(job: str, run: JobRun, paths: tuple[str, ...], progress: Progress | None) -> BatchOutcome:
    """Tell from a run's end, and from its progress, what became of each of its tables.

    Args:
        job: Name of the job.
        run: How it ended.
        paths: Its tables, in their order.
        progress: What the run of a batch told; None for the run of a single table, and if it told nothing.
    """
    if len(paths) == 1 and run.state is JobState.SUCCEEDED:
        return BatchOutcome(run, good=paths)
    done = progress.done if progress else {}
    good = tuple(path for path in paths if done.get(path) == "")
    failed: dict[str, CdclakeError] = {path: _told(job, run, done[path]) for path in paths if done.get(path)}
    left = tuple(path for path in paths if path not in done)
    if run.state is JobState.GIVEN_UP:
        return BatchOutcome(run, good, failed, left)
    at = progress.at if progress else ""
    if run.state is JobState.FAILED and at in left:  # it died of this table; the others have to go without it
        return BatchOutcome(run, good, {**failed, at: run_error(job, run)}, tuple(path for path in left if path != at))
    return BatchOutcome(run, good, {**failed, **{path: run_error(job, run) for path in left}})


def _told(job: str, run: JobRun, error: str) -> JobRunError:
    return JobRunError(f"{job} failed for this table: {error}", run=run.run_id)


def run_error(job: str, run: JobRun) -> JobRunError:
    """The error of a table that a run should have seen to, and did not."""
    try:
        check_succeeded(job, run)
    except JobRunError as error:
        return error
    return JobRunError(f"{job} ended well, but told nothing of this table", remedy="Look in its log", run=run.run_id)
