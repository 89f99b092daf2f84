"""The proxy in front of the S3 server forwards requests unchanged, after a delay, and counts them."""

from __future__ import annotations

import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from benchmarks.s3_server import S3Request, delaying_proxy, in_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

DELAY_S = 0.05


class Echo(BaseHTTPRequestHandler):
    """Answers with the body of the request."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        if self.headers["Transfer-Encoding"] == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True])
def test_requests_of_a_connection_arrive_later_and_unchanged(port: int, chunked: bool) -> None:
    requests: list[S3Request] = []
    bodies = [b"", b"one", b"\r\n\r\n" * 200_000]
    with delaying_proxy(port, DELAY_S, requests) as url:
        connection = HTTPConnection(urlsplit(url).netloc)
        started = time.monotonic()
        for body in bodies:
            parts = [part for part in (body[:100_000], body[100_000:]) if part]
            connection.request("PUT", "/key", iter(parts) if chunked else body, encode_chunked=chunked)
            assert connection.getresponse().read() == body
        ended = time.monotonic()
        connection.close()
    assert [request.method for request in requests] == ["PUT"] * len(bodies)
    assert all(started <= request.at <= ended for request in requests)
    assert ended - started >= len(bodies) * DELAY_S
    assert all(request.answered - request.at >= DELAY_S for request in requests)
    assert in_sequence(requests) == len(bodies)


def test_requests_that_overlap_are_not_in_sequence() -> None:
    times = [(0, 5), (1, 2), (2, 3), (2.5, 9), (4, 6), (6, 8)]
    assert in_sequence([S3Request(at, "GET", "/", answered) for at, answered in times]) == 4
    assert in_sequence([]) == 0
