"""A MariaDB of one's own, as a source to try things with: private, on this machine, gone at the end.

It writes the binlog that DMS asks of a source (`log-bin`, `binlog_format=ROW`, `binlog_row_image=FULL`) and one thing
more that makes a binlog readable without the database beside it: the names of columns (`binlog_row_metadata=FULL`).
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
"""Where servers lie, which is not on every user's path."""
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
    # Nothing here has to outlive a crash of the machine.
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=64M",
)


def server_is_installed() -> bool:
    """Whether this machine has a MariaDB server to start."""
    return all(_program(name) for name in (SERVER, INSTALLER))


class PrivateMariadb:
    """A MariaDB server for as long as the `with` block lasts; its data, temporary tables, socket and port are its own.

    Only this user's processes reach its socket, and its port is on the loopback device. It dies with this process.

    Args:
        port: Loopback port; 0 for any free one.
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._password = secrets.token_urlsafe(24)
        self._stack = ExitStack()
        self._folder = Path()

    def __enter__(self) -> PrivateMariadb:
        """Make the data folder, start the server, and wait until it answers.

        Raises:
            ConfigurationError: No server is installed.
            JobRunError: It does not start.
        """
        if not server_is_installed():
            message = "There is no MariaDB server on this machine"
            raise ConfigurationError(message, remedy=HOW_TO_INSTALL)
        with ExitStack() as stack:
            # The path of a socket has 107 bytes at most, so this is right under the temporary folder.
            self._folder = Path(tempfile.mkdtemp(prefix="cdclake-db-"))
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._temporary.mkdir()
            self._run([*self._command(INSTALLER), "--skip-test-db", f"--auth-root-socket-user={_own_name()}"])
            self._start(stack)
            self._create_user()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server and remove its data."""
        self._stack.close()

    @property
    def connection_options(self) -> ConnectionOptions:
        """How to reach it, with every right."""
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
        found = _program(program)
        # The server refuses to run as root unless told so.
        user = [f"--user={_own_name()}"] if os.geteuid() == 0 else []
        # A server that starts removes all temporary tables from its folder for them, those of other servers too.
        folders = [f"--datadir={self._folder / 'data'}", f"--tmpdir={self._temporary}"]
        return [str(found), "--no-defaults", *folders, *user]

    def _start(self, stack: ExitStack) -> None:
        # Asked for as late as can be: until the server has it, anybody may take it.
        self._port = self._port or _free_port()
        places = [f"--socket={self._socket}", f"--port={self._port}", f"--pid-file={self._folder / 'pid'}"]
        with self._log.open("wb") as log:
            command = [*self._command(SERVER), *_SETTINGS, *places]
            server = Child(command, cwd=self._folder, env=_environment(), stdout=log, stderr=log)
        stack.callback(_end, server)
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or _ended(server):
                message = f"MariaDB did not start: {_last_lines(self._log)}"
                raise JobRunError(message, remedy="Run the server by hand to see more")
            time.sleep(_POLL_SECONDS)

    def _answers(self) -> bool:
        try:
            self._as_root().close()
        except pymysql.OperationalError:
            return False
        return True

    def _as_root(self) -> pymysql.Connection:
        """A connection that the server trusts because the socket tells it who runs this process."""
        return pymysql.connect(unix_socket=self._socket, user=_own_name(), autocommit=True)

    def _create_user(self) -> None:
        with closing(self._as_root()) as connection, connection.cursor() as cursor:
            cursor.execute(f"create user {_USER} identified by %s", (self._password,))
            cursor.execute(f"grant all privileges on *.* to {_USER}")

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            command, cwd=self._folder, env=_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            message = f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()}"
            raise JobRunError(message, remedy="Look whether there is room in the temporary folder")


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS]))


def _environment() -> dict[str, str]:
    """What the server gets to see of this process's environment."""
    return {"PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def _own_name() -> str:
    """The user who runs this process, as the server gets told of him by the socket; the environment may say another."""
    return pwd.getpwuid(os.geteuid()).pw_name


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _ended(server: Child) -> bool:
    try:
        server.wait(0)
    except TimeoutError:
        return False
    return True


def _end(server: Child) -> None:
    """Kill it: its data goes with it, so an orderly shutdown would be time lost."""
    server.kill()
    server.wait()


def _last_lines(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "it wrote no log"
    return " | ".join(text.splitlines()[-5:])
