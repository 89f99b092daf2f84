"""Compares lake tables with their source database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.raw.policy.treat import treated_values
from cdclake.lake.read.all_rows import row_batches
from cdclake.lake.read.as_of import TableAsOf, TableLocation, table_as_of
from cdclake.lake.storage.types import arrow_schema, from_arrow
from cdclake.model.table.column_policy import is_excluded
from cdclake_cli.comparing.parts import number_of_parts
from cdclake_cli.sources.checksums.buckets import (
    Buckets,
    Sum,
    integer_of_key,
    sums_by_hash,
    sums_by_range,
)
from cdclake_cli.sources.checksums.lake import BucketSums, checksums, digests
from cdclake_cli.sources.compare import column_differences
from cdclake_cli.sources.compare_parts import compare_in_parts
from cdclake_cli.sources.effort import CHECKSUMS, COUNTS, ROWS, Effort
from cdclake_cli.sources.source import BATCH_ROWS, ChecksumSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cdclake.model.table.column_policy import ColumnPolicy
    from cdclake_cli.sources.compare import Example, RowComparison
    from cdclake_cli.sources.source import ComparedSnapshot
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
        compared_by: `checksums`, `rows` or `counts`.
        why_rows: Why all rows were read, if that was not asked for.
        rows_read: Number of rows that the source sent.
        differing_rows: Number of rows that differ; for counts the difference.
        named: The first differing rows of each kind, with their keys.
        is_consistent: Whether the source's rows are all of one moment.
    """

    table: str
    change: int | None
    lake_rows: int
    source_rows: int
    differences: tuple[str, ...]
    only_in_lake: tuple[str, ...] = ()
    compared_by: str = COUNTS
    why_rows: str = ""
    rows_read: int = 0
    differing_rows: int = 0
    named: tuple[Example, ...] = ()
    is_consistent: bool = True

    @property
    def equal(self) -> bool:
        """Whether the tables are equal."""
        return not self.differences


def verify(
    source: ComparedSnapshot,
    table: SourceTable,
    location: TableLocation,
    effort: Effort | None = None,
    *,
    report: ProgressCallback | None = None,
    secret: bytes = b"",
) -> TableVerification:
    """Compare a table in a snapshot of a source database with its lake table.

    Changes that the source has committed and the lake has not applied yet are differences.

    Args:
        location: The location of the table in the lake.
        secret: The secret of hashed columns; empty for none.

    Raises:
        RetryableError: The source cannot be reached, or stopped a statement.
        ConfigurationError: The table has hashed columns, and the secret is missing or another one; or a column of the
            source has no exact value.
    """
    effort = effort or Effort()
    try:
        lake = table_as_of(location.log())
    except ConfigurationError:
        rows, absent = source.count(table), ("there is no lake table",)
        return TableVerification(
            str(table.name), None, 0, rows, absent, differing_rows=rows, is_consistent=source.is_consistent
        )
    if effort.by == COUNTS:
        return _compare_counts(source, table, lake)
    policy = lake.snapshot.policy.with_secret(secret)
    kept = table.with_columns(lambda name: not is_excluded(policy.find(name)))
    return _Comparison(source, kept, location, lake, policy, effort, report).result()


def _compare_counts(source: ComparedSnapshot, table: SourceTable, lake: TableAsOf) -> TableVerification:
    ours, theirs = lake.snapshot.rows, source.count(table)
    differences = (f"{ours:,} rows in the lake, {theirs:,} in the source",) if ours != theirs else ()
    return TableVerification(
        str(table.name),
        lake.change,
        ours,
        theirs,
        differences,
        differing_rows=abs(ours - theirs),
        is_consistent=source.is_consistent,
    )


