# ruff: noqa: D102, ANN401 - boto3's methods
"""A bucket with versioning on, in memory: where more requests are made than moto can answer in their time."""

from __future__ import annotations

import hashlib
import io
from bisect import bisect_left, insort
from collections import deque
from datetime import datetime, timezone
from itertools import count, islice, takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.ports import Clock

PAGE_ENTRIES = 1000
"""Versions and delete markers that S3 lists in a response."""
_CODES = {404: "NoSuchKey", 412: "PreconditionFailed"}


class _Version(NamedTuple):
    """A version of an object, or a delete marker: `data` is None."""

    id: str
    data: bytes | None
    modified_utc: datetime
    metadata: Mapping[str, str]

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data or b"", usedforsecurity=False).hexdigest()}"'


class VersionedBucket:
    """boto3's S3 client for one bucket, as far as `S3Store` uses it. `S3Store` passes its contract on it as on moto.

    Attributes:
        stored_bytes: The bytes of all versions.
    """

    def __init__(self, clock: Clock = lambda: datetime.now(timezone.utc)) -> None:
        self._clock = clock
        self._versions: dict[str, list[_Version]] = {}
        """Versions of each key, the newest last."""
        self._sorted: list[str] = []
        """The keys. Python compares texts by code point, which is the order of their UTF-8 bytes."""
        self._ids = count(1)
        self._lock = Lock()
        self.stored_bytes = 0

    def clone(self) -> VersionedBucket:
        """A bucket with the same versions."""
        other = VersionedBucket(self._clock)
        other._versions = {key: list(versions) for key, versions in self._versions.items()}
        other._sorted, other._ids, other.stored_bytes = list(self._sorted), self._ids, self.stored_bytes
        return other

    def get_bucket_versioning(self, **_: Any) -> dict[str, str]:
        return {"Status": "Enabled"}

    def put_object(
        self,
        *,
        Key: str,
        Body: bytes,
        IfNoneMatch: str = "",
        IfMatch: str = "",
        Metadata: Mapping[str, str] | None = None,
        **_: Any,
    ) -> None:
        current = self._current(Key)
        if IfMatch and current is None:
            raise _error(404)
        if (IfNoneMatch and current) or (IfMatch and current and current.etag != IfMatch):
            raise _error(412)
        self._add(Key, Body, Metadata or {})

    def get_object(self, *, Key: str, VersionId: str = "", **_: Any) -> dict[str, Any]:
        versions = (one for one in self._versions.get(Key, []) if one.id == VersionId)
        found = next(versions, None) if VersionId else self._found(Key)
        if found is None:
            raise _error(404)
        return {"Body": io.BytesIO(found.data or b""), "ETag": found.etag}

    def head_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        found = self._found(Key)
        return {"VersionId": found.id, "Metadata": found.metadata, "ContentLength": len(found.data or b"")}

    def copy(self, source: Mapping[str, str], _bucket: str, target: str, **_: Any) -> None:
        wanted = source.get("VersionId")
        versions = [one for one in self._versions.get(source["Key"], []) if one.id == wanted and one.data is not None]
        found = versions[0] if versions else self._found(source["Key"])
        self._add(target, found.data or b"", found.metadata)

    def copy_object(self, *, CopySource: Mapping[str, str], Bucket: str, Key: str) -> None:
        self.copy(CopySource, Bucket, Key)

    def delete_object(self, *, Key: str, **_: Any) -> None:
        self._add(Key, None, {})

    def delete_objects(self, *, Delete: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        assert len(Delete["Objects"]) <= PAGE_ENTRIES, "S3 refuses more"
        for one in Delete["Objects"]:
            key, version_id = one["Key"], one.get("VersionId")
            if version_id is None:
                self._add(key, None, {})
                continue
            self._remove(key, version_id)
        return {}

    def get_paginator(self, operation: str) -> _Pages:
        return _Pages(self, operation)

    def list_objects_v2(self, prefix: str, start_after: str, delimiter: str) -> dict[str, Any]:
        contents, folders = [], set()
        for key, version in self._live(prefix):
            folder, separator, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if separator:
                folders.add(f"{prefix}{folder}{delimiter}")
            elif key > start_after:
                size, modified = len(version.data or b""), version.modified_utc
                contents.append({"Key": key, "Size": size, "LastModified": modified, "ETag": version.etag})
        return {"Contents": contents, "CommonPrefixes": [{"Prefix": folder} for folder in sorted(folders)]}

    def list_object_versions(
        self, *, Prefix: str, KeyMarker: str = "", VersionIdMarker: str = "", **_: Any
    ) -> dict[str, Any]:
        with self._lock:
            keys = (key for key in self._keys(Prefix, KeyMarker) if key != KeyMarker or VersionIdMarker)
            entries = ((key, version) for key in keys for version in self._versions[key][::-1])
            if VersionIdMarker:
                deque(takewhile(lambda one: (one[0], one[1].id) != (KeyMarker, VersionIdMarker), entries), maxlen=0)
            page = list(islice(entries, PAGE_ENTRIES))
            newest = {key: self._versions[key][-1] for key, _ in page}
            is_truncated = bool(next(entries, None))
        listed: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for key, version in page:
            size, is_latest = len(version.data or b""), version is newest[key]
            entry = {"Key": key, "VersionId": version.id, "IsLatest": is_latest, "Size": size}
            listed[version.data is None].append(entry)
        answer = {"Versions": listed[False], "DeleteMarkers": listed[True], "IsTruncated": is_truncated}
        if is_truncated:
            answer |= {"NextKeyMarker": page[-1][0], "NextVersionIdMarker": page[-1][1].id}
        return answer

    def _add(self, key: str, data: bytes | None, metadata: Mapping[str, str]) -> None:
        version = _Version(f"version-{next(self._ids)}", data, self._clock(), metadata)
        with self._lock:
            if key not in self._versions:
                insort(self._sorted, key)
            self._versions.setdefault(key, []).append(version)
            self.stored_bytes += len(data or b"")

    def _remove(self, key: str, version_id: str) -> None:
        with self._lock:
            versions = self._versions.get(key, [])
            for version in [one for one in versions if one.id == version_id]:
                versions.remove(version)
                self.stored_bytes -= len(version.data or b"")
                if not versions:
                    del self._versions[key]
                    del self._sorted[bisect_left(self._sorted, key)]

    def _current(self, key: str) -> _Version | None:
        versions = self._versions.get(key)
        return versions[-1] if versions and versions[-1].data is not None else None

    def _found(self, key: str) -> _Version:
        found = self._current(key)
        if found is None:
            raise _error(404)
        return found

    def _keys(self, prefix: str, begin_key: str = "") -> list[str]:
        begin = bisect_left(self._sorted, max(prefix, begin_key))
        return list(takewhile(lambda key: key.startswith(prefix), islice(self._sorted, begin, None)))

    def _live(self, prefix: str) -> Iterator[tuple[str, _Version]]:
        with self._lock:
            keys = self._keys(prefix)
        for key in keys:
            current = self._current(key)
            if current:
                yield key, current


class _Pages(NamedTuple):
    """A paginator. The only page of a listing of objects has all of them."""

    bucket: VersionedBucket
    operation: str

    def paginate(self, *, Prefix: str, StartAfter: str = "", Delimiter: str = "", **_: Any) -> Iterator[dict[str, Any]]:
        if self.operation == "list_object_versions":
            page = self.bucket.list_object_versions(Prefix=Prefix)
            yield page
            while page["IsTruncated"]:
                begin = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
                page = self.bucket.list_object_versions(Prefix=Prefix, **begin)
                yield page
        else:
            yield self.bucket.list_objects_v2(Prefix, StartAfter, Delimiter)


def _error(status: int) -> ClientError:
    error = {"Error": {"Code": _CODES[status], "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, "")  # type: ignore[arg-type]  # the rest of the response is not used
