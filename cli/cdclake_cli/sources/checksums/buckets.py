"""Divides the rows of a table into buckets by key, and has the source's server compute their checksums.

A key that begins with an integer is divided into ranges of about equally many rows, each of which is one short
statement on the key's index. Rows with other keys, and those without one, are divided by the hash of the key, in one
statement that reads the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from cdclake.model.schema import INTEGER_TYPES
from cdclake_cli.sources.checksums.lake import digests, hash_buckets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cdclake.model.schema import Schema
    from cdclake_cli.sources.checksum_sql import ChecksumSql
    from cdclake_cli.sources.effort import Pace
    from cdclake_cli.sources.source import ChecksumSnapshot
    from cdclake_cli.sources.tables import SourceTable

MAX_HASH_BUCKETS = 10_000

Sum = tuple[int, int]
"""Rows of a bucket, and the sum of their checksums."""


class Buckets(Protocol):
    """How rows are divided. Equal keys belong to the same bucket on both sides."""

    def of(self, rows: pa.Table) -> NDArray[np.int64]:
        """The number of each row's bucket."""

    def conditions(self, chosen: Sequence[int]) -> Iterator[str]:
        """SQL conditions that together choose the rows of some buckets, each row once."""


@dataclass(frozen=True)
class RangeBuckets:
    """Buckets by ranges of the key's first column, an integer.

    Attributes:
        first: The least value of each bucket but the first one, ascending.
    """

    sql: ChecksumSql
    column: str
    first: tuple[int, ...]

    def of(self, rows: pa.Table) -> NDArray[np.int64]:
        """The number of each row's bucket; a null, which is in no key, is in the first one."""
        values = rows[self.column].cast(pa.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
        found: NDArray[np.int64] = np.searchsorted(np.array(self.first, np.int64), values, side="right")
        return found

    def conditions(self, chosen: Sequence[int]) -> Iterator[str]:
        """A condition for each bucket."""
        for bucket in chosen:
            yield self.sql.within(self.column, *self.bounds(bucket))

    def bounds(self, bucket: int) -> tuple[int | None, int | None]:
        """The least value of a bucket, and of the next one; None if there is no bound."""
        begin = self.first[bucket - 1] if bucket else None
        return begin, self.first[bucket] if bucket < len(self.first) else None


@dataclass(frozen=True)
class HashBuckets:
    """Buckets by the hash of the key.

    Attributes:
        key: The columns that are hashed: those of the key, or all without one.
        number: How many buckets there are.
    """

    sql: ChecksumSql
    table: SourceTable
    key: tuple[str, ...]
    number: int

    @property
    def expression(self) -> str:
        """SQL of a row's bucket."""
        return self.sql.hash_bucket(self.table, self.key, self.number)

    def of(self, rows: pa.Table) -> NDArray[np.int64]:
        """The number of each row's bucket."""
        return hash_buckets(digests(rows, self.key, self.sql.float_texts), self.number)

    def conditions(self, chosen: Sequence[int]) -> Iterator[str]:
        """One condition, because each reads the whole table."""
        if chosen:
            yield f"{self.expression} in ({', '.join(map(str, chosen))})"


def integer_of_key(table: SourceTable, lake: Schema) -> str:
    """The first column of the key, if it is an integer in the lake; else empty."""
    column = lake.find(table.key[0]) if table.key else None
    return table.key[0] if column and column.type in INTEGER_TYPES else ""


def sums_by_range(
    source: ChecksumSnapshot, table: SourceTable, names: Sequence[str], column: str, bucket_rows: int, pace: Pace
) -> tuple[RangeBuckets, list[Sum]]:
    """Divide a table into ranges, and compute their checksums one after the other.

    Args:
        names: The columns that are compared.
        column: The first one of the key.
    """
    first: list[int] = []
    sums: list[Sum] = []
    begin: int | None = None
    while not sums or begin is not None:
        end = _end_of_range(source, table, column, begin, pace.rows_at_once(bucket_rows))
        where = source.sql.within(column, begin, end)
        ((_, rows, checksum),) = source.select(source.sql.checksums(table, names, where=where))
        sums.append((int(rows), int(checksum)))
        pace.spend(int(rows))
        first += [] if end is None else [end]
        begin = end
    return RangeBuckets(source.sql, column, tuple(first)), sums


def _end_of_range(
    source: ChecksumSnapshot, table: SourceTable, column: str, begin: int | None, rows: int
) -> int | None:
    """The first value behind a range of about so many rows; None if nothing is behind."""
    found = source.select(source.sql.boundary(table, column, begin, rows))
    if not found:
        return None
    end = int(found[0][0])
    if begin is None or end > begin:
        return end
    ((following,),) = source.select(source.sql.next_value(table, column, begin))  # the range is one value
    return None if following is None else int(following)


def sums_by_hash(
    source: ChecksumSnapshot, table: SourceTable, names: Sequence[str], rows: int, bucket_rows: int
) -> tuple[HashBuckets, list[Sum]]:
    """Compute the checksums of a table by the hash of its key, in one statement.

    Args:
        names: The columns that are compared.
        rows: About how many rows it has.
    """
    number = min(max(1, -(-rows // bucket_rows)), MAX_HASH_BUCKETS)
    buckets = HashBuckets(source.sql, table, table.key or tuple(names), number)
    sums: list[Sum] = [(0, 0)] * number
    for bucket, count, checksum in source.select(source.sql.checksums(table, names, bucket=buckets.expression)):
        sums[int(bucket)] = (int(count), int(checksum))
    return buckets, sums
