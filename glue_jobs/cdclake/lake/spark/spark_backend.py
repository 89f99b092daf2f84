# ruff: noqa: D102 - see `Backend` and `Partitions`
"""Runs the engine on Spark.

Importing this does not import pyspark, so that code which may run on Spark can also run without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from cdclake.lake.spark.backend import Large, Partitions, Task, sum_of
from cdclake.lake.spark.task_errors import SparkTask, raising_task_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, Accumulator, AccumulatorParam, Broadcast, SparkContext
    from typing_extensions import Self

    from cdclake.lake.limits import EngineLimits
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

    @property
    def tasks_cost_time(self) -> bool:
        return True

    @property
    def jobs_at_once(self) -> int:
        return max(2, self.parallelism // 4)  # each may have few tasks; two, for the time in which one is prepared

    def distribute(self, partitions: Sequence[Sequence[Item]]) -> SparkPartitions[Item]:
        return SparkPartitions(self, self.context.parallelize(partitions, max(len(partitions), 1)).flatMap(list))

    def send(self, partitions: Sequence[Sequence[Large]], limits: EngineLimits) -> SparkPartitions[Large]:
        """See `Backend`. Sends a broadcast, which Java stores block by block, and on disk if its heap is full.

        As parts of tasks, it would copy the values several times in its heap; but a broadcast takes 30 ms more.
        """
        if sum(value.size_bytes for values in partitions for value in values) <= limits.task_data_bytes:
            return self.distribute(partitions)
        sent = self.context.broadcast(list(partitions))
        numbers = self.context.parallelize(range(len(partitions)), max(len(partitions), 1))
        return SparkPartitions(self, numbers.flatMap(partial(_sent, sent)), sent)


class SparkPartitions(Partitions[Item]):
    """An RDD. Its values are computed when they are collected."""

    def __init__(self, backend: Backend, rdd: RDD[Any], sent: Broadcast[Any] | None = None) -> None:
        self.backend, self.rdd, self._sent = backend, rdd, sent

    def map(self, function: Callable[[Item], Result]) -> SparkPartitions[Result]:
        return self.map_partitions(partial(map, function))

    def flat_map(self, function: Callable[[Item], Iterable[Result]]) -> SparkPartitions[Result]:
        return self.map_partitions(partial(_flat_map, function))

    def map_partitions(self, function: Callable[[Iterator[Item]], Iterator[Result]]) -> SparkPartitions[Result]:
        return SparkPartitions(self.backend, self.rdd.mapPartitions(SparkTask(function)))

    def run(self, function: Callable[[Task, Iterator[Item]], Iterator[Result]]) -> SparkPartitions[Result]:
        task = SparkTask(partial(_run, function))
        return SparkPartitions(self.backend, self.rdd.mapPartitionsWithIndex(task))

    def coalesce(self, count: int) -> SparkPartitions[Item]:
        return SparkPartitions(self.backend, self.rdd.coalesce(count))

    def shuffle(self, count: int, *others: Self) -> SparkPartitions[Any]:
        pairs, *more = (part.rdd.partitionBy(count, int) for part in (self, *others))
        for one in more:  # all have the same partitioner, so the union needs no further shuffle
            pairs = pairs.union(one)
        return SparkPartitions(self.backend, pairs.values())

    def keep(self, summarize: Callable[[Item], Result], zero: Result) -> tuple[SparkPartitions[Item], Result]:
        """Keep the values on disk.

        In memory they would crowd out the tasks: large byte arrays fragment the heap, and Spark runs out of memory long
        before it starts to spill.

        The task that computes a partition also sums its summaries. A second pass over the values would send all their
        bytes through another pipe to Python.
        """
        from pyspark import StorageLevel

        nothing: dict[int, Result] = {}
        sums = self.rdd.context.accumulator(nothing, cast("AccumulatorParam[dict[int, Result]]", _ByPartition()))
        task = SparkTask(partial(_summarizing, summarize, zero, sums))
        rdd = self.rdd.mapPartitionsWithIndex(task).persist(StorageLevel.DISK_ONLY)
        with raising_task_errors():
            rdd._jrdd.count()  # `rdd.count()` would send the values to Python to count them
        return SparkPartitions(self.backend, rdd), sum_of((sums.value[number] for number in sorted(sums.value)), zero)

    def discard(self) -> None:
        self.rdd.unpersist()
        if self._sent:
            self._sent.destroy()

    def collect(self) -> list[Item]:
        with raising_task_errors():
            return self.rdd.collect()

    def collect_partitions(self) -> list[list[Item]]:
        with raising_task_errors():
            return self.rdd.glom().collect()


class _ByPartition:
    """How Spark merges what the tasks of a job add to an accumulator: a task that runs again adds the same again.

    An `AccumulatorParam`, which code that may run without pyspark cannot derive from.
    """

    def zero(self, _: dict[int, Any]) -> dict[int, Any]:
        return {}

    def addInPlace(self, known: dict[int, Any], added: dict[int, Any]) -> dict[int, Any]:
        return {**known, **added}


def _summarizing(
    summarize: Callable[[Item], Result],
    zero: Result,
    sums: Accumulator[dict[int, Result]],
    number: int,
    values: Iterator[Item],
) -> Iterator[Item]:
    total: Any = zero
    for value in values:
        total = total + summarize(value)
        yield value
    sums.add({number: total})
    pa.default_memory_pool().release_unused()  # the next stage may need other processes, and Java, to have it


def _sent(sent: Broadcast[list[Sequence[Item]]], number: int) -> Sequence[Item]:
    return sent.value[number]


def _flat_map(function: Callable[[Item], Iterable[Result]], values: Iterable[Item]) -> Iterator[Result]:
    return chain.from_iterable(map(function, values))


def _run(
    function: Callable[[Task, Iterator[Item]], Iterator[Result]], number: int, values: Iterator[Item]
) -> Iterator[Result]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context, "runs in a task"
    return function(Task(number, str(context.taskAttemptId())), values)
