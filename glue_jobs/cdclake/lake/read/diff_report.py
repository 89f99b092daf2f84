"""Summarizes a difference between two states of a table: counts, and the first rows in a printable form."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from cdclake.lake.read.diff import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER, diff_frame, source_names
from cdclake.lake.spark.task_errors import raising_task_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.diff import DiffPlan

_TIMESTAMP_PATTERN = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


@dataclass(frozen=True)
class DiffReport:
    """Counts and first rows of a difference.

    Attributes:
        inserted: Number of inserted rows; likewise updated and deleted.
        columns: Names of the columns of `rows`.
        rows: The first rows, ordered by key, or by all columns if there is no key; of an updated row, first the values
            before. Values are JSON types; decimals, dates, timestamps (UTC), binary values (hexadecimal) and infinite
            or NaN numbers are text.
    """

    inserted: int
    updated: int
    deleted: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by type of change."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}


def report(spark: SparkSession, location: TableLocation, plan: DiffPlan, limit: int) -> DiffReport:
    """Compute a difference and summarize it.

    Args:
        spark: A session whose time zone is UTC.
        limit: Maximum number of rows to return; 0 only counts.

    Raises:
        PastRetentionError: A file is no longer retained.
        LakeFilesError: A file of the table vanished from its folder or was overwritten.
    """
    names = (CHANGE_TYPE, *source_names(plan.schema, (CHANGE_TYPE,)))
    diff = diff_frame(spark, location, plan).toDF(*(f"c{i}" for i in range(len(names))))
    with raising_task_errors():
        if not limit:
            return _report(_counts(diff), names, [])
        diff.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return _report(_counts(diff), names, _first_rows(diff, _key_columns(plan), limit))
        finally:
            diff.unpersist()


def _report(counts: dict[str, int], names: Sequence[str], rows: list[tuple[Any, ...]]) -> DiffReport:
    inserted, updated, deleted = (counts.get(kind, 0) for kind in (INSERT, UPDATE_AFTER, DELETE))
    return DiffReport(inserted, updated, deleted, tuple(names), tuple(rows))


def _counts(diff: DataFrame) -> dict[str, int]:
    return {row[0]: row[1] for row in diff.groupBy("c0").count().collect()}


def _key_columns(plan: DiffPlan) -> list[str]:
    lower = [name.lower() for name in plan.schema.names]
    key = [lower.index(name.lower()) for name in plan.primary_key] or range(len(lower))
    return [f"c{i + 1}" for i in key]


def _first_rows(diff: DataFrame, key: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
    ordered = diff.orderBy(*key, F.col("c0").desc())  # "update_before" sorts after "update_after"
    rows = ordered.limit(limit).select(*(_printable(field) for field in diff.schema)).collect()
    return [tuple(map(_finite, row)) for row in rows]


def _printable(field: spark_types.StructField) -> SparkColumn:
    column = F.col(field.name)
    if isinstance(field.dataType, (spark_types.DecimalType, spark_types.DateType)):
        return column.cast("string")
    if isinstance(field.dataType, spark_types.FloatType):
        return column.cast("string").cast("double")  # prints as 0.1; a direct cast prints as 0.10000000149011612
    if isinstance(field.dataType, spark_types.TimestampType):
        return F.date_format(column, _TIMESTAMP_PATTERN)
    return F.hex(column) if isinstance(field.dataType, spark_types.BinaryType) else column


def _finite(value: object) -> object:
    return str(value) if isinstance(value, float) and not isfinite(value) else value
