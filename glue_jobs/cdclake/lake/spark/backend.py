"""The interface to whatever runs the engine: Spark, or this process alone.

No code here imports pyspark: a run that uses Spark has imported it, and a run in this process does not need it.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from typing_extensions import Self, TypeIs

    from cdclake.lake.limits import EngineLimits


Item = TypeVar("Item")
Result = TypeVar("Result")


class Task(NamedTuple):
    """An attempt to process one partition.

    Attributes:
        number: Number of the partition.
        attempt: Id of the attempt: each attempt writes files of its own.
    """

    number: int
    attempt: str


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
        """Forget these values, which `keep` keeps."""

    def collect(self) -> list[Item]:
        """All values."""

    def collect_partitions(self) -> list[list[Item]]:
        """The values of each partition."""


class Backend(Protocol):
    """What runs tasks: `SparkBackend`, or `InProcessBackend`."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at once."""

    def distribute(self, partitions: Sequence[Sequence[Item]], /) -> Partitions[Item]:
        """Send values to tasks, one task for each partition."""

    def run_sent(
        self,
        partitions: list[list[pa.Table]],
        function: Callable[[Task, Iterator[pa.Table]], Iterator[Result]],
        limits: EngineLimits,
        /,
    ) -> list[list[Result]]:
        """Send rows of this process to tasks, and return their results. The partitions are empty then."""


def moved(values: Partitions[Item], backend: Backend) -> Partitions[Item]:
    """The same values in the same partitions on a backend."""
    return values if values.backend is backend else backend.distribute(values.collect_partitions())


def run_on(
    backend: Backend,
    rows: Partitions[pa.Table],
    function: Callable[[Task, Iterator[pa.Table]], Iterator[Result]],
    limits: EngineLimits,
) -> Partitions[Result]:
    """Run a function on a backend. Rows that are elsewhere are sent there, and discarded; the results come back."""
    if rows.backend is backend:
        return rows.run(function)
    partitions = rows.collect_partitions()
    rows.discard()
    return rows.backend.distribute(backend.run_sent(partitions, function, limits))


def total(values: Partitions[Item], zero: Item) -> Item:
    """The sum of values of any type with +; each task sums its own."""
    return sum_of(values.map_partitions(partial(_sums, zero=zero)).collect(), zero)


def _sums(values: Iterable[Item], zero: Item) -> Iterator[Item]:
    yield sum_of(values, zero)


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
