"""Worlds that a test sets up, lets a run loose on, looks at from the outside, and puts back as they were."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from datetime import timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import boto3
import moto.s3.models as s3_models
import pytest
from botocore.retries.standard import ExponentialBackoff
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

from cdclake.adapters import aws
from cdclake.adapters.dynamodb import create_state_table
from cdclake.adapters.folder import TEMPORARY_FOLDER, TEMPORARY_LIFETIME
from cdclake.adapters.memory import ManualClock
from cdclake.devkit.local.environment import DEFAULT_REGION, child_environment
from cdclake.devkit.local.web import http_server
from cdclake.model.names import STATE_TABLE
from tests.crash.places import LAKE, RAW, Aws, Folder
from tests.crash.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from wsgiref.types import WSGIApplication

    from tests.crash.places import Place


class World(Protocol):
    """A raw folder, a lake and a state table."""

    name: str
    clock: ManualClock

    @property
    def place(self) -> Place:
        """Where runs work."""
        ...

    def put_raw(self, key: str, content: bytes) -> None:
        """A raw file arrives now."""
        ...

    def lake_objects(self) -> dict[str, bytes]:
        """All that lies in the lake, seen without the help of the product's stores, by key."""
        ...

    def let_files_age(self) -> None:
        """What was half written when a process died is found only days later."""
        ...

    def save(self) -> None:
        """Remember everything as it is."""
        ...

    def restore(self) -> None:
        """Put everything back as it was when it was saved."""
        ...


class FolderWorld:
    """A world on disk."""

    name = "folder"

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self._root, self._saved = root / "world", root / "saved"
        for folder in ("raw", "lake"):
            (self._root / folder).mkdir(parents=True)

    @property
    def place(self) -> Folder:
        """See `World.place`."""
        return Folder(self._root)

    def put_raw(self, key: str, content: bytes) -> None:
        """See `World.put_raw`."""
        path = self._root / "raw" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (self.clock().timestamp(),) * 2)

    def lake_objects(self) -> dict[str, bytes]:
        """See `World.lake_objects`."""
        lake = self._root / "lake"
        return {path.relative_to(lake).as_posix(): path.read_bytes() for path in lake.rglob("*") if path.is_file()}

    def let_files_age(self) -> None:
        """See `World.let_files_age`."""
        for path in (self._root / "lake" / TEMPORARY_FOLDER).glob("*"):
            days_ago = path.stat().st_mtime - 2 * TEMPORARY_LIFETIME.total_seconds()
            os.utime(path, (days_ago, days_ago))

    def save(self) -> None:
        """See `World.save`."""
        self._time = self.clock()
        _copy(self._root, self._saved)

    def restore(self) -> None:
        """See `World.restore`."""
        self.clock.now = self._time
        _copy(self._saved, self._root)


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)


class AwsWorld:
    """A world in the embedded AWS.

    Args:
        wire: What all requests to it pass.
        endpoint: Its URL.
        versioned: Whether the lake bucket keeps versions.
    """

    def __init__(self, wire: Wire, endpoint: str, *, versioned: bool) -> None:
        self.name = "versioned bucket" if versioned else "bucket"
        self.versioned = versioned
        self.clock = ManualClock()
        self.wire = wire
        environment = child_environment({}, endpoint, DEFAULT_REGION)
        self._environment = tuple((name, value) for name, value in environment.items() if not name.startswith("PYTHON"))
        s3 = aws.client("s3")
        for bucket in (RAW, LAKE):
            s3.create_bucket(Bucket=bucket)
        if versioned:
            s3.put_bucket_versioning(Bucket=LAKE, VersioningConfiguration={"Status": "Enabled"})
        create_state_table(aws.client("dynamodb"), STATE_TABLE)

    @property
    def place(self) -> Aws:
        """See `World.place`."""
        return Aws(self._environment)

    def put_raw(self, key: str, content: bytes) -> None:
        """See `World.put_raw`."""
        written = _backend().put_object(RAW, key, content)
        written.last_modified = self.clock().astimezone(timezone.utc).replace(tzinfo=None)

    def lake_objects(self) -> dict[str, bytes]:
        """See `World.lake_objects`."""
        objects = {key: versions[-1] for key, versions in _versions(LAKE).items() if versions}
        return {key: found.value for key, found in objects.items() if isinstance(found, s3_models.FakeKey)}

    def let_files_age(self) -> None:
        """See `World.let_files_age`. Nothing half written is ever listed on S3."""

    def save(self) -> None:
        """See `World.save`."""
        self._time = self.clock()
        self._saved = {bucket: _read(bucket) for bucket in (RAW, LAKE)}
        self._items = aws.client("dynamodb").scan(TableName=STATE_TABLE, ConsistentRead=True)["Items"]

    def restore(self) -> None:
        """See `World.restore`. Versions get new ids."""
        self.clock.now = self._time
        for bucket, saved in self._saved.items():
            _write(bucket, saved)
        for item in self._items:
            aws.client("dynamodb").put_item(TableName=STATE_TABLE, Item=item)


@contextmanager
def aws_world(*, versioned: bool) -> Iterator[AwsWorld]:
    """An embedded AWS of one's own, to which the AWS clients of this process speak as well."""
    wires: list[Wire] = []

    def around(app: WSGIApplication) -> WSGIApplication:
        wires.append(Wire(app))
        return wires[0]

    moto_api_backend.reset()
    with http_server(0, around) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        # Moto reads its own folder to find the service that a host name stands for, at each request.
        service_of = lru_cache(DomainDispatcherApplication.get_backend_for_host)
        patch.setattr(DomainDispatcherApplication, "get_backend_for_host", service_of)
        patch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0)  # sent again without a pause
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in child_environment({}, endpoint, DEFAULT_REGION).items():
            if not name.startswith("PYTHON"):
                patch.setenv(name, value)
        try:
            yield AwsWorld(wires[0], endpoint, versioned=versioned)
        finally:
            moto_api_backend.reset()


class _Version(NamedTuple):
    """One version of an object; `content` is None for a delete marker."""

    content: bytes | None
    metadata: dict[str, str]
    modified: Any


def _backend() -> Any:
    return s3_models.s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def _versions(bucket: str) -> dict[str, list[Any]]:
    return dict(_backend().get_bucket(bucket).keys.iterlists())


def _read(bucket: str) -> dict[str, list[_Version]]:
    return {key: [_version(found) for found in versions] for key, versions in _versions(bucket).items()}


def _version(found: Any) -> _Version:
    if isinstance(found, s3_models.FakeKey):
        return _Version(found.value, dict(found.metadata), found.last_modified)
    return _Version(None, {}, found.last_modified)


def _write(bucket: str, saved: dict[str, list[_Version]]) -> None:
    """Make a bucket hold these versions and nothing else. Moto forgets a bucket's objects on its disk by `dispose`."""
    backend = _backend()
    held = backend.get_bucket(bucket)
    for versions in _versions(bucket).values():
        for version in versions:
            if isinstance(version, s3_models.FakeKey):
                version.dispose()
    held.keys.clear()
    held.multiparts.clear()
    for key, versions in saved.items():
        for content, metadata, modified in versions:
            if content is None:
                backend.delete_object(bucket, key)
                continue
            written = backend.put_object(bucket, key, content)
            written.set_metadata(metadata, replace=True)
            written.last_modified = modified
