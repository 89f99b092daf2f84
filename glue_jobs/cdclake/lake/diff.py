"""What differs between a lake table after one change and after another.

Data files are never rewritten in place, so only files that are not in both snapshots are read. A key is in one file of
a snapshot: if that file is common to both, so is its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdclake.errors import ConfigurationError
from cdclake.lake.as_of import TablePlace, table_as_of
from cdclake.lake.data_file import TableShape
from cdclake.lake.read_table import frame
from cdclake.model.schema import Column, Schema, wider_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from cdclake.lake.as_of import KeptFile, TableAsOf
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
    files: tuple[KeptFile, ...]


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
    source = TablePlace.at(lake, table, prefix)
    log = source.log()
    return diff_frame(spark, source, plan_diff(table_as_of(log, from_change), table_as_of(log, to_change)))


def plan_diff(before: TableAsOf, after: TableAsOf) -> DiffPlan:
    """Decide what to read and compare.

    Raises:
        ConfigurationError: A column's types cannot be compared, or there was no table either time.
    """
    earlier, later = sorted((before, after), key=lambda one: one.change)
    schema = _compared(earlier, later)
    if not schema:
        message = f"There was no table after change {earlier.change}, and none after change {later.change}"
        raise ConfigurationError(message, remedy="Name other changes; cdclake changes lists them")
    live_before, live_after = ({file.path for file in one.snapshot.files} for one in (before, after))
    return DiffPlan(
        schema,
        _common_key(before.snapshot, after.snapshot),
        Side(before.snapshot.partition_key, _without(before.files, live_after)),
        Side(after.snapshot.partition_key, _without(after.files, live_before)),
    )


def diff_frame(spark: SparkSession, table: TablePlace, plan: DiffPlan) -> DataFrame:
    """The difference that a plan describes; see `read_diff`."""
    names = plan.schema.names
    places = [f"c{i}" for i in range(len(names))]  # columns go by place inside, as names may hold anything
    before, after = (
        frame(spark, table, TableShape(plan.schema, plan.primary_key, side.partition_key), side.files)
        .toDF(*places, "op", "position")
        .select(*places)
        for side in (plan.before, plan.after)
    )
    if not plan.primary_key:
        return _by_rows(before, after, places).toDF(CHANGE_TYPE, *names)
    lower = [name.lower() for name in names]
    key = [places[lower.index(name.lower())] for name in plan.primary_key]
    return _by_key(before, after, places, key).toDF(CHANGE_TYPE, *names)


def _by_key(before: DataFrame, after: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    left, right = (
        rows.select(*(F.col(name).alias(f"{side}_{name}") for name in key), F.struct(*columns).alias(side))
        for rows, side in ((before, _BEFORE), (after, _AFTER))
    )
    same_key = reduce(and_, (left[f"{_BEFORE}_{name}"].eqNullSafe(right[f"{_AFTER}_{name}"]) for name in key))
    both = left.join(right, same_key, "full_outer").where(~F.col(_BEFORE).eqNullSafe(F.col(_AFTER)))
    entries = (
        F.when(F.col(_BEFORE).isNull(), F.array(_entry(INSERT, _AFTER)))
        .when(F.col(_AFTER).isNull(), F.array(_entry(DELETE, _BEFORE)))
        .otherwise(F.array(_entry(UPDATE_BEFORE, _BEFORE), _entry(UPDATE_AFTER, _AFTER)))
    )
    return both.select(F.explode(entries).alias("entry")).select(f"entry.{CHANGE_TYPE}", "entry.row.*")


def _entry(change_type: str, side: str) -> SparkColumn:
    return F.struct(F.lit(change_type).alias(CHANGE_TYPE), F.col(side).alias("row"))


def _by_rows(before: DataFrame, after: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Each different row as often as one table has it more than the other."""
    weighed = before.withColumn(_WEIGHT, F.lit(-1)).unionByName(after.withColumn(_WEIGHT, F.lit(1)))
    sums = weighed.groupBy(*columns).agg(F.sum(_WEIGHT).alias(_WEIGHT)).where(F.col(_WEIGHT) != 0)
    change_type = F.when(F.col(_WEIGHT) > 0, INSERT).otherwise(DELETE)
    copies = F.array_repeat(change_type, F.abs(_WEIGHT).cast("int"))
    return sums.select(F.explode(copies).alias(CHANGE_TYPE), *columns)


def _compared(earlier: TableAsOf, later: TableAsOf) -> Schema:
    """The later table's columns, then those that only the earlier one had, each wide enough for both."""
    columns = []
    for column in later.snapshot.schema:
        was = earlier.snapshot.schema.find(column.name)
        kind = wider_type(was.type, column.type) if was else column.type
        if kind is None:
            message = (
                f"Column {column.name} is {was and was.type} after change {earlier.change}"
                f" and {column.type} after change {later.change}, which cannot be compared"
            )
            remedy = "Name changes with no reload in between, or read both tables by themselves"
            raise ConfigurationError(message, remedy=remedy)
        columns.append(Column(column.name, kind))
    return Schema((*columns, *(c for c in earlier.snapshot.schema if later.snapshot.schema.find(c.name) is None)))


def _common_key(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    if not (before.made and after.made):
        return (before if before.made else after).primary_key
    keys = ({name.lower() for name in snapshot.primary_key} for snapshot in (before, after))
    return after.primary_key if next(keys) == next(keys) else ()


def _without(files: Sequence[KeptFile], paths: set[str]) -> tuple[KeptFile, ...]:
    return tuple(kept for kept in files if kept.file.path not in paths)
