"""Removes what a smoke test created."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cdclake.errors import IntegrityError, JobRunError
from cdclake_devkit.local.jobs import JobRunState
from smoke_aws.measure import log_streams

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MAX_STOPPED = 25
"""Runs per request. https://docs.aws.amazon.com/glue/latest/webapi/API_BatchStopJobRun.html"""
STOP_POLLS = 120


def empty_bucket(s3: Any, bucket: str) -> int:  # noqa: ANN401 - boto3's client
    """Delete all versions of all objects of a bucket; returns how many. A bucket that is not there is empty.

    Raises:
        IntegrityError: S3 refused to delete an object.
    """
    deleted = 0
    while ids := _first_versions(s3, bucket):
        for error in s3.delete_objects(Bucket=bucket, Delete={"Objects": ids, "Quiet": True}).get("Errors", ()):
            message = f"An object could not be deleted: {error.get('Message', error.get('Code'))}"
            raise IntegrityError(message, bucket=bucket, file=error.get("Key"))
        deleted += len(ids)
    return deleted


def _first_versions(s3: Any, bucket: str) -> list[dict[str, str]]:  # noqa: ANN401 - boto3's client
    try:
        page = s3.list_object_versions(Bucket=bucket)
    except s3.exceptions.NoSuchBucket:
        return []
    entries = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
    return [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]


def stop_runs(glue: Any, jobs: Collection[str], poll_seconds: float) -> list[str]:  # noqa: ANN401 - boto3's client
    """Stop all active runs of jobs, and wait until they have ended; returns the ids of all runs.

    The event of a stopped run may start another one, so this looks at all jobs until none has an active run.

    Args:
        glue: Client of Glue.
        jobs: Names of jobs; one that is not there has no runs.
        poll_seconds: Pause between two looks.

    Raises:
        JobRunError: A run does not end.
    """
    for _ in range(STOP_POLLS):
        runs = {job: _runs(glue, job) for job in jobs}
        active = {job: ids for job, found in runs.items() if (ids := _active(found))}
        if not active:
            return [run["Id"] for found in runs.values() for run in found]
        for job, ids in active.items():
            glue.batch_stop_job_run(JobName=job, JobRunIds=ids[:MAX_STOPPED])
        time.sleep(poll_seconds)
    job, ids = next(iter(active.items()))
    raise JobRunError("A run could not be stopped", remedy="Stop it in the Glue console", job=job, run=ids[0])


def _active(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    return [run["Id"] for run in runs if not JobRunState(run["JobRunState"]).ended]


def _runs(glue: Any, job: str) -> list[dict[str, Any]]:  # noqa: ANN401 - boto3's client
    try:
        return [run for page in glue.get_paginator("get_job_runs").paginate(JobName=job) for run in page["JobRuns"]]
    except glue.exceptions.EntityNotFoundException:
        return []


def delete_logs(logs: Any, run_ids: Iterable[str]) -> int:  # noqa: ANN401 - boto3's client
    """Delete the logs of runs; returns the number of log streams. Glue's log groups are shared, and stay."""
    streams = [stream for run_id in run_ids for stream in log_streams(run_id, logs)]
    for stream in streams:
        logs.delete_log_stream(logGroupName=stream.group, logStreamName=stream.name)
    return len(streams)
