"""Reads a consistent snapshot of a source, with its position in the binlog.

MariaDB reports the position of a snapshot without a lock, in the status variables `binlog_snapshot_file` and
`binlog_snapshot_position`. MySQL does not, so there a read lock blocks writers until the position is known.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.cursors

from cdclake.errors import RetryableError
from cdclake_cli.sources.mysql.checksum import SQL
from cdclake_cli.sources.mysql.connection import connect, is_mariadb, source_error
from cdclake_cli.sources.mysql.source_tables import source_tables
from cdclake_cli.sources.positions import BinlogPosition
from cdclake_cli.sources.source import BATCH_ROWS
from cdclake_cli.sources.tables import SourceTable, selected_rows

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from cdclake_cli.sources.mysql.connection import ConnectionOptions

_TABLE_CHANGED = 1412
"""ER_TABLE_DEF_CHANGED: a table was altered after the snapshot was taken."""
_SYNTAX_ERROR = 1064


class MysqlSnapshot:
    """An open snapshot. `ChecksumSnapshot` describes the methods.

    Attributes:
        tables: The tables, ordered by name.
    """

    is_consistent, integers_alike, sql = True, False, SQL

    def __init__(self, connection: pymysql.Connection, tables: tuple[SourceTable, ...]) -> None:
        self._connection = connection
        self.tables = tables

    def count(self, table: SourceTable) -> int:
        """The number of rows of a table."""
        ((count,),) = self.select(f"select count(*) from {table.relation}")
        return int(count)

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a statement with few of them."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise source_error(error) from error

    def limit_statements(self, seconds: int) -> None:
        """Let the server stop each statement that takes longer."""
        in_mariadb, in_mysql = f"max_statement_time = {seconds}", f"max_execution_time = {seconds * 1000}"
        self.select(f"set session {in_mariadb if is_mariadb(self._connection) else in_mysql}")

    def rows(
        self, table: SourceTable, batch_rows: int = BATCH_ROWS, where: str = ""
    ) -> Generator[pa.Table, None, None]:
        """All rows of a table in key order, in batches; one empty batch if there are none.

        Closing the generator early waits until the server has sent all rows; the protocol has no other way.

        Raises:
            RetryableError: The table was altered after the snapshot.
        """
        try:
            with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(table.query(where))
                batch = cursor.fetchmany(batch_rows)
                yield selected_rows(table.columns, batch)
                while len(batch) == batch_rows and (batch := cursor.fetchmany(batch_rows)):
                    yield selected_rows(table.columns, batch)
        except pymysql.MySQLError as error:
            if error.args[0] == _TABLE_CHANGED:
                message = "A table was altered while it was read"
                raise RetryableError(message, remedy="Run again", table=table.name) from error
            raise source_error(error) from error


class FirstMysqlSnapshot(MysqlSnapshot):
    """The snapshot that a replication begins at.

    Attributes:
        position: Position in the binlog; the snapshot contains exactly the changes before it.
    """

    def __init__(
        self, connection: pymysql.Connection, position: BinlogPosition, tables: tuple[SourceTable, ...]
    ) -> None:
        super().__init__(connection, tables)
        self.position = position


@contextmanager
def reading_snapshot(options: ConnectionOptions, schema: str, only: Sequence[str] = ()) -> Iterator[MysqlSnapshot]:
    """As `snapshot`, without the position in the binlog: it needs no privilege but SELECT, and no lock."""
    with closing(connect(options)) as connection:
        try:
            with connection.cursor() as cursor:
                cursor.execute("set session transaction isolation level repeatable read")
                cursor.execute("start transaction with consistent snapshot, read only")
        except pymysql.MySQLError as error:
            raise source_error(error) from error
        yield MysqlSnapshot(connection, source_tables(connection, schema, only))


@contextmanager
def snapshot(options: ConnectionOptions, schema: str, only: Sequence[str] = ()) -> Iterator[FirstMysqlSnapshot]:
    """Open a snapshot of a database's tables for the duration of the `with` block.

    Args:
        options: How to connect to the source.
        schema: Name of the database.
        only: Names of tables; empty for all.

    Raises:
        ConfigurationError: The server refuses access, or a table or column is not supported.
        RetryableError: The server cannot be reached.
    """
    with closing(connect(options)) as connection:
        try:
            position = _begin(connection, options)
        except pymysql.MySQLError as error:
            raise source_error(error) from error
        yield FirstMysqlSnapshot(connection, position, source_tables(connection, schema, only))


def end_of_binlog(connection: pymysql.Connection) -> BinlogPosition:
    """Position of the next transaction."""
    with connection.cursor() as cursor:
        try:
            cursor.execute("show master status")
        except pymysql.ProgrammingError as error:
            if error.args[0] != _SYNTAX_ERROR:
                raise
            cursor.execute("show binary log status")  # since MySQL 8.4
        file, offset = cursor.fetchone()[:2]
    return BinlogPosition(str(file), int(offset))


def _begin(connection: pymysql.Connection, options: ConnectionOptions) -> BinlogPosition:
    with connection.cursor() as cursor:
        cursor.execute("set session transaction isolation level repeatable read")
        if is_mariadb(connection):
            cursor.execute("start transaction with consistent snapshot")
            cursor.execute("show status like 'binlog_snapshot_%'")
            status = {str(name).lower(): value for name, value in cursor.fetchall()}
            return BinlogPosition(str(status["binlog_snapshot_file"]), int(status["binlog_snapshot_position"]))
        with closing(connect(options)) as lock, lock.cursor() as lock_cursor:
            lock_cursor.execute("flush tables with read lock")  # held until `lock` is closed
            cursor.execute("start transaction with consistent snapshot")
            return end_of_binlog(lock)
