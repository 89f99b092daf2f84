"""A private, temporary MariaDB server on this machine, as a source to try cdclake with.

It writes the binlog that DMS requires (`log-bin`, `binlog_format=ROW`, `binlog_row_image=FULL`), with column names
(`binlog_row_metadata=FULL`), so that the binlog is readable without the database.
"""

from __future__ import annotations

import os
import pwd
from contextlib import closing
from typing import TYPE_CHECKING

import pymysql

from cdclake_cli.loopback import HOST
from cdclake_cli.sources.mysql.connection import ConnectionOptions
from cdclake_devkit.shop.private_server import USER, PrivateServer, program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SERVER, INSTALLER = "mariadbd", "mariadb-install-db"

_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
"""Folders of server programs, which are not on every user's PATH."""
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


class PrivateMariadb(PrivateServer):
    """A MariaDB server. Only this user's processes can reach its socket."""

    product = "MariaDB"
    how_to_install = "Install it (Debian, Ubuntu: apt-get install -y --no-install-recommends mariadb-server)"

    @classmethod
    def is_installed(cls) -> bool:
        """Whether a MariaDB server is installed on this machine."""
        return all(program(name, _FOLDERS) for name in (SERVER, INSTALLER))

    @property
    def connection_options(self) -> ConnectionOptions:
        """How to connect, as a user with all privileges."""
        return ConnectionOptions(user=USER, password=self._password, host=HOST, port=self._port, socket=self._socket)

    @property
    def _socket(self) -> str:
        return str(self._folder / "s")

    @property
    def _temporary(self) -> Path:
        return self._folder / "tmp"

    def _create_data(self) -> None:
        self._temporary.mkdir()
        self._run([*self._program(INSTALLER), "--skip-test-db", f"--auth-root-socket-user={_user_name()}"])

    def _command(self) -> Sequence[str]:
        addresses = [f"--socket={self._socket}", f"--port={self._port}", f"--pid-file={self._folder / 'pid'}"]
        return [*self._program(SERVER), *_SETTINGS, *addresses]

    def _program(self, name: str) -> list[str]:
        # The server refuses to run as root without this option.
        user = [f"--user={_user_name()}"] if os.geteuid() == 0 else []
        # At start, a server deletes all temporary tables in its temporary folder, even tables of other servers.
        folders = [f"--datadir={self._folder / 'data'}", f"--tmpdir={self._temporary}"]
        return [str(program(name, _FOLDERS)), "--no-defaults", *folders, *user]

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
            cursor.execute(f"create user {USER} identified by %s", (self._password,))
            cursor.execute(f"grant all privileges on *.* to {USER}")


def _user_name() -> str:
    """The user of this process as the socket reports it, which may differ from the environment's."""
    return pwd.getpwuid(os.geteuid()).pw_name
