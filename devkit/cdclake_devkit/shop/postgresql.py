"""A private, temporary PostgreSQL server on this machine, as a source to try cdclake with.

It writes the log that logical decoding requires (`wal_level=logical`).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

from cdclake_cli.loopback import HOST
from cdclake_cli.sources.postgres.connection import ConnectionOptions
from cdclake_devkit.shop.private_server import USER, PrivateServer, program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake_devkit.local.processes import Child

SERVER, INSTALLER, CLIENT = "postgres", "initdb", "psql"

_INSTALLATIONS = "/usr/lib/postgresql"
"""Debian's folder of server programs, by major version: `15/bin`. They are not on the PATH."""
_STOP_TIMEOUT_SECONDS = 10
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "200",
    "max_wal_senders": "50",
    "max_connections": "100",
    "listen_addresses": HOST,
    "timezone": "UTC",
    # The data need not survive a crash of the machine.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
}


class PrivatePostgresql(PrivateServer):
    """A PostgreSQL server. As root, it runs as the user `postgres`, because the server refuses to run as root.

    Args:
        port: Loopback port; 0 for any free one.
        settings: Settings of the server by name, besides those that replication needs.
    """

    product = "PostgreSQL"
    how_to_install = "Install it (Debian, Ubuntu: apt-get install -y --no-install-recommends postgresql)"

    def __init__(self, port: int = 0, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(port)
        self._settings = {**_SETTINGS, **(settings or {})}

    @classmethod
    def is_installed(cls) -> bool:
        """Whether a PostgreSQL server is installed on this machine."""
        return all(program(name, _folders()) for name in (SERVER, INSTALLER, CLIENT))

    @property
    def connection_options(self) -> ConnectionOptions:
        """How to connect, as a superuser. The socket is named by its folder, as PostgreSQL does."""
        return ConnectionOptions(
            user=USER, password=self._password, host=HOST, port=self._port, socket=str(self._folder)
        )

    @property
    def psql(self) -> str:
        """Path of the program `psql`."""
        return str(program(CLIENT, _folders()))

    def _create_data(self) -> None:
        password = self._folder / "password"
        password.touch(mode=0o600)
        password.write_text(self._password)
        user = _server_user()
        if user is not None:
            for path in (self._folder, password):
                shutil.chown(path, user.pw_uid, user.pw_gid)
        arguments = (f"--pgdata={self._folder / 'data'}", f"--username={USER}", f"--pwfile={password}")
        options = ("--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", "--no-sync")
        self._run([*_as_user(user), str(program(INSTALLER, _folders())), *arguments, *options])
        password.unlink()

    def _command(self) -> Sequence[str]:
        addresses = {"port": self._port, "unix_socket_directories": self._folder}
        settings = [f"--{name}={value}" for name, value in {**self._settings, **addresses}.items()]
        return [
            *_as_user(_server_user()),
            str(program(SERVER, _folders())),
            "-D",
            str(self._folder / "data"),
            *settings,
        ]

    def _accepts_connections(self) -> bool:
        try:
            psycopg2.connect(**self.connection_options.settings(), dbname="postgres").close()
        except psycopg2.OperationalError:
            return False
        return True

    def _create_user(self) -> None:
        """The installer created it."""

    def _stop(self, server: Child) -> None:
        """Let the server end at once, but release its System V shared memory, which outlives a killed process."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended already
            os.kill(int((self._folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0]), signal.SIGQUIT)
        with contextlib.suppress(TimeoutError):
            server.wait(_STOP_TIMEOUT_SECONDS)
        super()._stop(server)


def _folders(installations: str = _INSTALLATIONS) -> list[str]:
    """Folders of installed versions, the newest first."""
    versions = [path for path in Path(installations).glob("*/bin") if path.parent.name.isdecimal()]
    return [str(path) for path in sorted(versions, key=lambda path: int(path.parent.name), reverse=True)]


def _server_user() -> pwd.struct_passwd | None:
    """The user to run the server as; None for this process's."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _as_user(user: pwd.struct_passwd | None) -> list[str]:
    if user is None:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
