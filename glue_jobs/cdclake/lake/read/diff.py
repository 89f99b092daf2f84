"""Compares the states of a lake table after two changes, or step by step after several.

Only files that are not in both snapshots are read. That is enough: data files are never rewritten in place, and all
rows of a snapshot with the same key are in the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdclake.errors import ConfigurationError
from cdclake.lake.raw.reader import RESERVED_PREFIX
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.dataframe import FileScan, scan_frame
from cdclake.model.schema import Column, Schema
from cdclake.model.type_widening import wider_type

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

    from cdclake.lake.read.as_of import RetainedFile, TableAsOf
    from cdclake.model.snapshot import Snapshot

CHANGE_TYPE = "change_type"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_before", "update_after", "delete"
SOURCE_PREFIX = f"{RESERVED_PREFIX}source_"
"""Starts the name of a source column that has the name of a result's own column."""
_BEFORE, _AFTER, _WEIGHT = "before", "after", "weight"


@dataclass(frozen=True)
class Side:
    """What to read of one of the two states.

    Attributes:
        partition_key: Partition columns of its files.
        files: Data files that the other state does not have.
    """

    partition_key: tuple[str, ...]
    files: tuple[RetainedFile, ...]


@dataclass(frozen=True)
class DiffPlan:
    """How to compare two states of a table.

    Attributes:
        schema: Columns to compare.
        primary_key: Columns that identify a row. If empty, whole rows are compared.
        before: The state that the difference starts from.
        after: The state that it leads to.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    before: Side
    after: Side

    @property
    def is_empty(self) -> bool:
        """Whether both states have the same files, so there is nothing to read."""
        return not (self.before.files or self.after.files)


class DiffStep(NamedTuple):
    """One of several differences, and the constants to put before each of its rows."""

    plan: DiffPlan
    constants: tuple[Any, ...] = ()


def read_diff(
    spark: SparkSession, lake: str, table: str, from_change: int, to_change: int, prefix: str = ""
) -> DataFrame:
    """Read the rows inserted, updated and deleted between two changes of a lake table.

    `from_change` may be later than `to_change`, and there may be rollbacks in between. A row counts as updated if a
    value of one of the source's columns differs; null equals null, and NaN equals NaN. If the table has no key, or
    another key after one change than after the other, whole rows are compared, including how often each occurs. Then
    there are no updates.

    Args:
        spark: The session to read in. Its workers connect to the lake as this process does.
        lake: `s3://bucket` or `file:///folder`.
        table: `schema.table`.
        from_change: Number of the change whose state the difference starts from.
        to_change: Number of the change whose state it leads to.
        prefix: Folder of the lake in the bucket.

    Returns:
        `change_type` (`insert`, `update_before`, `update_after` or `delete`), then the source's columns: all of the
        later change, then any that only the earlier one had. A source column `change_type`, in any case, has the
        prefix `_cdc_source_`. Rows are in no order. Data files are read when the DataFrame is used.

    Raises:
        ConfigurationError: There is no such table or change, or columns have types that cannot be compared.
        PastRetentionError: The state after one of the changes is no longer retained.
    """
    location = TableLocation.at(lake, table, prefix)
    log = location.log()
    return diff_frame(spark, location, plan_diff(table_as_of(log, from_change), table_as_of(log, to_change)))


def plan_diff(before: TableAsOf, after: TableAsOf) -> DiffPlan:
    """Decide what to read and compare.

    Raises:
        ConfigurationError: A column's types cannot be compared, or the table existed after neither change.
    """
    schema = comparison_schema((before, after))
    live_before, live_after = ({file.path for file in state.snapshot.files} for state in (before, after))
    return DiffPlan(
        schema,
        _common_key(before.snapshot, after.snapshot),
        Side(before.snapshot.partition_key, _without(before.files, live_after)),
        Side(after.snapshot.partition_key, _without(after.files, live_before)),
    )


def diff_frame(spark: SparkSession, location: TableLocation, plan: DiffPlan) -> DataFrame:
    """The difference that a plan describes; see `read_diff`."""
    return diffs_frame(spark, location, plan.schema, [DiffStep(plan)], Schema())


def diffs_frame(
    spark: SparkSession, location: TableLocation, schema: Schema, steps: Sequence[DiffStep], constants: Schema
) -> DataFrame:
    """The rows of several differences, each after the constants of its step.

    Args:
        schema: Columns to compare in all steps, with types wide enough for all of them.
        steps: The differences. No two have the same constants.
        constants: Names and types of the constants.

    Returns:
        The constants, `change_type` and the columns, named as `source_names` says.
    """
    by_key: dict[tuple[str, ...], list[DiffStep]] = {} if steps else {(): []}
    for step in steps:
        by_key.setdefault(tuple(name.lower() for name in step.plan.primary_key), []).append(step)
    frames = [_compare(spark, location, schema, same_key, constants, key) for key, same_key in by_key.items()]
    own = (*constants.names, CHANGE_TYPE)
    return reduce(DataFrame.union, frames).toDF(*own, *source_names(schema, own))


def source_names(schema: Schema, own: Collection[str]) -> list[str]:
    """Names of the source's columns beside the columns `own`, which are in lower case; equal ones get a prefix."""
    return [f"{SOURCE_PREFIX}{name}" if name.lower() in own else name for name in schema.names]


