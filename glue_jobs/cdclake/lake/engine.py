"""Runs a change of one table on Spark: read, locate, decide, rewrite.

Only counts, key samples and file statistics come to the driver; rows stay in tasks and shuffles. Of a change so small
that one task would read it, the driver does itself what needs no data file: it reads the rows, gathers what tasks
found of them in the lake, decides, and hands them out to the tasks that write. That saves most of the stages, which
take longer than the work.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from math import ceil
from operator import add
from typing import TYPE_CHECKING, Any, cast

from pyspark import StorageLevel, TaskContext

from cdclake.lake import tasks
from cdclake.lake.decide import Counts
from cdclake.lake.in_process import InProcessSpark
from cdclake.lake.load_order import are_in_order, groups_in_order
from cdclake.lake.load_tasks import load_slices
from cdclake.lake.locate import handed_out, together
from cdclake.lake.rewrite_plan import plan_rewrite
from cdclake.lake.task_errors import Carried, raising_ours
from cdclake.lake.tombstones import plan_tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from cdclake.lake.data_file import TableShape
    from cdclake.lake.load_tasks import Loaded
    from cdclake.lake.raw_reader import Slice
    from cdclake.model.snapshot import DataFile, TombstoneFile
    from cdclake.model.table import TableName, TableSettings

MIN_BYTES_PER_READ_TASK = 4 << 20
SMALL_CHANGE_BYTES = MIN_BYTES_PER_READ_TASK
"""Of so many bytes of raw files the driver holds the rows itself."""
KEPT = StorageLevel.DISK_ONLY
"""How rows that are gone through twice are kept. In memory they would crowd out the tasks: large byte arrays fragment
the heap, and Spark runs out of it long before it begins to spill."""


@dataclass(frozen=True)
class Request:
    """One change to compute.

    Attributes:
        table: The source table.
        parts: Slices of raw files to read.
        files: Live data files that the change applies to; none for a full load.
        tombstones: Remembered deletes; none for a full load.
        oldest: Least `file_order` of change files whose deletes are worth remembering.
        shape: Columns and keys after the change.
        places: Where to read and write.
        rewrite_all: Whether every data file must be written anew, as the type of a column changes.
    """

    table: TableName
    parts: tuple[Slice, ...]
    files: tuple[DataFile, ...]
    tombstones: tuple[TombstoneFile, ...]
    oldest: str
    shape: TableShape
    settings: TableSettings
    places: tasks.Places
    full_load: bool
    rewrite_all: bool


@dataclass(frozen=True)
class Result:
    """A computed change, staged and not committed.

    Attributes:
        read: Rows read by operation.
        decision: What became of them.
        written: New data files; `path` is the staged key.
        rewritten: Indices in the request's files of those that the new ones replace.
        tombstones: All remembered deletes after the change.
        repeated: Rows of a full load left out because their key came again.
        quarantine_keys: Files of rows put aside.
        seconds: Duration of each phase.
    """

    read: tasks.ReadStats
    decision: tasks.Decision
    written: tuple[DataFile, ...]
    rewritten: tuple[int, ...]
    tombstones: tuple[TombstoneFile, ...]
    repeated: int
    quarantine_keys: tuple[str, ...]
    seconds: dict[str, float] = field(default_factory=dict)

    def after_listing(self, seconds: float) -> Result:
        """The same, with the time that was spent before on finding out what to do."""
        return replace(self, seconds={"list": round(seconds, 3), **self.seconds})


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
            return self._load_in_order(request) or self._run(request)

    def _load_in_order(self, request: Request) -> Result | None:
        """Do a full load whose raw files lie in the order of the key; None if it is no such."""
        groups = request.full_load and groups_in_order(
            request.parts,
            has_key=bool(request.shape.primary_key),
            partitioned=bool(request.shape.partition_key),
            target_file_bytes=request.settings.target_file_bytes,
            tasks_at_once=self._spark.defaultParallelism,
        )
        if not groups:
            return None
        seconds: dict[str, float] = {}
        load = _reading(_load_partition, request)
        with _timed(seconds, "load"):
            loaded: list[Loaded] = self._spark.parallelize(groups, len(groups)).mapPartitionsWithIndex(load).collect()
        read = reduce(add, (one.read for one in loaded), tasks.ReadStats())
        read.quarantine.check(request.settings.max_quarantined_rows)
        if request.shape.primary_key and not are_in_order([one.written.files for one in loaded]):
            return None  # the footers were wrong; what was staged goes with the change that is
        quarantine = reduce(add, (one.written.quarantine for one in loaded), read.quarantine)
        quarantine.check(request.settings.max_quarantined_rows)
        return Result(
            read=read,
            decision=tasks.Decision(Counts(applied=read.rows, inserted=read.rows)),
            written=tuple(file for one in loaded for file in one.written.files),
            rewritten=(),
            tombstones=(),
            repeated=quarantine.rows - read.quarantine.rows,
            quarantine_keys=quarantine.keys,
            seconds=seconds,
        )

    def _run(self, request: Request) -> Result:
        seconds: dict[str, float] = {}
        most_bad_rows = request.settings.max_quarantined_rows
        takes_all = request.full_load or not request.shape.primary_key
        with _timed(seconds, "read"):
            batches = self._read(request)
            if takes_all:
                taken = _task(tasks.take_inserts, shape=request.shape, full_load=request.full_load)
                batches = batches.mapValues(taken)
            batches.persist(KEPT)
            read: tasks.ReadStats = self._sum(batches.map(_first), tasks.ReadStats())
            read.quarantine.check(most_bad_rows)
        with _timed(seconds, "route"):
            decisions = batches.map(_second) if takes_all else self._decide(request, batches, read).persist(KEPT)
            decision: tasks.Decision = self._sum(decisions.map(_summary), tasks.Decision(Counts()))
        with _timed(seconds, "rewrite"):
            writing = _plan(request, decision)
            written = self._write(decisions, writing)
            quarantine = reduce(add, (one.quarantine for one in written), read.quarantine)
            quarantine.check(most_bad_rows)
        batches.unpersist()
        decisions.unpersist()
        return Result(
            read=read,
            decision=decision,
            written=tuple(file for one in written for file in one.files),
            rewritten=tuple(sorted(writing.plan.task_of_file)),
            tombstones=(*writing.tombstone_plan.kept, *(file for one in written for file in one.tombstones)),
            repeated=quarantine.rows - read.quarantine.rows,
            quarantine_keys=quarantine.keys,
            seconds=seconds,
        )

    def _read(self, request: Request) -> RDD[Any]:
        groups = _balanced(request.parts, self._spark.defaultParallelism * 2)
        read = _reading(tasks.read_slices, request)
        place = cast("SparkContext", InProcessSpark()) if _is_small(request) else self._spark
        return place.parallelize(groups, max(1, len(groups))).mapPartitionsWithIndex(read)

    def _decide(self, request: Request, batches: RDD[Any], read: tasks.ReadStats) -> RDD[Any]:
        shape, places = request.shape, request.places
        entries = together(self._spark, batches, read.rows, read.samples, request.files, shape, places)
        decide = _task(tasks.decide_bucket, places=places, shape=shape, tombstones=request.tombstones)
        return entries.mapPartitions(decide)

    def _write(self, decisions: RDD[Any], writing: tasks.Writing) -> list[tasks.Written]:
        count = len(writing.plan.tasks) + writing.tombstone_plan.needed
        if not count:
            return []
        rows = decisions.flatMap(partial(tasks.route_to_writers, plan=writing.plan)).partitionBy(count, int)
        write = _task(_write_partition, writing=writing)
        written: list[tasks.Written] = handed_out(self._spark, rows).mapPartitionsWithIndex(write).collect()
        return written

    @staticmethod
    def _sum(values: RDD[Any], zero: Any) -> Any:  # noqa: ANN401 - any type with +
        return reduce(add, values.mapPartitions(partial(_sum_partition, zero=zero)).collect(), zero)


def _is_small(request: Request) -> bool:
    """Whether the driver may hold the change's rows, and those that they meet in the lake.

    Of these only keys and positions are read, unless changes leave columns out.
    """
    return sum(part.size_bytes for part in request.parts) <= SMALL_CHANGE_BYTES and not request.shape.partial


def _task(function: Callable[..., Any], **arguments: Any) -> Carried:  # noqa: ANN401 - passed on
    return Carried(partial(function, **arguments))


def _reading(function: Callable[..., Any], request: Request) -> Carried:
    """A task that begins with slices of raw files."""
    return _task(function, places=request.places, shape=request.shape, settings=request.settings, table=request.table)


def _plan(request: Request, decision: tasks.Decision) -> tasks.Writing:
    touched = range(len(request.files)) if request.rewrite_all else decision.touched
    settings = request.settings
    return tasks.Writing(
        plan=plan_rewrite(request.files, touched, decision.inserts, settings.target_file_bytes),
        tombstone_plan=plan_tombstones(request.tombstones, decision.deletes, request.oldest),
        files=request.files,
        shape=request.shape,
        places=request.places,
        full_load=request.full_load,
        most_bad_rows=settings.max_quarantined_rows,
    )


def _write_partition(
    task: int, entries: Iterable[tuple[int, tuple[bool, bytes]]], *, writing: tasks.Writing
) -> Iterator[tasks.Written]:
    yield tasks.write_files(task, entries, writing=writing, attempt=_attempt())


def _load_partition(task: int, groups: Iterable[Sequence[Slice]], **arguments: Any) -> Iterator[Loaded]:  # noqa: ANN401
    return load_slices(task, groups, attempt=_attempt(), **arguments)


def _attempt() -> str:
    """What tells apart the files of several attempts at one task."""
    context = TaskContext.get()
    return str(context.taskAttemptId()) if context else "0"


def _sum_partition(values: Iterable[Any], zero: Any) -> Iterator[Any]:  # noqa: ANN401 - any type with +
    yield reduce(add, values, zero)


def _first(pair: tuple[Any, Any]) -> Any:  # noqa: ANN401 - either
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:  # noqa: ANN401 - either
    return pair[1]


def _summary(decision: tasks.Decision) -> tasks.Decision:
    return decision.summary()


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
