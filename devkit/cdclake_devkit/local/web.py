"""The HTTP server: moto on one loopback port, closed to web pages, with atomic conditional writes."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import moto.s3.models
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from cdclake_cli.loopback import HOST, QuietLog, listen, serving
from cdclake_devkit.patching import replaced
from cdclake_devkit.quick_moto import quick_moto
from cdclake_devkit.strict_aws import strict
from cdclake_devkit.strict_aws.s3_conditions import note_arrival

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class QuietRequestHandler(QuietLog, MotoRequestHandler):
    """Logs no requests, and sends responses without delay."""

    # A response is two writes, headers and body. With Nagle's algorithm, the second waits for an acknowledgment.
    disable_nagle_algorithm = True


class RequestGuard:
    """Refuses requests of web pages, and serializes conditional requests.

    A client of this server can run code, because a job is a script. A web page in a browser on this machine must not:
    requests with a browser's `Origin` header, or with a host name other than this machine's, are refused. So is moto's
    own interface, which could delete everything.

    Moto checks a condition and writes in two steps. Running conditional requests one at a time makes them atomic, as on
    AWS.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._one_at_a_time = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
        if host not in {HOST, "localhost"} or "HTTP_ORIGIN" in environ:
            return _refuse(start_response, "403 Forbidden", "Only programs on this machine may use this server")
        if environ.get("PATH_INFO", "").startswith("/moto-api"):
            return _refuse(start_response, "404 Not Found", "The moto API is not available")
        if not _conditional(environ):
            return self._app(environ, start_response)
        note_arrival()
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # read before locking
        environ["wsgi.input"] = io.BytesIO(body)
        with self._one_at_a_time:
            return list(self._app(environ, start_response))


def _conditional(environ: WSGIEnvironment) -> bool:
    if environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB"):
        return True
    writes = environ["REQUEST_METHOD"] in {"PUT", "POST", "DELETE"}
    return writes and ("HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ)


def _refuse(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text.encode()]


@contextmanager
def http_server(port: int, middleware: Callable[[WSGIApplication], WSGIApplication] = lambda app: app) -> Iterator[str]:
    """Serve moto on a loopback port, as strict as AWS; yields the endpoint's URL.

    Args:
        port: Loopback port; 0 for any free one.
        middleware: Wraps the application, and thus sees every request first.

    Raises:
        ConfigurationError: The port is not available.
    """
    with (
        listen(port, "The embedded AWS") as listening,
        replaced(moto.s3.models.FakeKey, "etag", _locked_etag()),
        # For each request, moto lists its own folder to find the service of the host name.
        replaced(
            DomainDispatcherApplication,
            "get_backend_for_host",
            lru_cache(DomainDispatcherApplication.get_backend_for_host),
        ),
        quick_moto(),
        strict(),
    ):
        app = middleware(RequestGuard(DomainDispatcherApplication(create_backend_app)))
        port = listening.getsockname()[1]
        server = make_server(HOST, port, app, threaded=True, request_handler=QuietRequestHandler, fd=listening.fileno())
        with serving(server, "embedded-aws"):
            yield f"http://{HOST}:{port}"


def _locked_etag() -> property:
    """Moto's `etag` with the object's lock: without it, concurrent readers get each other's bytes."""
    unlocked = vars(moto.s3.models.FakeKey)["etag"]

    def etag(key: moto.s3.models.FakeKey) -> str:
        with key.lock:
            value: str = unlocked.fget(key)
            return value

    return property(etag)
