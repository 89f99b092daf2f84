"""The interface to whatever runs the engine: Spark, or this process alone.

No code here imports pyspark: a run that uses Spark has imported it, and a run in this process does not need it.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

import pyarrow as pa

from cdclake.concurrency import in_parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame
    from typing_extensions import Self, TypeIs

    from cdclake.lake.limits import EngineLimits


Item = TypeVar("Item")
Result = TypeVar("Result")
Large = TypeVar("Large", bound="LargeValue")
RELEASED_BYTES = 8 << 20
"""Whoever handled more bytes at once returns the memory to the system. That takes time, so others keep it."""


class LargeValue(Protocol):
    """What needs memory, such as rows."""

    @property
    def size_bytes(self) -> int:
        """Size in memory, as it is."""


class Task(NamedTuple):
    """An attempt to process one partition.

    Attributes:
        number: Number of the partition.
        attempt: Id of the attempt: each attempt writes files of its own.
        turn: Held while the task has rows of data files in memory, which threads of a process share. It is given what
            returns their uncompressed bytes.
    """

    number: int
    attempt: str
    turn: Callable[[Callable[[], int]], AbstractContextManager[object]] = nullcontext


class Partitions(Protocol[Item]):
    """Values in partitions, each processed by one task. A `CdclakeError` of a task reaches the caller as it is."""

    backend: Backend
    """Where the values are, and where functions process them."""

    def map(self, function: Callable[[Item], Result], /) -> Partitions[Result]:
        """The function's result for each value."""

    def flat_map(self, function: Callable[[Item], Iterable[Result]], /) -> Partitions[Result]:
        """The function's results for each value."""

    def map_partitions(self, function: Callable[[Iterator[Item]], Iterator[Result]], /) -> Partitions[Result]:
        """The function's results for each partition."""

    def run(self, function: Callable[[Task, Iterator[Item]], Iterator[Result]], /) -> Partitions[Result]:
        """The same, for a function that needs to know its task."""

    def coalesce(self, count: int, /) -> Partitions[Item]:
        """The same values in at most `count` partitions, without a shuffle: fewer tasks, each with more values."""

    def shuffle(self, count: int, /, *others: Self) -> Partitions[Any]:
        """Send each value to a partition. These values, and the others on the same backend, are pairs.

        Returns:
            The second of each pair, in the partition whose number is the first, modulo their count.
        """

    def keep(self, summarize: Callable[[Item], Result], zero: Result, /) -> tuple[Self, Result]:
        """Compute the values, and keep them to be read several times.

        Returns:
            These values, and the sum of their summaries; each task sums its own.
        """

    def discard(self) -> None:
        """Forget these values, which `keep` keeps or `Backend.send` sent."""

    def collect(self) -> list[Item]:
        """All values."""

    def collect_partitions(self) -> list[list[Item]]:
        """The values of each partition."""


class Backend(Protocol):
    """What runs tasks: `SparkBackend`, or `InProcessBackend`."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at once."""

    @property
    def tasks_cost_time(self) -> bool:
        """Whether a task takes time by itself, so that fewer tasks with more work are quicker."""

    @property
    def jobs_at_once(self) -> int:
        """Number of jobs to run at once, each with tasks of its own."""

    def distribute(self, partitions: Sequence[Sequence[Item]], /) -> Partitions[Item]:
        """Send values to tasks, one task for each partition."""

    def send(self, partitions: Sequence[Sequence[Large]], limits: EngineLimits, /) -> Partitions[Large]:
        """The same for large values, which are to be discarded."""


def moved(values: Partitions[Item], backend: Backend) -> Partitions[Item]:
    """The same values in the same partitions on a backend."""
    return values if values.backend is backend else backend.distribute(values.collect_partitions())


def run_on(
    backend: Backend,
    values: Partitions[Large],
    function: Callable[[Task, Iterator[Large]], Iterator[Result]],
    limits: EngineLimits,
) -> Partitions[Result]:
    """Run a function on a backend.

    Values that are elsewhere are sent there, and discarded; their results come back. A few jobs at a time have the
    values of consecutive partitions: no other process has all in memory, and some are sent while others are used.
    """
    if values.backend is backend:
        return values.run(function)
    jobs = _jobs(values.collect_partitions(), limits.job_bytes)
    values.discard()
    results = in_parallel(partial(_run_job, backend, function, limits), jobs, backend.jobs_at_once)
    return values.backend.distribute(list(chain.from_iterable(results)))


class _Job(NamedTuple, Generic[Large]):
    """Values to send together.

    Attributes:
        first: Number of the first partition.
    """

    first: int
    partitions: list[Sequence[Large]]


def _jobs(partitions: Sequence[Sequence[Large]], max_bytes: int) -> Iterator[_Job[Large]]:
    """Consecutive partitions of at most `max_bytes`, or one of them."""
    job: _Job[Large] = _Job(0, [])
    job_bytes = 0
    for number, values in enumerate(partitions):
        size_bytes = _bytes(values)
        if job.partitions and job_bytes + size_bytes > max_bytes:
            yield job
            job, job_bytes = _Job(number, []), 0
        job.partitions.append(values)
        job_bytes += size_bytes
    yield job


def _run_job(
    backend: Backend,
    function: Callable[[Task, Iterator[Large]], Iterator[Result]],
    limits: EngineLimits,
    job: _Job[Large],
) -> list[list[Result]]:
    values, size_bytes = backend.send(job.partitions, limits), sum(map(_bytes, job.partitions))
    job.partitions.clear()
    _release_memory(size_bytes)
    try:
        return values.run(partial(_run_task, function, job.first)).collect_partitions()
    finally:
        values.discard()


def _run_task(
    function: Callable[[Task, Iterator[Large]], Iterator[Result]], first: int, task: Task, values: Iterator[Large]
) -> Iterator[Result]:
    own = list(values)
    yield from function(task._replace(number=first + task.number), iter(own))
    _release_memory(_bytes(own))


def _bytes(values: Sequence[Large]) -> int:
    return sum(value.size_bytes for value in values)


def _release_memory(used_bytes: int) -> None:
    if used_bytes > RELEASED_BYTES:
        pa.default_memory_pool().release_unused()


def sum_of(values: Iterable[Item], zero: Item) -> Item:
    """The sum of values of any type with +."""
    total: Any = zero
    for value in values:
        total = total + value
    return cast("Item", total)


def split_evenly(items: Sequence[Item], count: int) -> list[list[Item]]:
    """Adjacent items in at most `count` groups of about as many items."""
    return balanced_groups(items, [1] * len(items), count)


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
