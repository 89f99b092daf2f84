"""S3 keeps versions while versioning is suspended, and lists no folders of deleted objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from moto.core.utils import unix_time_millis
from moto.s3.models import FakeBucket, FakeDeleteMarker, S3Backend

from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

_SUSPENDED = "Suspended"


def _of_current_objects(list_objects: Callable[..., Any]) -> Callable[..., Any]:
    def list_current(backend: S3Backend, bucket: FakeBucket, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  moto's
        newest = {name: bucket.keys.get(name) for name in tuple(bucket.keys)}  # None: another request deletes it now
        current = {name: key for name, key in newest.items() if key and not isinstance(key, FakeDeleteMarker)}
        return list_objects(backend, SimpleNamespace(keys=current), *args, **kwargs)

    return list_current


def _unless_never_versioned(_: property) -> property:
    return property(lambda bucket: bucket.versioning_status is not None)


def _written_as_null(put_object: Callable[..., Any]) -> Callable[..., Any]:
    def put(backend: S3Backend, bucket_name: str, key_name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        written = put_object(backend, bucket_name, key_name, *args, **kwargs)
        _replace_null_version(backend.get_bucket(bucket_name), key_name, written)
        return written

    return put


def _deleted_as_null(delete_object: Callable[..., Any]) -> Callable[..., Any]:
    def delete(
        backend: S3Backend, bucket_name: str, key_name: str, version_id: str | None = None, bypass: bool = False
    ) -> Any:  # noqa: ANN401  moto's
        outcome = delete_object(backend, bucket_name, key_name, version_id, bypass)
        bucket = backend.get_bucket(bucket_name)
        if version_id is None and key_name in bucket.keys:
            _replace_null_version(bucket, key_name, bucket.keys[key_name])
        return outcome

    return delete


def _replace_null_version(bucket: FakeBucket, key_name: str, newest: Any) -> None:  # noqa: ANN401  an object or marker
    """Make the newest version the only version `null`, if versioning is suspended."""
    if bucket.versioning_status != _SUSPENDED:
        return
    newest._version_id = "null"
    versions = bucket.keys.getlist(key_name)
    versions[:] = [version for version in versions if version is newest or version.version_id != "null"]


def _with_newest(list_object_versions: Callable[..., Any]) -> Callable[..., Any]:
    def list_versions(backend: S3Backend, bucket_name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  moto's
        listed = list_object_versions(backend, bucket_name, *args, **kwargs)
        keys = backend.get_bucket(bucket_name).keys
        for part in (listed[0], listed[2]):  # versions, delete markers
            for one in part:
                one.is_latest = one.version_id in (newest.version_id for newest in keys.getlist(one.name)[-1:])
        return listed

    return list_versions


def _after_key_marker(list_object_versions: Callable[..., Any]) -> Callable[..., Any]:
    def list_after(backend: S3Backend, bucket_name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  moto's
        marker = kwargs.get("key_marker")
        if marker and not kwargs.get("version_id_marker"):
            keys = backend.get_bucket(bucket_name).keys
            last = max((name for name in tuple(keys) if name <= marker), default=None)
            versions = sorted(keys.getlist(last), key=lambda one: -unix_time_millis(one.last_modified)) if last else []
            kwargs |= {"key_marker": last, "version_id_marker": versions[-1].version_id if versions else None}
        return list_object_versions(backend, bucket_name, *args, **kwargs)

    return list_after


FOLDERS = Rule(
    name="S3: folders of deleted objects",
    aws="ListObjectsV2 and ListObjects with a delimiter list a folder only if it has an object that is not deleted. "
    "moto also lists folders whose objects all have delete markers.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeleteMarker.html",
    measured=NOT_MEASURED,
    patches=(Patch(S3Backend, "list_objects", _of_current_objects),),
)
SUSPENDED_VERSIONING = Rule(
    name="S3: suspended versioning",
    aws="In a bucket with suspended versioning, PutObject and DeleteObject replace only the version `null`, and "
    "versions can be read. moto discards all versions.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/AddingObjectstoVersionSuspendedBuckets.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectsfromVersioningSuspendedBuckets.html",
    measured=NOT_MEASURED,
    patches=(
        Patch(FakeBucket, "is_versioned", _unless_never_versioned),
        Patch(S3Backend, "put_object", _written_as_null),
        Patch(S3Backend, "delete_object", _deleted_as_null),
    ),
)
NEWEST_VERSION = Rule(
    name="S3: the newest version",
    aws="The newest version of an object is the one that was written last, also within a millisecond. moto compares "
    "the times.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/API/API_ObjectVersion.html",
    measured=NOT_MEASURED,
    patches=(Patch(S3Backend, "list_object_versions", _with_newest),),
)
KEY_MARKER = Rule(
    name="S3: key marker of a listing of versions",
    aws="ListObjectVersions with a key marker and no version marker begins after all versions of the keys up to the "
    "marker. moto leaves out one version, also of a later key.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html",
    measured="https://github.com/ceph/s3-tests/pull/594, https://github.com/versity/versitygw/issues/2178",
    patches=(Patch(S3Backend, "list_object_versions", _after_key_marker),),
)
