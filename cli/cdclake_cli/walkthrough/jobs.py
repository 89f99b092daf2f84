"""Finds runs of the walkthrough's jobs, and the triggers that start them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from cdclake.adapters.glue import job_run
from cdclake.model.names import JOB_CONTROLLER, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE
from cdclake.ports import JobState

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

_JOBS = (JOB_CONTROLLER, JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
_NEWEST = 50


@dataclass(frozen=True)
class JobsAtWork:
    """What may write to the old lake.

    Attributes:
        running: Jobs of which a run has not ended.
        triggers: Triggers that are on and start one of the jobs.
    """

    running: tuple[str, ...]
    triggers: tuple[str, ...]


def jobs_at_work(glue: GlueClient) -> JobsAtWork:
    """Look for runs that have not ended, and for triggers that are on.

    Raises:
        JobRunError: The state of a run is unknown.
    """
    found = [job for job in _JOBS if _is_running(glue, job)]
    on = [
        str(trigger.get("Name"))
        for page in glue.get_paginator("get_triggers").paginate()
        for trigger in page["Triggers"]
        if trigger.get("State") == "ACTIVATED"
        and any(action.get("JobName") in _JOBS for action in trigger.get("Actions", []))
    ]
    return JobsAtWork(tuple(found), tuple(on))


def _is_running(glue: GlueClient, job: str) -> bool:
    try:
        runs = glue.get_job_runs(JobName=job, MaxResults=_NEWEST)["JobRuns"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "EntityNotFoundException":
            return False
        raise
    return any(job_run(job, run).state is JobState.ACTIVE for run in runs)
