# ruff: noqa: D102 - the methods are Spark's
"""Runs the engine in this process, without Spark.

For changes so small that starting a Spark stage takes longer than the work, for tests that need thousands of runs, and
for a debugger. Nothing is pickled and nothing runs in parallel.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class InProcessRdd:
    """Stands in for an RDD: partitions of values, each a list."""

    def __init__(self, partitions: Sequence[Iterable[Any]], partitioner: object = None) -> None:
        self.partitions = [list(partition) for partition in partitions]
        self._partitioner = partitioner

    def one_per_partition(self) -> InProcessRdd:
        """The same values, each in a partition of its own."""
        return InProcessRdd([[value] for value in self.collect()])

    def map(self, function: Callable[[Any], Any]) -> InProcessRdd:
        return InProcessRdd([[function(value) for value in partition] for partition in self.partitions])

    def mapValues(self, function: Callable[[Any], Any]) -> InProcessRdd:
        return self.map(lambda pair: (pair[0], function(pair[1])))

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> InProcessRdd:
        return InProcessRdd([chain.from_iterable(map(function, partition)) for partition in self.partitions])

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> InProcessRdd:
        return InProcessRdd([function(iter(partition)) for partition in self.partitions])

    def mapPartitionsWithIndex(self, function: Callable[[int, Iterable[Any]], Iterable[Any]]) -> InProcessRdd:
        return InProcessRdd([function(i, iter(partition)) for i, partition in enumerate(self.partitions)])

    def partitionBy(self, count: int, function: Callable[[Any], int]) -> InProcessRdd:
        partitions: list[list[Any]] = [[] for _ in range(count)]
        for pair in chain.from_iterable(self.partitions):
            partitions[function(pair[0]) % count].append(pair)
        return InProcessRdd(partitions, (count, function))

    def union(self, other: InProcessRdd) -> InProcessRdd:
        """As in Spark: partition by partition if both have the same partitioner."""
        if self._partitioner is not None and self._partitioner == other._partitioner:
            pairs = zip(self.partitions, other.partitions, strict=True)
            return InProcessRdd([[*ours, *theirs] for ours, theirs in pairs], self._partitioner)
        return InProcessRdd(self.partitions + other.partitions)

    def persist(self, level: object) -> InProcessRdd:  # noqa: ARG002 - everything is in memory
        return self

    def unpersist(self) -> InProcessRdd:
        return self

    def collect(self) -> list[Any]:
        return list(chain.from_iterable(self.partitions))


class InProcessSpark:
    """Stands in for a SparkContext."""

    def __init__(self, parallelism: int = 2) -> None:
        self.defaultParallelism = parallelism

    def parallelize(self, values: Sequence[Any], count: int) -> InProcessRdd:
        """As in Spark; partition `i` of `count` takes every `count`-th value."""
        return InProcessRdd([values[i::count] for i in range(count)])
