"""Reads a PostgreSQL log as transactions, in commit order, through a replication slot.

The slot decodes the log with `test_decoding`, the plugin that DMS uses by default. Changes that were rolled back are
not sent. A row has the columns at its time, but a NUMERIC without its precision: that comes from the database.
"""

from __future__ import annotations

import select
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2

from cdclake.errors import IntegrityError, RetryableError
from cdclake_cli.sources.positions import WalPosition
from cdclake_cli.sources.postgres.connection import connect, query, replication_connection, source_error
from cdclake_devkit.replicate.postgres.decoding import DecodedRow, Truncate, commit_time, parse_change
from cdclake_devkit.replicate.postgres.row_columns import KnownTables
from cdclake_devkit.replicate.transactions import Idle, Transaction

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from psycopg2.extensions import connection as Connection

    from cdclake_cli.sources.postgres.connection import ConnectionOptions
    from cdclake_cli.sources.postgres.types import TypeMapping

HEARTBEAT_SECONDS = 1
_UNUSED_TIMEOUT_SECONDS = 20
_POLL_SECONDS = 0.1
_NEVER_SECONDS = 1e9
_LOG_LOST = {"55000", "58P01", "42704"}
"""Object not in prerequisite state, undefined file, undefined object: the slot was invalidated or dropped."""


class LogReader:
    """Reads the log of a database.

    Args:
        slot: The replication slot.
    """

    def __init__(
        self, options: ConnectionOptions, database: str, only: Sequence[str], mapping: TypeMapping, slot: str
    ) -> None:
        self._options = options
        self._database = database
        self._only = tuple(only)
        self._mapping = mapping
        self._slot = slot
        self._cursor: psycopg2.extras.ReplicationCursor | None = None

    def follow(self, start: WalPosition) -> Generator[Transaction | Idle, None, None]:
        """Read the log from a position on, without end.

        Raises:
            IntegrityError: The slot does not exist, or no longer has the position.
            RetryableError: The connection to the server was lost.
        """
        with (
            closing(connect(self._options, self._database)) as catalog,
            closing(replication_connection(self._options, self._database)) as connection,
            connection.cursor() as cursor,
        ):
            wait_until_unused(catalog, self._slot)
            self._check_slot(catalog, start)
            known = KnownTables(catalog, self._only, self._mapping)
            assembler = _Assembler(known)
            try:
                # Nothing is confirmed but by `confirm`: the library would also confirm what it read from an idle
                # server, and a slot ahead of the saved position is indistinguishable from one that lost changes.
                cursor.start_replication(
                    slot_name=self._slot,
                    start_lsn=str(start),
                    options={"include-timestamp": "1"},
                    decode=True,
                    status_interval=_NEVER_SECONDS,
                )
                self._cursor = cursor
                yield from self._items(cursor, assembler, start)
            except psycopg2.Error as error:
                if error.pgcode in _LOG_LOST:
                    raise self._lost(start) from error
                raise source_error(error) from error
            finally:
                self._cursor = None

    def confirm(self, position: WalPosition) -> None:
        """Let the server discard the log before this position."""
        if self._cursor is not None:
            try:
                self._cursor.send_feedback(flush_lsn=position.lsn, apply_lsn=position.lsn, force=True)
            except psycopg2.Error as error:
                raise source_error(error) from error

    def _items(
        self, cursor: psycopg2.extras.ReplicationCursor, assembler: _Assembler, start: WalPosition
    ) -> Generator[Transaction | Idle, None, None]:
        read = start
        while True:
            try:
                message = cursor.read_message()
            except psycopg2.Error:
                # A server that shuts down asks the library to confirm what it has read, so that is to be saved.
                yield Idle(read if assembler.is_open else _later(read, cursor.wal_end), is_lost=True)
                raise
            if message is not None:
                position = WalPosition(message.data_start)
                transaction = assembler.take(message.payload, position)
                if transaction is not None:
                    read = position
                    yield transaction
                continue
            if not assembler.is_open:
                # The server sends in the log's order, and between transactions how far it has come.
                read = _later(read, cursor.wal_end)
            yield Idle(read)
            select.select([cursor], [], [], HEARTBEAT_SECONDS)

    def _check_slot(self, catalog: Connection, start: WalPosition) -> None:
        statement = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
        rows = query(catalog, statement, (self._slot,))
        if not rows or rows[0][0] is None or start.is_before(WalPosition.parse(rows[0][0])):
            raise self._lost(start)

    def _lost(self, start: WalPosition) -> IntegrityError:
        message = f"The replication slot {self._slot} of the source no longer has the position {start}"
        return IntegrityError(message, remedy="Repeat the full load with --anew")


def _later(position: WalPosition, lsn: int) -> WalPosition:
    return WalPosition(max(position.lsn, lsn))


def wait_until_unused(connection: Connection, slot: str) -> None:
    """Wait until a server has noticed that the last reader of a slot was killed.

    Raises:
        RetryableError: It still has a reader.
    """
    deadline = time.monotonic() + _UNUSED_TIMEOUT_SECONDS
    while query(connection, "select 1 from pg_replication_slots where slot_name = %s and active", (slot,)):
        if time.monotonic() > deadline:
            message = f"Another process reads from the replication slot {slot}"
            raise RetryableError(message, remedy="Stop it first (pg_replication_slots.active_pid), and run again")
        time.sleep(_POLL_SECONDS)


class _Assembler:
    """Assembles decoded messages into transactions."""

    def __init__(self, known: KnownTables) -> None:
        self._known = known
        self._changes: list[tuple[DecodedRow | Truncate, int]] = []
        self.is_open = False

    def take(self, text: str, end: WalPosition) -> Transaction | None:
        """Take the next message; returns the transaction that it completes.

        Args:
            end: Position after a message that completes a transaction.

        Raises:
            IntegrityError: The message cannot be parsed.
        """
        try:
            if text.startswith("message:"):  # what pg_logical_emit_message wrote
                return None
            if text.startswith("BEGIN"):
                self.is_open = True
                return None
            committed_utc = commit_time(text)
            if committed_utc is None:
                self._changes.append((parse_change(text), len(text)))
                return None
        except ValueError as error:
            message = f"The source's log has a message that cannot be read, before {end}: {error}"
            raise IntegrityError(message, remedy="Report it with the PostgreSQL version") from error
        changes, self._changes, self.is_open = self._changes, [], False
        rows = [
            self._known.change_row(change, end, size_bytes)
            for change, size_bytes in changes
            if isinstance(change, DecodedRow)
        ]
        truncated = [table for change, _ in changes if isinstance(change, Truncate) for table in change.tables]
        return Transaction(
            tuple(row for row in rows if row is not None),
            committed_utc,
            end,
            tuple(f"truncate {table}" for table in truncated if self._known.is_selected(table)),
        )
