"""Names the operation of a request, and lets a gate answer it instead of moto."""

from __future__ import annotations

import json
import re
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Callable, NamedTuple
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from botocore.exceptions import ConnectionClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from botocore.awsrequest import AWSPreparedRequest

_SCOPE = re.compile(r"Credential=(?P<key>[^/,]*)/\d*/[^/]*/(?P<service>[^/]+)/")
_SERVICES = {"monitoring": "cloudwatch"}
"""Services that sign with another name than botocore's."""
_OF_OBJECT = {
    "GET": {"uploadId": "ListParts", "tagging": "GetObjectTagging", "": "GetObject"},
    "HEAD": {"": "HeadObject"},
    "PUT": {"partNumber": "UploadPart", "tagging": "PutObjectTagging", "": "PutObject"},
    "POST": {"uploads": "CreateMultipartUpload", "uploadId": "CompleteMultipartUpload", "": "PostObject"},
    "DELETE": {"uploadId": "AbortMultipartUpload", "tagging": "DeleteObjectTagging", "": "DeleteObject"},
}
_OF_BUCKET = {
    "GET": {
        "versions": "ListObjectVersions",
        "versioning": "GetBucketVersioning",
        "location": "GetBucketLocation",
        "uploads": "ListMultipartUploads",
        "list-type": "ListObjectsV2",
        "": "ListObjects",
    },
    "HEAD": {"": "HeadBucket"},
    "PUT": {
        "versioning": "PutBucketVersioning",
        "notification": "PutBucketNotificationConfiguration",
        "": "CreateBucket",
    },
    "POST": {"delete": "DeleteObjects", "": "PostObject"},
    "DELETE": {"": "DeleteBucket"},
}

_OF_FUNCTION = {("POST", "invocations"): "Invoke", ("GET", "configuration"): "GetFunctionConfiguration"}
"""Lambda's operations by method and end of the path."""


class Call(NamedTuple):
    """One request.

    Attributes:
        service: Name of the service in botocore; empty for an unsigned request.
        operation: Name of the operation; the path for services other than those that cdclake's jobs call.
        access_key: Access key that signed it; empty for an unsigned request.
    """

    service: str
    operation: str
    access_key: str


class Answer(NamedTuple):
    """What happens instead of a plain call.

    Attributes:
        status: HTTP status of the error; 0 for no response: the connection breaks.
        code: The service's error code.
        is_executed: Whether the service executes the request before.
    """

    status: int
    code: str
    is_executed: bool = False


Gate = Callable[[Call], "Answer | None"]
"""Decides what happens to a request; None: moto answers it."""


def call_of(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
    """The call that a request makes.

    Args:
        headers: With names in lower case.
        body: Needed only for services that name the operation there.
    """
    scope = _SCOPE.search(headers.get("authorization", ""))
    key, signer = (scope["key"], scope["service"]) if scope else ("", "")
    service = _SERVICES.get(signer, signer)
    parts = urlsplit(url)
    target = headers.get("x-amz-target", "").rpartition(".")[2]
    if target:
        return Call(service, target, key)
    if service == "s3":
        is_copy = "x-amz-copy-source" in headers
        return Call(service, _s3_operation(method, parts.hostname or "", parts.path, parts.query, is_copy=is_copy), key)
    if service == "lambda":
        return Call(service, _OF_FUNCTION.get((method, parts.path.rpartition("/")[2]), parts.path), key)
    action = parse_qs(body.decode(errors="replace")).get("Action", [""])[0]
    return Call(service, action or parts.path.rpartition("/operation/")[2] or parts.path, key)


def _s3_operation(method: str, host: str, path: str, query: str, *, is_copy: bool) -> str:
    """The operation of an S3 request. The bucket is in the host, as on AWS, or in the path, as on other hosts."""
    in_host = ".s3." in host or ".s3-" in host
    bucket, _, key = ("", "", path[1:]) if in_host else path[1:].partition("/")
    if not in_host and not bucket:
        return "ListBuckets"
    parameters = parse_qs(query, keep_blank_values=True)
    names = (_OF_OBJECT if key else _OF_BUCKET).get(method, {"": method})
    name = next((name for parameter, name in names.items() if parameter in parameters), names[""])
    return {"PutObject": "CopyObject", "UploadPart": "UploadPartCopy"}.get(name, name) if is_copy else name


def error_response(
    answer: Answer, call: Call, method: str, message: str = "made by a test", *, is_json: bool = False
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an error, in the format of the service.

    Args:
        is_json: Whether the request of a service with several formats was JSON.
    """
    if call.service == "s3":
        xml = f"<Error><Code>{escape(answer.code)}</Code><Message>{escape(message)}</Message></Error>"
        body, kind = (b"" if method == "HEAD" else xml.encode()), "application/xml"
    elif call.service in {"cloudwatch", "sts"} and not is_json:
        error = f"<Error><Code>{escape(answer.code)}</Code><Message>{escape(message)}</Message></Error>"
        body, kind = f"<ErrorResponse>{error}</ErrorResponse>".encode(), "text/xml"
    else:
        body, kind = json.dumps({"__type": answer.code, "message": message}).encode(), "application/x-amz-json-1.1"
    return answer.status, {"content-type": kind, "content-length": str(len(body))}, body


def gated_process(process: Callable[..., Any], gate: Gate) -> Callable[..., Any]:
    """Moto's function that answers requests of this process (`BotocoreStubber.process_request`), with a gate."""

    def process_request(stubber: object, request: AWSPreparedRequest) -> Any:  # noqa: ANN401  moto's
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        body = request.body if isinstance(request.body, bytes) else b""
        call = call_of(str(request.method), request.url, headers, body)
        answer = gate(call)
        if answer is None:
            return process(stubber, request)
        if answer.is_executed:
            process(stubber, request)
        if not answer.status:
            raise ConnectionClosedError(endpoint_url=request.url)
        return error_response(answer, call, str(request.method))

    return process_request


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def gated_app(app: WSGIApplication, gate: Gate) -> WSGIApplication:
    """A server with a gate, as the argument `middleware` of the embedded AWS."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = call_of_environ(environ)
        answer = gate(call)
        if answer is None:
            return app(environ, start_response)
        if answer.is_executed:
            list(app(environ, _discard_response))
        if not answer.status:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            message = "made by a test"
            raise ConnectionAbortedError(message)  # so that the server sends no response
        if not answer.is_executed:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # clients send it all before they read
        status, headers, body = error_response(answer, call, environ["REQUEST_METHOD"])
        start_response(f"{status} {HTTPStatus(status).phrase}", list(headers.items()))
        return [body]

    return serve


def call_of_environ(environ: WSGIEnvironment) -> Call:
    """The call of a request to a server. The operation of a service that names it in the body is the path."""
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    url = f"http://{environ.get('HTTP_HOST', '')}{environ.get('PATH_INFO', '')}?{environ.get('QUERY_STRING', '')}"
    return call_of(environ["REQUEST_METHOD"], url, headers)


def _discard_response(_status: str, _headers: object, _error: object = None) -> Callable[[bytes], object]:
    """A `start_response` that discards the response."""
    return lambda _: None
