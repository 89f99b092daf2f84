"""Where cdclake's raw files and lake are: in folders, or on S3."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.contestants.folders import link, parquet_files
from cdclake.adapters import aws

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.task import Task

_RAW, _LAKE = "bench-raw", "bench-lake"


class Storage(Protocol):
    """A raw bucket and a lake bucket.

    Attributes:
        raw: Location of the raw bucket, as cdclake reads it.
        lake: Location of the lake bucket.
    """

    raw: str
    lake: str

    def add_raw(self, prefix: str, files: Iterable[str]) -> None:
        """Add raw files that do not exist yet."""

    def discard_raw(self) -> None:
        """Delete the raw files, if that makes the copy of a starting table cheaper."""

    def clear_lake(self) -> None:
        """Delete the lake."""

    def data_files(self, prefix: str) -> tuple[str, ...]:
        """Paths of the lake's files below a prefix, or of copies of them."""


def open_storage(task: Task) -> Storage:
    """The storage of a task."""
    return _Buckets(Path(task.work)) if task.on_s3 else _Folders(Path(task.work))


class _Folders:
    def __init__(self, work: Path) -> None:
        self._raw, self._lake = work / "raw", work / "lake"
        self._raw.mkdir(exist_ok=True)
        self._lake.mkdir(exist_ok=True)
        self.raw, self.lake = self._raw.as_uri(), self._lake.as_uri()

    def add_raw(self, prefix: str, files: Iterable[str]) -> None:
        link(files, self._raw / prefix)

    def discard_raw(self) -> None:
        shutil.rmtree(self._raw)

    def clear_lake(self) -> None:
        shutil.rmtree(self._lake)
        self._lake.mkdir()

    def data_files(self, prefix: str) -> tuple[str, ...]:
        return parquet_files(self._lake / prefix)


class _Buckets:
    """Buckets of the endpoint in the environment."""

    raw, lake = f"s3://{_RAW}", f"s3://{_LAKE}"

    def __init__(self, work: Path) -> None:
        self._client, self._copies = aws.client("s3"), work / "copies"
        for bucket in {_RAW, _LAKE} - {bucket["Name"] for bucket in self._client.list_buckets()["Buckets"]}:
            self._client.create_bucket(Bucket=bucket)
            if bucket == _LAKE:  # as the stack creates it
                self._client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})

    def add_raw(self, prefix: str, files: Iterable[str]) -> None:
        existing = set(self._keys(_RAW, prefix))
        for file in files:
            key = prefix + Path(file).name
            if key not in existing:
                self._client.upload_file(file, _RAW, key)

    def discard_raw(self) -> None:
        """The server would keep the bytes, and another run would have to upload them again."""

    def clear_lake(self) -> None:
        for key in self._keys(_LAKE, ""):
            self._client.delete_object(Bucket=_LAKE, Key=key)

    def data_files(self, prefix: str) -> tuple[str, ...]:
        shutil.rmtree(self._copies, ignore_errors=True)
        for key in self._keys(_LAKE, prefix):
            copy = self._copies / key
            copy.parent.mkdir(parents=True, exist_ok=True)
            self._client.download_file(_LAKE, key, str(copy))
        return parquet_files(self._copies / prefix)

    def _keys(self, bucket: str, prefix: str) -> Iterator[str]:
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            yield from (entry["Key"] for entry in page.get("Contents", ()))
