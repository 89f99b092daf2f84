"""What differs between a lake table after one change and after another, or step by step between several.

Data files are never rewritten in place, so only files that are not in both snapshots are read. A key is in one file of
a snapshot: if that file is common to both, so is its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.dataframe import FileScan, scan_frame
from cdclake.model.schema import Column, Schema, wider_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

    from cdclake.lake.read.as_of import RetainedFile, TableAsOf
    from cdclake.model.snapshot import Snapshot

CHANGE_TYPE = "change_type"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_before", "update_after", "delete"
_BEFORE, _AFTER, _WEIGHT = "before", "after", "weight"


@dataclass(frozen=True)
class Side:
    """One of the two tables: what of it is to be read.

    Attributes:
        partition_key: Partition columns of its files.
        files: Data files that the other table has not.
    """

    partition_key: tuple[str, ...]
    files: tuple[RetainedFile, ...]


@dataclass(frozen=True)
class DiffPlan:
    """How two states of a table are compared.

    Attributes:
        schema: Columns to compare.
        primary_key: What tells rows; empty: rows are compared as a whole.
        before: The table that the difference leads from.
        after: The table that it leads to.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    before: Side
    after: Side

    @property
    def is_empty(self) -> bool:
        """Whether both tables have the same files, so that nothing is to be read."""
        return not (self.before.files or self.after.files)


def read_diff(
    spark: SparkSession, lake: str, table: str, from_change: int, to_change: int, prefix: str = ""
) -> DataFrame:
    """The rows inserted, updated and deleted between two changes of a lake table.

    It leads from one to the other in either direction, also over rollbacks. A row counts as updated if a value of the
    source differs; null equals null, and NaN equals NaN. A table without a key, or with another key then than now, has
    no updates: its rows are told by all their values, each as often as it comes.

    Args:
        spark: The session to read in; its workers reach the lake as this process does.
        lake: `s3://bucket` or `file:///folder`.
        table: `schema.table`.
        from_change: Number of the change after which the table was as before.
        to_change: Number of the change after which it was as after.
        prefix: Folder of the lake in the bucket.

    Returns:
        `change_type`, which is `insert`, `update_before`, `update_after` or `delete`, then the source's columns: those
        of the later change, then any that only the earlier one had. Rows in no order. Nothing is read before it is
        used but the change log.

    Raises:
        ConfigurationError: There is no such table or change, or columns have types that cannot be compared.
        PastRetentionError: What the table was then is no longer kept.
    """
    source = TableLocation.at(lake, table, prefix)
    log = source.log()
    return diff_frame(spark, source, plan_diff(table_as_of(log, from_change), table_as_of(log, to_change)))


def plan_diff(before: TableAsOf, after: TableAsOf) -> DiffPlan:
    """Decide what to read and compare.

    Raises:
        ConfigurationError: A column's types cannot be compared, or there was no table either time.
    """
    schema = comparison_schema((before, after))
    live_before, live_after = ({file.path for file in one.snapshot.files} for one in (before, after))
    return DiffPlan(
        schema,
        _common_key(before.snapshot, after.snapshot),
        Side(before.snapshot.partition_key, _without(before.files, live_after)),
        Side(after.snapshot.partition_key, _without(after.files, live_before)),
    )


def diff_frame(spark: SparkSession, table: TableLocation, plan: DiffPlan) -> DataFrame:
    """The difference that a plan describes; see `read_diff`."""
    return diffs_frame(spark, table, plan.schema, [(plan, ())], Schema())


def diffs_frame(
    spark: SparkSession,
    table: TableLocation,
    schema: Schema,
    steps: Sequence[tuple[DiffPlan, tuple[Any, ...]]],
    marks: Schema,
) -> DataFrame:
    """Several differences at once, each row with the marks of the difference that it belongs to.

    Args:
        schema: Columns to compare in all of them, each of a type that holds theirs.
        steps: The differences and their marks, which are different.
        marks: Columns of the marks.

    Returns:
        The marks, `change_type` and the columns.
    """
    by_key: dict[tuple[str, ...], list[tuple[DiffPlan, tuple[Any, ...]]]] = {} if steps else {(): []}
    for plan, values in steps:
        by_key.setdefault(tuple(name.lower() for name in plan.primary_key), []).append((plan, values))
    frames = [_with_key(spark, table, schema, few, marks, key) for key, few in by_key.items()]
    return reduce(DataFrame.union, frames).toDF(*marks.names, CHANGE_TYPE, *schema.names)


