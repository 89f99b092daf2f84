"""What is read of a source database, whichever server it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from cdclake.model.table.name import TableName
    from cdclake_cli.sources.catalog import Catalog
    from cdclake_cli.sources.checksum_sql import ChecksumSql
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


class ComparedSnapshot(SourceSnapshot, Protocol):
    """Rows of a source that lake tables are compared with."""

    @property
    def is_consistent(self) -> bool:
        """Whether all rows are of one moment. Otherwise a row may be of any moment of the comparison."""

    @property
    def integers_alike(self) -> bool:
        """Whether the source's integer types do not tell which integer type the raw files have."""

    def limit_statements(self, seconds: int) -> None:
        """Let the server stop each statement that takes longer.

        Raises:
            ConfigurationError: This kind of database has no such limit.
            RetryableError: The server returned an error.
        """


@runtime_checkable
class ChecksumSnapshot(ComparedSnapshot, Protocol):
    """Such a snapshot, of a server that computes checksums."""

    @property
    def sql(self) -> ChecksumSql:
        """The server's SQL of checksums."""

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a statement with few of them.

        Raises:
            RetryableError: The server returned an error.
        """

    def rows(
        self, table: SourceTable, batch_rows: int = BATCH_ROWS, where: str = ""
    ) -> Generator[pa.Table, None, None]:
        """As `SourceSnapshot.rows`, of the rows that an SQL condition chooses."""


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


class ComparedSource(Protocol):
    """A database that lake tables are compared with."""

    @property
    def catalog(self) -> Catalog:
        """What the database's catalog says about the tables."""

    def reading(self, names: Sequence[TableName]) -> AbstractContextManager[ComparedSnapshot]:
        """Open a snapshot that only reads, on one connection, for the duration of the `with` block.

        Args:
            names: The tables; empty for all.

        Raises:
            ConfigurationError: The server refuses access, or a table does not exist.
            RetryableError: The server cannot be reached.
        """
