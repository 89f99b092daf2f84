"""Waits for job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from cdclake.errors import JobRunError
from cdclake.ports import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.ports import JobRun, JobRunner

SHARE_OF_WAITED = 0.2
SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0


def pauses() -> Iterator[float]:
    """Seconds between looks at a run: a fifth of the time waited so far, so that its end is soon seen."""
    waited = 0.0
    while True:
        pause = min(max(waited * SHARE_OF_WAITED, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        yield pause
        waited += pause


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

    What Glue says of it is kept whole, as the job's own line stands at its end. Of a Spark job that raises, Glue says
    `Error Category: ...; Failed Line Number: ...; <Type>: <text>` (as users report it), and `JobExit` sees to it that
    the text is our line. Of a Python shell job it says `Command failed with exit code <n>` and no more
    (awslabs/aws-glue-libs#221), so ProcessTable writes its error into the item itself. The Glue API names no greatest
    length for `JobRun.ErrorMessage` (shape `ErrorString`).

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
