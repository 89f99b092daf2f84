"""Credentials that expire: calls with old ones are refused, and sessions that renew them go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
import pytest
from moto.core.botocore_stubber import BotocoreStubber

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.s3 import S3Store
from cdclake.errors import ConfigurationError
from cdclake_devkit.strict_aws.calls import gated_process
from cdclake_devkit.strict_aws.credentials import ExpiringCredentials
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import BUCKET, client_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from cdclake_devkit.memory import ManualClock

LIFETIME_SECONDS = 900


@pytest.fixture
def credentials(s3: S3Client, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> ExpiringCredentials:
    """Credentials that live 15 minutes of the clock, in an AWS that knows when."""
    expiring = ExpiringCredentials(LIFETIME_SECONDS, clock)
    monkeypatch.setattr(BotocoreStubber, "process_request", gated_process(BotocoreStubber.process_request, expiring))
    return expiring


def static(service: str, credentials: ExpiringCredentials) -> Any:
    issued = credentials.issue()
    names = {"access_key": "aws_access_key_id", "secret_key": "aws_secret_access_key", "token": "aws_session_token"}
    return client_of(service, **{name: issued[key] for key, name in names.items()})


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("s3", "list_buckets", "ExpiredToken"),
        ("dynamodb", "list_tables", "ExpiredTokenException"),
        ("glue", "get_databases", "ExpiredTokenException"),
    ],
)
def test_expired_credentials_are_refused(
    credentials: ExpiringCredentials, clock: ManualClock, service: str, operation: str, code: str
):
    client = static(service, credentials)
    clock.advance(LIFETIME_SECONDS - 1)
    assert answer(client, operation) == (200, "")
    clock.advance(1)
    assert answer(client, operation) == (400, code)
    assert credentials.refused == 1


def test_an_expired_token_is_an_error_of_the_configuration(credentials: ExpiringCredentials, clock: ManualClock):
    store = S3Store(static("s3", credentials), BUCKET)
    store.put("k", b"1")
    clock.advance(LIFETIME_SECONDS)
    with pytest.raises(ConfigurationError, match="ExpiredToken"):
        store.get("k")


def test_a_session_that_renews_its_credentials_goes_on(
    credentials: ExpiringCredentials, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    session = botocore.session.Session()
    session._credentials = credentials.renewing()  # type: ignore[attr-defined]  # botocore has no setter
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", boto3.session.Session(botocore_session=session))
    store = S3Store(aws_clients.client("s3"), BUCKET)
    for number in range(20):
        store.put(f"k{number}", b"1")
        clock.advance(LIFETIME_SECONDS / 4)
    assert len(list(store.list(""))) == 20
    assert credentials.refused == 0
    assert 6 <= credentials.issued <= 12
