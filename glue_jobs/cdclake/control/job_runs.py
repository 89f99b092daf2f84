"""Waits for job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from cdclake.errors import JobRunError
from cdclake.ports import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.ports import JobRun, JobRunner

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0


def pauses() -> Iterator[float]:
    """Seconds between looks at a run: 1, 2, 4, 8, 15, 15, ..."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def wait_for_run(
    jobs: JobRunner, job: str, run_id: str, sleep: Callable[[float], None], at_each_look: Callable[[], None]
) -> JobRun:
    """Wait until a run has ended, well or not.

    Args:
        jobs: Tells how runs stand.
        job: Name of the job.
        run_id: The run.
        sleep: Pauses for so many seconds.
        at_each_look: Called before each pause; what it raises ends the waiting.
    """
    for pause in pauses():
        run = jobs.get(job, run_id)
        if run.state is not JobState.ACTIVE:
            return run
        at_each_look()
        sleep(pause)
    raise AssertionError  # pauses() never ends


def check_succeeded(job: str, run: JobRun) -> None:
    """Refuse a run that did not end well.

    Raises:
        JobRunError: Says what the job itself said.
    """
    if run.state is JobState.SUCCEEDED:
        return
    message = f"{job} ended as {run.detail or run.state.value}"
    if run.error:
        message = f"{message}: {run.error}"
        raise JobRunError(message, run=run.run_id)
    raise JobRunError(message, remedy="Look in the job's error log", run=run.run_id)
