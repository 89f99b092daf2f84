"""Suspended versioning in the embedded AWS, as S3 has it.

moto 5.2.5 takes a bucket whose versioning is suspended for one that never had any: a PUT or DELETE there throws away
all versions, and a HEAD of a version is refused. On S3 a PUT or DELETE touches the version `null` alone.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/AddingObjectstoVersionSuspendedBuckets.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectsfromVersioningSuspendedBuckets.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.s3.models import FakeBucket, S3Backend

if TYPE_CHECKING:
    import pytest

SUSPENDED = "Suspended"


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make moto keep S3's rules until the test is over."""
    put_object, delete_object = S3Backend.put_object, S3Backend.delete_object

    def put(backend: S3Backend, bucket_name: str, key_name: str, *args: Any, **kwargs: Any) -> Any:
        written = put_object(backend, bucket_name, key_name, *args, **kwargs)
        _take_the_place_of_null(backend.get_bucket(bucket_name), key_name, written)
        return written

    def delete(
        backend: S3Backend, bucket_name: str, key_name: str, version_id: str | None = None, bypass: bool = False
    ) -> Any:
        outcome = delete_object(backend, bucket_name, key_name, version_id, bypass)
        bucket = backend.get_bucket(bucket_name)
        if version_id is None and key_name in bucket.keys:
            _take_the_place_of_null(bucket, key_name, bucket.keys[key_name])
        return outcome

    monkeypatch.setattr(FakeBucket, "is_versioned", property(lambda bucket: bucket.versioning_status is not None))
    monkeypatch.setattr(S3Backend, "put_object", put)
    monkeypatch.setattr(S3Backend, "delete_object", delete)


def _take_the_place_of_null(bucket: FakeBucket, key_name: str, newest: Any) -> None:
    """What has just been written while versioning is suspended becomes the one version `null`."""
    if bucket.versioning_status != SUSPENDED:
        return
    newest._version_id = "null"
    versions = bucket.keys.getlist(key_name)
    versions[:] = [version for version in versions if version is newest or version.version_id != "null"]
