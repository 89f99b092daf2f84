"""Lists the versions and delete markers of objects in an S3 bucket."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cdclake.ports import OldVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

NULL_VERSION = "null"
"""Version id of objects written while the bucket's versioning was off or suspended."""


class ObjectVersions(NamedTuple):
    """All versions of one object.

    Attributes:
        key: The object.
        live: Whether the newest version is data rather than a delete marker.
        data: Ids of the versions with data, newest first.
        markers: Ids of the delete markers, newest first. Their order relative to the data is unknown: S3 lists the two
            separately, with times in whole seconds.
    """

    key: str
    live: bool
    data: list[str]
    markers: list[str]


def versions_of(client: S3Client, bucket: str, key: str) -> ObjectVersions:
    """List all versions of an object; in a bucket that never had versioning, at most the version `null`.

    S3 lists by prefix: keys in order, and the versions of each newest first. So the object comes before all others
    whose keys begin with its own.
    """
    result = ObjectVersions(key, live=False, data=[], markers=[])
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key):
        versions, markers = page.get("Versions", []), page.get("DeleteMarkers", [])
        ours = [version for version in versions if version["Key"] == key]
        result.data.extend(version["VersionId"] for version in ours)
        result.markers.extend(marker["VersionId"] for marker in markers if marker["Key"] == key)
        if any(version["IsLatest"] for version in ours):
            result = result._replace(live=True)
        if any(entry["Key"] != key for entry in chain(versions, markers)):
            break
    return result


def all_versions(client: S3Client, bucket: str, prefix: str) -> Iterator[list[ObjectIdentifierTypeDef]]:
    """List all versions of objects whose keys begin with `prefix`, a page at a time, delete markers last."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        entries = chain(page.get("Versions", []), page.get("DeleteMarkers", []))
        yield [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]


def hidden_versions(client: S3Client, bucket: str, prefix: str) -> Iterator[OldVersion]:
    """List all noncurrent versions with data, of objects whose keys begin with `prefix`."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for version in page.get("Versions", []):
            if not version["IsLatest"]:
                yield OldVersion(version["Key"], version["VersionId"], version["Size"])


def delete_markers(client: S3Client, bucket: str, prefix: str) -> Iterator[ObjectIdentifierTypeDef]:
    """List all delete markers of objects whose keys begin with `prefix`."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for marker in page.get("DeleteMarkers", []):
            yield {"Key": marker["Key"], "VersionId": marker["VersionId"]}
