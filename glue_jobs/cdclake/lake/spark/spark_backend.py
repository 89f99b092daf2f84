# ruff: noqa: D102 - see `Backend` and `Partitions`
"""Runs the engine on Spark.

Importing this does not import pyspark, so that code which may run on Spark can also run without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import pyarrow as pa

from cdclake.concurrency import in_parallel
from cdclake.lake.spark.backend import Partitions, Task, sum_of
from cdclake.lake.spark.serializer import dumps, loads
from cdclake.lake.spark.task_errors import SparkTask, raising_task_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, Accumulator, AccumulatorParam, Broadcast, SparkContext
    from typing_extensions import Self

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.spark.backend import Backend

Item = TypeVar("Item")
Result = TypeVar("Result")


RELEASED_BYTES = 8 << 20
"""Whoever handled more bytes at once returns the memory to the system. That takes time, so others keep it."""


@dataclass(frozen=True)
class SparkBackend:
    """Runs tasks on Spark's executors. Only here are rows serialized, see `serializer`."""

    context: SparkContext

    @property
    def parallelism(self) -> int:
        return self.context.defaultParallelism

    def distribute(self, partitions: Sequence[Sequence[Item]]) -> SparkPartitions[Item]:
        pickled = [list(map(dumps, values)) for values in partitions]
        return SparkPartitions.of_pickled(self, self._parallelized(pickled).flatMap(list))

    def run_sent(
        self,
        partitions: list[list[pa.Table]],
        function: Callable[[Task, Iterator[pa.Table]], Iterator[Result]],
        limits: EngineLimits,
    ) -> list[list[Result]]:
        """See `Backend`.

        A few jobs at a time have the rows of consecutive partitions: no other process has all in memory, and some are
        sent while others are used.
        """
        jobs = _jobs(partitions, limits.job_bytes)
        at_once = max(2, self.parallelism // 4)  # each may have few tasks; two, for the time in which one is prepared
        results = in_parallel(partial(self._run_job, function, limits), jobs, at_once)
        return list(chain.from_iterable(results))

    def _run_job(
        self,
        function: Callable[[Task, Iterator[pa.Table]], Iterator[Result]],
        limits: EngineLimits,
        job: _Job,
    ) -> list[list[Result]]:
        """Run one job. Rows of more than a few megabytes are sent as a broadcast.

        Java stores that block by block, and on disk if its heap is full. As parts of tasks, the rows would be copied
        several times in its heap; but a broadcast takes 30 ms more.
        """
        pickled = [list(map(dumps, tables)) for tables in job.partitions]
        job.partitions.clear()
        size_bytes = sum(map(_bytes, pickled))
        broadcast = None
        if size_bytes <= limits.task_data_bytes:
            sent = self._parallelized(pickled).flatMap(list)
        else:
            broadcast = self.context.broadcast(pickled)
            sent = self._parallelized(range(len(pickled))).flatMap(partial(_sent, broadcast))
        del pickled
        _release_memory(size_bytes)
        try:
            tasks: SparkPartitions[bytes] = SparkPartitions(self, sent)
            return tasks.run(partial(_run_task, function, job.first)).collect_partitions()
        finally:
            if broadcast:
                broadcast.destroy()

    def _parallelized(self, partitions: Sequence[Any]) -> RDD[Any]:
        return self.context.parallelize(partitions, max(len(partitions), 1))


class _Job(NamedTuple):
    """Rows to send together.

    Attributes:
        first: Number of the first partition.
    """

    first: int
    partitions: list[list[pa.Table]]


def _jobs(partitions: list[list[pa.Table]], max_bytes: int) -> list[_Job]:
    """Consecutive partitions of at most `max_bytes`, or one of them. They move from the list to the jobs."""
    jobs, job_bytes = [_Job(0, [])], 0
    for number, tables in enumerate(partitions):
        size_bytes = sum(table.nbytes for table in tables)
        if jobs[-1].partitions and job_bytes + size_bytes > max_bytes:
            jobs.append(_Job(number, []))
            job_bytes = 0
        jobs[-1].partitions.append(tables)
        job_bytes += size_bytes
    partitions.clear()
    return jobs


def _run_task(
    function: Callable[[Task, Iterator[pa.Table]], Iterator[Result]], first: int, task: Task, values: Iterator[bytes]
) -> Iterator[Result]:
    own = list(values)
    yield from function(task._replace(number=first + task.number), map(loads, own))
    _release_memory(_bytes(own))


def _bytes(values: Sequence[bytes]) -> int:
    return sum(map(len, values))


def _release_memory(used_bytes: int) -> None:
    if used_bytes > RELEASED_BYTES:
        pa.default_memory_pool().release_unused()


class SparkPartitions(Partitions[Item]):
    """An RDD. Its values are computed when they are collected, and pickled only where Spark moves or keeps them."""

    def __init__(self, backend: Backend, rdd: RDD[Any], kept: RDD[Any] | None = None) -> None:
        self.backend, self._rdd, self._kept = backend, rdd, kept

    @classmethod
    def of_pickled(cls, backend: Backend, rdd: RDD[Any], *, is_kept: bool = False) -> Self:
        """Values that `serializer` pickled."""
        return cls(backend, rdd.mapPartitions(SparkTask(partial(map, loads))), rdd if is_kept else None)

    def _pickled(self, function: Callable[[Any], Any] = dumps) -> RDD[Any]:
        return self._rdd.mapPartitions(SparkTask(partial(map, function)))

    def map(self, function: Callable[[Item], Result]) -> SparkPartitions[Result]:
        return self.map_partitions(partial(map, function))

    def flat_map(self, function: Callable[[Item], Iterable[Result]]) -> SparkPartitions[Result]:
        return self.map_partitions(partial(_flat_map, function))

    def map_partitions(self, function: Callable[[Iterator[Item]], Iterator[Result]]) -> SparkPartitions[Result]:
        return SparkPartitions(self.backend, self._rdd.mapPartitions(SparkTask(function)))

    def run(self, function: Callable[[Task, Iterator[Item]], Iterator[Result]]) -> SparkPartitions[Result]:
        task = SparkTask(partial(_run, function))
        return SparkPartitions(self.backend, self._rdd.mapPartitionsWithIndex(task))

    def coalesce(self, count: int) -> SparkPartitions[Item]:
        return SparkPartitions.of_pickled(self.backend, self._pickled().coalesce(count))

    def shuffle(self, count: int, *others: Self) -> SparkPartitions[Any]:
        pairs, *more = (part._pickled(_pickled_pair).partitionBy(count, int) for part in (self, *others))
        for one in more:  # all have the same partitioner, so the union needs no further shuffle
            pairs = pairs.union(one)
        return SparkPartitions.of_pickled(self.backend, pairs.values())

    def keep(self, summarize: Callable[[Item], Result], zero: Result) -> tuple[SparkPartitions[Item], Result]:
        """Keep the values on disk.

        In memory they would crowd out the tasks: large byte arrays fragment the heap, and Spark runs out of memory long
        before it starts to spill.

        The task that computes a partition also sums its summaries. A second pass over the values would send all their
        bytes through another pipe to Python.
        """
        from pyspark import StorageLevel

        nothing: dict[int, Result] = {}
        sums = self._rdd.context.accumulator(nothing, cast("AccumulatorParam[dict[int, Result]]", _ByPartition()))
        task = SparkTask(partial(_summarizing, summarize, zero, sums))
        rdd = self._rdd.mapPartitionsWithIndex(task).persist(StorageLevel.DISK_ONLY)
        with raising_task_errors():
            rdd._jrdd.count()  # `rdd.count()` would send the values to Python to count them
        total = sum_of((sums.value[number] for number in sorted(sums.value)), zero)
        return SparkPartitions.of_pickled(self.backend, rdd, is_kept=True), total

    def discard(self) -> None:
        if self._kept:
            self._kept.unpersist()

    def collect(self) -> list[Item]:
        with raising_task_errors():
            return list(map(loads, self._pickled().collect()))

    def collect_partitions(self) -> list[list[Item]]:
        with raising_task_errors():
            return [list(map(loads, values)) for values in self._pickled().glom().collect()]


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
) -> Iterator[bytes]:
    total: Any = zero
    for value in values:
        total = total + summarize(value)
        yield dumps(value)
    sums.add({number: total})
    pa.default_memory_pool().release_unused()  # the next stage may need other processes, and Java, to have it


def _pickled_pair(pair: tuple[int, Any]) -> tuple[int, bytes]:
    return pair[0], dumps(pair[1])


def _sent(sent: Broadcast[list[list[bytes]]], number: int) -> list[bytes]:
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
