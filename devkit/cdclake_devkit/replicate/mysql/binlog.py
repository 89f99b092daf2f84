"""Reads a source's binlog as transactions, in commit order.

A binlog does not contain changes that were rolled back. The reader refuses what it cannot replicate completely: a
statement logged as text, a partially logged row, a compressed or a prepared transaction.
"""

from __future__ import annotations

import re
import secrets
import struct
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import (
    ExecuteLoadQueryEvent,
    HeartbeatLogEvent,
    MariadbGtidEvent,
    NotImplementedEvent,
    QueryEvent,
    XAPrepareEvent,
    XidEvent,
)
from pymysqlreplication.row_event import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent

from cdclake.errors import IntegrityError, RetryableError
from cdclake_cli.sources.mysql.connection import source_error
from cdclake_cli.sources.positions import BinlogPosition
from cdclake_devkit.replicate.mysql.binlog_rows import binlog_rows
from cdclake_devkit.replicate.transactions import ChangeRow, Idle, Transaction

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cdclake_cli.sources.mysql.connection import ConnectionOptions

HEARTBEAT_SECONDS = 1

_ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
_FIRST_SERVER_ID = 1 << 30
_POSITION_NOT_FOUND = 1236
"""ER_MASTER_FATAL_ERROR_READING_BINLOG: the file or the position in it does not exist."""
_STANDALONE = 1
"""Flag of MariaDB's GTID event: a single statement follows, without an event that ends it."""
_UNREADABLE = {26: "an incident, which means that changes are missing", 40: "a compressed transaction"}
_UNREADABLE |= dict.fromkeys(range(165, 172), "a compressed event")
"""By event type: https://mariadb.com/kb/en/2-binlog-event-header/, MySQL's `binlog_event.h`."""

_COMMENTS = re.compile(r"\A\s*(?:/\*.*?\*/\s*|--[^\n]*\n\s*|#[^\n]*\n\s*)*", re.DOTALL)
_TEXTUAL = re.compile(r"(insert|update|delete|replace|load|with|rollback\s+to)\b", re.IGNORECASE)
_NOT_REPLICATED = re.compile(
    r"truncate\b|drop\s+(?:or\s+replace\s+)?table\b|rename\s+table\b"
    r"|alter\s+table\b.*\b(?:rename\s+(?!column|index|key)|add\s+system\s+versioning)",
    re.IGNORECASE | re.DOTALL,
)


def follow(
    options: ConnectionOptions, schema: str, only: Sequence[str], start: BinlogPosition
) -> Generator[Transaction | Idle, None, None]:
    """Read a binlog from a position on, without end.

    Args:
        options: How to connect to the source.
        schema: Name of the database whose tables are replicated.
        only: Names of tables to replicate; empty for all.
        start: A position between two transactions.

    Yields:
        Every transaction, including those without rows of the replicated tables, and an item at least every
        `HEARTBEAT_SECONDS`.

    Raises:
        IntegrityError: The binlog no longer contains the position, or contains an event that cannot be replicated.
        RetryableError: The connection to the server was lost.
    """
    stream = BinLogStreamReader(
        options.settings(),
        # A server disconnects a reader when another one with the same id connects.
        server_id=_FIRST_SERVER_ID + secrets.randbelow(_FIRST_SERVER_ID),
        log_file=start.file,
        log_pos=start.offset_bytes,
        resume_stream=True,
        blocking=True,
        slave_heartbeat=HEARTBEAT_SECONDS,
        only_schemas=[schema],
        only_tables=list(only) or None,
        filter_non_implemented_events=False,
        enable_logging=False,
        pymysql_wrapper=_connect,
    )
    assembler = TransactionAssembler(schema)
    try:
        while (event := _next_event(stream)) is not None:
            item = assembler.take(event, BinlogPosition(stream.log_file, stream.log_pos))
            if item is not None:
                yield item
    except pymysql.MySQLError as error:
        if error.args[0] == _POSITION_NOT_FOUND:
            message = f"The source's binlog no longer contains the position {start.file}:{start.offset_bytes}"
            remedy = "Keep binlogs longer at the source, and repeat the full load"
            raise IntegrityError(message, remedy=remedy) from error
        raise source_error(error) from error
    finally:
        stream.close()
    raise RetryableError("The source database closed its binlog", remedy="Check that it is running, and run again")


