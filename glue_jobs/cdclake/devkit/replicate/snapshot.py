"""All rows of a source at one moment, and the place in its binlog where that moment is.

MariaDB tells the place of a transaction's snapshot (status variables `binlog_snapshot_file` and `_position`), with no
lock. MySQL does not, so that writers are held up there from before the snapshot is taken until its place is known.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pymysql
import pymysql.cursors

from cdclake.devkit.replicate.connection import connect, is_mariadb, source_error
from cdclake.devkit.replicate.mysql_types import selected
from cdclake.devkit.replicate.position import BinlogPosition
from cdclake.devkit.replicate.source_tables import SourceTable, source_tables
from cdclake.errors import RetryableError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from cdclake.devkit.replicate.connection import Account

ROWS_AT_ONCE = 20_000

_TABLE_CHANGED = 1412
"""ER_TABLE_DEF_CHANGED: a table was altered after the snapshot was taken."""
_SYNTAX_ERROR = 1064


class Snapshot:
    """An open snapshot.

    Attributes:
        position: What the binlog has before it is in the snapshot, and nothing else is.
        tables: The tables, by name.
    """

    def __init__(
        self, connection: pymysql.Connection, position: BinlogPosition, tables: tuple[SourceTable, ...]
    ) -> None:
        self._connection = connection
        self.position = position
        self.tables = tables

    def count(self, table: SourceTable) -> int:
        """How many rows a table has.

        Raises:
            RetryableError: The server did not tell.
        """
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"select count(*) from {table.quoted_name}")
                (count,) = cursor.fetchone()
                return int(count)
        except pymysql.MySQLError as error:
            raise source_error(error) from error

    def rows(self, table: SourceTable, at_once: int = ROWS_AT_ONCE) -> Generator[pa.Table, None, None]:
        """All rows of a table by key, as they come; one empty piece if there are none.

        Closing it before its end takes until the server has sent all rows, as its protocol knows no other way.

        Raises:
            RetryableError: The table was altered meanwhile.
        """
        try:
            with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(table.query)
                piece = cursor.fetchmany(at_once)
                yield selected(table.columns, piece)
                while len(piece) == at_once and (piece := cursor.fetchmany(at_once)):
                    yield selected(table.columns, piece)
        except pymysql.MySQLError as error:
            if error.args[0] == _TABLE_CHANGED:
                message = "A table was altered while it was read"
                raise RetryableError(message, remedy="Run again", table=table.name) from error
            raise source_error(error) from error


@contextmanager
def snapshot(account: Account, schema: str, only: Sequence[str] = ()) -> Iterator[Snapshot]:
    """Take a snapshot of a database's tables, for as long as the `with` block lasts.

    Args:
        account: Whom to connect to.
        schema: Name of the database.
        only: Names of tables to take; empty for all.

    Raises:
        ConfigurationError: The server refuses, or a table or column cannot be delivered.
        RetryableError: The server cannot be reached.
    """
    with closing(connect(account)) as connection:
        try:
            position = _begin(connection, account)
        except pymysql.MySQLError as error:
            raise source_error(error) from error
        yield Snapshot(connection, position, source_tables(connection, schema, only))


def end_of_binlog(connection: pymysql.Connection) -> BinlogPosition:
    """Where the next transaction will be written."""
    with connection.cursor() as cursor:
        try:
            cursor.execute("show master status")
        except pymysql.ProgrammingError as error:
            if error.args[0] != _SYNTAX_ERROR:
                raise
            cursor.execute("show binary log status")  # since MySQL 8.4
        file, offset = cursor.fetchone()[:2]
    return BinlogPosition(str(file), int(offset))


def _begin(connection: pymysql.Connection, account: Account) -> BinlogPosition:
    with connection.cursor() as cursor:
        cursor.execute("set session transaction isolation level repeatable read")
        if is_mariadb(connection):
            cursor.execute("start transaction with consistent snapshot")
            cursor.execute("show status like 'binlog_snapshot_%'")
            found = {str(name).lower(): value for name, value in cursor.fetchall()}
            return BinlogPosition(str(found["binlog_snapshot_file"]), int(found["binlog_snapshot_position"]))
        with closing(connect(account)) as holder, holder.cursor() as holding:
            holding.execute("flush tables with read lock")  # until `holder` is closed
            cursor.execute("start transaction with consistent snapshot")
            return end_of_binlog(holder)
