"""Knows the Spark run that was started for a table, and what follows if it ended without recording its end. Pure.

ProcessTable notes a run in the item of each of its tables when it has started it. The run notes where it is: at which
table, and, if an earlier one died there, at which raw file. It removes the note when it records how it ended for the
table. So if the next ProcessTable run of the table finds a note, the run has died, or Glue ended it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import DeadlyFileError, JobRunError
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.ports import JobRun

MAX_STARTS = 2
"""Number of runs in a row that may fail before their program begins: its libraries may be missing."""
MAX_GIVEN_UP = 4
"""Number of runs in a row that the service may give up."""
TIMEOUT = "TIMEOUT"
"""Glue's state of a run that took too long."""
RUNNING = "RUNNING"
"""Glue's state of a run whose program runs."""


class SparkRun(NamedTuple):
    """A Spark run that was started for a table.

    Attributes:
        job: The job.
        run: The run's id.
        tables: Number of the run's tables.
        starts: Number of runs for this table in a row, this one included, that Glue started in vain.
        began: Whether the run has begun with this table.
        file: The raw file that it is reading, relative; empty if it is not known.
        reason: Why it was started by a function that might have loaded the table itself; empty if by another run.
    """

    job: str
    run: str
    tables: int = 1
    starts: int = 1
    began: bool = False
    file: str = ""
    reason: str = ""

    @classmethod
    def of(cls, item: Mapping[str, str]) -> SparkRun | None:
        """The run in a table's item; None if there is none, or the text is another."""
        try:
            return cls(**json.loads(item.get(Attribute.LAST_SPARK_RUN, "")))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        """The JSON object that the item holds."""
        return json.dumps(self._asdict())


class Aftermath(NamedTuple):
    """What follows for a table from a run that recorded no end.

    Attributes:
        died: Whether the run died at this table.
        fails: Whether the table fails. Otherwise it gets another run, of its own if a run died at it.
        starts: Number of runs in a row that Glue started in vain: it gave them up, or their program did not begin.
    """

    died: bool = False
    fails: bool = False
    starts: int = 0


def aftermath(run: SparkRun, ended: JobRun, deaths: int, *, had_lease: bool) -> Aftermath:
    """Decide what follows from a run that recorded no end.

    Args:
        run: The note in the table's item.
        ended: The run's state now. If it is active or succeeded, another run took over the table from it.
        deaths: Number of runs that died at this table before.
        had_lease: Whether it had the table's lease at its end. If it had begun with the table, and had not, others took
            the table over from it, and its end says nothing about the table.
    """
    lost_lease = run.began and not had_lease
    if lost_lease or ended.state in (JobState.ACTIVE, JobState.SUCCEEDED):
        return Aftermath()
    if ended.state is JobState.STOPPED:  # an operator does not want it now
        return Aftermath(fails=True)
    if run.began and ended.state is JobState.FAILED:
        if ended.detail == TIMEOUT and run.tables == 1:  # another run would take as long
            return Aftermath(fails=True)
        return Aftermath(died=True, fails=deaths > 0)
    if had_lease and not run.began:  # it died at another table, which has runs of its own from now on
        return Aftermath()
    most = MAX_GIVEN_UP if ended.state is JobState.GIVEN_UP else MAX_STARTS
    return Aftermath(died=run.began, fails=True) if run.starts >= most else Aftermath(starts=run.starts)


def run_error(job: str, run: JobRun) -> JobRunError:
    """The error of a table whose run did not load it.

    Glue's message is kept whole, as it ends with the job's own error line. For a Spark job that raises, users report
    messages like `Error Category: ...; Failed Line Number: ...; <Type>: <text>`; `JobExit` makes our line the text. The
    Glue API sets no maximum length for `JobRun.ErrorMessage` (shape `ErrorString`).
    """
    message = f"{job} ended as {run.detail or run.state.value}"
    if run.error:
        return JobRunError(f"{message}: {run.error}", run=run.run_id)
    return JobRunError(message, remedy=_REMEDIES.get(run.detail, "Read the job's error log"), run=run.run_id)


def deadly_error(run: SparkRun, error: JobRunError, files: Mapping[str, str]) -> DeadlyFileError:
    """The error of a table at which a run died after another.

    Args:
        run: The note in the table's item.
        error: How the run ended.
        files: The raw files that it was to read.
    """
    at = "while it read a raw file" if run.file else "at this table"
    message = f"A Spark run died {at}, after another had died at this table: {error.message}"
    remedy = (
        "Nothing was applied, and other tables go on. Have DMS write the file again, or, if its rows are not"
        f" needed, add it to {Attribute.IGNORE_FILES}. If the run lacked memory, give the Spark jobs larger workers"
    )
    return DeadlyFileError(message, remedy=remedy, **files, **error.details)


_REMEDIES = {
    TIMEOUT: "Give the job more time (its Timeout) or more workers, and read its error log",
    "STOPPED": "An operator or another program stopped it; the next run does the work",
    "EXPIRED": "Glue did not start it in time; the next run tries again. If this recurs, raise the Glue quotas",
}
"""Remedies for runs for which Glue reports only a state."""
