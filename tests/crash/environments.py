"""Environments of runs: a folder or an embedded AWS that tests can inspect from the outside, save and restore.

Only the crash tests save and restore whole environments, and look at them without the product's stores.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from copy import deepcopy
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol

import boto3
import moto.glue.models as glue_models
import moto.s3.models as s3_models
import pytest
from botocore.retries.standard import ExponentialBackoff
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend

from cdclake.adapters.dynamodb import create_state_table
from cdclake.adapters.folder import TEMPORARY_FOLDER, TEMPORARY_LIFETIME
from cdclake.commit.clean_up import EXPIRY_GRACE
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_PROCESS_TABLE, STATE_TABLE
from cdclake_devkit.local.deploy import create_role
from cdclake_devkit.local.environment import DEFAULT_REGION, DUMMY_KEY, child_environment
from cdclake_devkit.local.roles import Place, policies, role_variables
from cdclake_devkit.local.web import http_server
from cdclake_devkit.memory import ManualClock
from tests.crash.connectors import DATABASE, LAKE, RAW, AwsConnector, Connector, FolderConnector
from tests.crash.wire import FaultyWire
from tests.infra.documented import documented_policy
from tests.moto_buckets import read_bucket, s3_backend, versions_of, write_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from wsgiref.types import WSGIApplication


class Environment(Protocol):
    """A raw folder, a lake and a state table."""

    name: str
    clock: ManualClock

    @property
    def connector(self) -> Connector:
        """Connects runs to this environment."""
        ...

    def put_raw(self, key: str, content: bytes) -> None:
        """Deliver a raw file."""
        ...

    def lake_objects(self) -> dict[str, bytes]:
        """All objects of the lake by key, read without the product's stores."""
        ...

    def catalog(self) -> dict[str, set[str] | str] | None:
        """What each table in the catalog shows; None if there is no catalog.

        Its partitions, as folders such as `city=Ulm`, or the URL of the metadata of an Iceberg table.
        """
        ...

    def age_files(self) -> None:
        """Make temporary files, and files that an Iceberg table no longer names, old enough to be removed."""
        ...

    def save(self) -> None:
        """Save the whole state."""
        ...

    def restore(self) -> None:
        """Restore the saved state."""
        ...


class FolderEnvironment:
    """An environment on disk."""

    name = "folder"

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self._root, self._saved = root / "environment", root / "saved"
        for folder in ("raw", "lake"):
            (self._root / folder).mkdir(parents=True)

    @property
    def connector(self) -> FolderConnector:
        return FolderConnector(self._root)

    def put_raw(self, key: str, content: bytes) -> None:
        path = self._root / "raw" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (self.clock().timestamp(),) * 2)

    def lake_objects(self) -> dict[str, bytes]:
        lake = self._root / "lake"
        return {path.relative_to(lake).as_posix(): path.read_bytes() for path in lake.rglob("*") if path.is_file()}

    def catalog(self) -> None:
        """See `Environment.catalog`. A folder has no catalog."""

    def age_files(self) -> None:
        expired = (self.clock() - 2 * EXPIRY_GRACE).timestamp()
        for path in (self._root / "lake").rglob("*"):
            if path.is_file() and TEMPORARY_FOLDER not in path.parts:
                os.utime(path, (expired, expired))
        for path in (self._root / "lake" / TEMPORARY_FOLDER).glob("*"):
            days_ago = path.stat().st_mtime - 2 * TEMPORARY_LIFETIME.total_seconds()
            os.utime(path, (days_ago, days_ago))

    def save(self) -> None:
        self._time = self.clock()
        _copy(self._root, self._saved)

    def restore(self) -> None:
        self.clock.now = self._time
        _copy(self._saved, self._root)


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)


