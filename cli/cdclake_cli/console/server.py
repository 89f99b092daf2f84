"""Serves the console on a loopback port."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

from cdclake_cli.console.app import create_app
from cdclake_cli.console.overview import current_overview
from cdclake_cli.console.security import Secrets
from cdclake_cli.loopback import HOST, listen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_cli.console.context import Console

logger = logging.getLogger(__name__)

_SHUTDOWN_POLL_SECONDS = 0.1


class QuietRequestHandler(WSGIRequestHandler):
    """Logs no requests, because the first one contains the address's secret."""

    server_version, sys_version = "cdclake", ""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: ANN401  the base class's names
        """Write errors to cdclake's log."""
        logger.log(logging.ERROR if type == "error" else logging.DEBUG, message, *args)


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
        serving = threading.Thread(
            target=server.serve_forever, args=(_SHUTDOWN_POLL_SECONDS,), name="console", daemon=True
        )
        serving.start()
        try:
            yield f"http://{HOST}:{port}/enter/{secrets.address}"
        finally:
            server.shutdown()
            serving.join()
