"""Compares lake tables with their source database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.raw.policy.treat import treated_values
from cdclake.lake.read.all_rows import row_batches
from cdclake.lake.read.as_of import TableAsOf, table_as_of
from cdclake.lake.storage.types import from_arrow
from cdclake.model.table.column_policy import is_excluded
from cdclake_cli.sources.compare_parts import compare_in_parts, number_of_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cdclake.lake.read.as_of import TableLocation
    from cdclake.model.table.column_policy import ColumnPolicy
    from cdclake_cli.sources.source import SourceSnapshot
    from cdclake_cli.sources.tables import SourceTable

    ProgressCallback = Callable[[str, int, int], None]
    """Takes the table, the rows read so far and the total rows, both of lake and source together."""


@dataclass(frozen=True)
class TableVerification:
    """Result of comparing a lake table with its source.

    Attributes:
        table: Name of the table.
        change: Number of the lake table's change at the time of the comparison; None if there is no lake table.
        lake_rows: Number of rows in the lake.
        source_rows: Number of rows in the source.
        differences: All differences, in words; empty if the tables are equal.
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
        """Whether the tables are equal."""
        return not self.differences


def verify(
    source: SourceSnapshot,
    table: SourceTable,
    location: TableLocation,
    *,
    counts_only: bool = False,
    report: ProgressCallback | None = None,
    secret: bytes = b"",
) -> TableVerification:
    """Compare a table in a snapshot of a source database with its lake table.

    Changes that the source has committed and the lake has not applied yet are differences.

    Args:
        location: The location of the table in the lake.
        counts_only: Compare only the numbers of rows. Otherwise every value of every row is compared, and the temporary
            folder must have room for both tables, compressed.
        secret: The secret of hashed columns; empty for none.

    Raises:
        RetryableError: The source cannot be reached.
        ConfigurationError: The table has hashed columns, and the secret is missing or another one.
    """
    try:
        lake = table_as_of(location.log())
    except ConfigurationError:
        return TableVerification(str(table.name), None, 0, source.count(table), ("there is no lake table",))
    if counts_only:
        return _compare_counts(source, table, lake)
    return _compare_values(source, table, location, lake, lake.snapshot.policy.with_secret(secret), report)


def _compare_counts(source: SourceSnapshot, table: SourceTable, lake: TableAsOf) -> TableVerification:
    ours, theirs = lake.snapshot.rows, source.count(table)
    differences = (f"{ours:,} rows in the lake, {theirs:,} in the source",) if ours != theirs else ()
    return TableVerification(str(table.name), lake.change, ours, theirs, differences)


def _compare_values(
    source: SourceSnapshot,
    table: SourceTable,
    location: TableLocation,
    lake: TableAsOf,
    policy: ColumnPolicy,
    report: ProgressCallback | None,
) -> TableVerification:
    ours, theirs = lake.snapshot.rows, source.count(table)
    parts = number_of_parts(max(ours, theirs), sum(file.bytes for file in lake.snapshot.files))
    names = {name.lower() for name in table.schema.names}
    surplus = tuple(name for name in lake.snapshot.schema.names if name.lower() not in names)
    done = 0

    def reported(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        nonlocal done
        for batch in batches:
            yield batch
            done += batch.num_rows
            if report:
                report(str(table.name), done, ours + theirs)

    lake_rows = reported(row_batches(location, lake))
    source_rows = (_as_in_lake(rows, policy) for rows in reported(source.rows(table)))
    result = compare_in_parts(lake_rows, source_rows, table.key, surplus, parts)
    return TableVerification(str(table.name), lake.change, result.rows, result.source_rows, result.differences, surplus)


def _as_in_lake(rows: pa.Table, policy: ColumnPolicy) -> pa.Table:
    """Rows of the source as the table's `ColumnPolicy` leaves them."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        rule = policy.find(name)
        if is_excluded(rule):
            continue
        columns[name] = values
        if rule:
            cast, _ = cast_column(values.combine_chunks(), from_arrow(values.type) or "string")
            columns[name] = treated_values(cast, rule, policy)
    return pa.table(columns) if policy.rules else rows
