"""S3 and DynamoDB refuse requests of a caller whose clock is more than 15 minutes off."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import boto3
import botocore.auth
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.errors import ConfigurationError
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import BUCKET, ONCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

OFF = [timedelta(minutes=minutes) for minutes in (-120, -16, 16, 120)]
WITHIN = [timedelta(minutes=minutes) for minutes in (-14, 0, 14)]


@pytest.fixture
def sign_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Sets the clock by which requests are signed."""

    def sign(skew: timedelta) -> None:
        now = datetime.now(timezone.utc) + skew
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: now.replace(tzinfo=None))

    return sign


@pytest.mark.parametrize("skew", OFF)
def test_a_request_to_s3_is_refused(s3: S3Client, sign_at: Callable[[timedelta], None], skew: timedelta):
    sign_at(skew)
    assert answer(s3, "put_object", Bucket=BUCKET, Key="a", Body=b"1") == (403, "RequestTimeTooSkewed")
    assert answer(s3, "list_objects_v2", Bucket=BUCKET) == (403, "RequestTimeTooSkewed")


@pytest.mark.parametrize("skew", OFF)
def test_a_request_to_dynamodb_is_refused(aws: None, sign_at: Callable[[timedelta], None], skew: timedelta):
    sign_at(skew)
    assert answer(boto3.client("dynamodb", config=ONCE), "list_tables") == (400, "InvalidSignatureException")


@pytest.mark.parametrize("skew", WITHIN)
def test_a_clock_that_is_less_off_is_accepted(s3: S3Client, sign_at: Callable[[timedelta], None], skew: timedelta):
    sign_at(skew)
    assert answer(s3, "put_object", Bucket=BUCKET, Key="a", Body=b"1") == (200, "")
    assert answer(boto3.client("dynamodb", config=ONCE), "list_tables") == (200, "")


def test_moto_alone_accepts_it(kind_s3: S3Client, sign_at: Callable[[timedelta], None]):
    sign_at(timedelta(hours=2))
    assert answer(kind_s3, "put_object", Bucket=BUCKET, Key="a", Body=b"1") == (200, "")
    assert answer(boto3.client("dynamodb", config=ONCE), "list_tables") == (200, "")


@pytest.mark.parametrize("skew", OFF)
def test_the_error_names_the_clock(s3: S3Client, sign_at: Callable[[timedelta], None], skew: timedelta):
    sign_at(skew)
    store, states = S3Store(s3, BUCKET), DynamoState(aws_clients.client("dynamodb"), "any")
    for request in (lambda: store.put("a", b"1"), lambda: store.get("a"), lambda: states.get("any")):
        with pytest.raises(ConfigurationError, match="the clock of this machine is off"):
            request()
