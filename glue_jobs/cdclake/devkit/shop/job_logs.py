"""Finds what the failed job runs of an embedded AWS wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.model.names import JOB_CONTROLLER, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.devkit.local.server import EmbeddedAws

_NEAREST_TO_THE_CAUSE = (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, JOB_PROCESS_TABLE, JOB_CONTROLLER)
_BAD_ENDS = frozenset({"FAILED", "TIMEOUT", "ERROR"})


@dataclass(frozen=True)
class FailedRun:
    """A job run that did not end well.

    Attributes:
        error: What Glue says of it.
        log: File with everything it wrote.
        last_lines: The end of that.
    """

    job: str
    run_id: str
    error: str
    log: Path
    last_lines: tuple[str, ...]


def failed_runs(aws: EmbeddedAws, lines: int = 20) -> list[FailedRun]:
    """The failed runs; those nearest to the cause (the Spark jobs) first, and of each job the oldest first.

    Args:
        aws: Where they ran.
        lines: How many of the last lines of each log to give.
    """
    found = []
    for job in _NEAREST_TO_THE_CAUSE:
        pages = aws.client("glue").get_paginator("get_job_runs").paginate(JobName=job)
        runs = [run for page in pages for run in page["JobRuns"] if run["JobRunState"] in _BAD_ENDS]
        for run in sorted(runs, key=lambda run: run["StartedOn"]):
            log = aws.logs_dir / job / f"{run['Id']}.log"
            text = log.read_text(errors="replace") if log.exists() else ""
            last_lines = tuple(text.splitlines()[-lines:])
            found.append(FailedRun(job, run["Id"], run.get("ErrorMessage", ""), log, last_lines))
    return found
