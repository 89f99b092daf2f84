"""What services on this machine share: a port that only its programs can reach, and a web server on it."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socketserver import BaseServer

HOST = "127.0.0.1"
_BACKLOG = 128
_SHUTDOWN_POLL_SECONDS = 0.05


class QuietLog:
    """Makes a request handler of Werkzeug log errors, to the logger of the handler's module, and no requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: ANN401  the handler's names
        """Log what the server could not do."""
        logger = logging.getLogger(self.__class__.__module__)
        logger.log(logging.ERROR if type == "error" else logging.DEBUG, message, *args)


def listen(port: int, service: str) -> socket.socket:
    """Open a socket that listens on a loopback port.

    Args:
        port: The port; 0 for any free one.
        service: What listens there, for the error message.

    Raises:
        ConfigurationError: The port is not available.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        message = f"{service} cannot listen on port {port}: {error}"
        remedy = "Stop the program that uses the port, or choose another one with --port"
        raise ConfigurationError(message, remedy=remedy) from error
    return listening


@contextmanager
def serving(server: BaseServer, name: str) -> Iterator[None]:
    """Let a server answer in a thread of that name while the `with` block lasts."""
    thread = threading.Thread(target=server.serve_forever, args=(_SHUTDOWN_POLL_SECONDS,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
