"""How every job script ends: one line of JSON on stdout, or one clear line on stderr and an exit code."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Callable
from uuid import uuid4

from cdclake.errors import CdclakeError, RetryableError
from cdclake.model.names import Argument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

EXIT_INCOMPLETE = 1
"""Exit code of a run that came to its end although something in it failed."""
_JOB_RUN_ID = f"--{Argument.JOB_RUN_ID}"


class JobExit(SystemExit):
    """Ends the process with an exit code, and reads as the reason.

    Some show the exit code of a job that failed, and some (Glue, for Spark jobs) the text of what it raised.
    """

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class StoppedError(RetryableError):
    """The run was told to stop."""


def run_job(main: Callable[[], Mapping[str, object]]) -> None:
    """Call a job's `main` and end as it did. Returns if all went well, so that no exit is raised where none is needed.

    An expected error shows as one line, `<ErrorName>: what happened. What to do`, the last on stderr. Any other
    exception is a defect and goes through with its traceback.

    Args:
        main: Does the job's work and returns its summary, which must be good for JSON. A summary whose `error` is
            not empty tells of a run that came to its end with failures.

    Raises:
        JobExit: The job failed, with the error's exit code.
    """
    try:
        summary = main()
    except CdclakeError as error:
        line = error_line(error)
        sys.stderr.write(f"{line}\n")
        raise JobExit(line, error.exit_code) from None
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()
    failure = str(summary.get("error") or "")
    if failure:
        sys.stderr.write(f"{failure}\n")
        raise JobExit(failure, EXIT_INCOMPLETE)


def error_line(error: BaseException) -> str:
    """`<ErrorName>: message and remedy`, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def failures_line(failed: Mapping[str, str], total: int) -> str:
    """One line that says which of several tables failed; empty if none did.

    Args:
        failed: What went wrong, by name or path of the table.
        total: How many tables there were.
    """
    if not failed:
        return ""
    message = f"{len(failed)} of {total} tables failed: {', '.join(failed)}"
    return error_line(RetryableError(message, remedy=f"The others went on. First error: {next(iter(failed.values()))}"))


def job_run_id(argv: Sequence[str]) -> str:
    """The run's own id: what Glue passes to a Spark job as `--JOB_RUN_ID`. A Python shell job is not told: make one."""
    if _JOB_RUN_ID in argv[:-1]:
        return argv[argv.index(_JOB_RUN_ID) + 1]
    return f"run-{uuid4().hex}"


def stop_on_sigterm() -> None:
    """Make SIGTERM raise `StoppedError` in the main thread, so that the run can put its affairs in order."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise StoppedError("The run was told to stop (SIGTERM)", remedy="The next run goes on from the last change")

    signal.signal(signal.SIGTERM, stop)
