"""S3 refuses keys of more than 1,024 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import BUCKET

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LONGEST = "ü" * 512
TOO_LONG = "ü" * 512 + "k"


def test_a_key_of_1024_bytes_is_accepted(s3: S3Client):
    s3.put_object(Bucket=BUCKET, Key=LONGEST, Body=b"1")
    assert s3.get_object(Bucket=BUCKET, Key=LONGEST)["Body"].read() == b"1"


@pytest.mark.parametrize("operation", ["put_object", "get_object", "delete_object", "create_multipart_upload"])
def test_a_longer_key_is_refused(s3: S3Client, operation: str):
    assert answer(s3, operation, Bucket=BUCKET, Key=TOO_LONG) == (400, "KeyTooLongError")


def test_the_target_of_a_copy_is_refused(s3: S3Client):
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")
    source = {"Bucket": BUCKET, "Key": "a"}
    assert answer(s3, "copy_object", Bucket=BUCKET, Key=TOO_LONG, CopySource=source) == (400, "KeyTooLongError")


def test_head_has_only_the_status(s3: S3Client):
    with pytest.raises(ClientError, match="Bad Request"):
        s3.head_object(Bucket=BUCKET, Key=TOO_LONG)


def test_moto_alone_accepts_it(kind_s3: S3Client):
    kind_s3.put_object(Bucket=BUCKET, Key=TOO_LONG, Body=b"1")
