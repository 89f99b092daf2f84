"""Runs a job's `main`, and ends with one line of JSON on stdout, or one error line on stderr and an exit code."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Callable
from uuid import uuid4

from cdclake.control.jobs.libraries import check_libraries
from cdclake.errors import CdclakeError, RetryableError, disk_full, gravest_kind, text_to_store, traceback_to_store
from cdclake.model.names import Argument
from cdclake.printable import printable
from cdclake.signals import handle_stop_signals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXIT_INCOMPLETE = 1
"""Exit code of a run that completed, but in which something failed."""
EXIT_DEFECT = 1
"""Exit code of a run that met an error that nobody expected."""
_JOB_RUN_ID = f"--{Argument.JOB_RUN_ID}"


class JobExit(SystemExit):
    """Ends the process with an exit code; its text is the reason.

    Some callers show the exit code of a failed job, others (Glue, for Spark jobs) the text of the exception.
    """

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class StoppedError(RetryableError):
    """The run was stopped."""


def run_job(main: Callable[[], Mapping[str, object]]) -> None:
    """Call a job's `main` and exit according to its result. Returns normally if the job succeeded.

    A `CdclakeError` is printed as one line, `<ErrorName>: what happened. What to do`, the last on stderr. Any other
    exception is a defect, of which the traceback is printed before, see `traceback_to_store`.

    Args:
        main: Does the job's work and returns its summary as JSON data. A summary with a non-empty `error` means that
            the run completed with failures.

    Raises:
        JobExit: The job failed, with the error's exit code.
    """
    try:
        check_libraries()
        summary = main()
    except (CdclakeError, OSError) as caught:
        error = caught if isinstance(caught, CdclakeError) else disk_full(caught)
        if error is None:
            raise
        line = error_line(error)
        sys.stderr.write(f"{line}\n")
        raise JobExit(line, error.exit_code) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, its text may quote values of rows
        line = error_line(error)
        sys.stderr.write(f"{traceback_to_store(error)}\n{line}\n")
        raise JobExit(line, EXIT_DEFECT) from None
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()
    failure = str(summary.get("error") or "")
    if failure:
        sys.stderr.write(f"{failure}\n")
        raise JobExit(failure, EXIT_INCOMPLETE)


def error_line(error: BaseException) -> str:
    """`<ErrorName>: message and remedy`, on one line."""
    return printable(" ".join(text_to_store(error).split()))


def failures_line(failed: Mapping[str, BaseException], total: int, folders: Sequence[str] = ()) -> str:
    """One line that names the failed tables, with the kind of the gravest error; empty if nothing failed.

    Args:
        failed: The errors, by name or path of the table.
        folders: One line for each folder that could not be listed.
    """
    failures = [*map(error_line, failed.values()), *folders]
    if not failures:
        return ""
    more = f"; folders that could not be listed: {len(folders)}" if folders else ""
    message = f"{len(failed)} of {total} tables failed: {', '.join(failed) or 'none'}{more}"
    kind = gravest_kind(failed.values()) if failed else RetryableError
    return error_line(kind(message, remedy=f"The others continued. First error: {failures[0]}"))


def job_run_id(argv: Sequence[str]) -> str:
    """The run's id: Glue passes it to Spark jobs as `--JOB_RUN_ID`. For a Python shell job, make one."""
    if _JOB_RUN_ID in argv[:-1]:
        return argv[argv.index(_JOB_RUN_ID) + 1]
    return f"run-{uuid4().hex}"


def stop_on_signals() -> None:
    """Make SIGTERM and SIGHUP raise `StoppedError` in the main thread, so that the run can clean up."""

    def stop(number: signal.Signals) -> None:
        message = f"The run was stopped ({number.name})"
        raise StoppedError(message, remedy="The next run continues from the last change")

    handle_stop_signals(stop, (signal.SIGTERM, signal.SIGHUP))
