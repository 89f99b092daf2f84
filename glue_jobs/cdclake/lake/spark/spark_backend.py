# ruff: noqa: D102 - see `Backend` and `Partitions`
"""Runs the engine on Spark.

Importing this does not import pyspark, so that code which may run on Spark can also run without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from cdclake.lake.spark.backend import Partitions, Task
from cdclake.lake.spark.task_errors import SparkTask, raising_task_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext
    from typing_extensions import Self

    from cdclake.lake.spark.backend import Backend

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class SparkBackend:
    """Runs tasks on Spark's executors."""

    context: SparkContext

    @property
    def parallelism(self) -> int:
        return self.context.defaultParallelism

    def distribute(self, partitions: Sequence[Sequence[Item]]) -> SparkPartitions[Item]:
        return SparkPartitions(self, self.context.parallelize(partitions, max(len(partitions), 1)).flatMap(list))


class SparkPartitions(Partitions[Item]):
    """An RDD. Its values are computed when they are collected."""

    def __init__(self, backend: Backend, rdd: RDD[Any]) -> None:
        self.backend, self.rdd = backend, rdd

    def map(self, function: Callable[[Item], Result]) -> SparkPartitions[Result]:
        return self.map_partitions(partial(map, function))

    def flat_map(self, function: Callable[[Item], Iterable[Result]]) -> SparkPartitions[Result]:
        return self.map_partitions(partial(_flat_map, function))

    def map_partitions(self, function: Callable[[Iterator[Item]], Iterator[Result]]) -> SparkPartitions[Result]:
        return SparkPartitions(self.backend, self.rdd.mapPartitions(SparkTask(function)))

    def run(self, function: Callable[[Task, Iterator[Item]], Iterator[Result]]) -> SparkPartitions[Result]:
        task = SparkTask(partial(_run, function))
        return SparkPartitions(self.backend, self.rdd.mapPartitionsWithIndex(task))

    def shuffle(self, count: int, *others: Self) -> SparkPartitions[Any]:
        pairs, *more = (part.rdd.partitionBy(count, int) for part in (self, *others))
        for one in more:  # all have the same partitioner, so the union needs no further shuffle
            pairs = pairs.union(one)
        return SparkPartitions(self.backend, pairs.values())

    def keep(self) -> Self:
        """Keep the values on disk.

        In memory they would crowd out the tasks: large byte arrays fragment the heap, and Spark runs out of memory long
        before it starts to spill.
        """
        from pyspark import StorageLevel

        self.rdd.persist(StorageLevel.DISK_ONLY)
        return self

    def discard(self) -> None:
        self.rdd.unpersist()

    def collect(self) -> list[Item]:
        with raising_task_errors():
            return self.rdd.collect()

    def collect_partitions(self) -> list[list[Item]]:
        with raising_task_errors():
            return self.rdd.glom().collect()


def _flat_map(function: Callable[[Item], Iterable[Result]], values: Iterable[Item]) -> Iterator[Result]:
    return chain.from_iterable(map(function, values))


def _run(
    function: Callable[[Task, Iterator[Item]], Iterator[Result]], number: int, values: Iterator[Item]
) -> Iterator[Result]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context, "runs in a task"
    return function(Task(number, str(context.taskAttemptId())), values)