class AwsEnvironment:
    """An environment in the embedded AWS, which follows the rules of `cdclake_devkit.strict_aws`.

    Args:
        wire: Injects faults into its requests.
        versioned: Whether the lake bucket has versioning on.

    Attributes:
        variables: Environment variables of the runs, with credentials of a role.
    """

    def __init__(self, wire: FaultyWire, endpoint: str, *, versioned: bool) -> None:
        self.name = "versioned bucket" if versioned else "bucket"
        self.versioned = versioned
        self.clock = ManualClock()
        self.wire = wire
        self._administrator = boto3.session.Session(DUMMY_KEY, DUMMY_KEY, region_name=DEFAULT_REGION)
        self._endpoint = endpoint
        s3 = self._client("s3")
        for bucket in (RAW, LAKE):
            s3.create_bucket(Bucket=bucket)
        if versioned:
            s3.put_bucket_versioning(Bucket=LAKE, VersioningConfiguration={"Status": "Enabled"})
        create_state_table(self._client("dynamodb"), STATE_TABLE)
        self._client("glue").create_database(DatabaseInput={"Name": DATABASE})
        variables = {**child_environment({}, endpoint, DEFAULT_REGION), **self._assume_role()}
        self.variables = {name: value for name, value in variables.items() if not name.startswith("PYTHON")}

    def _client(self, service: str) -> Any:
        """A client that may do everything."""
        return self._administrator.client(service, endpoint_url=self._endpoint)  # type: ignore[call-overload]  # names

    def _assume_role(self) -> dict[str, str]:
        """Credentials of a role that may do what ProcessTable, the Spark jobs and operators may do.

        A run here is one process, whatever jobs it starts.
        """
        place = Place(DEFAULT_ACCOUNT_ID, DEFAULT_REGION, RAW, "", LAKE, "", STATE_TABLE, DATABASE)
        jobs = policies(place)
        statements = [*jobs[JOB_PROCESS_TABLE], *jobs[JOB_LOAD_INCREMENTAL], *documented_policy("Operators", place)]
        for number, statement in enumerate(statements):
            statement["Sid"] += str(number)  # unique in a policy
        role = create_role(self._client("iam"), "run", statements)
        session = self._client("sts").assume_role(RoleArn=role, RoleSessionName="run")
        return role_variables(session["Credentials"])

    @property
    def connector(self) -> AwsConnector:
        return AwsConnector(tuple(self.variables.items()))

    def put_raw(self, key: str, content: bytes) -> None:
        written = s3_backend().put_object(RAW, key, content)
        written.last_modified = self.clock().astimezone(timezone.utc).replace(tzinfo=None)

    def lake_objects(self) -> dict[str, bytes]:
        objects = {key: versions[-1] for key, versions in versions_of(LAKE).items() if versions}
        return {key: found.value for key, found in objects.items() if isinstance(found, s3_models.FakeKey)}

    def catalog(self) -> dict[str, set[str] | str]:
        glue = self._client("glue")
        shown: dict[str, set[str] | str] = {}
        for table in glue.get_tables(DatabaseName=DATABASE)["TableList"]:
            if "metadata_location" in table["Parameters"]:
                shown[table["Name"]] = table["Parameters"]["metadata_location"]
                continue
            names = [column["Name"] for column in table.get("PartitionKeys", [])]
            pages = glue.get_paginator("get_partitions").paginate(DatabaseName=DATABASE, TableName=table["Name"])
            values = [partition["Values"] for page in pages for partition in page["Partitions"]]
            shown[table["Name"]] = {"/".join(map("=".join, zip(names, one, strict=True))) for one in values}
        return shown

    def age_files(self) -> None:
        """See `Environment.age_files`. S3 has no temporary files."""
        expired = (self.clock() - 2 * EXPIRY_GRACE).astimezone(timezone.utc).replace(tzinfo=None)
        for versions in versions_of(LAKE).values():
            for number, version in enumerate(versions):  # in their order, by which moto lists them
                version.last_modified = expired + timedelta(milliseconds=number)

    def save(self) -> None:
        self._time = self.clock()
        self._saved = {bucket: read_bucket(bucket) for bucket in (RAW, LAKE)}
        self._items = self._client("dynamodb").scan(TableName=STATE_TABLE, ConsistentRead=True)["Items"]
        self._databases = deepcopy(_catalog().databases)

    def restore(self) -> None:
        """See `Environment.restore`. Versions get new ids."""
        self.clock.now = self._time
        for bucket, saved in self._saved.items():
            write_bucket(bucket, saved)
        for item in self._items:
            self._client("dynamodb").put_item(TableName=STATE_TABLE, Item=item)
        _catalog().databases = deepcopy(self._databases)


@contextmanager
def aws_environment(
    *, versioned: bool, middleware: Callable[[WSGIApplication], WSGIApplication] = lambda app: app
) -> Iterator[AwsEnvironment]:
    """Start an embedded AWS, and point the AWS clients of this process to it.

    Args:
        middleware: Sees every request after the wire.
    """
    wires: list[FaultyWire] = []

    def around(app: WSGIApplication) -> WSGIApplication:
        wires.append(FaultyWire(middleware(app)))
        return wires[0]

    moto_api_backend.reset()
    with http_server(0, around) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        patch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0)  # retry without delay
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        environment = AwsEnvironment(wires[0], endpoint, versioned=versioned)
        for name, value in environment.variables.items():
            patch.setenv(name, value)
        try:
            yield environment
        finally:
            moto_api_backend.reset()


def _catalog() -> Any:
    return glue_models.glue_backends[DEFAULT_ACCOUNT_ID][DEFAULT_REGION]
