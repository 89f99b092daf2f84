# ruff: noqa: D102 - see `Backend` and `Partitions`
"""Runs the engine in this process, without Spark.

For changes so small that starting a Spark stage takes longer than the work, for tests that need thousands of runs, and
for a debugger. Nothing is pickled.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from threading import Condition
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from cdclake.concurrency import in_turn
from cdclake.lake.spark.backend import Large, Partitions, Task, split_evenly, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self

    from cdclake.lake.limits import EngineLimits

Item = TypeVar("Item")
Result = TypeVar("Result")


class Room:
    """Memory that threads share. Each waits until there is enough for it; what needs more than all is alone.

    Args:
        memory_bytes: Its size.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._all_bytes = self._free_bytes = memory_bytes
        self._freed = Condition()

    @contextmanager
    def held(self, needed_bytes: Callable[[], int]) -> Iterator[None]:
        """Take some of it for a block."""
        held_bytes = min(needed_bytes(), self._all_bytes)
        with self._freed:
            self._freed.wait_for(lambda: self._free_bytes >= held_bytes)
            self._free_bytes -= held_bytes
        try:
            yield
        finally:
            pa.default_memory_pool().release_unused()  # other threads do not reuse what is kept for this one
            with self._freed:
                self._free_bytes += held_bytes
                self._freed.notify_all()


@dataclass(eq=False)
class InProcessBackend:
    """Runs tasks one after the other, or some at once: they wait for a store most of the time.

    Attributes:
        tasks_at_once: Number of tasks that threads run at once; 1: the caller's thread runs them.
        before_task: Called before each task; may raise an error that ends the work.
        room: What bounds the data files whose rows tasks have in memory at once, see `Task.turn`; None: nothing.
    """

    parallelism: int = 2
    tasks_cost_time: bool = False
    jobs_at_once: int = 1
    tasks_at_once: int = 1
    before_task: Callable[[], object] = lambda: None
    room: Room | None = None

    def distribute(self, partitions: Sequence[Sequence[Item]]) -> InProcessPartitions[Item]:
        return InProcessPartitions(self, partitions)

    def send(self, partitions: Sequence[Sequence[Large]], _: EngineLimits) -> InProcessPartitions[Large]:
        return self.distribute(partitions)


class InProcessPartitions(Partitions[Item]):
    """Values in this process. Functions process them at once."""

    def __init__(self, backend: InProcessBackend, partitions: Iterable[Iterable[Item]]) -> None:
        self.backend = backend
        self._partitions = [list(partition) for partition in partitions]

    def map(self, function: Callable[[Item], Result]) -> InProcessPartitions[Result]:
        return self.map_partitions(lambda values: map(function, values))

    def flat_map(self, function: Callable[[Item], Iterable[Result]]) -> InProcessPartitions[Result]:
        return self.map_partitions(lambda values: chain.from_iterable(map(function, values)))

    def map_partitions(self, function: Callable[[Iterator[Item]], Iterator[Result]]) -> InProcessPartitions[Result]:
        return self.run(lambda _, values: function(values))

    def run(self, function: Callable[[Task, Iterator[Item]], Iterator[Result]]) -> InProcessPartitions[Result]:
        def results(partition: tuple[int, list[Item]]) -> list[Result]:
            number, values = partition
            self.backend.before_task()
            task = Task(number, "0", self.backend.room.held) if self.backend.room else Task(number, "0")
            return list(function(task, iter(values)))

        done = in_turn(results, enumerate(self._partitions), self.backend.tasks_at_once)
        return InProcessPartitions(self.backend, done)

    def coalesce(self, count: int) -> InProcessPartitions[Item]:
        groups = split_evenly(self._partitions, count)
        return InProcessPartitions(self.backend, (chain.from_iterable(group) for group in groups))

    def shuffle(self, count: int, *others: Self) -> InProcessPartitions[Any]:
        partitions: list[list[Any]] = [[] for _ in range(count)]
        pairs: Iterable[Any] = chain.from_iterable(part.collect() for part in (self, *others))
        for number, value in pairs:
            partitions[number % count].append(value)
        return InProcessPartitions(self.backend, partitions)

    def keep(self, summarize: Callable[[Item], Result], zero: Result) -> tuple[Self, Result]:
        return self, sum_of(map(summarize, self.collect()), zero)

    def discard(self) -> None:
        self._partitions = []

    def collect(self) -> list[Item]:
        return list(chain.from_iterable(self._partitions))

    def collect_partitions(self) -> list[list[Item]]:
        return self._partitions
