"""Starts job runs and waits for them, for as long as there is time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.control.jobs.entry import StoppedError
from cdclake.errors import CdclakeError, JobRunError, NoRoomError, RetryableError
from cdclake.ports import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from cdclake.ports import Clock, JobRun, JobRunner

SHARE_OF_WAITED = 0.2
SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0
JITTER = 0.25
"""Share by which a pause may be shorter or longer, so that many runs that began together do not call together."""
MAX_UNANSWERED_POLLS = 20
"""In a row. Each has seen the service client's own retries fail, so this is a matter of minutes."""
MAX_STOP_POLLS = 20

logger = logging.getLogger(__name__)


class OutOfTimeError(StoppedError):
    """The run has used up its own time."""


class PollPolicy(NamedTuple):
    """How a run waits.

    Attributes:
        clock: The time.
        sleep: Pauses for so many seconds.
        random: Gives numbers from 0 to 1.
        until_utc: When the run's own time is over.
        before_pause: Called before each pause; what it raises ends the waiting.
    """

    clock: Clock
    sleep: Callable[[float], None]
    random: Callable[[], float]
    until_utc: datetime
    before_pause: Callable[[], None]

    def polls(self) -> Iterator[None]:
        """Yields at once and then after each pause, without end.

        Raises:
            OutOfTimeError: The run's own time is over.
        """
        for seconds in pauses(self.random):
            yield
            self.pause(seconds)

    def pause(self, seconds: float) -> None:
        """Pause once.

        Raises:
            OutOfTimeError: The run's own time is over.
        """
        self.before_pause()
        left_seconds = (self.until_utc - self.clock()).total_seconds()
        if left_seconds <= 0:
            remedy = "The next run goes on from the last change; if it stays so, give ProcessTable more time"
            raise OutOfTimeError("The run's own time is over", remedy=remedy)
        self.sleep(min(seconds, left_seconds))


def pauses(random: Callable[[], float]) -> Iterator[float]:
    """Seconds between polls: about a fifth of the time waited so far, within bounds, so that an end is soon seen."""
    waited = 0.0
    while True:
        pause = min(max(waited * SHARE_OF_WAITED, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        yield pause * (1 - JITTER + 2 * JITTER * random())
        waited += pause


def start_run(jobs: JobRunner, job: str, arguments: Mapping[str, str], policy: PollPolicy) -> str:
    """Start a run, waiting while there is no room for it; returns its id.

    Raises:
        OutOfTimeError: There was no room for as long as the caller had time.
        JobRunError: It could not be started for another reason.
    """
    for _ in policy.polls():
        try:
            return jobs.start(job, arguments)
        except NoRoomError as error:
            logger.warning("%s waits: %s", job, error)
    raise AssertionError  # polls() never ends


def wait_for_run(jobs: JobRunner, job: str, run_id: str, policy: PollPolicy) -> JobRun:
    """Wait until a run has ended, well or not.

    A service that does not answer is asked again, `MAX_UNANSWERED_POLLS` times in a row.

    Raises:
        OutOfTimeError: The run has not ended for as long as the caller had time.
        RetryableError: The service does not answer.
    """
    unanswered = 0
    for _ in policy.polls():
        try:
            run = jobs.get(job, run_id)
        except StoppedError:
            raise
        except RetryableError as error:
            unanswered += 1
            if unanswered == MAX_UNANSWERED_POLLS:
                raise
            logger.warning("cannot tell how %s stands: %s", job, error, extra={"started": run_id})
            continue
        unanswered = 0
        if run.state is not JobState.ACTIVE:
            return run
    raise AssertionError  # polls() never ends


def stop_run(jobs: JobRunner, job: str, run_id: str, policy: PollPolicy) -> bool:
    """Have a run stopped, and wait a while until it is; the caller's time does not matter. False if it may run on."""
    try:
        run = jobs.stop(job, run_id)
        for _, pause in zip(range(MAX_STOP_POLLS), pauses(policy.random)):
            if run.state is not JobState.ACTIVE:
                return True
            policy.sleep(pause)
            run = jobs.get(job, run_id)
    except StoppedError:
        raise
    except CdclakeError:
        logger.exception("could not stop %s", job, extra={"started": run_id})
        return False
    return run.state is not JobState.ACTIVE


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
    raise JobRunError(message, remedy=_REMEDIES.get(run.detail, "Look in the job's error log"), run=run.run_id)


_REMEDIES = {
    "TIMEOUT": "Give the job more time (its Timeout) or more workers, and look in its error log",
    "STOPPED": "Somebody stopped it; the next run does the work",
    "EXPIRED": "It waited for its turn in vain; the next run tries again. Raise the account's Glue quotas if it stays",
}
"""What to do about a run of which Glue says nothing but its state."""
