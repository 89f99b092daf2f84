"""Reads a consistent snapshot of a PostgreSQL database.

Creating a replication slot exports a snapshot of exactly the transactions that the slot does not send, so a full load
and the changes after it join without gap or repetition.
"""

from __future__ import annotations

import secrets
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2
import psycopg2.extensions

from cdclake.errors import CdclakeError, ConfigurationError
from cdclake_cli.sources.positions import WalPosition
from cdclake_cli.sources.postgres.checksum import SQL
from cdclake_cli.sources.postgres.connection import connect, query, replication_connection, source_error
from cdclake_cli.sources.postgres.source_tables import checked_tables
from cdclake_cli.sources.source import BATCH_ROWS
from cdclake_cli.sources.tables import SourceTable, selected_rows

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa
    from psycopg2.extensions import connection as Connection

    from cdclake_cli.sources.postgres.connection import ConnectionOptions
    from cdclake_cli.sources.postgres.source_tables import PostgresTable
    from cdclake_cli.sources.postgres.types import TypeMapping

PLUGIN = "test_decoding"
_SAVEPOINT = "cdclake"
_AS_TEXT = psycopg2.extensions.new_type(tuple(psycopg2.extensions.string_types), "AS_TEXT", lambda text, _cursor: text)
"""Leaves values of all types that the library would convert as the server sends them: in the form of the log. A cast
to text in SQL has another form for some types, such as inet."""


class PostgresSnapshot:
    """An open snapshot. `ChecksumSnapshot` describes the methods.

    Args:
        connection: Has an open transaction, which sees the snapshot.
    """

    is_consistent, integers_alike, sql = True, False, SQL

    def __init__(self, connection: Connection, tables: Sequence[PostgresTable]) -> None:
        self._connection = connection
        self.tables: tuple[SourceTable, ...] = tuple(table.source for table in tables)

    def count(self, table: SourceTable) -> int:
        """The number of rows of a table."""
        ((count,),) = self.select(f"select count(*) from {table.relation}")
        return int(count)

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a statement with few of them."""
        try:
            return query(self._connection, statement)
        except CdclakeError:
            self._go_on()
            raise

    def limit_statements(self, seconds: int) -> None:
        """Let the server stop each statement that takes longer."""
        self.select(f"select set_config('statement_timeout', '{seconds}s', false)")
        _keep_snapshot(self._connection)  # or an error would take the limit back

    def rows(
        self, table: SourceTable, batch_rows: int = BATCH_ROWS, where: str = ""
    ) -> Generator[pa.Table, None, None]:
        """All rows of a table in key order, in batches; one empty batch if there are none."""
        try:
            # A cursor with a name stays on the server, which sends the rows in parts.
            with self._connection.cursor(f"cdclake_{secrets.token_hex(4)}") as cursor:
                psycopg2.extensions.register_type(_AS_TEXT, cursor)
                cursor.execute(table.query(where))
                batch = cursor.fetchmany(batch_rows)
                yield selected_rows(table.columns, batch)
                while len(batch) == batch_rows and (batch := cursor.fetchmany(batch_rows)):
                    yield selected_rows(table.columns, batch)
        except psycopg2.Error as error:
            self._go_on()
            raise source_error(error) from error

    def _go_on(self) -> None:
        """After an error, which ends a transaction, return to where its snapshot can be read."""
        if not self._connection.closed:
            with self._connection.cursor() as cursor:
                cursor.execute(f"rollback to savepoint {_SAVEPOINT}")


class FirstPostgresSnapshot(PostgresSnapshot):
    """The snapshot that a replication slot begins at.

    Attributes:
        position: The slot sends exactly the transactions that were committed after this position.
    """

    def __init__(self, connection: Connection, tables: Sequence[PostgresTable], position: WalPosition) -> None:
        super().__init__(connection, tables)
        self.position = position


@contextmanager
def snapshot(
    options: ConnectionOptions, database: str, only: Sequence[str], mapping: TypeMapping
) -> Iterator[PostgresSnapshot]:
    """Open a snapshot of a database's tables for the duration of the `with` block."""
    with closing(_begin(options, database)) as connection:
        tables = checked_tables(connection, database, only, mapping)
        _keep_snapshot(connection)
        yield PostgresSnapshot(connection, tables)


@contextmanager
def slot_snapshot(
    options: ConnectionOptions, database: str, only: Sequence[str], mapping: TypeMapping, slot: str
) -> Iterator[FirstPostgresSnapshot]:
    """Create a replication slot and open the snapshot that it begins at, for the duration of the `with` block."""
    with closing(_begin(options, database)) as connection:
        with closing(replication_connection(options, database)) as replication, replication.cursor() as cursor:
            try:
                cursor.create_replication_slot(slot, output_plugin=PLUGIN)
                _, position, exported, _ = cursor.fetchone()
                # The exported snapshot exists until the connection that exported it is used again or closed.
                with connection.cursor() as importing:
                    importing.execute("set transaction snapshot %s", (exported,))
            except psycopg2.Error as error:
                raise _slot_error(error) from error
        tables = checked_tables(connection, database, only, mapping)
        _keep_snapshot(connection)
        yield FirstPostgresSnapshot(connection, tables, WalPosition.parse(position))


def end_of_wal(connection: Connection) -> WalPosition:
    """Position after everything that was written to the log so far."""
    statement = "select pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int"
    ((text, block_bytes),) = query(connection, statement)
    lsn = WalPosition.parse(text).lsn
    # At the start of a block, the position for the next record is after the block's header, which is not written yet.
    return WalPosition(lsn - lsn % block_bytes if lsn % block_bytes in _BLOCK_HEADERS_BYTES else lsn)


_BLOCK_HEADERS_BYTES = (24, 40)
"""SizeOfXLogShortPHD and SizeOfXLogLongPHD of PostgreSQL's `xlog_internal.h`."""


def _begin(options: ConnectionOptions, database: str) -> Connection:
    """A connection in a transaction that sees one snapshot: the data at its first statement."""
    connection = connect(options, database)
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True, autocommit=False)
    return connection


def _keep_snapshot(connection: Connection) -> None:
    """Mark the place in a transaction that it returns to after an error."""
    with connection.cursor() as cursor:
        cursor.execute(f"savepoint {_SAVEPOINT}")


def _slot_error(error: psycopg2.Error) -> Exception:
    text = " ".join(str(error).split())
    if error.pgcode in {"53400", "55000"}:  # no slot is free, or the server has none at all
        message = f"The source database has no free replication slot: {text}"
        remedy = "Drop unused slots (pg_replication_slots), or set max_replication_slots to more"
        return ConfigurationError(message, remedy=remedy)
    if error.pgcode == "58P01":  # undefined_file
        message = f"The source database has no output plugin {PLUGIN}"
        return ConfigurationError(message, remedy="Install PostgreSQL's contrib modules on the server")
    return source_error(error)
