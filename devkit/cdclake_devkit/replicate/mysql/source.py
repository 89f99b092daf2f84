"""A MySQL or MariaDB database as the source of a replication."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from cdclake_cli.sources.mysql.connection import check_binlog_settings, connect, lock_replication, server_id
from cdclake_cli.sources.mysql.snapshot import end_of_binlog
from cdclake_cli.sources.mysql.source import MysqlSource
from cdclake_cli.sources.positions import BinlogPosition, Position
from cdclake_devkit.replicate.mysql.binlog import follow

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pymysql

    from cdclake_cli.sources.mysql.snapshot import FirstMysqlSnapshot
    from cdclake_devkit.replicate.transactions import Idle, Transaction


class BinlogSource(MysqlSource):
    """A database whose binlog is read. `LoggedSource` describes the methods."""

    @contextmanager
    def session(self, replication: str) -> Iterator[MysqlSession]:
        """Check that the binlog is complete, and lock a replication."""
        with closing(connect(self.options)) as connection:
            check_binlog_settings(connection)
            lock_replication(connection, replication)
            yield MysqlSession(self, connection)


class MysqlSession:
    """A locked replication. `SourceSession` describes the methods.

    The server keeps its binlog regardless of readers, so there are no slots, and nothing is confirmed.

    Args:
        connection: Holds the lock.
    """

    def __init__(self, source: BinlogSource, connection: pymysql.Connection) -> None:
        self._source = source
        self._connection = connection
        self.server = server_id(connection)

    def end(self) -> BinlogPosition:
        """Position of the next transaction."""
        return end_of_binlog(self._connection)

    def new_slot(self) -> str:
        """No slot."""
        return ""

    def drop_slot(self, slot: str) -> None:
        """Does nothing."""

    def begin(self, only: Sequence[str], slot: str) -> AbstractContextManager[FirstMysqlSnapshot]:  # noqa: ARG002 - no slots
        """Open a snapshot."""
        return self._source.snapshot(only)

    def follow(
        self,
        only: Sequence[str],
        start: Position,
        slot: str,  # noqa: ARG002 - no slots
    ) -> Generator[Transaction | Idle, None, None]:
        """Read the binlog from a position on."""
        assert isinstance(start, BinlogPosition)  # the server is the one that wrote it
        return follow(self._source.options, self._source.database, only, start)

    def confirm(self, position: Position) -> None:
        """Does nothing."""
