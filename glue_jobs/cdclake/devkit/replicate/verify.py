"""Holds lake tables against the source database that they are fed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.devkit.replicate.compare_parts import compare_in_parts, number_of_parts
from cdclake.devkit.replicate.snapshot import snapshot
from cdclake.errors import ConfigurationError
from cdclake.lake.read.all_rows import row_batches
from cdclake.lake.read.as_of import TableAsOf, table_as_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from cdclake.devkit.replicate.connection import Account
    from cdclake.devkit.replicate.snapshot import Snapshot
    from cdclake.devkit.replicate.source_tables import SourceTable
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.model.table import TableName

    Told = Callable[[str, int, int], None]
    """Hears of each step: the table, rows read of both sides, rows of both sides."""


@dataclass(frozen=True)
class Verified:
    """A lake table beside its source.

    Attributes:
        table: The table.
        change: Number of the change that the lake table was compared as of; None if there is no lake table.
        lake_rows: Rows in the lake.
        source_rows: Rows in the source.
        differences: All that is not the same, in words; none if the tables are equal.
        only_in_lake: Columns that the source does not have: DMS's timestamp, or columns that were dropped.
    """

    table: str
    change: int | None
    lake_rows: int
    source_rows: int
    differences: tuple[str, ...]
    only_in_lake: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether they are the same."""
        return not self.differences


def verify(
    account: Account,
    database: str,
    place_of: Callable[[TableName], TableLocation],
    only: Sequence[str] = (),
    *,
    counts_only: bool = False,
    told: Told | None = None,
) -> Iterator[Verified]:
    """Compare each table of a source database, as one snapshot of it, with its lake table as it is.

    What the source has committed and the lake has not applied yet is a difference.

    Args:
        account: How to reach the source.
        database: Its name, which is that of the tables' schema.
        place_of: Where the lake table of a name is.
        only: Names of tables; empty for all.
        counts_only: Compare numbers of rows. Otherwise every value of every row is compared, and the temporary folder
            must have room for both tables, compressed.
        told: Hears of the rows that were read.

    Raises:
        ConfigurationError: The source refuses, or has no such table.
        RetryableError: It cannot be reached.
    """
    with snapshot(account, database, only) as now:
        for table in now.tables:
            place = place_of(table.name)
            try:
                lake = table_as_of(place.log())
            except ConfigurationError:
                yield Verified(str(table.name), None, 0, now.count(table), ("there is no lake table",))
                continue
            if counts_only:
                yield _counted(now, table, lake)
            else:
                yield _compared(now, table, place, lake, told)


def _counted(now: Snapshot, table: SourceTable, lake: TableAsOf) -> Verified:
    ours, theirs = lake.snapshot.rows, now.count(table)
    differences = (f"{ours:,} rows in the lake, {theirs:,} in the source",) if ours != theirs else ()
    return Verified(str(table.name), lake.change, ours, theirs, differences)


def _compared(now: Snapshot, table: SourceTable, place: TableLocation, lake: TableAsOf, told: Told | None) -> Verified:
    ours, theirs = lake.snapshot.rows, now.count(table)
    parts = number_of_parts(max(ours, theirs), sum(file.bytes for file in lake.snapshot.files))
    names = {name.lower() for name in table.schema.names}
    surplus = tuple(name for name in lake.snapshot.schema.names if name.lower() not in names)
    done = 0

    def watched(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
        nonlocal done
        for piece in pieces:
            yield piece
            done += piece.num_rows
            if told:
                told(str(table.name), done, ours + theirs)

    rows = watched(row_batches(place, lake))
    found = compare_in_parts(rows, watched(now.rows(table)), table.key, surplus, parts)
    return Verified(str(table.name), lake.change, found.rows, found.source_rows, found.differences, surplus)
