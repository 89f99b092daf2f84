"""The adapters of each port, as fixtures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, TypeVar, cast

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from moto.moto_api import state_manager

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.folder import FolderStore
from cdclake.adapters.s3 import S3Store
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake_devkit.memory import MemoryState, MemoryStore
from cdclake_devkit.versioned_bucket import VersionedBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client

    from cdclake.ports import ObjectStore, StateStore

Result = TypeVar("Result")
BUCKET = "lake-of-tests"
SMALL_PARTS = TransferConfig(multipart_threshold=6 * 1024**2, multipart_chunksize=5 * 1024**2)
"""Objects of more than 6 MB are copied in parts of 5 MB."""
S3_STORES = [
    pytest.param("versioned_s3", marks=pytest.mark.aws),
    *(pytest.param(name, marks=[pytest.mark.aws, pytest.mark.long]) for name in ("s3", "suspended_s3")),
]
"""Of the buckets, the lake has a versioned one; the tests of the others repeat its calls, so only CI runs them."""


@pytest.fixture
def s3(aws: None) -> S3Client:
    client = aws_clients.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return client


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which AWS's SDKs find no credentials. It takes away what fixtures before it have set."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.fixture
def without_retries(s3: S3Client) -> S3Client:
    """A client that never retries, so that a test controls each request."""
    return aws_clients.session().client("s3", config=Config(retries={"total_max_attempts": 1}))


@pytest.fixture
def versioned_s3(s3: S3Client) -> S3Client:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    return s3


@pytest.fixture
def suspended_s3(s3: S3Client) -> S3Client:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"})
    return s3


@pytest.fixture(params=["memory", "folder", "versioned bucket", *S3_STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """Each kind of object store, empty."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "versioned bucket":
        return S3Store(cast("S3Client", VersionedBucket()), BUCKET)
    if request.param == "folder":
        return FolderStore(tmp_path)
    return S3Store(request.getfixturevalue(request.param), BUCKET)


@pytest.fixture
def glue(aws: None) -> Iterator[GlueClient]:
    """A Glue client with one job, which allows three concurrent runs. Each `get` of a run advances its state."""
    client = aws_clients.client("glue")
    client.create_job(
        Name=JOB_LOAD_INITIAL,
        Role="arn:aws:iam::123456789012:role/glue",
        Command={"Name": "glueetl", "ScriptLocation": "s3://code/load_initial.py"},
        ExecutionProperty={"MaxConcurrentRuns": 3},
    )
    state_manager.set_transition("glue::job_run", {"progression": "manual", "times": 1})
    yield client
    state_manager.unset_transition("glue::job_run")


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.aws)])
def state(request: pytest.FixtureRequest) -> StateStore:
    """Each kind of state store, empty."""
    if request.param == "memory":
        return MemoryState()
    request.getfixturevalue("aws")
    client = aws_clients.client("dynamodb")
    create_state_table(client, "DMSCDC_Controller")
    return DynamoState(client, "DMSCDC_Controller")


def at_once(call: Callable[[int], Result], times: int = 16) -> list[Result]:
    """The results of calls, with their numbers, that begin at the same moment in threads."""
    barrier = Barrier(times)

    def wait_and_call(number: int) -> Result:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(wait_and_call, range(times)))
