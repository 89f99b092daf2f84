"""Runs jobs on AWS Glue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from cdclake.adapters.aws import Remedies, error_code, translated_errors
from cdclake.errors import JobRunError, NoRoomError
from cdclake.ports import JobRun, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from mypy_boto3_glue import GlueClient
    from mypy_boto3_glue.type_defs import JobRunTypeDef

_STATES = {
    "STARTING": JobState.ACTIVE,
    "RUNNING": JobState.ACTIVE,
    "STOPPING": JobState.ACTIVE,
    "WAITING": JobState.ACTIVE,
    "SUCCEEDED": JobState.SUCCEEDED,
    "STOPPED": JobState.STOPPED,
    "FAILED": JobState.FAILED,
    "TIMEOUT": JobState.FAILED,
    "ERROR": JobState.GIVEN_UP,
    "EXPIRED": JobState.GIVEN_UP,
}
"""All values of `JobRunState` in the Glue API. A queued run is `WAITING`; `ERROR` and `EXPIRED` come from the service,
not from the script. https://docs.aws.amazon.com/glue/latest/dg/job-run-statuses.html
"""

_REMEDY_WHEN_FULL = {
    "ConcurrentRunsExceededException": "Run again when a run has ended, or raise the job's maximum concurrency",
    "ResourceNumberLimitExceededException": "Run again when other jobs have ended, or ask AWS for a higher Glue quota",
    "ThrottlingException": "Run again in a while, or start fewer runs at a time",
}
"""Remedies by the error code with which Glue refuses a start for the moment."""


class GlueJobs:
    """A `JobRunner` on AWS Glue.

    Args:
        client: Glue client, see `cdclake.adapters.aws.client`.
        name_prefix: What precedes each job's name in this deployment.
    """

    def __init__(self, client: GlueClient, name_prefix: str = "") -> None:
        self._client = client
        self._name_prefix = name_prefix

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run and return its id. Argument names have no dashes.

        Raises:
            NoRoomError: The job or the account has its maximum of active runs, or Glue throttles.
            ConfigurationError: The job does not exist, or the caller may not start it.
        """
        job = self._deployed(job)
        dashed = {f"--{name}": value for name, value in arguments.items()}
        with _errors(job):
            try:
                return self._client.start_job_run(JobName=job, Arguments=dashed)["JobRunId"]
            except ClientError as error:
                remedy = _REMEDY_WHEN_FULL.get(error_code(error))
                if remedy is None:
                    raise
                raise NoRoomError("Glue has no room for another run now", remedy=remedy, job=job) from error

    def get(self, job: str, run_id: str) -> JobRun:
        """The state of a run.

        Raises:
            JobRunError: It does not exist, or its state is unknown.
        """
        job = self._deployed(job)
        with _errors(job, run_id):
            try:
                run = self._client.get_job_run(JobName=job, RunId=run_id)["JobRun"]
            except ClientError as error:
                if error_code(error) != "EntityNotFoundException":
                    raise
                raise JobRunError("The job run does not exist", job=job, run=run_id) from error
        return job_run(job, run)

    def _deployed(self, job: str) -> str:
        return f"{self._name_prefix}{job}"


def job_run(job: str, run: JobRunTypeDef) -> JobRun:
    """A run of a job, from Glue's answer.

    Raises:
        JobRunError: Its state is unknown.
    """
    state = run.get("JobRunState", "")
    if state not in _STATES:
        message = f"Glue reports the unknown state '{state}'"
        raise JobRunError(message, remedy="Check the run in the Glue console", job=job, run=run["Id"])
    arguments = {name.removeprefix("--"): value for name, value in run.get("Arguments", {}).items()}
    return JobRun(run["Id"], _STATES[state], state, run.get("ErrorMessage", ""), arguments)


def _errors(job: str, run_id: str | None = None) -> AbstractContextManager[None]:
    remedies = Remedies(
        missing=f"Deploy the job {job} in this region and account, or correct its name",
        denied=f"Grant the caller glue:StartJobRun and glue:GetJobRun on the job {job}",
    )
    return translated_errors(remedies, job=job, run=run_id)
