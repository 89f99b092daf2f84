"""A small S3 on a socket that fails on request, as seen by pyarrow's S3FileSystem."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERROR = (
    "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>says the test</Message>"
    "<RequestId>4442587FB7D0A2F9</RequestId>"
    "<HostId>Uuag1LuByRx9e6j5Onimru9pO4ZVKnJ2Qz7/C1NPcfTWAtRPfTaOFg==</HostId></Error>"
)
"""An error with all that S3 tells: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""
RESET, HALF_BODY = "reset", "half body"
"""Faults without a status: the connection is reset before the response, or ends in the middle of its body."""


@dataclass
class Fault:
    """What happens to the requests of one kind.

    Attributes:
        method: HTTP method; `POST` and `PUT` also of a multipart upload.
        status: HTTP status, or one of the faults without a status.
        code: S3's error code.
        skip: Number of matching requests that pass first.
        times: Number of matching requests that fail.
    """

    method: str
    status: int | str
    code: str = ""
    skip: int = 0
    times: int = 1 << 30


@dataclass
class FakeS3:
    """Buckets in memory behind an HTTP server. Every bucket exists.

    Attributes:
        objects: Content by `bucket/key`.
        faults: Faults to come; the first that matches a request applies.
        requests: Method and path of every request so far.
        signers: Access key of every request so far.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    signers: list[str] = field(default_factory=list)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, method: str, status: int | str, code: str = "", *, skip: int = 0, times: int = 1 << 30) -> None:
        """Let requests fail from now on."""
        self.faults = [Fault(method, status, code, skip, times)]

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            self.requests.append((method, path))
            for fault in self.faults:
                if fault.method == method and fault.times:
                    if fault.skip:
                        fault.skip -= 1
                        return None
                    fault.times -= 1
                    return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3: FakeS3

    def log_message(self, *_: Any) -> None:
        pass

    def _dispatch(self) -> None:
        url = urlsplit(self.path)
        key, query = unquote(url.path).lstrip("/"), parse_qs(url.query, keep_blank_values=True)
        body = self._body()
        self.s3.signers.append(self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0])
        fault = self.s3.next_fault(self.command, self.path)
        if fault is None:
            getattr(self, f"_{self.command.lower()}")(key, query, body)
        elif fault.status == RESET:
            self._reset()
        elif isinstance(fault.status, int):
            self._error(fault.status, fault.code)
        else:
            self._get(key, query, body, whole=False)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _dispatch

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self._without_signatures(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return self._without_signatures(b"".join(parts))

    def _without_signatures(self, body: bytes) -> bytes:
        """The content of a body in AWS's own chunked encoding."""
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        parts: list[bytes] = []
        at = 0
        while True:
            end = body.index(b"\r\n", at)
            size = int(body[at:end].split(b";")[0], 16)
            if not size:
                return b"".join(parts)
            parts.append(body[end + 2 : end + 2 + size])
            at = end + 4 + size

    def _send(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def _error(self, status: int, code: str) -> None:
        xml = _ERROR.format(code=code).encode()
        self._send(status, b"" if self.command == "HEAD" else xml, Content_Type="application/xml")

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _head(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "/" not in key.rstrip("/"):
            return self._send(200)
        content = self.s3.objects.get(key)
        if content is None:
            return self._error(404, "NoSuchKey")
        return self._send(200, length=len(content), ETag='"1"', Last_Modified="Tue, 05 Mar 2024 10:00:00 GMT")

    def _get(self, key: str, query: dict[str, list[str]], body: bytes, *, whole: bool = True) -> None:
        content = self.s3.objects.get(key)
        if content is None:
            return self._error(404, "NoSuchKey")
        status, size = 200, len(content)
        headers: dict[str, Any] = {"ETag": '"1"'}
        wanted = self.headers.get("Range")
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            content = content[int(first) : int(last) + 1 if last else None]
            status, headers["Content_Range"] = 206, f"bytes {first}-{int(first) + len(content) - 1}/{size}"
        self._send(status, content if whole else content[: len(content) // 2], len(content), **headers)
        self.close_connection = not whole
        return None

    def _put(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "partNumber" in query:
            self.s3.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.s3.objects[key] = body
        self._send(200, ETag='"1"')

    def _post(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploads" in query:
            upload = f"upload-{len(self.s3.uploads)}"
            self.s3.uploads[upload] = {}
            xml = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        else:
            parts = self.s3.uploads[query["uploadId"][0]]
            self.s3.objects[key] = b"".join(parts[number] for number in sorted(parts))
            xml = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>"
        self._send(200, xml.encode(), Content_Type="application/xml")

    def _delete(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        self._send(204)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Clients that hang up are part of the tests."""


def serve(s3: FakeS3) -> Iterator[str]:
    """Serve until the iterator goes on; yields the endpoint."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"s3": s3}))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
