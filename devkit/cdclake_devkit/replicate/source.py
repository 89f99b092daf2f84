"""What a replication needs of a source database, whichever server it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cdclake_cli.sources.source import Source, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    from cdclake_cli.sources.positions import Position
    from cdclake_devkit.replicate.transactions import Idle, Transaction


class FirstSnapshot(SourceSnapshot, Protocol):
    """A snapshot that changes continue from."""

    @property
    def position(self) -> Position:
        """Position in the source's log; the snapshot contains exactly the changes before it."""


class SourceSession(Protocol):
    """The right to run one replication, which no other process has at the same time."""

    @property
    def server(self) -> str:
        """Identifies the server. Positions in its log are meaningless for another server."""

    def end(self) -> Position:
        """Position after every change that was committed so far."""

    def new_slot(self) -> str:
        """A new name for what keeps the server's log until it is read; empty if the server has no such thing."""

    def drop_slot(self, slot: str) -> None:
        """Let the server forget a slot; does nothing if there is none."""

    def begin(self, only: Sequence[str], slot: str) -> AbstractContextManager[FirstSnapshot]:
        """Open a snapshot, and have the slot keep the log from its position on.

        Args:
            only: Names of tables; empty for all.
            slot: A new slot's name.

        Raises:
            ConfigurationError: The server refuses access, or a table or column is not supported.
            RetryableError: The server cannot be reached.
        """

    def follow(self, only: Sequence[str], start: Position, slot: str) -> Generator[Transaction | Idle, None, None]:
        """Read the log from a position on, without end.

        Args:
            only: Names of tables to replicate; empty for all.
            start: A position between two transactions.
            slot: The slot that keeps the log.

        Yields:
            Every transaction in commit order, also those without rows of the replicated tables, and an item at least
            every second or so.

        Raises:
            IntegrityError: The log no longer contains the position, or contains what cannot be replicated.
            RetryableError: The connection to the server was lost.
        """

    def confirm(self, position: Position) -> None:
        """Tell the server, while `follow` is open, that its log before this position is not needed any more."""


class LoggedSource(Source, Protocol):
    """A database that can be replicated, because its server keeps a log of changes."""

    def session(self, replication: str) -> AbstractContextManager[SourceSession]:
        """Check that the server's log is complete, and lock a replication for the duration of the `with` block.

        Args:
            replication: Identifies the replication.

        Raises:
            ConfigurationError: The source or its settings are unsuitable.
            RetryableError: The server cannot be reached, or another process runs this replication.
        """
