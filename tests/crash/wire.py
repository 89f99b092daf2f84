"""Injects a fault into one request to the embedded AWS, whichever client sends it."""

from __future__ import annotations

import io
import json
import socket
import time
from contextlib import contextmanager
from threading import Condition
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tests.crash.faults import Fault, Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


_QUIET_SECONDS = 0.005
_READS = frozenset({"DescribeTable", "GetItem", "Query", "Scan", "GetDatabase", "GetTable", "GetPartitions"})
"""Read operations on the state table and the catalog."""
_MESSAGE = "injected by a test"


class Watch:
    """The requests of one run.

    Attributes:
        received: Number of requests received.
        calls: Number of requests counted.
        hit: The request that was hit; empty if none was hit yet.
    """

    def __init__(self, point: Point | None, kill_client: Callable[[], object]) -> None:
        self.point = point
        self.kill_client = kill_client
        self.calls = 0
        self.hit = ""
        self.received = 0

    def count(self, environ: WSGIEnvironment) -> bool:
        """Count a request, and return whether the fault hits it."""
        self.received += 1
        is_counted = not (self.point and self.point.writes_only and _is_read(environ))
        self.calls += is_counted
        if self.point is None or not is_counted or self.calls != self.point.call:
            return False
        self.hit = _name(environ)
        return True


class FaultyWire:
    """A WSGI layer before the embedded AWS. Counts requests within `watching`, and passes on all others.

    Args:
        app: The embedded AWS.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._changed = Condition()
        self._active = 0
        self._watch: Watch | None = None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request."""
        _read_whole(environ)
        with self._changed:
            self._active += 1
            watch = self._watch
            if watch is not None:
                is_hit = watch.count(environ)
        try:
            if watch is None or not is_hit:
                return list(self._app(environ, start_response))
            assert watch.point is not None
            return self._inject(watch, watch.point.fault, environ, start_response)
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    @contextmanager
    def watching(self, point: Point | None, kill_client: Callable[[], object]) -> Iterator[Watch]:
        """Count the requests within the block, and inject a fault into one of them.

        At the end of the block, all received requests have been handled.

        Args:
            point: The fault; None: none.
            kill_client: Kills the process that sends the requests.
        """
        watch = Watch(point, kill_client)
        with self._changed:
            self._watch = watch
        try:
            yield watch
        finally:
            self._wait_until_quiet()
            with self._changed:
                self._watch = None

    def _inject(
        self, watch: Watch, fault: Fault, environ: WSGIEnvironment, start_response: StartResponse
    ) -> list[bytes]:
        if fault.is_after_call:
            list(self._app(environ, _discard_response))
        if fault is Fault.KILLED:
            watch.kill_client()
        if fault.kills or fault is Fault.CONNECTION_DROPPED:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError(_MESSAGE)  # so that the server sends no response
        return _refuse(environ, start_response)

    def _wait_until_quiet(self) -> None:
        """Wait until no request is being handled, and none is still on its way."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._active)
                received = self._watch.received if self._watch else 0
            time.sleep(_QUIET_SECONDS)
            with self._changed:
                if not self._active and (self._watch is None or self._watch.received == received):
                    return


def _read_whole(environ: WSGIEnvironment) -> None:
    """Read the whole body first: a client that gets a response while it still sends sees a broken connection.

    Raises:
        ConnectionAbortedError: The client was killed while sending. Like S3, ignore the request.
    """
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(*([length] if length or not environ.get("wsgi.input_terminated") else []))
    if len(body) < length:
        raise ConnectionAbortedError(_MESSAGE)
    environ["wsgi.input"] = io.BytesIO(body)


def _discard_response(_status: str, _headers: object, _error: object = None) -> Callable[[bytes], object]:
    """A `start_response` that discards the response."""
    return lambda _: None


def _refuse(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    """Respond with access denied, which AWS clients do not retry."""
    if "HTTP_X_AMZ_TARGET" in environ:
        status, kind = "400 Bad Request", "application/x-amz-json-1.0"
        body = json.dumps({"__type": "com.amazon.coral.service#AccessDeniedException", "message": _MESSAGE}).encode()
    else:
        status, kind = "403 Forbidden", "application/xml"
        body = f"<Error><Code>AccessDenied</Code><Message>{escape(_MESSAGE)}</Message></Error>".encode()
    if environ["REQUEST_METHOD"] == "HEAD":
        body = b""
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def _is_read(environ: WSGIEnvironment) -> bool:
    operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
    return operation in _READS if operation else environ["REQUEST_METHOD"] in {"GET", "HEAD"}


def _name(environ: WSGIEnvironment) -> str:
    """A readable name of a request: its operation, or its method and path."""
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        return str(target)
    query = environ.get("QUERY_STRING", "")
    path = environ.get("PATH_INFO", "")
    return f"{environ['REQUEST_METHOD']} {path}{'?' if query else ''}{query}"
