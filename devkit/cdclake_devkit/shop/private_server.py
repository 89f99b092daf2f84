"""A private, temporary database server on this machine, as a source to try cdclake with."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cdclake.errors import ConfigurationError, JobRunError
from cdclake_cli.loopback import HOST
from cdclake_devkit.local.processes import Child

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Self

USER = "cdclake"
"""Database user with all privileges."""
_START_TIMEOUT_SECONDS = 60
_POLL_SECONDS = 0.05


class PrivateServer(ABC):
    """A server for the duration of the `with` block, with private data, socket and port.

    The port is on the loopback device. The server ends with this process.

    Args:
        port: Loopback port; 0 for any free one.
    """

    product: ClassVar[str]
    how_to_install: ClassVar[str]

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._password = secrets.token_urlsafe(24)
        self._stack = ExitStack()
        self._folder = Path()

    def __enter__(self) -> Self:
        """Create the data folder, start the server, and wait until it accepts connections.

        Raises:
            ConfigurationError: No server is installed.
            JobRunError: The server does not start.
        """
        if not self.is_installed():
            message = f"There is no {self.product} server on this machine"
            raise ConfigurationError(message, remedy=self.how_to_install)
        with ExitStack() as stack:
            # A socket's path has at most 107 bytes, so the folder is directly below the temporary folder.
            self._folder = Path(tempfile.mkdtemp(prefix="cdclake-db-"))
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._create_data()
            self._start(stack)
            self._create_user()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server and delete its data."""
        self._stack.close()

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool:
        """Whether such a server is installed on this machine."""

    @abstractmethod
    def _create_data(self) -> None:
        """Create the data folder."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command that runs the server on `self._port`."""

    @abstractmethod
    def _accepts_connections(self) -> bool:
        """Whether the server has started."""

    @abstractmethod
    def _create_user(self) -> None:
        """Create `USER`."""

    def _start(self, stack: ExitStack) -> None:
        # Chosen as late as possible: another process may take the port until the server opens it.
        self._port = self._port or _free_port()
        log_path = self._folder / "error.log"
        with log_path.open("wb") as log:
            server = Child(self._command(), cwd=self._folder, env=environment(), stdout=log, stderr=log)
        stack.callback(self._stop, server)
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._accepts_connections():
            if time.monotonic() > deadline or server.has_ended():
                message = f"{self.product} did not start: {_last_lines(log_path)}"
                raise JobRunError(message, remedy="Start the server by hand to see more")
            time.sleep(_POLL_SECONDS)

    def _stop(self, server: Child) -> None:
        """Kill the server: its data is deleted anyway, so an orderly shutdown would waste time."""
        server.kill()
        server.wait()

    def _run(self, command: Sequence[str]) -> None:
        result = subprocess.run(
            command, cwd=self._folder, env=environment(), capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            message = f"{Path(command[0]).name} failed: {(result.stderr or result.stdout).strip()}"
            raise JobRunError(message, remedy="Check that the temporary folder has free space")


def program(name: str, folders: Iterable[str]) -> str | None:
    """Path of a program on the PATH or in one of the folders; None if there is none."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders]))


def environment() -> dict[str, str]:
    """Environment of a server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _last_lines(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "it wrote no log"
    return " | ".join(text.splitlines()[-5:])
