"""Connects to a PostgreSQL database, and checks that it can be replicated by logical decoding."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg2
import psycopg2.errors
import psycopg2.extras

from cdclake.errors import CdclakeError, ConfigurationError, RetryableError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

MIN_VERSION = 12
_CONNECT_TIMEOUT_SECONDS = 10
_LOCK_TIMEOUT_SECONDS = 2
"""Time in which a server notices that a process was killed, and releases its locks."""
_POLL_SECONDS = 0.1

_REFUSED = re.compile(
    "authentication failed|does not exist|no pg_hba.conf entry|no password supplied|permission denied"
    "|must be superuser or replication role"
)
"""Messages of connections that the server refuses."""
_SESSION = {
    # Values are read as text, so that a full load and decoded changes have the same form.
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # Names of types outside pg_catalog then include their schema.
    "search_path": "pg_catalog",
    "row_security": "off",
    "client_encoding": "UTF8",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "wal_sender_timeout": "0",
}
"""Settings of each session, whatever the server's or the user's defaults."""


@dataclass(frozen=True)
class ConnectionOptions:
    """How to connect to a server. The representation does not contain the password.

    What is not set here comes from libpq's environment variables and its password file.

    Attributes:
        user: Needs SELECT on the tables, and REPLICATION (Amazon RDS: the role `rds_replication`).
        socket: Folder of the Unix socket, instead of a host; empty for none.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    socket: str = ""

    def settings(self) -> dict[str, Any]:
        """Arguments of `psycopg2.connect`."""
        options = {
            "user": self.user,
            "password": self.password,
            "host": self.socket or self.host,
            "port": self.port,
        }
        return {
            **{name: value for name, value in options.items() if value is not None},
            "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
            "application_name": "cdclake",
            "keepalives_idle": 30,
        }


def connect(options: ConnectionOptions, database: str, **settings: Any) -> Connection:  # noqa: ANN401 - as psycopg2 takes them
    """Open a connection with UTC times and autocommit.

    Args:
        options: How to connect to the server.
        database: Name of the database.
        settings: Further arguments of `psycopg2.connect`.

    Raises:
        ConfigurationError: The server refuses the user, or there is no such database.
        RetryableError: The server cannot be reached.
    """
    session = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in _SESSION.items())
    try:
        connection = psycopg2.connect(**options.settings(), dbname=database, options=session, **settings)
    except psycopg2.Error as error:
        raise source_error(error) from error
    if not settings:  # a replication connection has no transactions
        connection.autocommit = True
    return connection


def replication_connection(options: ConnectionOptions, database: str) -> Connection:
    """Open a connection for commands of the replication protocol.

    Raises:
        ConfigurationError: The server refuses the user, or the user may not replicate.
        RetryableError: The server cannot be reached.
    """
    return connect(options, database, connection_factory=psycopg2.extras.LogicalReplicationConnection)


def source_error(error: psycopg2.Error) -> CdclakeError:
    """The error to raise for an error of the server or of the connection."""
    text = " ".join(str(error).split())
    code = error.pgcode or ""
    # Class 28 and 3D: refused authorization, no such database; 42501: no privilege. A connection that is refused has
    # no code: https://www.postgresql.org/docs/current/errcodes-appendix.html
    if code[:2] in {"28", "3D"} or code == "42501" or (not code and _REFUSED.search(text)):
        remedy = "Check the user, its password and privileges: SELECT on the tables, and REPLICATION"
        return ConfigurationError(f"The source database refuses access: {text}", remedy=remedy)
    remedy = "Check that it is running, and run again"
    return RetryableError(f"The source database returned an error: {text}", remedy=remedy)


def query(connection: Connection, statement: str, parameters: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
    """Rows of a query.

    Args:
        parameters: Values for each `%s`; None if a percent sign is one.

    Raises:
        ConfigurationError: The user lacks a privilege.
        RetryableError: The server returned an error.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
    except psycopg2.Error as error:
        raise source_error(error) from error
    return rows


def check_server(connection: Connection) -> None:
    """Check that the server can decode its log, and that its text is UTF-8.

    Raises:
        ConfigurationError: It cannot; the message names the setting.
    """
    ((version, wal_level, encoding),) = query(
        connection,
        "select current_setting('server_version_num')::int, current_setting('wal_level'),"
        " current_setting('server_encoding')",
    )
    if version < MIN_VERSION * 10_000:
        message = f"The source database is PostgreSQL {version // 10_000}"
        raise ConfigurationError(message, remedy=f"Use PostgreSQL {MIN_VERSION} or later")
    if wal_level != "logical":
        message = f"The source database has wal_level = {wal_level}"
        remedy = "Set wal_level to logical (Amazon RDS: rds.logical_replication to 1) and restart the server"
        raise ConfigurationError(message, remedy=remedy)
    if encoding != "UTF8":
        message = f"The source database has the encoding {encoding}"
        raise ConfigurationError(message, remedy="Use a database with the encoding UTF8")


def lock_replication(connection: Connection, name: str) -> None:
    """Lock a replication for as long as the connection is open. The server releases the lock even after a crash.

    Raises:
        RetryableError: Another process holds the lock.
    """
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
    while query(connection, "select pg_try_advisory_lock(%s)", (key,)) != [(True,)]:
        if time.monotonic() > deadline:
            message = "Another process runs this replication"
            raise RetryableError(message, remedy="Stop it first, or use another --name", file=name)
        time.sleep(_POLL_SECONDS)
