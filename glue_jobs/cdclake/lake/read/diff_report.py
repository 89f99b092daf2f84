"""A difference in counts and in a few rows that can be printed."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from cdclake.lake.read.diff import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER, diff_frame
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
    """What a difference holds.

    Attributes:
        inserted: Rows that were inserted; likewise updated and deleted.
        columns: Names of the columns of `rows`.
        rows: The first rows by key, or by all columns if there is none; those of one key together, before first. Values
            are as JSON has them; decimals, dates, timestamps (UTC), binary (hexadecimal) and numbers that are not
            finite are text.
    """

    inserted: int
    updated: int
    deleted: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def counts(self) -> dict[str, int]:
        """Rows by kind."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}


def report(spark: SparkSession, table: TableLocation, plan: DiffPlan, limit: int) -> DiffReport:
    """Compute a difference.

    Args:
        spark: A session whose time zone is UTC.
        limit: How many rows to give at most; 0: count only.

    Raises:
        PastRetentionError: A file is no longer kept.
        LakeFilesError: A file of the table vanished from its folder or was overwritten.
    """
    names = (CHANGE_TYPE, *plan.schema.names)
    places = [f"c{i}" for i in range(len(names))]
    found = diff_frame(spark, table, plan).toDF(*places)
    with raising_task_errors():
        if not limit:
            return _report(_counts(found), names, [])
        found.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return _report(_counts(found), names, _first_rows(found, _key_places(plan), limit))
        finally:
            found.unpersist()


def _report(counts: dict[str, int], names: Sequence[str], rows: list[tuple[Any, ...]]) -> DiffReport:
    inserted, updated, deleted = (counts.get(kind, 0) for kind in (INSERT, UPDATE_AFTER, DELETE))
    return DiffReport(inserted, updated, deleted, tuple(names), tuple(rows))


def _counts(found: DataFrame) -> dict[str, int]:
    return {row[0]: row[1] for row in found.groupBy("c0").count().collect()}


def _key_places(plan: DiffPlan) -> list[str]:
    lower = [name.lower() for name in plan.schema.names]
    key = [lower.index(name.lower()) for name in plan.primary_key] or range(len(lower))
    return [f"c{i + 1}" for i in key]


def _first_rows(found: DataFrame, key: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
    ordered = found.orderBy(*key, F.col("c0").desc())  # "update_before" comes after "update_after" in the alphabet
    rows = ordered.limit(limit).select(*(_printable(field) for field in found.schema)).collect()
    return [tuple(map(_finite, row)) for row in rows]


def _printable(field: spark_types.StructField) -> SparkColumn:
    column = F.col(field.name)
    if isinstance(field.dataType, (spark_types.DecimalType, spark_types.DateType)):
        return column.cast("string")
    if isinstance(field.dataType, spark_types.FloatType):
        return column.cast("string").cast("double")  # the shortest text of a float is not that of it as a double
    if isinstance(field.dataType, spark_types.TimestampType):
        return F.date_format(column, _TIMESTAMP_PATTERN)
    return F.hex(column) if isinstance(field.dataType, spark_types.BinaryType) else column


def _finite(value: object) -> object:
    return str(value) if isinstance(value, float) and not isfinite(value) else value
