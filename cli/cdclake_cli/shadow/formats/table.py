"""What is read of a table that another job keeps, whichever format it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

BATCH_ROWS = 20_000
"""Rows that are read at a time, where the format's package lets a caller choose."""


class OtherTable(Protocol):
    """A table as of one version.

    Attributes:
        format: Name of its format.
        version: What it was read as of, in the words of its format; empty if the format has no versions.
        schema: Its columns.
    """

    format: str
    version: str
    schema: pa.Schema

    @property
    def rows(self) -> int | None:
        """Number of its rows as its metadata say; None if they do not."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows, in no order; no batch if there are no rows.

        Raises:
            ConfigurationError: The format's package cannot read the table.
            RetryableError: A file vanished while the table was read.
        """
