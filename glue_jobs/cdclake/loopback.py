"""What services on this machine share: a port that only its programs can reach, and a clean stop."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
_BACKLOG = 128
_SIGNAL_POLL_SECONDS = 0.2


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
def stop_signals() -> Iterator[Callable[[], None]]:
    """Handle SIGINT and SIGTERM in the `with` block; yields a function that waits for one. For the main thread only."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}

    def wait() -> None:
        # Python runs handlers in the main thread, which a signal that another thread receives does not wake.
        while not stop.wait(_SIGNAL_POLL_SECONDS):
            pass

    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
