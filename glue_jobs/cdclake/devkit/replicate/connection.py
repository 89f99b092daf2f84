"""How to reach a source database, and what its settings must be for its binlog to tell everything."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pymysql

from cdclake.errors import ConfigurationError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECT_TIMEOUT_SECONDS = 10
_READ_TIMEOUT_SECONDS = 3600
_LONGEST_WAIT_SECONDS = 31_536_000
"""Greatest `wait_timeout`: https://mariadb.com/kb/en/server-system-variables/#wait_timeout"""
_LET_GO_SECONDS = 2
"""In which a server sees that a process was killed, and lets its locks go."""
_REFUSED = {1044, 1045, 1049, 1142, 1227}
"""Access denied, no such database: https://mariadb.com/kb/en/mariadb-error-code-reference/"""

# What the DMS user guide asks of a source ("Using a MySQL-compatible database as a source for AWS DMS"), and the names
# of columns. A setting that a server does not know is off.
_NEEDED: Mapping[str, str] = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}
_COMPRESSING = ("log_bin_compress", "binlog_transaction_compression")


@dataclass(frozen=True)
class Account:
    """How to reach a database. The password is in no text that is made of it.

    Attributes:
        user: Needs SELECT, REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
        socket: Path of a Unix socket, in place of host and port; empty for none.
        option_file: MySQL option file whose `[client]` group says what is not said here, the password for one.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    socket: str = ""
    option_file: str = ""

    def settings(self) -> dict[str, Any]:
        """Arguments of `pymysql.connect`."""
        given: dict[str, Any] = {"user": self.user, "password": self.password}
        given |= {"unix_socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
        given |= {"read_default_file": self.option_file} if self.option_file else {}
        return {
            **{name: value for name, value in given.items() if value is not None},
            "charset": "utf8mb4",
            "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
            "read_timeout": _READ_TIMEOUT_SECONDS,
        }


def connect(account: Account, **settings: Any) -> pymysql.Connection:  # noqa: ANN401 - as pymysql takes them
    """A connection whose times are UTC and that sees what was committed.

    Args:
        account: Whom to connect to.
        settings: Further arguments of `pymysql.connect`.

    Raises:
        ConfigurationError: The server refuses this account.
        RetryableError: It cannot be reached.
    """
    try:
        return pymysql.connect(
            **account.settings(), **settings, autocommit=True, init_command="set session time_zone = '+00:00'"
        )
    except pymysql.OperationalError as error:
        raise source_error(error) from error


def source_error(error: pymysql.MySQLError) -> ConfigurationError | RetryableError:
    """What an error of the server, or of the way to it, means to the caller."""
    code, text = (*error.args, "")[:2]
    if code in _REFUSED:
        return ConfigurationError(f"The source database refuses: {text}", remedy="Check the user and its rights")
    return RetryableError(f"The source database did not do it: {text}", remedy="See that it is there, and run again")


def check_source(connection: pymysql.Connection) -> None:
    """See that the source's binlog tells every change whole.

    Raises:
        ConfigurationError: Names the setting that is not as it must be.
    """
    with connection.cursor() as cursor:
        cursor.execute("show global variables where variable_name in %s", ([*_NEEDED, *_COMPRESSING],))
        found = {str(name): str(value).upper() for name, value in cursor.fetchall()}
    wanted = {**_NEEDED, **{name: "OFF" for name in _COMPRESSING if name in found}}
    for name, value in wanted.items():
        if found.get(name) != value:
            message = f"The source database has {name} = {found.get(name, 'nothing')}"
            raise ConfigurationError(message, remedy=f"Set {name} to {value} there, in the server's configuration")


def reserve(connection: pymysql.Connection, name: str) -> None:
    """Keep other processes from the replication of a name for as long as the connection is open, however it ends.

    Raises:
        RetryableError: Another process has it.
    """
    with connection.cursor() as cursor:
        cursor.execute("set session wait_timeout = %s", (_LONGEST_WAIT_SECONDS,))
        # A lock's name has 64 characters at most.
        lock = f"cdclake {hashlib.sha256(name.encode()).hexdigest()[:32]}"
        cursor.execute("select get_lock(%s, %s)", (lock, _LET_GO_SECONDS))
        if cursor.fetchone() != (1,):
            message = "Another process is at this replication"
            raise RetryableError(message, remedy="End that one first, or give this one another --name", file=name)


def server_name(connection: pymysql.Connection) -> str:
    """What tells a server from others: places in its binlog mean nothing to another one."""
    variables = ("server_uuid", "hostname", "port", "server_id", "datadir")
    with connection.cursor() as cursor:
        cursor.execute("show global variables where variable_name in %s", (variables,))
        found = {str(name): str(value) for name, value in cursor.fetchall()}
    # MariaDB has no `server_uuid`.
    return found.get("server_uuid") or "|".join(found.get(name, "") for name in variables[1:])


def is_mariadb(connection: pymysql.Connection) -> bool:
    """Whether the server is a MariaDB, and not a MySQL."""
    return "mariadb" in str(connection.get_server_info()).lower()
