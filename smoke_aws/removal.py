"""Removes what a smoke test created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdclake.errors import IntegrityError
from smoke_aws.measure import log_streams

if TYPE_CHECKING:
    from collections.abc import Iterable


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


def delete_logs(logs: Any, run_ids: Iterable[str]) -> int:  # noqa: ANN401 - boto3's client
    """Delete the logs of runs; returns the number of log streams. Glue's log groups are shared, and stay."""
    streams = [stream for run_id in run_ids for stream in log_streams(run_id, logs)]
    for stream in streams:
        logs.delete_log_stream(logGroupName=stream.group, logStreamName=stream.name)
    return len(streams)