def _with_key(
    spark: SparkSession,
    table: TableLocation,
    schema: Schema,
    steps: Sequence[tuple[DiffPlan, tuple[Any, ...]]],
    marks: Schema,
    primary_key: tuple[str, ...],
) -> DataFrame:
    # Columns go by place inside, as names may hold anything.
    columns, told = [f"c{i}" for i in range(len(schema))], [f"m{i}" for i in range(len(marks))]
    sides = ([(plan.before, values) for plan, values in steps], [(plan.after, values) for plan, values in steps])
    before, after = (
        scan_frame(
            spark,
            table,
            schema,
            [FileScan(kept, side.partition_key, values) for side, values in few for kept in side.files],
            marks,
        )
        .toDF(*columns, "op", "position", *told)
        .select(*columns, *told)
        for few in sides
    )
    if not primary_key:
        return _by_rows(before, after, columns, told)
    lower = [name.lower() for name in schema.names]
    return _by_key(before, after, columns, told, [columns[lower.index(name)] for name in primary_key])


def _by_key(
    before: DataFrame, after: DataFrame, columns: Sequence[str], marks: Sequence[str], key: Sequence[str]
) -> DataFrame:
    whole_key = [*marks, *key]
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
    told = [F.coalesce(f"{_BEFORE}_{name}", f"{_AFTER}_{name}").alias(name) for name in marks]
    return both.select(*told, F.explode(entries).alias("entry")).select(*marks, f"entry.{CHANGE_TYPE}", "entry.row.*")


def _entry(change_type: str, side: str) -> SparkColumn:
    return F.struct(F.lit(change_type).alias(CHANGE_TYPE), F.col(side).alias("row"))


def _by_rows(before: DataFrame, after: DataFrame, columns: Sequence[str], marks: Sequence[str]) -> DataFrame:
    """Each different row as often as one table has it more than the other."""
    weighed = before.withColumn(_WEIGHT, F.lit(-1)).unionByName(after.withColumn(_WEIGHT, F.lit(1)))
    sums = weighed.groupBy(*marks, *columns).agg(F.sum(_WEIGHT).alias(_WEIGHT)).where(F.col(_WEIGHT) != 0)
    change_type = F.when(F.col(_WEIGHT) > 0, INSERT).otherwise(DELETE)
    copies = F.array_repeat(change_type, F.abs(_WEIGHT).cast("int"))
    return sums.select(*marks, F.explode(copies).alias(CHANGE_TYPE), *columns)


def comparison_schema(states: Sequence[TableAsOf]) -> Schema:
    """The latest table's columns, then those that only earlier ones had, each wide enough for all.

    Raises:
        ConfigurationError: A column's types cannot be compared, or there was no table any time.
    """
    latest_first = sorted(states, key=lambda one: one.change, reverse=True)
    found: dict[str, tuple[Column, int]] = {}
    for state in latest_first:
        for column in state.snapshot.schema:
            known, change = found.get(column.name.lower(), (column, state.change))
            kind = wider_type(column.type, known.type)
            if kind is None:
                message = (
                    f"Column {known.name} is {column.type} after change {state.change}"
                    f" and {known.type} after change {change}, which cannot be compared"
                )
                remedy = "Name changes with no reload in between, or read both tables by themselves"
                raise ConfigurationError(message, remedy=remedy)
            found[column.name.lower()] = Column(known.name, kind), change
    if not found:
        message = (
            f"There was no table after change {latest_first[-1].change}, and none after change {latest_first[0].change}"
        )
        raise ConfigurationError(message, remedy="Name other changes; cdclake changes lists them")
    return Schema(tuple(column for column, _ in found.values()))


def _common_key(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    if not (before.exists and after.exists):
        return (before if before.exists else after).primary_key
    keys = ({name.lower() for name in snapshot.primary_key} for snapshot in (before, after))
    return after.primary_key if next(keys) == next(keys) else ()


def _without(files: Sequence[RetainedFile], paths: set[str]) -> tuple[RetainedFile, ...]:
    return tuple(kept for kept in files if kept.file.path not in paths)
