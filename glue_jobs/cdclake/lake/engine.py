"""Runs a change of one table on Spark: read, locate, decide, rewrite.

Only counts, key samples and file statistics come to the driver; rows stay in tasks and shuffles.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from math import ceil
from operator import add
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel, TaskContext

from cdclake.lake import tasks
from cdclake.lake.decide import Counts
from cdclake.lake.rewrite_plan import plan_rewrite
from cdclake.lake.routing import quantiles
from cdclake.lake.task_errors import Carried, raising_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.data_file import TableShape
    from cdclake.lake.raw_reader import Slice
    from cdclake.lake.rewrite_plan import RewritePlan
    from cdclake.model.snapshot import DataFile
    from cdclake.model.table import TableSettings

ROWS_PER_BUCKET = 250_000
MIN_BYTES_PER_READ_TASK = 4 << 20


@dataclass(frozen=True)
class Request:
    """One change to compute.

    Attributes:
        parts: Slices of raw files to read.
        files: Live data files that the change applies to; none for a full load.
        shape: Columns and keys after the change.
        staging: Where new files go.
    """

    parts: tuple[Slice, ...]
    files: tuple[DataFile, ...]
    shape: TableShape
    settings: TableSettings
    raw: FileSystemSpec
    staging: tasks.Staging
    full_load: bool


@dataclass(frozen=True)
class Result:
    """A computed change, staged and not committed.

    Attributes:
        read: Rows read by operation.
        decision: What became of them.
        written: New data files; `path` is the staged key.
        rewritten: Indices in the request's files of those that the new ones replace.
        seconds: Duration of each phase.
    """

    read: tasks.ReadStats
    decision: tasks.Decision
    written: tuple[DataFile, ...]
    rewritten: tuple[int, ...]
    seconds: dict[str, float] = field(default_factory=dict)


class Engine:
    """Computes changes on a Spark context."""

    def __init__(self, spark: SparkContext) -> None:
        self._spark = spark

    def run(self, request: Request) -> Result:
        """Compute a change and stage its files.

        Raises:
            InputError: A raw file or row cannot be taken.
            IntegrityError: The lake's files are not what the snapshot says.
        """
        with raising_ours():
            return self._run(request)

    def _run(self, request: Request) -> Result:
        seconds: dict[str, float] = {}
        with _timed(seconds, "read"):
            batches = self._read(request)
            read: tasks.ReadStats = self._sum(batches.map(_first), tasks.ReadStats())
        with _timed(seconds, "decide"):
            decisions = self._decide(request, batches, read).persist(StorageLevel.MEMORY_AND_DISK)
            nothing = tasks.Decision(Counts())
            decision: tasks.Decision = self._sum(decisions.map(_summary), nothing)
        with _timed(seconds, "rewrite"):
            settings = request.settings
            plan = plan_rewrite(request.files, decision.touched, decision.inserts, settings.target_file_bytes)
            written = self._write(request, decisions, plan)
        batches.unpersist()
        decisions.unpersist()
        return Result(read, decision, tuple(written), tuple(sorted(plan.task_of_file)), seconds)

    def _read(self, request: Request) -> RDD[Any]:
        groups = _balanced(request.parts, self._spark.defaultParallelism * 2)
        read = _task(tasks.read_slices, raw=request.raw, shape=request.shape, settings=request.settings)
        return self._spark.parallelize(groups, max(1, len(groups))).flatMap(read).persist(StorageLevel.MEMORY_AND_DISK)

    def _decide(self, request: Request, batches: RDD[Any], read: tasks.ReadStats) -> RDD[Any]:
        shape = request.shape
        if request.full_load or not shape.primary_key:
            return batches.map(_task(tasks.take_inserts, shape=shape, full_load=request.full_load))
        bounds = quantiles(read.samples, ceil(read.rows / ROWS_PER_BUCKET) or 1)
        buckets = len(bounds) + 1
        changed = batches.flatMap(partial(tasks.route_to_buckets, bounds=bounds)).mapValues(_of_change)
        entries = changed
        if request.files:
            probe = _task(
                tasks.probe_files,
                lake=request.staging.lake,
                table_prefix=request.staging.table_prefix,
                shape=shape,
                files=request.files,
                bounds=bounds,
            )
            located = (
                batches.flatMap(partial(tasks.route_to_files, files=request.files))
                .partitionBy(min(len(request.files), self._spark.defaultParallelism * 4), int)
                .mapPartitions(probe)
                .mapValues(_of_lake)
            )
            entries = changed.union(located)
        return entries.partitionBy(buckets, int).mapPartitions(_task(tasks.decide_bucket, shape=shape))

    def _write(self, request: Request, decisions: RDD[Any], plan: RewritePlan) -> list[DataFile]:
        if not plan.tasks:
            return []
        write = _task(_write_partition, plan=plan, files=request.files, shape=request.shape, staging=request.staging)
        written: list[DataFile] = (
            decisions.flatMap(partial(tasks.route_to_writers, plan=plan))
            .partitionBy(len(plan.tasks), int)
            .mapPartitionsWithIndex(write)
            .collect()
        )
        return written

    @staticmethod
    def _sum(values: RDD[Any], zero: Any) -> Any:  # noqa: ANN401 - any type with +
        return reduce(add, values.mapPartitions(partial(_sum_partition, zero=zero)).collect(), zero)


def _task(function: Callable[..., Any], **arguments: Any) -> Carried:  # noqa: ANN401 - passed on
    return Carried(partial(function, **arguments))


def _write_partition(
    task: int,
    entries: Iterable[tuple[int, tuple[bool, bytes]]],
    **arguments: Any,  # noqa: ANN401 - passed on
) -> Iterable[DataFile]:
    context = TaskContext.get()
    attempt = f"{context.taskAttemptId()}" if context else "0"
    return tasks.write_files(task, entries, attempt=attempt, **arguments)


def _sum_partition(values: Iterable[Any], zero: Any) -> Iterator[Any]:  # noqa: ANN401 - any type with +
    yield reduce(add, values, zero)


def _first(pair: tuple[tasks.ReadStats, bytes]) -> tasks.ReadStats:
    return pair[0]


def _summary(decision: tasks.Decision) -> tasks.Decision:
    return decision.summary()


def _of_change(blob: bytes) -> tuple[bool, bytes]:
    return False, blob


def _of_lake(blob: bytes) -> tuple[bool, bytes]:
    return True, blob


def _balanced(parts: Sequence[Slice], wanted: int) -> list[list[Slice]]:
    """Neighbouring slices in groups of about equal bytes: at most `wanted`, fewer if the files are small."""
    total = sum(part.size_bytes for part in parts)
    count = max(1, min(wanted, ceil(total / MIN_BYTES_PER_READ_TASK), len(parts)))
    groups: list[list[Slice]] = [[] for _ in range(count)]
    done = 0
    for part in parts:
        groups[min(count - 1, done * count // total) if total else 0].append(part)
        done += part.size_bytes
    return [group for group in groups if group]


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[phase] = round(time.perf_counter() - start, 3)
