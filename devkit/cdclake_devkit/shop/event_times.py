"""Measures how long it takes from a new raw file to its visible change, with the logs of the runs in between."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import JobRunError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_PROCESS_TABLE, Argument

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.model.change.record import ChangeRecord
    from cdclake_devkit.local.server import EmbeddedAws


class EventTimes(NamedTuple):
    """Seconds from when a raw file was written until later stages.

    Attributes:
        process_table: The ProcessTable run that its event started began with its table.
        spark: The Spark run began with its table.
        visible: The change was visible.
    """

    process_table: float
    spark: float
    visible: float


def event_times(aws: EmbeddedAws, table: str, change: ChangeRecord, written_utc: datetime) -> EventTimes:
    """The times of a change that an incremental run of one table made after an event.

    Args:
        table: Name of the table, as the logs contain it.
        written_utc: When the raw file was written.

    Raises:
        JobRunError: The log of a run lacks a line.
    """

    def seconds(job: str, run_id: str, is_meant: Callable[[dict[str, object]], bool]) -> float:
        time = _time_of(aws.logs_dir / job / f"{run_id}.log", table, is_meant)
        return round((time - written_utc).total_seconds(), 1)

    run = aws.client("glue").get_job_run(JobName=JOB_LOAD_INCREMENTAL, RunId=change.run_id)["JobRun"]
    return EventTimes(
        seconds(JOB_PROCESS_TABLE, run["Arguments"][f"--{Argument.LEASE_HOLDER}"], lambda _: True),
        seconds(JOB_LOAD_INCREMENTAL, change.run_id, lambda _: True),
        seconds(JOB_LOAD_INCREMENTAL, change.run_id, lambda line: line["message"] == "ended"),
    )


def _time_of(log: Path, table: str, is_meant: Callable[[dict[str, object]], bool]) -> datetime:
    """Time of the first line about a table that is meant."""
    for text in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # Spark's own
            continue
        if "time" in line and line.get("table") == table and is_meant(line):
            return datetime.fromisoformat(line["time"])
    message = f"A run of {table} did not log what it did"
    raise JobRunError(message, remedy="Read its log", file=str(log))