class _Comparison:
    """Compares the values of one table, of which the source's excluded columns are not read."""

    def __init__(
        self,
        source: ComparedSnapshot,
        table: SourceTable,
        location: TableLocation,
        lake: TableAsOf,
        policy: ColumnPolicy,
        effort: Effort,
        report: ProgressCallback | None,
    ) -> None:
        self._source, self._table, self._location, self._lake = source, table, location, lake
        self._policy, self._effort, self._report = policy, effort, report
        names = {name.lower() for name in table.schema.names}
        self._surplus = tuple(name for name in lake.snapshot.schema.names if name.lower() not in names)
        self._done = self._rows_read = 0

    def result(self) -> TableVerification:
        """The result, by checksums if they are possible."""
        if self._effort.by == ROWS:
            return self._by_rows("")
        why_rows = self._why_rows()
        if why_rows or not isinstance(self._source, ChecksumSnapshot):
            return self._by_rows(why_rows)
        return self._by_checksums(self._source)

    def _why_rows(self) -> str:
        """Why the table's rows must be read; empty if checksums tell whether they are equal."""
        if not isinstance(self._source, ChecksumSnapshot):
            return "the source computes no checksums"
        lake = self._lake.snapshot.schema
        if any(column_differences(arrow_schema(lake), self._table.schema, set(self._surplus))):
            return "the columns differ"
        if not set(self._table.key) <= set(self._table.schema.names):
            return "ColumnPolicy excludes a column of the key"
        treated = next((column.name for column in self._table.columns if self._policy.find(column.name)), "")
        if treated:
            return f"ColumnPolicy treats column {treated}"
        without_text = self._source.sql.column_without_text(self._table)
        if without_text:
            return f"the source has no exact text for column {without_text}"
        if self._effort.pace.is_bounded and not integer_of_key(self._table, lake):
            return "the key does not begin with an integer, so checksums have no pauses"
        return ""

    def _by_rows(self, why_rows: str) -> TableVerification:
        ours, theirs = self._lake.snapshot.rows, self._source.count(self._table)
        total, batch_rows = ours + theirs, self._effort.pace.rows_at_once(BATCH_ROWS)
        result = self._compared(
            self._reported(row_batches(self._location, self._lake), total),
            self._read(self._source.rows(self._table, batch_rows), total),
            max(ours, theirs),
        )
        return self._verification(ROWS, result, result.rows, result.source_rows, why_rows)

    def _by_checksums(self, source: ChecksumSnapshot) -> TableVerification:
        buckets, theirs = self._source_sums(source)
        in_source = sum(rows for rows, _ in theirs)
        total = self._lake.snapshot.rows + in_source
        self._done = in_source
        ours = BucketSums(len(theirs))
        for batch in self._reported(row_batches(self._location, self._lake), total):
            ours.add(buckets.of(batch), checksums(digests(batch, self._table.schema.names, source.sql.float_texts)))
        differing = [bucket for bucket, theirs_of in enumerate(theirs) if ours.of(bucket) != theirs_of]
        in_lake = int(ours.counts.sum())
        if not differing:
            return self._verification(CHECKSUMS, None, in_lake, in_source)
        most = max(sum(theirs[bucket][0] for bucket in differing), int(ours.counts[differing].sum()))
        result = self._compared(self._lake_rows_of(buckets, differing), self._source_rows_of(buckets, differing), most)
        return self._verification(CHECKSUMS, result, in_lake, in_source)

    def _source_sums(self, source: ChecksumSnapshot) -> tuple[Buckets, list[Sum]]:
        names, lake = self._table.schema.names, self._lake.snapshot
        column = integer_of_key(self._table, lake.schema)
        if column:
            return sums_by_range(source, self._table, names, column, self._effort.bucket_rows, self._effort.pace)
        return sums_by_hash(source, self._table, names, lake.rows, self._effort.bucket_rows)

    def _lake_rows_of(self, buckets: Buckets, chosen: list[int]) -> Iterator[pa.Table]:
        for batch in row_batches(self._location, self._lake):
            yield batch.filter(pa.array(np.isin(buckets.of(batch), chosen)))

    def _source_rows_of(self, buckets: Buckets, chosen: list[int]) -> Iterator[pa.Table]:
        assert isinstance(self._source, ChecksumSnapshot)
        batch_rows = self._effort.pace.rows_at_once(BATCH_ROWS)
        for condition in buckets.conditions(chosen):
            yield from self._read(self._source.rows(self._table, batch_rows, condition), 0)

    def _read(self, batches: Iterator[pa.Table], total: int) -> Iterator[pa.Table]:
        """Rows of the source as the lake has them, with the pauses between them."""
        for batch in self._reported(batches, total):
            self._rows_read += batch.num_rows
            yield _as_in_lake(batch, self._policy)
            self._effort.pace.spend(batch.num_rows)

    def _reported(self, batches: Iterator[pa.Table], total: int) -> Iterator[pa.Table]:
        for batch in batches:
            yield batch
            self._done += batch.num_rows
            if self._report and total:
                self._report(str(self._table.name), self._done, total)

    def _compared(self, lake: Iterator[pa.Table], source: Iterator[pa.Table], rows: int) -> RowComparison:
        snapshot = self._lake.snapshot
        parts = number_of_parts(rows, sum(file.bytes for file in snapshot.files) * rows // max(rows, snapshot.rows, 1))
        alike = self._source.integers_alike
        return compare_in_parts(lake, source, self._table.key, self._surplus, parts, integers_alike=alike)

    def _verification(
        self, by: str, result: RowComparison | None, in_lake: int, in_source: int, why_rows: str = ""
    ) -> TableVerification:
        return TableVerification(
            str(self._table.name),
            self._lake.change,
            in_lake,
            in_source,
            result.differences if result else (),
            self._surplus,
            by,
            why_rows,
            self._rows_read,
            result.differing_rows if result else 0,
            result.named if result else (),
            self._source.is_consistent,
        )


def _as_in_lake(rows: pa.Table, policy: ColumnPolicy) -> pa.Table:
    """Rows of the source as the table's `ColumnPolicy` leaves them, which excludes none of their columns."""
    if not policy.rules:
        return rows
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        rule = policy.find(name)
        columns[name] = values
        if rule:
            cast, _ = cast_column(values.combine_chunks(), from_arrow(values.type) or "string")
            columns[name] = treated_values(cast, rule, policy)
    return pa.table(columns)
