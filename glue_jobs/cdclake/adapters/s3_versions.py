"""What an S3 bucket holds of one object: versions of its data, and delete markers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

NULL_VERSION = "null"
"""Version id of what was written while the bucket's versioning was off or suspended."""


class ObjectVersions(NamedTuple):
    """All versions of one object.

    Attributes:
        key: The object.
        in_sight: Whether the newest of all is data and no delete marker.
        data: Ids of the versions that hold data, newest first.
        markers: Ids of the delete markers, newest first. How they lie between the data is not told: S3 lists the two
            apart, and their times in whole seconds.
    """

    key: str
    in_sight: bool
    data: list[str]
    markers: list[str]


def versions_of(client: S3Client, bucket: str, key: str) -> ObjectVersions:
    """List what the bucket holds of an object; in a bucket that never had versions, at most the version `null`.

    S3 lists by prefix, in the order of the keys and for each from its newest version on. So the object itself comes
    before all others whose keys begin with its own.
    """
    found = ObjectVersions(key, in_sight=False, data=[], markers=[])
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key):
        versions, markers = page.get("Versions", []), page.get("DeleteMarkers", [])
        ours = [version for version in versions if version["Key"] == key]
        found.data.extend(version["VersionId"] for version in ours)
        found.markers.extend(marker["VersionId"] for marker in markers if marker["Key"] == key)
        if any(version["IsLatest"] for version in ours):
            found = found._replace(in_sight=True)
        if any(entry["Key"] != key for entry in chain(versions, markers)):
            break
    return found


def hidden_versions(client: S3Client, bucket: str, prefix: str) -> Iterator[ObjectIdentifierTypeDef]:
    """Every version with data, of objects whose keys begin with `prefix`, that is not the newest of its object."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for version in page.get("Versions", []):
            if not version["IsLatest"]:
                yield {"Key": version["Key"], "VersionId": version["VersionId"]}


def delete_markers(client: S3Client, bucket: str, prefix: str) -> Iterator[ObjectIdentifierTypeDef]:
    """Every delete marker of objects whose keys begin with `prefix`."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for marker in page.get("DeleteMarkers", []):
            yield {"Key": marker["Key"], "VersionId": marker["VersionId"]}
