"""A PostgreSQL database as the source of a replication."""

from __future__ import annotations

import re
import secrets
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg2

from cdclake_cli.sources.positions import Position, WalPosition
from cdclake_cli.sources.postgres.connection import (
    check_server,
    connect,
    lock_replication,
    query,
    replication_connection,
    source_error,
)
from cdclake_cli.sources.postgres.snapshot import end_of_wal, slot_snapshot
from cdclake_cli.sources.postgres.source import PostgresSource
from cdclake_devkit.replicate.postgres.log import LogReader, wait_until_unused

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from psycopg2.extensions import connection as Connection

    from cdclake_cli.sources.postgres.snapshot import FirstPostgresSnapshot
    from cdclake_devkit.replicate.transactions import Idle, Transaction

_MAX_SLOT_NAME = 63


class WalSource(PostgresSource):
    """A database whose write-ahead log is read. `LoggedSource` describes the methods."""

    @contextmanager
    def session(self, replication: str) -> Iterator[PostgresSession]:
        """Check that the server can decode its log, and lock a replication."""
        with closing(connect(self.options, self.database)) as connection:
            check_server(connection)
            lock_replication(connection, replication)
            yield PostgresSession(self, connection)


class PostgresSession:
    """A locked replication. `SourceSession` describes the methods.

    Args:
        connection: Holds the lock.
    """

    def __init__(self, source: WalSource, connection: Connection) -> None:
        self._source = source
        self._connection = connection
        self._reader: LogReader | None = None
        self.server = _server(source)

    def end(self) -> WalPosition:
        """Position after everything that was written to the log so far.

        Nobody reads it before the server has flushed it, which it does within a second of the next commit, and without
        one perhaps only after half a minute.
        """
        end = end_of_wal(self._connection)
        query(self._connection, "select case when not pg_is_in_recovery() then txid_current() end")
        return end

    def new_slot(self) -> str:
        """A name that no other replication has, even one with the same name to another bucket."""
        suffix = f"_{secrets.token_hex(4)}"
        name = re.sub("[^a-z0-9_]", "_", f"cdclake_{self._source.database.lower()}")
        return name[: _MAX_SLOT_NAME - len(suffix)] + suffix

    def drop_slot(self, slot: str) -> None:
        """Drop a replication slot; does nothing if there is none."""
        wait_until_unused(self._connection, slot)
        statement = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"
        query(self._connection, statement, (slot,))

    def begin(self, only: Sequence[str], slot: str) -> AbstractContextManager[FirstPostgresSnapshot]:
        """Create a replication slot and open the snapshot that it begins at."""
        source = self._source
        return slot_snapshot(source.options, source.database, only, source.mapping, slot)

    def follow(self, only: Sequence[str], start: Position, slot: str) -> Generator[Transaction | Idle, None, None]:
        """Read the log from a position on."""
        assert isinstance(start, WalPosition)  # the server is the one that wrote it
        source = self._source
        self._reader = LogReader(source.options, source.database, only, source.mapping, slot)
        return self._reader.follow(start)

    def confirm(self, position: Position) -> None:
        """Let the server discard the log before this position."""
        assert isinstance(position, WalPosition)
        if self._reader is not None:
            self._reader.confirm(position)


def _server(source: WalSource) -> str:
    """Identifies the database and its server."""
    with closing(replication_connection(source.options, source.database)) as connection:
        try:
            with connection.cursor() as cursor:
                cursor.execute("IDENTIFY_SYSTEM")
                return f"{cursor.fetchone()[0]}|{source.database}"
        except psycopg2.Error as error:
            raise source_error(error) from error
