# ruff: noqa: D102, ANN401 - the methods are Spark's
"""The interface to whatever runs the engine: Spark, or this process alone.

No code here imports pyspark: a run that uses Spark has imported it, and a run in this process does not need it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame
    from typing_extensions import TypeIs


Item = TypeVar("Item")


class DistributedRows(Protocol):
    """Values in partitions: Spark's `RDD`, or `InProcessRdd`. The methods mean what they mean in Spark."""

    def map(self, function: Callable[[Any], Any], /) -> DistributedRows: ...
    def mapValues(self, function: Callable[[Any], Any], /) -> DistributedRows: ...
    def flatMap(self, function: Callable[[Any], Iterable[Any]], /) -> DistributedRows: ...
    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]], /) -> DistributedRows: ...
    def mapPartitionsWithIndex(self, function: Callable[[int, Iterable[Any]], Iterable[Any]], /) -> DistributedRows: ...
    def partitionBy(self, count: int, function: Callable[[Any], int], /) -> DistributedRows: ...
    def union(self, other: Any, /) -> DistributedRows: ...
    def persist(self, level: Any, /) -> DistributedRows: ...
    def unpersist(self) -> DistributedRows: ...
    def collect(self) -> list[Any]: ...


class Backend(Protocol):
    """What runs tasks: Spark's `SparkContext`, or `InProcessSpark`."""

    @property
    def defaultParallelism(self) -> int: ...
    def parallelize(self, values: Sequence[Any], count: int, /) -> DistributedRows: ...


def keep_on_disk(rows: DistributedRows) -> DistributedRows:
    """Keep rows that are read more than once.

    In memory they would crowd out the tasks: large byte arrays fragment the heap, and Spark runs out of memory long
    before it starts to spill.
    """
    pyspark = sys.modules.get("pyspark")
    return rows.persist(pyspark.StorageLevel.DISK_ONLY) if pyspark else rows


def attempt_id() -> str:
    """Identify this attempt at a task: each attempt writes files of its own."""
    pyspark = sys.modules.get("pyspark")
    context = pyspark.TaskContext.get() if pyspark else None
    return str(context.taskAttemptId()) if context else "0"


def balanced_groups(items: Sequence[Item], sizes: Sequence[int], count: int) -> list[list[Item]]:
    """Adjacent items in at most `count` groups of about equal size, and at least one group if there are items."""
    count, total, done = max(1, min(count, len(items))), sum(sizes), 0
    groups: list[list[Item]] = [[] for _ in range(count)]
    for item, size in zip(items, sizes, strict=True):
        groups[min(count - 1, done * count // total) if total else 0].append(item)
        done += size
    return [group for group in groups if group]


def is_spark_dataframe(value: object) -> TypeIs[DataFrame]:
    """Whether a value is a DataFrame of Spark."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(value, sql.DataFrame)
