"""Positions in the log of a source's server."""

from __future__ import annotations

from typing import NamedTuple, Union


class BinlogPosition(NamedTuple):
    """A position in the source's binlog, between two transactions.

    Files are numbered with at least six digits, so a longer name is later.
    """

    file: str
    offset_bytes: int

    def is_before(self, other: Position) -> bool:
        """Whether this position is before another one of the same server."""
        assert isinstance(other, BinlogPosition)
        return (len(self.file), self.file, self.offset_bytes) < (len(other.file), other.file, other.offset_bytes)

    def __str__(self) -> str:
        """`<file>:<offset>`."""
        return f"{self.file}:{self.offset_bytes}"


class WalPosition(NamedTuple):
    """A position in PostgreSQL's write-ahead log, a log sequence number (LSN)."""

    lsn: int

    @classmethod
    def parse(cls, text: str) -> WalPosition:
        """Read PostgreSQL's text form, two hexadecimal numbers: `16/B374D848`.

        Raises:
            ValueError: It is not of this form.
        """
        high, low = text.split("/")
        return cls((int(high, 16) << 32) + int(low, 16))

    def is_before(self, other: Position) -> bool:
        """Whether this position is before another one of the same server."""
        assert isinstance(other, WalPosition)
        return self.lsn < other.lsn

    def __str__(self) -> str:
        """PostgreSQL's text form."""
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFF_FFFF:X}"


Position = Union[BinlogPosition, WalPosition]
"""A position in the log of a source's server."""
