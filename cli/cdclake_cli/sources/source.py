"""What is read of a source database, whichever server it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from cdclake_cli.sources.tables import SourceTable

BATCH_ROWS = 20_000
"""Rows that a snapshot returns at a time."""


class SourceSnapshot(Protocol):
    """All rows of a source at one moment."""

    @property
    def tables(self) -> tuple[SourceTable, ...]:
        """The tables, ordered by name."""

    def count(self, table: SourceTable) -> int:
        """The number of rows of a table.

        Raises:
            RetryableError: The server returned an error.
        """

    def rows(self, table: SourceTable, batch_rows: int = BATCH_ROWS) -> Generator[pa.Table, None, None]:
        """All rows of a table in key order, in batches; one empty batch if there are none.

        Raises:
            RetryableError: The server returned an error, or the table was altered after the snapshot.
        """


class Source(Protocol):
    """A database whose rows can be read."""

    @property
    def database(self) -> str:
        """Name of the database."""

    def snapshot(self, only: Sequence[str] = ()) -> AbstractContextManager[SourceSnapshot]:
        """Open a snapshot of the database's tables for the duration of the `with` block.

        Args:
            only: Names of tables; empty for all.

        Raises:
            ConfigurationError: The server refuses access, or a table or column is not supported.
            RetryableError: The server cannot be reached.
        """
