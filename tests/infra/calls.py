"""Records the calls that reach an embedded AWS, by caller: what a role must allow."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree as ET

from tests.infra.stacks import ACCOUNT, REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d{8}/[^/]+/([^/]+)/aws4_request")
_NAMESPACE = re.compile(rb'Namespace(?:"?\s*:\s*"|=)([^"&]+)')


@dataclass(frozen=True)
class Call:
    """A permission that IAM checks; a request may need several.

    Attributes:
        caller: Access key of the caller.
        action: As in policies, e.g. `s3:GetObject`.
        resource: ARN; `*` for an action that does not support resources.
        context: Condition keys with their values.
    """

    caller: str
    action: str
    resource: str
    context: frozenset[tuple[str, str]] = frozenset()


class Recorder:
    """Middleware that records the calls of some callers.

    Args:
        callers: Access keys of the callers to record.

    Attributes:
        calls: The distinct calls.
    """

    def __init__(self, callers: Collection[str]) -> None:
        self._callers = callers
        self.calls: set[Call] = set()

    def around(self, app: WSGIApplication) -> WSGIApplication:
        """Wrap the services of `EmbeddedAws`."""

        def recorded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            credential = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
            assert credential, f"not signed: {environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
            caller, service = unquote(credential[1]), credential[2]
            if caller in self._callers:
                body = _body(environ) if environ["REQUEST_METHOD"] == "POST" else b""
                self.calls |= {Call(caller, *permission) for permission in _SERVICES[service](environ, body)}
            return app(environ, start_response)

        return recorded


_Permission = tuple[str, str, "frozenset[tuple[str, str]]"]
_NO_CONTEXT: frozenset[tuple[str, str]] = frozenset()


def _body(environ: WSGIEnvironment) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _s3_calls(environ: WSGIEnvironment, body: bytes) -> Iterator[_Permission]:
    """Permissions of S3 requests, by method, path and query; the path starts with the bucket.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
    """
    method = environ["REQUEST_METHOD"]
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    bucket, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
    bucket_arn, object_arn = f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/{key}"
    version = "Version" if "versionId" in query else ""
    known = {"x-id", "versionId", "uploadId", "partNumber", "uploads", "versions", "delete", "list-type", "prefix"}
    known |= {"delimiter", "encoding-type", "continuation-token", "start-after", "max-keys", "key-marker", "versioning"}
    assert not query.keys() - known - {"version-id-marker"}, query
    if not key:
        if method == "POST" and "delete" in query:
            for element in ET.fromstring(body).iter():
                if element.tag.endswith("Object"):
                    texts = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
                    action = "s3:DeleteObjectVersion" if "VersionId" in texts else "s3:DeleteObject"
                    yield action, f"{bucket_arn}/{texts['Key']}", _NO_CONTEXT
            return
        assert method in ("GET", "HEAD"), method
        prefix = frozenset({("s3:prefix", query["prefix"][0])}) if "prefix" in query else _NO_CONTEXT
        if "versioning" in query:
            yield "s3:GetBucketVersioning", bucket_arn, _NO_CONTEXT
        else:
            yield "s3:ListBucketVersions" if "versions" in query else "s3:ListBucket", bucket_arn, prefix
    elif method in ("GET", "HEAD"):
        yield f"s3:GetObject{version}", object_arn, _NO_CONTEXT
    elif method == "DELETE":
        yield "s3:AbortMultipartUpload" if "uploadId" in query else f"s3:DeleteObject{version}", object_arn, _NO_CONTEXT
    else:
        source, _, source_version = environ.get("HTTP_X_AMZ_COPY_SOURCE", "").partition("?versionId=")
        if source:
            action = "s3:GetObjectVersion" if source_version else "s3:GetObject"
            yield action, f"arn:aws:s3:::{unquote(source).lstrip('/')}", _NO_CONTEXT
        yield "s3:PutObject", object_arn, _NO_CONTEXT


def _dynamodb_calls(environ: WSGIEnvironment, body: bytes) -> Iterator[_Permission]:
    table = _regional("dynamodb", f"table/{json.loads(body)['TableName']}")
    yield f"dynamodb:{_operation(environ)}", table, _NO_CONTEXT


def _glue_calls(environ: WSGIEnvironment, body: bytes) -> Iterator[_Permission]:
    """Permissions on a job, or on a table of the catalog together with its catalog and database.

    https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html
    """
    request: dict[str, Any] = json.loads(body)
    if "JobName" in request:
        names = [f"job/{request['JobName']}"]
    elif _operation(environ) == "GetDatabase":
        names = ["catalog", f"database/{request['Name']}"]
    else:
        database = request["DatabaseName"]
        table = request.get("TableName") or request.get("Name") or request["TableInput"]["Name"]
        names = ["catalog", f"database/{database}", f"table/{database}/{table}"]
    for name in names:
        yield f"glue:{_operation(environ)}", _regional("glue", name), _NO_CONTEXT


def _cloudwatch_calls(environ: WSGIEnvironment, body: bytes) -> Iterator[_Permission]:
    namespace = _NAMESPACE.search(body)
    assert namespace, body
    action = environ.get("HTTP_X_AMZ_TARGET") or parse_qs(body.decode())["Action"][0]
    context = frozenset({("cloudwatch:namespace", namespace[1].decode())})
    yield f"cloudwatch:{action.rpartition('.')[2]}", "*", context


_SERVICES: dict[str, Callable[[WSGIEnvironment, bytes], Iterator[_Permission]]] = {
    "dynamodb": _dynamodb_calls,
    "glue": _glue_calls,
    "monitoring": _cloudwatch_calls,
    "s3": _s3_calls,
    "sts": lambda _environ, _body: iter(()),  # GetCallerIdentity needs no permission
}


def _operation(environ: WSGIEnvironment) -> str:
    return str(environ["HTTP_X_AMZ_TARGET"]).rpartition(".")[2]


def _regional(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"
