"""Serves the console on a loopback port."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from werkzeug.serving import WSGIRequestHandler, make_server

from cdclake_cli.console.app import create_app
from cdclake_cli.console.overview import current_overview
from cdclake_cli.console.security import Secrets
from cdclake_cli.loopback import HOST, QuietLog, listen, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_cli.console.context import Console


class QuietRequestHandler(QuietLog, WSGIRequestHandler):
    """Logs no requests, because the first one contains the address's secret."""

    server_version, sys_version = "cdclake", ""


@contextmanager
def serve(console: Console, port: int = 0) -> Iterator[str]:
    """Serve the console while the `with` block lasts; yields the address to open, with its secret.

    Args:
        console: The lake that the pages show, and what they may change.
        port: The port; 0 for any free one.

    Raises:
        ConfigurationError: The port is not available.
    """
    secrets = Secrets()
    with listen(port, "The console") as listening:
        port = listening.getsockname()[1]
        app = create_app(console, secrets, port)
        with app.app_context():
            current_overview().start()
        server = make_server(HOST, port, app, threaded=True, request_handler=QuietRequestHandler, fd=listening.fileno())
        with serving(server, "console"):
            yield f"http://{HOST}:{port}/enter/{secrets.address}"
