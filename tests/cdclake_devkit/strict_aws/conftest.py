"""Clients and buckets of an AWS with rules, and of moto alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.retries.bucket import TokenBucket
from botocore.retries.standard import ExponentialBackoff

from tests.cdclake_devkit.strict_aws.summary import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from cdclake_devkit.strict_aws.service_faults import ServiceFaults

BUCKET = "lake-of-tests"
ONCE = Config(retries={"total_max_attempts": 1})
"""No retries, so that a test sees the first response."""


def client_of(service: str, endpoint: str | None = None, **keys: str) -> Any:
    """A client of a caller with these keys, without retries."""
    return boto3.client(
        service,  # type: ignore[call-overload]  # a name at run time
        region_name="eu-central-1",
        endpoint_url=endpoint,
        config=ONCE,
        **keys,
    )


def retry_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let botocore repeat calls without pauses, and without slowing down after throttled ones."""
    patch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0)
    patch.setattr(TokenBucket, "acquire", lambda *_, **__: True)


@pytest.fixture
def s3(aws: None) -> S3Client:
    """A client of a strict S3 with a bucket."""
    return _with_bucket()


@pytest.fixture
def kind_s3(moto: None) -> S3Client:
    """A client of moto's S3 with a bucket."""
    return _with_bucket()


def _with_bucket() -> S3Client:
    client = boto3.client("s3", config=ONCE)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return client


@pytest.fixture
def record_faults(record_property: Callable[[str, object], None]) -> Callable[[ServiceFaults], None]:
    """Records the faults of services for the summary of `make test-aws`."""

    def record(faults: ServiceFaults) -> None:
        record_property(FAULTS, {" ".join(fault): number for fault, number in faults.injected.items()})

    return record
