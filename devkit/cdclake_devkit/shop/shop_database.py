"""The sample shop in a private database server."""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, ClassVar

from pymysql.constants import CLIENT

from cdclake.errors import ConfigurationError, JobRunError
from cdclake_cli.sources.mysql import connection as mysql
from cdclake_cli.sources.mysql.snapshot import end_of_binlog
from cdclake_cli.sources.postgres import connection as postgres
from cdclake_cli.sources.postgres.snapshot import end_of_wal
from cdclake_devkit.local.deploy import checkout
from cdclake_devkit.replicate.mysql.source import BinlogSource
from cdclake_devkit.replicate.postgres.source import WalSource
from cdclake_devkit.shop.mariadb import PrivateMariadb
from cdclake_devkit.shop.postgresql import PrivatePostgresql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Self

    from cdclake_cli.sources.positions import Position
    from cdclake_devkit.replicate.source import LoggedSource

DATABASE = "shop"
"""Name of the database, and of the tables' schema."""


class ShopDatabase(ABC):
    """A database `shop` on a server that has just started.

    Attributes:
        engine: DMS's name of the kind of database, as in `cdclake local replicate --engine`.
        server: The class of its private server.
        user: Database user.
        password: The user's password.
        socket: Socket of the server.
        port: Port of the server.
    """

    engine: ClassVar[str]
    server: ClassVar[type[PrivateMariadb | PrivatePostgresql]]
    _options: mysql.ConnectionOptions | postgres.ConnectionOptions

    def __init__(self, server: PrivateMariadb | PrivatePostgresql) -> None:
        self._options = server.connection_options
        self.user, self.password = str(self._options.user), str(self._options.password)
        self.socket, self.port = self._options.socket, int(self._options.port or 0)

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Self]:
        """Start a server for the duration of the `with` block."""
        with cls.server() as server:
            yield cls(server)

    @property
    @abstractmethod
    def source(self) -> LoggedSource:
        """The database, as a source."""

    @abstractmethod
    def end(self) -> Position:
        """Position in the server's log after everything so far."""

    @abstractmethod
    def execute(self, script: str, variables: Mapping[str, int] | None = None) -> None:
        """Run a script of the sample database.

        Args:
            variables: Values that the script uses, by name.

        Raises:
            ConfigurationError: The scripts are missing, as in an installation without a checkout.
        """


class MariadbShop(ShopDatabase):
    """The shop in MariaDB."""

    engine = "mysql"
    server = PrivateMariadb
    _options: mysql.ConnectionOptions

    @property
    def source(self) -> BinlogSource:
        """The database, as a source."""
        return BinlogSource(self._options, DATABASE)

    def end(self) -> Position:
        """Position in the binlog after everything so far."""
        with closing(mysql.connect(self._options)) as connection:
            return end_of_binlog(connection)

    def execute(self, script: str, variables: Mapping[str, int] | None = None) -> None:
        """Run a script like the `mysql` program."""
        text = (sql_files() / script).read_text(encoding="utf-8")
        use = "" if script == "schema.sql" else f"use {DATABASE};"
        before = "".join(f"set @{name} = {value:d};" for name, value in (variables or {}).items())
        connection = mysql.connect(self._options, client_flag=CLIENT.MULTI_STATEMENTS)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(f"{use}{before}{text}")
            while cursor.nextset():
                pass


class PostgresqlShop(ShopDatabase):
    """The shop in PostgreSQL."""

    engine = "postgres"
    server = PrivatePostgresql
    _options: postgres.ConnectionOptions

    def __init__(self, server: PrivatePostgresql) -> None:
        super().__init__(server)
        self._program = server.psql

    @property
    def source(self) -> WalSource:
        """The database, as a source."""
        return WalSource(self._options, DATABASE)

    def end(self) -> Position:
        """Position in the write-ahead log after everything so far."""
        with closing(postgres.connect(self._options, DATABASE)) as connection:
            return end_of_wal(connection)

    def execute(self, script: str, variables: Mapping[str, int] | None = None) -> None:
        """Run a script with the `psql` program."""
        if script == "schema.sql":
            with closing(postgres.connect(self._options, "postgres")) as connection, connection.cursor() as cursor:
                cursor.execute(f"create database {DATABASE}")
        path = sql_files() / "postgres" / script
        address = ["--host", self.socket, "--port", str(self.port), "--username", self.user, "--dbname", DATABASE]
        values = [argument for name, value in (variables or {}).items() for argument in ("-v", f"{name}={value:d}")]
        result = subprocess.run(
            [self._program, "-X", "-q", "-v", "ON_ERROR_STOP=1", *values, *address, "--file", str(path)],
            env={**os.environ, "PGPASSWORD": self.password, "PGCLIENTENCODING": "UTF8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            message = f"psql failed: {result.stderr.strip()}"
            raise JobRunError(message, remedy="Check the script", file=str(path))


def sql_files() -> Path:
    """Folder of the sample database's scripts.

    Raises:
        ConfigurationError: The scripts are missing, as in an installation without a checkout.
    """
    folder = checkout() / "sample_db"
    if not (folder / "schema.sql").is_file():
        message = f"The sample database's scripts are not in {folder}"
        raise ConfigurationError(message, remedy="Run this from a checkout of cdclake")
    return folder
