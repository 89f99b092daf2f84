"""Makes suspended versioning in the embedded AWS behave as on S3.

moto 5.2.5 treats a bucket with suspended versioning like one that never had versioning: a PUT or DELETE discards all
versions, and it refuses a HEAD of a version. On S3, a PUT or DELETE affects only the version `null`.
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
    """Make moto follow S3's rules until the end of the test."""
    put_object, delete_object = S3Backend.put_object, S3Backend.delete_object

    def put(backend: S3Backend, bucket_name: str, key_name: str, *args: Any, **kwargs: Any) -> Any:
        written = put_object(backend, bucket_name, key_name, *args, **kwargs)
        _replace_null_version(backend.get_bucket(bucket_name), key_name, written)
        return written

    def delete(
        backend: S3Backend, bucket_name: str, key_name: str, version_id: str | None = None, bypass: bool = False
    ) -> Any:
        outcome = delete_object(backend, bucket_name, key_name, version_id, bypass)
        bucket = backend.get_bucket(bucket_name)
        if version_id is None and key_name in bucket.keys:
            _replace_null_version(bucket, key_name, bucket.keys[key_name])
        return outcome

    monkeypatch.setattr(FakeBucket, "is_versioned", property(lambda bucket: bucket.versioning_status is not None))
    monkeypatch.setattr(S3Backend, "put_object", put)
    monkeypatch.setattr(S3Backend, "delete_object", delete)


def _replace_null_version(bucket: FakeBucket, key_name: str, newest: Any) -> None:
    """Make the newest version the only version `null`, if versioning is suspended."""
    if bucket.versioning_status != SUSPENDED:
        return
    newest._version_id = "null"
    versions = bucket.keys.getlist(key_name)
    versions[:] = [version for version in versions if version is newest or version.version_id != "null"]
