"""Conditional writes answer as on S3."""

from __future__ import annotations

import http.client
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from cdclake_devkit.local import EmbeddedAws
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from mypy_boto3_s3 import S3Client

FAILED, MISSING, DONE = (412, "PreconditionFailed"), (404, "NoSuchKey"), (200, "")
OTHER_ETAG = '"0cc175b9c0f1b6a831c399e269772661"'


def put(s3: S3Client, key: str = "k", **condition: str) -> tuple[int, str]:
    return answer(s3, "put_object", Bucket=BUCKET, Key=key, Body=b"1", **condition)


def copy(s3: S3Client, key: str = "k", **condition: str) -> tuple[int, str]:
    source = {"Bucket": BUCKET, "Key": "source"}
    return answer(s3, "copy_object", Bucket=BUCKET, Key=key, CopySource=source, **condition)


def complete(s3: S3Client, key: str = "k", **condition: str) -> tuple[int, str]:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    part = s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=b"1")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    completion: dict[str, Any] = {"Bucket": BUCKET, "Key": key, "UploadId": upload, "MultipartUpload": parts}
    first = answer(s3, "complete_multipart_upload", **completion, **condition)
    if first == DONE and "IfNoneMatch" in condition:
        assert answer(s3, "complete_multipart_upload", **completion, **condition) == DONE  # may be repeated
    return first


def etag(s3: S3Client, key: str = "k") -> str:
    return s3.head_object(Bucket=BUCKET, Key=key)["ETag"]


@pytest.fixture
def with_source(s3: S3Client) -> S3Client:
    s3.put_object(Bucket=BUCKET, Key="source", Body=b"2")
    return s3


@pytest.mark.parametrize("write", [put, copy, complete])
def test_if_none_match_accepts_only_a_missing_object(with_source: S3Client, write: Any):
    s3 = with_source
    assert write(s3, IfNoneMatch="*") == DONE
    assert write(s3, IfNoneMatch="*") == FAILED


@pytest.mark.parametrize("write", [put, copy, complete])
def test_if_match_accepts_only_the_same_object(with_source: S3Client, write: Any):
    s3 = with_source
    assert write(s3, IfMatch=OTHER_ETAG) == MISSING
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"0")
    assert write(s3, IfMatch=OTHER_ETAG) == FAILED
    assert write(s3, IfMatch=etag(s3)) == DONE


def test_a_deleted_object_of_a_versioned_bucket_is_missing(s3: S3Client):
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    put(s3)
    tag = etag(s3)
    s3.delete_object(Bucket=BUCKET, Key="k")
    assert put(s3, IfMatch=tag) == MISSING
    assert put(s3, IfNoneMatch="*") == DONE


def test_a_conditional_delete(s3: S3Client):
    put(s3)
    assert answer(s3, "delete_object", Bucket=BUCKET, Key="k", IfMatch=OTHER_ETAG) == FAILED
    assert answer(s3, "delete_object", Bucket=BUCKET, Key="k", IfMatch="*") == (204, "")
    assert answer(s3, "delete_object", Bucket=BUCKET, Key="k", IfMatch="*") == MISSING


def test_if_none_match_takes_no_etag(s3: S3Client):
    assert put(s3, IfNoneMatch=OTHER_ETAG) == (501, "NotImplemented")


def test_moto_alone_ignores_conditions_of_copies_and_fails_at_missing_objects(kind_s3: S3Client):
    kind_s3.put_object(Bucket=BUCKET, Key="source", Body=b"2")
    put(kind_s3)
    assert copy(kind_s3, IfNoneMatch="*") == DONE
    assert copy(kind_s3, IfMatch=OTHER_ETAG) == DONE
    assert complete(kind_s3, IfMatch=OTHER_ETAG) == DONE
    assert put(kind_s3, IfNoneMatch=OTHER_ETAG) == DONE


class SlowBody:
    """The body of a request that is still under way.

    Attributes:
        is_read: Set when the server starts to read it.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self.is_read = Event()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" in environ:
            read = environ["wsgi.input"].read

            def read_slowly(size: int) -> bytes:
                self.is_read.set()
                content: bytes = read(size)
                return content

            environ["wsgi.input"] = SimpleNamespace(read=read_slowly)
        return self._app(environ, start_response)


@pytest.mark.aws
def test_a_delete_while_a_conditional_write_is_under_way_conflicts():
    bodies: list[SlowBody] = []

    def slowly(app: WSGIApplication) -> WSGIApplication:
        bodies.append(SlowBody(app))
        return bodies[0]

    with EmbeddedAws(region="us-east-1", middleware=slowly) as embedded:
        s3 = embedded.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"0")
        connection = http.client.HTTPConnection(urlsplit(embedded.endpoint).netloc)
        connection.putrequest("PUT", f"/{BUCKET}/k")
        connection.putheader("If-None-Match", "*")
        connection.putheader("Content-Length", "1")
        connection.endheaders()
        assert bodies[0].is_read.wait(timeout=30)
        s3.delete_object(Bucket=BUCKET, Key="k")
        connection.send(b"1")
        response = connection.getresponse()
        assert response.status == 409
        assert b"<Code>ConditionalRequestConflict</Code>" in response.read()
        connection.close()
        assert put(s3, IfNoneMatch="*") == DONE
