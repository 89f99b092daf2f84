"""Lists and deletes the versions and delete markers of objects in an S3 bucket."""

from __future__ import annotations

from collections import deque
from itertools import chain, groupby
from os.path import commonprefix
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.ports import OldVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        DeleteMarkerEntryTypeDef,
        ErrorTypeDef,
        ListObjectVersionsOutputTypeDef,
        ObjectIdentifierTypeDef,
        ObjectVersionTypeDef,
    )

    from cdclake.model.layout import FileKeys

NULL_VERSION = "null"
"""Version id of objects written while the bucket's versioning was off or suspended."""
LEAST_FILES, MOST_FILES = 16, 100
"""Of a batch. Each object of a DeleteObjects request counts as one of the 3,500 writes a second that S3 takes for a
prefix (https://issues.apache.org/jira/browse/HADOOP-16823), and `calls_at_once` such requests are under way."""


_BUSY = frozenset({"InternalError", "ServiceUnavailable", "SlowDown"})
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)


class ObjectVersions(NamedTuple):
    """All versions of one object.

    Attributes:
        key: The object.
        live: Whether the newest version is data rather than a delete marker.
        data: Ids of the versions with data, newest first.
        markers: Ids of the delete markers, newest first. Their order relative to the data is unknown: S3 lists the two
            separately, with times in whole seconds.
        sizes_bytes: Sizes of the versions with data.
    """

    key: str
    live: bool = False
    data: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    sizes_bytes: tuple[int, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether there is any version or marker."""
        return bool(self.data or self.markers)


def versions_of(client: S3Client, bucket: str, keys: Iterable[str]) -> dict[str, ObjectVersions]:
    """List all versions of objects; in a bucket that never had versioning, at most the version `null` of each.

    S3 lists by prefix: keys in order, the versions of each newest first, up to 1,000 versions and markers a request.
    A request begins right before the next of the keys that no page had. So there are at most as many requests as keys
    (of fewer than a thousand versions each), and the closer the keys are, the fewer.
    """
    found = {key: ObjectVersions(key) for key in sorted(keys)}
    left = deque(found)
    prefix = commonprefix(list(found))  # noqa: RUF071 - keys are no paths
    last, begin = prefix, dict[str, str]()
    while left:
        if left[0][:-1] > last:
            begin = {"KeyMarker": left[0][:-1]}  # S3 lists what sorts after it
        page = client.list_object_versions(Bucket=bucket, Prefix=prefix, **begin)  # type: ignore[arg-type]  # a marker
        versions, markers = page.get("Versions", []), page.get("DeleteMarkers", [])
        for version in versions:
            if version["Key"] in found:
                key, live, data, hiding, sizes_bytes = found[version["Key"]]
                data, sizes_bytes = (*data, version["VersionId"]), (*sizes_bytes, version["Size"])
                found[key] = ObjectVersions(key, live or version["IsLatest"], data, hiding, sizes_bytes)
        for marker in markers:
            if marker["Key"] in found:
                of_key = found[marker["Key"]]
                found[of_key.key] = of_key._replace(markers=(*of_key.markers, marker["VersionId"]))
        last = max((entry["Key"] for entry in chain(versions, markers)), default="")
        while left and (left[0] < last or not page["IsTruncated"]):
            left.popleft()
        markers_of_next = {"KeyMarker": page.get("NextKeyMarker"), "VersionIdMarker": page.get("NextVersionIdMarker")}
        begin = {name: marker for name, marker in markers_of_next.items() if marker}  # S3 refuses an empty version
    return found


def batches(files: Iterable[FileKeys], at_once: int) -> list[list[FileKeys]]:
    """Data files in batches for `at_once` requests at a time, each of neighbors in one folder."""
    ordered = sorted(files, key=lambda file: (file.folder, file.key))
    size = min(MOST_FILES, max(LEAST_FILES, -(-len(ordered) // at_once)))
    folders = (list(of_folder) for _, of_folder in groupby(ordered, key=lambda file: file.folder))
    return [files[start : start + size] for files in folders for start in range(0, len(files), size)]


def version_pages(client: S3Client, bucket: str, prefix: str) -> Iterator[ListObjectVersionsOutputTypeDef]:
    """List all versions and delete markers of objects whose keys begin with `prefix`, a page at a time."""
    return iter(client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix))


def identified(
    entries: Iterable[ObjectVersionTypeDef | DeleteMarkerEntryTypeDef],
) -> Iterator[ObjectIdentifierTypeDef]:
    """What deletes versions or delete markers."""
    return ({"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries)


def hidden_versions(page: ListObjectVersionsOutputTypeDef) -> Iterator[OldVersion]:
    """The noncurrent versions with data of a page."""
    for version in page.get("Versions", []):
        if not version["IsLatest"]:
            yield OldVersion(version["Key"], version["VersionId"], version["Size"])


def delete_objects(
    client: S3Client, bucket: str, objects: Sequence[ObjectIdentifierTypeDef], sleep: Callable[[float], None]
) -> list[ErrorTypeDef]:
    """Delete up to 1,000 objects or versions, and return the errors.

    S3 may be too busy for some of them, and says so in a response that botocore takes for a success.
    """
    left = objects
    for pause_seconds in (*_PAUSES_SECONDS, 0):
        failed = client.delete_objects(Bucket=bucket, Delete={"Objects": left, "Quiet": True}).get("Errors", [])
        if not failed or any(one.get("Code") not in _BUSY for one in failed):
            break
        again = {one.get("Key") for one in failed}
        left = [one for one in left if one["Key"] in again]
        sleep(pause_seconds)
    return failed
