"""Starts job runs and polls them until they end or the time is over."""

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
"""Relative variation of a pause, so that many runs that began together do not poll together."""
MAX_UNANSWERED_POLLS = 20
"""In a row. Before each of them, the client's own retries failed, so this takes minutes."""
MAX_STOP_POLLS = 20

logger = logging.getLogger(__name__)


class OutOfTimeError(StoppedError):
    """The run has used up its time."""


class PollPolicy(NamedTuple):
    """How a run polls.

    Attributes:
        clock: Returns the time.
        sleep: Pauses for a number of seconds.
        random: Returns numbers from 0 to 1.
        until_utc: When the run's time is over.
        before_pause: Called before each pause; an exception that it raises ends the polling.
    """

    clock: Clock
    sleep: Callable[[float], None]
    random: Callable[[], float]
    until_utc: datetime
    before_pause: Callable[[], None]

    def polls(self) -> Iterator[None]:
        """Yield at once and then after each pause, endlessly.

        Raises:
            OutOfTimeError: The run's time is over.
        """
        for seconds in pauses(self.random):
            yield
            self.pause(seconds)

    def pause(self, seconds: float) -> None:
        """Pause once.

        Raises:
            OutOfTimeError: The run's time is over.
        """
        self.before_pause()
        left_seconds = (self.until_utc - self.clock()).total_seconds()
        if left_seconds <= 0:
            remedy = "The next run continues from the last change; if this recurs, give ProcessTable more time"
            raise OutOfTimeError("The run's time is over", remedy=remedy)
        self.sleep(min(seconds, left_seconds))


def pauses(random: Callable[[], float]) -> Iterator[float]:
    """Seconds between polls: about a fifth of the time waited so far, within bounds, to see the end of a run soon."""
    waited = 0.0
    while True:
        pause = min(max(waited * SHARE_OF_WAITED, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        yield pause * (1 - JITTER + 2 * JITTER * random())
        waited += pause


def start_run(jobs: JobRunner, job: str, arguments: Mapping[str, str], policy: PollPolicy) -> str:
    """Start a run, and wait while Glue has no room for it. Returns its id.

    Raises:
        OutOfTimeError: Glue had no room until the caller's time was over.
        JobRunError: It could not be started for another reason.
    """
    for _ in policy.polls():
        try:
            return jobs.start(job, arguments)
        except NoRoomError as error:
            logger.warning("%s waits: %s", job, error)
    raise AssertionError  # polls() never ends


def wait_for_run(jobs: JobRunner, job: str, run_id: str, policy: PollPolicy) -> JobRun:
    """Wait until a run has ended, whether it succeeded or not.

    If the service does not answer, polling goes on, up to `MAX_UNANSWERED_POLLS` times in a row.

    Raises:
        OutOfTimeError: The run had not ended when the caller's time was over.
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
            logger.warning("cannot read the state of %s: %s", job, error, extra={"started": run_id})
            continue
        unanswered = 0
        if run.state is not JobState.ACTIVE:
            return run
    raise AssertionError  # polls() never ends


def stop_run(jobs: JobRunner, job: str, run_id: str, policy: PollPolicy) -> bool:
    """Stop a run and wait a while for its end, regardless of the caller's deadline. False if it may still run."""
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
    """Refuse a run that did not succeed.

    Glue's message is kept whole, as it ends with the job's own error line. For a Spark job that raises, users report
    messages like `Error Category: ...; Failed Line Number: ...; <Type>: <text>`; `JobExit` makes our line the text. For
    a Python shell job the message is only `Command failed with exit code <n>` (awslabs/aws-glue-libs#221), so
    ProcessTable writes its error into the item itself. The Glue API sets no maximum length for `JobRun.ErrorMessage`
    (shape `ErrorString`).

    Raises:
        JobRunError: The run did not succeed; holds the job's own message.
    """
    if run.state is JobState.SUCCEEDED:
        return
    message = f"{job} ended as {run.detail or run.state.value}"
    if run.error:
        message = f"{message}: {run.error}"
        raise JobRunError(message, run=run.run_id)
    raise JobRunError(message, remedy=_REMEDIES.get(run.detail, "Read the job's error log"), run=run.run_id)


_REMEDIES = {
    "TIMEOUT": "Give the job more time (its Timeout) or more workers, and read its error log",
    "STOPPED": "An operator or another program stopped it; the next run does the work",
    "EXPIRED": "Glue did not start it in time; the next run tries again. If this recurs, raise the Glue quotas",
}
"""Remedies for runs for which Glue reports only a state."""
