"""The tests' evaluation of policies and requests."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from tests.infra.calls import Call, Recorder
from tests.infra.policies import allowing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

LIST = {"Action": "s3:ListBucket", "Resource": "arn:aws:s3:::lake", "Condition": {"StringLike": {"s3:prefix": "dms/*"}}}
WRITE = {"Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": ["arn:aws:s3:::lake/shop/*"]}


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("s3:PutObject", "arn:aws:s3:::lake/shop/orders/1.parquet", True),
        ("s3:PutObject", "arn:aws:s3:::lake/shops/1.parquet", False),
        ("s3:PutObject", "arn:aws:s3:::lakes/shop/1.parquet", False),
        ("s3:GetObject", "arn:aws:s3:::lake/shop/orders/1.parquet", False),
        ("s3:PutObjectAcl", "arn:aws:s3:::lake/shop/orders/1.parquet", False),
    ],
)
def test_action_and_resource_must_both_match_in_full(action: str, resource: str, allowed: bool) -> None:
    assert bool(allowing({"Write": WRITE}, Call("job", action, resource))) is allowed


@pytest.mark.parametrize(
    ("context", "allowed"), [({("s3:prefix", "dms/shop/")}, True), ({("s3:prefix", "other/")}, False), (set(), False)]
)
def test_a_condition_must_hold_and_its_key_must_exist(context: set[tuple[str, str]], allowed: bool) -> None:
    call = Call("job", "s3:ListBucket", "arn:aws:s3:::lake", frozenset(context))
    assert bool(allowing({"List": LIST}, call)) is allowed


def recorded(method: str, path: str, query: str = "", body: bytes = b"", source: str = "") -> set[tuple[str, str]]:
    """Actions and resources of one request to S3 by `job`."""

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        assert environ["wsgi.input"].read() == body  # the recorder does not consume it
        return []

    recorder = Recorder({"job"})
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=job/20240305/eu-central-1/s3/aws4_request, Signature=0",
        "wsgi.input": io.BytesIO(body),
        "HTTP_X_AMZ_COPY_SOURCE": source,
    }
    recorder.around(app)(environ, lambda *_: lambda _: None)
    return {(call.action, call.resource) for call in recorder.calls}


def test_a_batch_delete_needs_permission_for_each_object_and_version() -> None:
    body = (
        b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a</Key></Object>'
        b"<Object><Key>b</Key><VersionId>7</VersionId></Object></Delete>"
    )
    assert recorded("POST", "/lake", "delete", body) == {
        ("s3:DeleteObject", "arn:aws:s3:::lake/a"),
        ("s3:DeleteObjectVersion", "arn:aws:s3:::lake/b"),
    }


def test_a_copy_needs_permission_to_read_its_source_and_write_its_target() -> None:
    assert recorded("PUT", "/lake/c", "uploadId=1&partNumber=2", source="lake/a%20b?versionId=7") == {
        ("s3:GetObjectVersion", "arn:aws:s3:::lake/a b"),
        ("s3:PutObject", "arn:aws:s3:::lake/c"),
    }


def test_an_unknown_kind_of_request_is_an_error() -> None:
    with pytest.raises(AssertionError, match="tagging"):
        recorded("GET", "/lake/a", "tagging")