def _next_event(stream: BinLogStreamReader) -> Any:  # noqa: ANN401 - the library has no types
    """The next event; None at the end of the stream.

    Raises:
        IntegrityError: The library cannot parse it.
    """
    try:
        return stream.fetchone()
    except (ValueError, LookupError, struct.error) as error:
        reason = f"an event that cannot be read ({error})"
        raise _refused(reason, BinlogPosition(stream.log_file, stream.log_pos)) from error


def _connect(*, db: str | None = None, **settings: Any) -> pymysql.Connection:  # noqa: ANN401 - as pymysql takes them
    """Connect for the library, which names the database with an argument that PyMySQL has deprecated."""
    return pymysql.connect(**settings, database=db)


class TransactionAssembler:
    """Assembles binlog events into transactions.

    Args:
        schema: Name of the database whose tables are replicated.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._in_statement = re.compile(rf"(?<!\w){re.escape(schema.replace('`', '``'))}(?!\w)")
        self._rows: list[ChangeRow] = []
        self._is_open = False

    def take(self, event: Any, end: BinlogPosition) -> Transaction | Idle | None:  # noqa: ANN401 - untyped
        """Take the next event.

        Args:
            event: The event, as the replication library parses it.
            end: Position after the event.

        Returns:
            The item that the event completes; None if it completes none.

        Raises:
            IntegrityError: The event cannot be replicated.
        """
        if isinstance(event, PartialUpdateRowsEvent):
            raise _refused("a partially logged JSON document", end)
        if isinstance(event, _ROWS):
            self._rows += binlog_rows(event)
        elif isinstance(event, MariadbGtidEvent):
            self._is_open = not event.flags & _STANDALONE
        elif isinstance(event, XidEvent) or (isinstance(event, XAPrepareEvent) and event.one_phase):
            return self._finish(event, end)
        elif isinstance(event, XAPrepareEvent):
            if self._rows:
                raise _refused("a prepared XA transaction", end)
            return self._finish(event, end)
        elif isinstance(event, QueryEvent):
            return self._take_statement(event, end)
        elif isinstance(event, ExecuteLoadQueryEvent):
            raise _refused("LOAD DATA, logged as a statement", end)
        elif isinstance(event, NotImplementedEvent) and event.event_type in _UNREADABLE:
            raise _refused(_UNREADABLE[event.event_type], end)
        elif isinstance(event, HeartbeatLogEvent) and not self._is_open:
            return Idle(end)
        return None

    def _take_statement(self, event: Any, end: BinlogPosition) -> Transaction | None:  # noqa: ANN401 - untyped
        statement = _COMMENTS.sub("", event.query, count=1)
        word = statement[:9].upper().rstrip()
        if word == "BEGIN":
            self._is_open = True
            return None
        if word == "COMMIT":
            return self._finish(event, end)
        if word == "ROLLBACK":
            self._rows.clear()
            return self._finish(event, end)
        concerns_schema = event.schema.decode() == self._schema or self._in_statement.search(statement)
        if concerns_schema and _TEXTUAL.match(statement):
            reason = f"a statement logged as text ({statement.split()[0].upper()})"
            raise _refused(reason, end)
        if self._is_open:
            return None
        if concerns_schema and _NOT_REPLICATED.match(statement):
            return self._finish(event, end, ignored=(" ".join(statement.split()[:3]),))
        return self._finish(event, end)

    def _finish(self, event: Any, end: BinlogPosition, ignored: tuple[str, ...] = ()) -> Transaction:  # noqa: ANN401 - untyped
        rows, self._rows, self._is_open = tuple(self._rows), [], False
        return Transaction(rows, datetime.fromtimestamp(event.timestamp, timezone.utc), end, ignored)


def _refused(reason: str, end: BinlogPosition) -> IntegrityError:
    message = f"The source's binlog has {reason}, before {end.file}:{end.offset_bytes}"
    remedy = "Let the source log complete, uncompressed rows (see docs/sample-database.md), and repeat the full load"
    return IntegrityError(message, remedy=remedy)
