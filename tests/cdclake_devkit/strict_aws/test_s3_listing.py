"""Who may not list a bucket does not learn which objects are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest

from cdclake.adapters.s3 import S3Store
from cdclake.errors import ConfigurationError
from cdclake_devkit.strict_aws.s3_listing import hidden_objects
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import BUCKET, ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client


@pytest.fixture
def reader(s3: S3Client) -> Iterator[S3Client]:
    """A client that may read the bucket, but not list it; the client `s3` may do both."""
    s3.put_object(Bucket=BUCKET, Key="there", Body=b"1")
    with hidden_objects(lambda key, bucket: (key, bucket) != ("reader", BUCKET)).applied():
        yield boto3.client("s3", aws_access_key_id="reader", aws_secret_access_key="fake", config=ONCE)


def test_a_missing_object_is_forbidden(reader: S3Client):
    assert answer(reader, "get_object", Bucket=BUCKET, Key="missing") == (403, "AccessDenied")
    assert answer(reader, "head_object", Bucket=BUCKET, Key="missing") == (403, "403")


def test_an_existing_object_is_readable(reader: S3Client):
    assert answer(reader, "get_object", Bucket=BUCKET, Key="there") == (200, "")
    assert answer(reader, "head_object", Bucket=BUCKET, Key="there") == (200, "")


def test_who_may_list_learns_that_it_is_missing(reader: S3Client, s3: S3Client):
    assert answer(s3, "get_object", Bucket=BUCKET, Key="missing") == (404, "NoSuchKey")
    assert answer(s3, "head_object", Bucket=BUCKET, Key="missing") == (404, "404")


def test_moto_alone_says_that_it_is_missing(kind_s3: S3Client):
    reader = boto3.client("s3", aws_access_key_id="reader", aws_secret_access_key="fake", config=ONCE)
    assert answer(reader, "get_object", Bucket=BUCKET, Key="missing") == (404, "NoSuchKey")


def test_a_store_takes_a_forbidden_object_for_no_missing_one(reader: S3Client):
    store = S3Store(reader, BUCKET)
    assert store.get("there") == b"1"
    with pytest.raises(ConfigurationError, match="s3:ListBucket"):
        store.get("missing")
    with pytest.raises(ConfigurationError, match="s3:ListBucket"):
        store.is_retained("missing", "retired/missing")
