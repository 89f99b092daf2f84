"""Sockets that only programs of this machine can reach."""

from __future__ import annotations

import socket

from cdclake.errors import ConfigurationError

HOST = "127.0.0.1"
_BACKLOG = 128


def listen(port: int, who: str) -> socket.socket:
    """A socket that listens on a loopback port.

    Args:
        port: 0 for any free one.
        who: What is to listen there, for the error.

    Raises:
        ConfigurationError: The port cannot be had.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        message = f"{who} cannot listen on port {port}: {error}"
        raise ConfigurationError(message, remedy="Stop what uses it, or choose another port with --port") from error
    return listening
