"""The part of Spark's RDD interface that the engine uses, in this process and at once.

For changes so small that a stage of Spark would take longer than they do, for tests that need thousands of runs, and
for a look at the steps in a debugger. Nothing is pickled and nothing runs in parallel.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class InProcessRdd:
    """Partitions of values, each a list."""

    def __init__(self, partitions: Sequence[Iterable[Any]], partitioner: object = None) -> None:
        self.partitions = [list(partition) for partition in partitions]
        self._partitioner = partitioner

    def one_each(self) -> InProcessRdd:
        """The same values, each in a partition of its own."""
        return InProcessRdd([[value] for value in self.collect()])

    def map(self, function: Callable[[Any], Any]) -> InProcessRdd:
        """As in Spark."""
        return InProcessRdd([[function(value) for value in partition] for partition in self.partitions])

    def mapValues(self, function: Callable[[Any], Any]) -> InProcessRdd:
        """As in Spark."""
        return self.map(lambda pair: (pair[0], function(pair[1])))

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> InProcessRdd:
        """As in Spark."""
        return InProcessRdd([chain.from_iterable(map(function, partition)) for partition in self.partitions])

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> InProcessRdd:
        """As in Spark."""
        return InProcessRdd([function(iter(partition)) for partition in self.partitions])

    def mapPartitionsWithIndex(self, function: Callable[[int, Iterable[Any]], Iterable[Any]]) -> InProcessRdd:
        """As in Spark."""
        return InProcessRdd([function(i, iter(partition)) for i, partition in enumerate(self.partitions)])

    def partitionBy(self, count: int, function: Callable[[Any], int]) -> InProcessRdd:
        """As in Spark."""
        partitions: list[list[Any]] = [[] for _ in range(count)]
        for pair in chain.from_iterable(self.partitions):
            partitions[function(pair[0]) % count].append(pair)
        return InProcessRdd(partitions, (count, function))

    def union(self, other: InProcessRdd) -> InProcessRdd:
        """As in Spark: partition by partition if both are partitioned alike."""
        if self._partitioner is not None and self._partitioner == other._partitioner:
            pairs = zip(self.partitions, other.partitions, strict=True)
            return InProcessRdd([[*ours, *theirs] for ours, theirs in pairs], self._partitioner)
        return InProcessRdd(self.partitions + other.partitions)

    def persist(self, level: object) -> InProcessRdd:  # noqa: ARG002 - everything is in memory
        """As in Spark."""
        return self

    def unpersist(self) -> InProcessRdd:
        """As in Spark."""
        return self

    def collect(self) -> list[Any]:
        """As in Spark."""
        return list(chain.from_iterable(self.partitions))


class InProcessSpark:
    """Stands in for a SparkContext."""

    def __init__(self, parallelism: int = 2) -> None:
        self.defaultParallelism = parallelism

    def parallelize(self, values: Sequence[Any], count: int) -> InProcessRdd:
        """As in Spark; `count` partitions, filled in turn."""
        return InProcessRdd([values[i::count] for i in range(count)])
