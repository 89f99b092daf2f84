"""Which loads a ProcessTable run does itself if it is a Lambda function, and which it leaves to Spark, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from cdclake import logs
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.errors import CdclakeError, DiskFullError, NeedsSparkError, TooLargeError
from cdclake.model.names import JOB_LOAD_INITIAL

if TYPE_CHECKING:
    from cdclake.control.run.planned_round import DueLoad
    from cdclake.control.run.table_work import TableWork

MOST_RAW_BYTES = 16 << 20
"""Of the change files that are due: reading them takes some seconds, and their rows a fraction of the memory."""
log = logs.bind(__name__)


def why_spark(job: str, raw_bytes: int, deaths: int) -> str:
    """Why a due load needs Spark; empty if a function may try it.

    Args:
        job: The job whose work is due.
        raw_bytes: Size of the raw files that it reads.
        deaths: How many runs died at the table since one succeeded.
    """
    if job == JOB_LOAD_INITIAL:
        return "it is a full load"
    if raw_bytes > MOST_RAW_BYTES:
        return f"its raw files have {raw_bytes:,} bytes, of at most {MOST_RAW_BYTES:,}"
    return "a run died at the table" if deaths else ""


class SmallLoads:
    """The loads that a run in a function does itself.

    Args:
        run_id: Holder of the leases. If the function dies, it is called again with the same one.
        load: Commits what is due for a table as one change, or raises `NeedsSparkError`.
        timeout_seconds: The run's time.
    """

    def __init__(self, run_id: str, load: Callable[[DueLoad], object], timeout_seconds: float) -> None:
        self._run_id, self._load, self.timeout_seconds = run_id, load, timeout_seconds
        self._died_at: set[str] = set()

    def take(self, table: TableWork) -> bool:
        """Load what is due for a table if it is small, else set `spark_reason`. Returns whether it was loaded.

        If this function died at the table before, it tries once more. An error that is none of cdclake's may come from
        the function's libraries or memory, so Spark tries after it.
        """
        if not table.due_job:
            return False
        job, raw_bytes = table.due_job, table.due_bytes
        has_died = table.lease.taken_over_from == self._run_id and table.path not in self._died_at
        if has_died and not why_spark(job, raw_bytes, deaths=0):
            table.count_death()
            self._died_at.add(table.path)
        others = table.deaths - (table.path in self._died_at)
        table.spark_reason = why_spark(job, raw_bytes, max(others, 0))
        if table.spark_reason:
            return False
        try:
            table.load(self._load)
        except (NeedsSparkError, TooLargeError, DiskFullError) as error:
            table.spark_reason = error.message
            log.info("Spark loads %s: %s", table.report.table, error.message)
        except (CdclakeError, StoppedError):
            raise
        except Exception as error:
            table.spark_reason = f"the function failed: {error_line(error)}"
            log.exception("Spark loads %s", table.report.table)
        return not table.spark_reason
