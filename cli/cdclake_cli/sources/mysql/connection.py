"""Connects to a source database, and checks that its settings make the binlog complete."""

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
_MAX_WAIT_TIMEOUT_SECONDS = 31_536_000
"""Maximum of `wait_timeout`: https://mariadb.com/kb/en/server-system-variables/#wait_timeout"""
_LOCK_TIMEOUT_SECONDS = 2
"""Time in which a server notices that a process was killed, and releases its locks."""
_REFUSED = {1044, 1045, 1049, 1142, 1227}
"""Access denied, no such database: https://mariadb.com/kb/en/mariadb-error-code-reference/"""

# From the DMS user guide ("Using a MySQL-compatible database as a source for AWS DMS"); the metadata adds the names of
# columns. A setting that a server does not have counts as off.
_REQUIRED: Mapping[str, str] = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}
_COMPRESSING = ("log_bin_compress", "binlog_transaction_compression")


@dataclass(frozen=True)
class ConnectionOptions:
    """How to connect to a database. The representation does not contain the password.

    Attributes:
        user: Needs SELECT, REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
        socket: Path of a Unix socket, instead of host and port; empty for none.
        option_file: MySQL option file; its `[client]` group supplies what is not set here, such as the password.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    socket: str = ""
    option_file: str = ""

    def settings(self) -> dict[str, Any]:
        """Arguments of `pymysql.connect`."""
        options: dict[str, Any] = {"user": self.user, "password": self.password}
        options |= {"unix_socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
        options |= {"read_default_file": self.option_file} if self.option_file else {}
        return {
            **{name: value for name, value in options.items() if value is not None},
            "charset": "utf8mb4",
            "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
            "read_timeout": _READ_TIMEOUT_SECONDS,
        }


def connect(options: ConnectionOptions, **settings: Any) -> pymysql.Connection:  # noqa: ANN401 - as pymysql takes them
    """Open a connection with UTC times and autocommit.

    Args:
        options: How to connect to the source.
        settings: Further arguments of `pymysql.connect`.

    Raises:
        ConfigurationError: The server refuses the user.
        RetryableError: The server cannot be reached.
    """
    try:
        return pymysql.connect(
            **options.settings(), **settings, autocommit=True, init_command="set session time_zone = '+00:00'"
        )
    except pymysql.OperationalError as error:
        raise source_error(error) from error


def source_error(error: pymysql.MySQLError) -> ConfigurationError | RetryableError:
    """The error to raise for an error of the server or of the connection."""
    code, text = (*error.args, "")[:2]
    if code in _REFUSED:
        return ConfigurationError(f"The source database refuses access: {text}", remedy="Check the user and its grants")
    remedy = "Check that it is running, and run again"
    return RetryableError(f"The source database returned an error: {text}", remedy=remedy)


def check_binlog_settings(connection: pymysql.Connection) -> None:
    """Check that the source's binlog contains every change completely.

    Raises:
        ConfigurationError: A setting is wrong; the message names it.
    """
    with connection.cursor() as cursor:
        cursor.execute("show global variables where variable_name in %s", ([*_REQUIRED, *_COMPRESSING],))
        actual = {str(name): str(value).upper() for name, value in cursor.fetchall()}
    required = {**_REQUIRED, **{name: "OFF" for name in _COMPRESSING if name in actual}}
    for name, value in required.items():
        if actual.get(name) != value:
            message = f"The source database has {name} = {actual.get(name, 'nothing')}"
            raise ConfigurationError(message, remedy=f"Set {name} to {value} in the server's configuration")


def lock_replication(connection: pymysql.Connection, name: str) -> None:
    """Lock a replication for as long as the connection is open. The server releases the lock even after a crash.

    Raises:
        RetryableError: Another process holds the lock.
    """
    with connection.cursor() as cursor:
        cursor.execute("set session wait_timeout = %s", (_MAX_WAIT_TIMEOUT_SECONDS,))
        # A lock's name has at most 64 characters.
        lock = f"cdclake {hashlib.sha256(name.encode()).hexdigest()[:32]}"
        cursor.execute("select get_lock(%s, %s)", (lock, _LOCK_TIMEOUT_SECONDS))
        if cursor.fetchone() != (1,):
            message = "Another process runs this replication"
            raise RetryableError(message, remedy="Stop it first, or use another --name", file=name)


def server_id(connection: pymysql.Connection) -> str:
    """Identifies a server. Positions in its binlog are meaningless for another server."""
    variables = ("server_uuid", "hostname", "port", "server_id", "datadir")
    with connection.cursor() as cursor:
        cursor.execute("show global variables where variable_name in %s", (variables,))
        values = {str(name): str(value) for name, value in cursor.fetchall()}
    # MariaDB has no `server_uuid`.
    return values.get("server_uuid") or "|".join(values.get(name, "") for name in variables[1:])


def is_mariadb(connection: pymysql.Connection) -> bool:
    """Whether the server is MariaDB, not MySQL."""
    return "mariadb" in str(connection.get_server_info()).lower()
