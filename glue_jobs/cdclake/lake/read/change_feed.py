"""What each of a lake table's changes did, row by row, so that jobs downstream can go on from where they were."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from cdclake.commit.log import CONCURRENT_READS
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.lake.read.as_of import TableAsOf, TableLocation, table_as_of
from cdclake.lake.read.diff import comparison_schema, diffs_frame, plan_diff
from cdclake.model.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdclake.commit.log import ChangeLog

CHANGE, COMMITTED = "change", "committed"
_MARKS = Schema((Column(CHANGE, "bigint"), Column(COMMITTED, "timestamp")))


def read_changes(
    spark: SparkSession, lake: str, table: str, from_change: int, to_change: int | None = None, prefix: str = ""
) -> DataFrame:
    """The rows that each change of a lake table inserted, updated and deleted, of all changes after a given one.

    A job that keeps the number of the last change it has seen gives it as `from_change` the next time. A rollback and a
    reapply are changes like others, and a full load is what it changed about the rows. A change that changed no value,
    such as a takeover, has no rows. What counts as an update is said at `cdclake.lake.read.diff.read_diff`.

    Args:
        spark: The session to read in; its workers reach the lake as this process does.
        lake: `s3://bucket` or `file:///folder`.
        table: `schema.table`.
        from_change: Number of the change to begin after; 0: begin with the first.
        to_change: Number of the last change to take; the newest if not given.
        prefix: Folder of the lake in the bucket.

    Returns:
        `change` (its number), `committed` (when it was), `change_type` (`insert`, `update_before`, `update_after` or
        `delete`), then the source's columns: those of the last change, then any that only earlier ones had. Rows in no
        order. Nothing is read before it is used but the change log.

    Raises:
        ConfigurationError: There are no such changes, or columns have types that cannot be compared.
        PastRetentionError: What the table was after `from_change` is no longer kept; says from where to go on.
    """
    source = TableLocation.at(lake, table, prefix)
    states = _states(source.log(), from_change, to_change)
    schema = comparison_schema(states)
    pairs = [pair for pair in pairwise(states) if any(one.snapshot.exists for one in pair)]
    steps = [(plan_diff(before, after), _marks(after)) for before, after in pairs]
    return diffs_frame(spark, source, schema, [step for step in steps if not step[0].is_empty], _MARKS)


def _states(log: ChangeLog, from_change: int, to_change: int | None) -> list[TableAsOf]:
    """The table after the first change, after each that follows, and after the last."""
    head, first = log.head(), log.first_retained()
    name, last = log.layout.name, head if to_change is None else to_change
    if not 0 <= from_change <= last <= head:
        message = f"{name} has no changes after {from_change} up to {last}: its newest is {head or 'none'}"
        raise ConfigurationError(message, remedy=f"Name two numbers from 0 to {head}, the smaller first")
    if from_change < first and (from_change or first > 1):
        message = (
            f"What {name} was after change {from_change} is no longer kept, so what was changed since is not known"
        )
        remedy = f"Read the whole table as of change {head}, and go on after that; the oldest to begin after is {first}"
        raise PastRetentionError(message, remedy=remedy)
    numbers = range(max(1, from_change), last + 1)
    with ThreadPoolExecutor(CONCURRENT_READS) as pool:
        states = list(pool.map(lambda number: table_as_of(log, number), numbers))
    return states if from_change else [TableAsOf(), *states]


def _marks(after: TableAsOf) -> tuple[int, datetime]:
    return after.change, datetime.fromisoformat(after.committed_utc)
