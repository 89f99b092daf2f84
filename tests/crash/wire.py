"""A bad line to the embedded AWS: a fault at one request of a run, whichever client sends it."""

from __future__ import annotations

import io
import json
import socket
import time
from contextlib import contextmanager
from threading import Condition
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tests.crash.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from tests.crash.faults import Point

_QUIET_SECONDS = 0.005
_READS = frozenset({"DescribeTable", "GetItem", "Query", "Scan"})
"""Operations on the state table that change nothing."""
_MESSAGE = "injected by a test"


class Watch:
    """The requests of one run.

    Attributes:
        came: So many came.
        calls: So many of them were counted.
        struck: The request that was struck; empty if none was yet.
    """

    def __init__(self, point: Point | None, kill_client: Callable[[], object]) -> None:
        self.point = point
        self.kill_client = kill_client
        self.calls = 0
        self.struck = ""
        self.came = 0

    def count(self, environ: WSGIEnvironment) -> bool:
        """Count a request; whether it is to be struck."""
        self.came += 1
        is_counted = not (self.point and self.point.changes_only and _is_read(environ))
        self.calls += is_counted
        if self.point is None or not is_counted or self.calls != self.point.call:
            return False
        self.struck = _name(environ)
        return True


class Wire:
    """Between the socket and the embedded AWS. Requests are counted while somebody watches, and else passed on.

    Args:
        app: The embedded AWS.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._changed = Condition()
        self._active = 0
        self._watch: Watch | None = None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        _read_whole(environ)
        with self._changed:
            self._active += 1
            watch = self._watch
            if watch is not None:
                is_struck = watch.count(environ)
        try:
            if watch is None or not is_struck:
                return list(self._app(environ, start_response))
            assert watch.point is not None
            return self._strike(watch, watch.point.fault, environ, start_response)
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    @contextmanager
    def watching(self, point: Point | None, kill_client: Callable[[], object]) -> Iterator[Watch]:
        """Count the requests that come within the block, and strike at one of them.

        At the end all requests that came have been carried out.

        Args:
            point: Where; None: nowhere.
            kill_client: Ends the process that sends them.
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

    def _strike(
        self, watch: Watch, fault: Fault, environ: WSGIEnvironment, start_response: StartResponse
    ) -> list[bytes]:
        if fault is Fault.KILLED_BEFORE:
            watch.kill_client()
        if fault.strikes_after:
            list(self._app(environ, _keep_to_oneself))
        if fault is Fault.KILLED_AFTER:
            watch.kill_client()
        if fault.kills or fault is Fault.CONNECTION_DROPPED:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError(_MESSAGE)  # so that the server writes no answer
        return _refuse(environ, start_response)

    def _wait_until_quiet(self) -> None:
        """Wait until nothing is being answered, and nothing that was sent is still on its way to this object."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._active)
                came = self._watch.came if self._watch else 0
            time.sleep(_QUIET_SECONDS)
            with self._changed:
                if not self._active and (self._watch is None or self._watch.came == came):
                    return


def _read_whole(environ: WSGIEnvironment) -> None:
    """Take the request's body in: a client that is answered before it has sent all of it sees the connection break.

    Raises:
        ConnectionAbortedError: The client died while it sent; as S3 does, nothing is made of what came.
    """
    wanted = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(*([wanted] if wanted or not environ.get("wsgi.input_terminated") else []))
    if len(body) < wanted:
        raise ConnectionAbortedError(_MESSAGE)
    environ["wsgi.input"] = io.BytesIO(body)


def _keep_to_oneself(_status: str, _headers: object, _error: object = None) -> Callable[[bytes], object]:
    """A `start_response` for an answer that nobody gets."""
    return lambda _: None


def _refuse(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    """The answer that no AWS client takes for an invitation to try again: access denied."""
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
    """A request for people: what is asked of which service or object."""
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        return str(target)
    query = environ.get("QUERY_STRING", "")
    place = environ.get("PATH_INFO", "")
    return f"{environ['REQUEST_METHOD']} {place}{'?' if query else ''}{query}"
