"""Sending OpenLineage events, to real servers on this machine."""

from __future__ import annotations

import json
import logging
import socket
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.lineage import HttpLineage

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS = [{"eventType": "START"}, {"eventType": "COMPLETE"}]


@contextmanager
def endpoint(*statuses: int) -> Iterator[tuple[str, list[object]]]:
    """A server that answers with these statuses, then with 200; its URL, and what it received."""
    received: list[object] = []
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append((self.path, self.headers["Content-Type"], body))
            self.send_response(left.pop(0) if left else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", received
    finally:
        server.shutdown()
        server.server_close()


def test_each_event_is_posted_as_json() -> None:
    with endpoint(201) as (url, received):
        assert HttpLineage(url).send(EVENTS)
    assert received == [("/api/v1/lineage", "application/json", event) for event in EVENTS]


@pytest.mark.parametrize("status", [302, 400, 404, 503])
def test_an_endpoint_that_refuses_is_not_asked_again_at_once_and_logged(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with endpoint(status) as (url, received), caplog.at_level(logging.WARNING):
        sink = HttpLineage(url)
        assert not sink.send(EVENTS)
        assert not sink.send(EVENTS)
    assert len(received) == 1
    assert caplog.messages == [f"no lineage was sent to {url}: HTTP {status}. Later runs send it"]


def test_an_endpoint_that_failed_is_asked_again_later() -> None:
    with endpoint(503) as (url, received):
        sink = HttpLineage(url, pause_seconds=0)
        assert not sink.send(EVENTS)
        assert sink.send(EVENTS)
    assert len(received) == 3


def test_an_endpoint_that_hangs_costs_its_time_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = HttpLineage(f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.1)
        begun = time.monotonic()
        assert not any(sink.send(EVENTS) for _ in range(50))
    assert time.monotonic() - begun < 2
    assert "ReadTimeoutError" in caplog.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "https://", "http://[", "ftp://host/"])
def test_no_url_makes_a_run_fail(url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not HttpLineage(url).send(EVENTS)
    assert "no lineage was sent" in caplog.text
