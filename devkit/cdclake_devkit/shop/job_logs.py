"""Finds the logs of failed job runs on an embedded AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.model.names import JOB_CONTROLLER, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake_devkit.local.server import EmbeddedAws

_INNERMOST_FIRST = (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, JOB_PROCESS_TABLE, JOB_CONTROLLER)
_FAILED_STATES = frozenset({"FAILED", "TIMEOUT", "ERROR"})


@dataclass(frozen=True)
class FailedRun:
    """A failed job run.

    Attributes:
        error: Glue's error message.
        log: File with all output of the run.
        last_lines: Last lines of the log.
    """

    job: str
    run_id: str
    error: str
    log: Path
    last_lines: tuple[str, ...]


def failed_runs(aws: EmbeddedAws, lines: int = 20) -> list[FailedRun]:
    """The failed runs. Spark jobs come first, because they are closest to the cause; then the oldest run of each job.

    Args:
        lines: Number of log lines per run.
    """
    failed = []
    for job in _INNERMOST_FIRST:
        pages = aws.client("glue").get_paginator("get_job_runs").paginate(JobName=job)
        runs = [run for page in pages for run in page["JobRuns"] if run["JobRunState"] in _FAILED_STATES]
        for run in sorted(runs, key=lambda run: run["StartedOn"]):
            log = aws.logs_dir / job / f"{run['Id']}.log"
            text = log.read_text(errors="replace") if log.exists() else ""
            last_lines = tuple(text.splitlines()[-lines:])
            failed.append(FailedRun(job, run["Id"], run.get("ErrorMessage", ""), log, last_lines))
    return failed