def _compare(
    spark: SparkSession,
    location: TableLocation,
    schema: Schema,
    steps: Sequence[DiffStep],
    constants: Schema,
    primary_key: tuple[str, ...],
) -> DataFrame:
    # Names may contain any character, so columns are numbered here.
    columns, constant_columns = [f"c{i}" for i in range(len(schema))], [f"k{i}" for i in range(len(constants))]
    appended = Schema(tuple(Column(f"{RESERVED_PREFIX}{column.name}", column.type) for column in constants))
    sides = ([(plan.before, values) for plan, values in steps], [(plan.after, values) for plan, values in steps])
    before, after = (
        scan_frame(
            spark,
            location,
            schema,
            [FileScan(file, side.partition_key, values) for side, values in side_of_steps for file in side.files],
            appended,
        )
        .toDF(*columns, "op", "position", *constant_columns)
        .select(*columns, *constant_columns)
        for side_of_steps in sides
    )
    if not primary_key:
        return _compare_rows(before, after, columns, constant_columns)
    lower = [name.lower() for name in schema.names]
    key = [columns[lower.index(name)] for name in primary_key]
    return _compare_by_key(before, after, columns, constant_columns, key)


def _compare_by_key(
    before: DataFrame, after: DataFrame, columns: Sequence[str], constants: Sequence[str], key: Sequence[str]
) -> DataFrame:
    whole_key = [*constants, *key]
    left, right = (
        rows.select(*(F.col(name).alias(f"{side}_{name}") for name in whole_key), F.struct(*columns).alias(side))
        for rows, side in ((before, _BEFORE), (after, _AFTER))
    )
    same_key = reduce(and_, (left[f"{_BEFORE}_{name}"].eqNullSafe(right[f"{_AFTER}_{name}"]) for name in whole_key))
    both = left.join(right, same_key, "full_outer").where(~F.col(_BEFORE).eqNullSafe(F.col(_AFTER)))
    entries = (
        F.when(F.col(_BEFORE).isNull(), F.array(_entry(INSERT, _AFTER)))
        .when(F.col(_AFTER).isNull(), F.array(_entry(DELETE, _BEFORE)))
        .otherwise(F.array(_entry(UPDATE_BEFORE, _BEFORE), _entry(UPDATE_AFTER, _AFTER)))
    )
    values = [F.coalesce(f"{_BEFORE}_{name}", f"{_AFTER}_{name}").alias(name) for name in constants]
    exploded = both.select(*values, F.explode(entries).alias("entry"))
    return exploded.select(*constants, f"entry.{CHANGE_TYPE}", "entry.row.*")


def _entry(change_type: str, side: str) -> SparkColumn:
    return F.struct(F.lit(change_type).alias(CHANGE_TYPE), F.col(side).alias("row"))


def _compare_rows(before: DataFrame, after: DataFrame, columns: Sequence[str], constants: Sequence[str]) -> DataFrame:
    """Repeat each row that one state has more often than the other, once for each surplus copy."""
    weighted = before.withColumn(_WEIGHT, F.lit(-1)).unionByName(after.withColumn(_WEIGHT, F.lit(1)))
    sums = weighted.groupBy(*constants, *columns).agg(F.sum(_WEIGHT).alias(_WEIGHT)).where(F.col(_WEIGHT) != 0)
    change_type = F.when(F.col(_WEIGHT) > 0, INSERT).otherwise(DELETE)
    copies = F.array_repeat(change_type, F.abs(_WEIGHT).cast("int"))
    return sums.select(*constants, F.explode(copies).alias(CHANGE_TYPE), *columns)


def comparison_schema(states: Sequence[TableAsOf]) -> Schema:
    """The latest state's columns, then those that only earlier states had, with types wide enough for all states.

    Raises:
        ConfigurationError: A column's types cannot be compared, or the table existed in none of the states.
    """
    latest_first = sorted(states, key=lambda state: state.change, reverse=True)
    columns: dict[str, tuple[Column, int]] = {}
    for state in latest_first:
        for column in state.snapshot.schema:
            later, change = columns.get(column.name.lower(), (column, state.change))
            kind = wider_type(column.type, later.type)
            if kind is None:
                message = (
                    f"Column {later.name} is {column.type} after change {state.change} and {later.type} after change"
                    f" {change}; these types cannot be compared"
                )
                remedy = "Choose changes with no reload in between, or read each state separately"
                raise ConfigurationError(message, remedy=remedy)
            columns[column.name.lower()] = Column(later.name, kind), change
    if not columns:
        first, last = latest_first[-1].change, latest_first[0].change
        message = f"The table does not exist after change {first}{f' or {last}' if last != first else ''}"
        raise ConfigurationError(message, remedy="Choose other changes; cdclake changes lists them")
    return Schema(tuple(column for column, _ in columns.values()))


def _common_key(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    if not (before.exists and after.exists):
        return (before if before.exists else after).primary_key
    keys = ({name.lower() for name in snapshot.primary_key} for snapshot in (before, after))
    return after.primary_key if next(keys) == next(keys) else ()


def _without(files: Sequence[RetainedFile], paths: set[str]) -> tuple[RetainedFile, ...]:
    return tuple(retained for retained in files if retained.file.path not in paths)
