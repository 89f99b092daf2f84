"""Creation of AWS clients."""

from __future__ import annotations

import boto3
import pytest
from botocore.utils import parse_timestamp

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.s3 import S3Store
from cdclake.errors import ConfigurationError
from tests.cdclake.adapters.network_faults import Faults


def url_of_a_request(key: str) -> str:
    """The URL to which a new client would send a request for an object."""
    client = aws_clients.client("s3")
    return client.generate_presigned_url("get_object", Params={"Bucket": "lake", "Key": key}).split("?")[0]


def test_buckets_are_addressed_by_host_on_aws(aws: None) -> None:
    assert url_of_a_request("a/b").startswith("https://lake.s3.")


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_another_endpoint_is_used_and_addressed_by_path(
    aws: None, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "http://localhost:9")
    assert url_of_a_request("a/b") == "http://localhost:9/lake/a/b"


def test_a_missing_region_is_an_error_that_says_so(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with pytest.raises(ConfigurationError, match="Set AWS_REGION"):
        aws_clients.client("dynamodb")


def test_missing_credentials_are_an_error_that_says_so(aws: None, no_credentials: None) -> None:
    store = S3Store(aws_clients.client("s3"), "lake")
    with pytest.raises(ConfigurationError, match="No AWS credentials"):
        store.put_if_absent("a", b"")


def test_throttled_requests_are_retried(aws: None) -> None:
    client = aws_clients.client("s3")
    listings = Faults(client, "ListBuckets")
    listings.refuse(503, "SlowDown")
    client.list_buckets()
    assert listings.sent == 2


@pytest.mark.parametrize(
    "text",
    ["2024-03-05T10:00:00.000Z", "2024-03-05T10:00:00Z", "Tue, 05 Mar 2024 10:00:00 GMT", "2024-03-05T10:00:00+01:00"],
)
def test_times_in_responses_are_parsed_as_botocore_parses_them(text: str):
    assert aws_clients.read_time(text) == parse_timestamp(text)
