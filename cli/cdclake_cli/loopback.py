"""What services on this machine share: a port that only its programs can reach."""

from __future__ import annotations

import socket

from cdclake.errors import ConfigurationError

HOST = "127.0.0.1"
_BACKLOG = 128


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
