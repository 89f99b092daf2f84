"""Follows a source's binlog and tells of its transactions, in the order in which they were committed.

What rolled back is not in a binlog. What this reader could not carry over whole, it refuses: a statement logged as
text, a row logged in part, a compressed or a prepared transaction.
"""

from __future__ import annotations

import re
import secrets
import struct
from dataclasses import dataclass
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

from cdclake.devkit.replicate.binlog_rows import row_changes
from cdclake.devkit.replicate.changes import RowChange, Transaction
from cdclake.devkit.replicate.connection import source_error
from cdclake.devkit.replicate.position import BinlogPosition
from cdclake.errors import IntegrityError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cdclake.devkit.replicate.connection import Account

HEARTBEAT_SECONDS = 1

_ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
_FIRST_SERVER_ID = 1 << 30
_NO_SUCH_PLACE = 1236
"""ER_MASTER_FATAL_ERROR_READING_BINLOG: the file is gone, or has no such place."""
_STANDALONE = 1
"""Flag of MariaDB's GTID event: one statement follows, and nothing that ends it."""
_UNREADABLE = {26: "an incident, so that the binlog lacks changes", 40: "a compressed transaction"}
_UNREADABLE |= dict.fromkeys(range(165, 172), "a compressed event")
"""By event type: https://mariadb.com/kb/en/2-binlog-event-header/, MySQL's `binlog_event.h`."""

_COMMENTS = re.compile(r"\A\s*(?:/\*.*?\*/\s*|--[^\n]*\n\s*|#[^\n]*\n\s*)*", re.DOTALL)
_TEXTUAL = re.compile(r"(insert|update|delete|replace|load|with|rollback\s+to)\b", re.IGNORECASE)
_NOT_CARRIED_OVER = re.compile(
    r"truncate\b|drop\s+(?:or\s+replace\s+)?table\b|rename\s+table\b"
    r"|alter\s+table\b.*\b(?:rename\s+(?!column|index|key)|add\s+system\s+versioning)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Waiting:
    """There is nothing to read now.

    Attributes:
        end: Up to where the binlog has been read.
    """

    end: BinlogPosition


@dataclass(frozen=True)
class Ignored:
    """A statement on the tables' structure that does to the rows what no row event tells.

    Attributes:
        statement: Its first words.
        end: Where the next transaction begins.
    """

    statement: str
    end: BinlogPosition


def follow(
    account: Account, schema: str, only: Sequence[str], start: BinlogPosition
) -> Generator[Transaction | Ignored | Waiting, None, None]:
    """Read a binlog from a place on, without end.

    Args:
        account: Whom to connect to.
        schema: Name of the database whose tables are followed.
        only: Names of tables to follow; empty for all.
        start: A place between two transactions.

    Yields:
        Every transaction, those without a row of interest as well; and at least every `HEARTBEAT_SECONDS` something.

    Raises:
        IntegrityError: The binlog no longer reaches back to the place, or has something that cannot be carried over.
        RetryableError: The server cannot be reached any more.
    """
    stream = BinLogStreamReader(
        account.settings(),
        # Two readers of one number would push each other out.
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
    assembler = Assembler(schema)
    try:
        while (event := _next_event(stream)) is not None:
            found = assembler.take(event, BinlogPosition(stream.log_file, stream.log_pos))
            if found is not None:
                yield found
    except pymysql.MySQLError as error:
        if error.args[0] == _NO_SUCH_PLACE:
            message = f"The source's binlog has no place {start.file}:{start.offset_bytes} any more"
            raise IntegrityError(message, remedy="Begin anew with a full load, and have binlogs kept longer") from error
        raise source_error(error) from error
    finally:
        stream.close()
    raise RetryableError("The source database ended its binlog", remedy="See that it is there, and run again")


def _next_event(stream: BinLogStreamReader) -> Any:  # noqa: ANN401 - the library has no types
    """The next event; None at the end of the stream.

    Raises:
        IntegrityError: The library cannot take it apart.
    """
    try:
        return stream.fetchone()
    except (ValueError, LookupError, struct.error) as error:
        what = f"an event that cannot be read ({error})"
        raise _refused(what, BinlogPosition(stream.log_file, stream.log_pos)) from error


def _connect(*, db: str | None = None, **settings: Any) -> pymysql.Connection:  # noqa: ANN401 - as pymysql takes them
    """What the library connects by. It names the database in a way that PyMySQL warns of."""
    return pymysql.connect(**settings, database=db)


class Assembler:
    """Makes transactions of the events of a binlog.

    Args:
        schema: Name of the database whose tables are followed.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._in_statement = re.compile(rf"(?<!\w){re.escape(schema.replace('`', '``'))}(?!\w)")
        self._rows: list[RowChange] = []
        self._is_open = False

    def take(self, event: Any, end: BinlogPosition) -> Transaction | Ignored | Waiting | None:  # noqa: ANN401 - untyped
        """Take the next event.

        Args:
            event: As the replication library reads it.
            end: Place behind it.

        Returns:
            What is complete with it; None for nothing.

        Raises:
            IntegrityError: The event cannot be carried over.
        """
        if isinstance(event, PartialUpdateRowsEvent):
            raise _refused("a JSON document logged in part", end)
        if isinstance(event, _ROWS):
            self._rows += row_changes(event)
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
            return Waiting(end)
        return None

    def _take_statement(self, event: Any, end: BinlogPosition) -> Transaction | Ignored | None:  # noqa: ANN401 - untyped
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
        concerns_us = event.schema.decode() == self._schema or self._in_statement.search(statement)
        if concerns_us and _TEXTUAL.match(statement):
            what = f"a statement logged as text ({statement.split()[0].upper()})"
            raise _refused(what, end)
        if self._is_open:
            return None
        if concerns_us and _NOT_CARRIED_OVER.match(statement):
            return Ignored(" ".join(statement.split()[:3]), end)
        return self._finish(event, end)

    def _finish(self, event: Any, end: BinlogPosition) -> Transaction:  # noqa: ANN401 - untyped
        rows, self._rows, self._is_open = tuple(self._rows), [], False
        return Transaction(rows, datetime.fromtimestamp(event.timestamp, timezone.utc), end)


def _refused(what: str, end: BinlogPosition) -> IntegrityError:
    message = f"The source's binlog has {what}, before {end.file}:{end.offset_bytes}"
    remedy = "Have the source log rows, whole and plain (see docs/sample-database.md), and begin anew with a full load"
    return IntegrityError(message, remedy=remedy)
