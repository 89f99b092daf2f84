"""A private, temporary MariaDB server on this machine, as a source to try cdclake with.

It writes the binlog that DMS requires (`log-bin`, `binlog_format=ROW`, `binlog_row_image=FULL`), with column names
(`binlog_row_metadata=FULL`), so that the binlog is readable without the database.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from cdclake.devkit.local.processes import Child
from cdclake.devkit.replicate.connection import ConnectionOptions
from cdclake.errors import ConfigurationError, JobRunError
from cdclake.loopback import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

SERVER, INSTALLER = "mariadbd", "mariadb-install-db"
HOW_TO_INSTALL = "Install it (Debian, Ubuntu: apt-get install -y --no-install-recommends mariadb-server)"

_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
"""Folders of server programs, which are not on every user's PATH."""
_USER = "cdclake"
_START_TIMEOUT_SECONDS = 60
_POLL_SECONDS = 0.05
_SETTINGS = (
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    f"--bind-address={HOST}",
    # The data need not survive a crash of the machine.
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=64M",
)


def server_is_installed() -> bool:
    """Whether a MariaDB server is installed on this machine."""
    return all(_program(name) for name in (SERVER, INSTALLER))


class PrivateMariadb:
    """A MariaDB server for the duration of the `with` block, with private data, temporary tables, socket and port.

    Only this user's processes can reach the socket, and the port is on the loopback device. The server ends with this
    process.

    Args:
        port: Loopback port; 0 for any free one.
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._password = secrets.token_urlsafe(24)
        self._stack = ExitStack()
        self._folder = Path()

    def __enter__(self) -> PrivateMariadb:
        """Create the data folder, start the server, and wait until it accepts connections.

        Raises:
            ConfigurationError: No server is installed.
            JobRunError: The server does not start.
        """
        if not server_is_installed():
            message = "There is no MariaDB server on this machine"
            raise ConfigurationError(message, remedy=HOW_TO_INSTALL)
        with ExitStack() as stack:
            # A socket's path has at most 107 bytes, so the folder is directly below the temporary folder.
            self._folder = Path(tempfile.mkdtemp(prefix="cdclake-db-"))
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._temporary.mkdir()
            self._run([*self._command(INSTALLER), "--skip-test-db", f"--auth-root-socket-user={_user_name()}"])
            self._start(stack)
            self._create_user()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server and delete its data."""
        self._stack.close()

    @property
    def connection_options(self) -> ConnectionOptions:
        """How to connect, as a user with all privileges."""
        return ConnectionOptions(user=_USER, password=self._password, host=HOST, port=self._port, socket=self._socket)

    @property
    def _socket(self) -> str:
        return str(self._folder / "s")

    @property
    def _temporary(self) -> Path:
        return self._folder / "tmp"

    @property
    def _log(self) -> Path:
        return self._folder / "error.log"

    def _command(self, program: str) -> list[str]:
        # The server refuses to run as root without this option.
        user = [f"--user={_user_name()}"] if os.geteuid() == 0 else []
        # At start, a server deletes all temporary tables in its temporary folder, even those of other servers.
        folders = [f"--datadir={self._folder / 'data'}", f"--tmpdir={self._temporary}"]
        return [str(_program(program)), "--no-defaults", *folders, *user]

    def _start(self, stack: ExitStack) -> None:
        # Chosen as late as possible: another process may take the port until the server opens it.
        self._port = self._port or _free_port()
        addresses = [f"--socket={self._socket}", f"--port={self._port}", f"--pid-file={self._folder / 'pid'}"]
        with self._log.open("wb") as log:
            command = [*self._command(SERVER), *_SETTINGS, *addresses]
            server = Child(command, cwd=self._folder, env=_environment(), stdout=log, stderr=log)
        stack.callback(_stop, server)
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._accepts_connections():
            if time.monotonic() > deadline or server.has_ended():
                message = f"MariaDB did not start: {_last_lines(self._log)}"
                raise JobRunError(message, remedy="Start the server by hand to see more")
            time.sleep(_POLL_SECONDS)

    def _accepts_connections(self) -> bool:
        try:
            self._as_root().close()
        except pymysql.OperationalError:
            return False
        return True

    def _as_root(self) -> pymysql.Connection:
        """A connection without password: the socket authenticates the user of this process."""
        return pymysql.connect(unix_socket=self._socket, user=_user_name(), autocommit=True)

    def _create_user(self) -> None:
        with closing(self._as_root()) as connection, connection.cursor() as cursor:
            cursor.execute(f"create user {_USER} identified by %s", (self._password,))
            cursor.execute(f"grant all privileges on *.* to {_USER}")

    def _run(self, command: Sequence[str]) -> None:
        result = subprocess.run(
            command, cwd=self._folder, env=_environment(), capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            message = f"{Path(command[0]).name} failed: {(result.stderr or result.stdout).strip()}"
            raise JobRunError(message, remedy="Check that the temporary folder has free space")


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS]))


def _environment() -> dict[str, str]:
    """The server's environment."""
    return {"PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def _user_name() -> str:
    """The user of this process as the socket reports it, which may differ from the environment's."""
    return pwd.getpwuid(os.geteuid()).pw_name


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(server: Child) -> None:
    """Kill the server: its data is deleted anyway, so an orderly shutdown would waste time."""
    server.kill()
    server.wait()


def _last_lines(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "it wrote no log"
    return " | ".join(text.splitlines()[-5:])
