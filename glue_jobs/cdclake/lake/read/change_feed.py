"""Reads what each change did to a lake table, row by row, so that downstream jobs can resume where they stopped."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from cdclake.concurrency import in_parallel
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.lake.read.as_of import TableAsOf, TableLocation, table_as_of
from cdclake.lake.read.diff import DiffStep, comparison_schema, diffs_frame, plan_diff
from cdclake.model.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdclake.commit.log import ChangeLog

CHANGE, COMMITTED = "change", "committed"
_CONSTANTS = Schema((Column(CHANGE, "bigint"), Column(COMMITTED, "timestamp")))


def read_changes(
    spark: SparkSession, lake: str, table: str, from_change: int, to_change: int | None = None, prefix: str = ""
) -> DataFrame:
    """Read the rows that each change after a given one inserted, updated or deleted in a lake table.

    A downstream job stores the number of the last change it has processed and passes it as `from_change` the next time.
    A rollback and a reapply are changes like any other. A full load contributes the rows that differ from before it. A
    change without effect on rows, such as a takeover, contributes none. See `cdclake.lake.read.diff.read_diff` for what
    counts as an update, and for the other arguments.

    Args:
        from_change: Number of the change to start after; 0 starts with the first change.
        to_change: Number of the last change to read; the newest by default.

    Returns:
        `change` (its number), `committed` (its commit time), `change_type` (`insert`, `update_before`, `update_after`
        or `delete`), then the source's columns: all of the last change, then any that only earlier changes had.
        A source column with the name of one of the first three, in any case, has the prefix `_cdc_source_`. Rows are in
        no order. Data files are read when the DataFrame is used.

    Raises:
        ConfigurationError: There are no such changes, or columns have types that cannot be compared.
        PastRetentionError: The state after `from_change` or a later change is no longer retained. The remedy names
            changes to start from.
    """
    location = TableLocation.at(lake, table, prefix)
    states = _states(location.log(), from_change, to_change)
    schema = comparison_schema(states)
    pairs = [pair for pair in pairwise(states) if any(state.snapshot.exists for state in pair)]
    steps = [DiffStep(plan_diff(before, after), _constants(after)) for before, after in pairs]
    return diffs_frame(spark, location, schema, [step for step in steps if not step.plan.is_empty], _CONSTANTS)


def _states(log: ChangeLog, from_change: int, to_change: int | None) -> list[TableAsOf]:
    """The table after each change of the range, including the change that the range starts after."""
    head, retained = log.head(), log.retained()
    name, last = log.layout.name, head if to_change is None else to_change
    if not 0 <= from_change <= last <= head:
        message = f"{name} has no changes after {from_change} up to {last}; its newest is {head or 'none'}"
        raise ConfigurationError(message, remedy=f"Use two numbers from 0 to {head}, the smaller one first")
    numbers = range(max(1, from_change), last + 1)
    gone = next((number for number in numbers if number not in retained), None)
    if gone is not None:
        first = retained.through + 1
        message = f"Change {gone} of {name} is no longer retained, so the changes after {from_change} cannot be read"
        remedy = f"Read the whole table as of change {head} and resume after it, or start after change {first} or later"
        if from_change in retained:
            remedy = (
                f"Read what differs between changes {from_change} and {first} with read_diff, and resume after {first}"
            )
        raise PastRetentionError(message, remedy=remedy)
    states = in_parallel(partial(table_as_of, log), numbers, log.store.calls_at_once)
    return states if from_change else [TableAsOf(), *states]


def _constants(after: TableAsOf) -> tuple[int, datetime]:
    return after.change, datetime.fromisoformat(after.committed_utc)
