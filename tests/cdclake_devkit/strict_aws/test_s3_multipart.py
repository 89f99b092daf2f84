"""An object uploaded in parts has the time when its upload began."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.cdclake_devkit.strict_aws.conftest import BUCKET

if TYPE_CHECKING:
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

KEY = "shop/orders/LOAD00000001.parquet"
KEYED: dict[str, Any] = {"Bucket": BUCKET, "Key": KEY}


def begin(client: S3Client) -> str:
    return client.create_multipart_upload(Bucket=BUCKET, Key=KEY)["UploadId"]


def complete(client: S3Client, upload: str, content: bytes) -> None:
    part = client.upload_part(**KEYED, UploadId=upload, PartNumber=1, Body=content)
    parts: Any = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(**KEYED, UploadId=upload, MultipartUpload=parts)


def times_of_two_uploads(client: S3Client) -> tuple[datetime, datetime]:
    """Last-Modified of an upload in parts that takes more than a second, and of an object written meanwhile."""
    upload = begin(client)
    time.sleep(1.01)  # Last-Modified has no fractions of a second
    client.put_object(Bucket=BUCKET, Key="meanwhile", Body=b"")
    complete(client, upload, b"1")
    listed = {entry["Key"]: entry["LastModified"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert listed[KEY] == client.head_object(**KEYED)["LastModified"]
    return listed[KEY], listed["meanwhile"]


def test_last_modified_is_the_begin_of_the_upload(s3: S3Client):
    uploaded, meanwhile = times_of_two_uploads(s3)
    assert uploaded < meanwhile


def test_moto_alone_reports_its_end(kind_s3: S3Client):
    uploaded, meanwhile = times_of_two_uploads(kind_s3)
    assert uploaded >= meanwhile


def current_after_a_slow_upload(client: S3Client) -> bytes:
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    slow, quick = begin(client), begin(client)
    complete(client, quick, b"begun last")
    complete(client, slow, b"begun first")
    current = client.get_object(**KEYED)
    listed = client.list_object_versions(Bucket=BUCKET)["Versions"]
    assert [version["VersionId"] for version in listed if version["IsLatest"]] == [current["VersionId"]]
    assert len(listed) == 2
    return current["Body"].read()


def test_the_upload_begun_last_is_the_current_version(s3: S3Client):
    assert current_after_a_slow_upload(s3) == b"begun last"


def test_for_moto_alone_it_is_the_upload_completed_last(kind_s3: S3Client):
    assert current_after_a_slow_upload(kind_s3) == b"begun first"
