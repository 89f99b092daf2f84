"""Computes one change of one table on Spark: read, look up existing rows, resolve, rewrite.

The driver receives only counts, key samples and file statistics; rows stay in tasks and shuffles. A change of a few
megabytes is different: the driver itself does every step that needs no data file. It reads the rows, collects the
existing rows that tasks find, resolves them, and sends the result to the tasks that write. This saves most of the
stages, whose overhead exceeds the work.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from math import ceil
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

from cdclake.lake.merge import tasks
from cdclake.lake.merge.full_load import key_ranges_are_disjoint, load_slices, repeats_hash, sorted_groups
from cdclake.lake.merge.home_ranges import home_bounds
from cdclake.lake.merge.in_place import merge_in_place, plan_in_place, rows_by_task, separate_ranges
from cdclake.lake.merge.join_by_key import cogroup_by_key, sum_stats
from cdclake.lake.merge.key_updates import KeyMoves
from cdclake.lake.merge.read_changes import ReadStats, read_slices
from cdclake.lake.merge.resolve import Counts
from cdclake.lake.merge.rewrite_plan import RewritePlan, plan_rewrite
from cdclake.lake.operations.request import Request, Result, Rewrite
from cdclake.lake.scd2.closed_files import plan_closed
from cdclake.lake.scd2.join_versions import merge_into_history
from cdclake.lake.scd2.tasks import NO_VERSIONS
from cdclake.lake.scd2.versions import file_shape
from cdclake.lake.spark.backend import Task, balanced_groups, moved, total
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.storage.bloom import filtered_column
from cdclake.lake.storage.tombstones import NO_TOMBSTONES, plan_tombstones
from cdclake.model.table import IMMEDIATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cdclake.lake.merge.full_load import LoadedSlices, LoadResult
    from cdclake.lake.merge.home_ranges import HomeRanges
    from cdclake.lake.merge.in_place import Merged
    from cdclake.lake.scd2.tasks import HistoryPlan, VersionMerge
    from cdclake.lake.spark.backend import Backend, Partitions
    from cdclake.lake.storage.tombstones import TombstonePlan
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile

Outcome = TypeVar("Outcome", "tasks.Resolution", "VersionMerge", "Merged")
MIN_BYTES_PER_READ_TASK = 4 << 20
SMALL_CHANGE_BYTES = 16 << 20
"""The driver itself reads up to this many bytes of raw files."""
SMALL_CHANGE_MEMORY_BYTES = 64 << 20
"""If their rows need more memory than this, the driver sends them to tasks after all."""


class Engine:
    """Computes changes on a backend: Spark, or this process."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def run(self, request: Request) -> Result:
        """Compute a change and stage its files.

        Raises:
            InputError: A raw file cannot be read, or too many of its rows are bad.
            IntegrityError: The lake's files differ from the snapshot.
        """
        return self._load_without_shuffle(request) or self._run(request)

    def _load_without_shuffle(self, request: Request) -> Result | None:
        """Compute a full load without a shuffle of its rows, if possible: by key, or in the order of the raw files.

        A table with history needs a shuffle anyway, because its versions are built per range of keys.
        """
        if not request.full_load or request.history:
            return None
        shape, has_key, partitioned = request.shape, bool(request.shape.primary_key), bool(request.shape.partition_key)
        group = partial(
            sorted_groups,
            request.parts,
            partitioned=partitioned,
            target_file_bytes=request.settings.target_file_bytes,
            parallelism=self._backend.parallelism,
        )
        groups, buckets = group(by_key=has_key), 0
        if not groups and not partitioned and len(shape.primary_key) == 1 and filtered_column(shape):
            groups = group(by_key=False)
            buckets = len(groups or ())
        if not groups:
            return None
        seconds: dict[str, float] = {}
        load = _reading(load_slices, request, buckets=buckets)
        with _timed(seconds, "load"):
            tasks_done: Partitions[LoadedSlices] = self._backend.distribute(groups).run(load)
            if buckets:
                tasks_done = tasks_done.keep()
            loaded = tasks_done.map(_load_result).collect()
            read = reduce(add, (one.read for one in loaded), ReadStats())
            read.quarantine.require_at_most(request.settings.max_quarantined_rows)
            is_proven = not any(one.repeats_key for one in loaded)
            if buckets:
                is_proven = is_proven and not _repeat_key(tasks_done, buckets)
                tasks_done.discard()
            elif has_key:
                is_proven = is_proven and key_ranges_are_disjoint([one.written for one in loaded])
        if not is_proven:  # a key repeats, or the footers were wrong; the clean-up deletes what was staged
            return None
        return Result(
            read=read,
            resolution=tasks.Resolution(Counts(applied=read.rows, inserted=read.rows)),
            written=tuple(file for one in loaded for file in one.written),
            rewritten=(),
            tombstones=(),
            repeated=0,
            quarantine_keys=read.quarantine.keys,
            seconds=seconds,
        )

    def _run(self, request: Request) -> Result:
        seconds: dict[str, float] = {}
        max_bad_rows = request.settings.max_quarantined_rows
        inserts_all = request.full_load or not request.shape.primary_key
        resolve_inserts = partial(
            tasks.resolve_inserts, shape=request.shape, full_load=request.full_load, counting=_counting(request)
        )
        ranges = _ranges(request)
        with _timed(seconds, "read"):
            is_small = _is_small(request)
            batches = self._read(request, ranges.bounds if ranges else (), on_driver=is_small)
            if inserts_all and not request.history:
                batches = batches.map(partial(_with_rows, function=resolve_inserts))
            batches = batches.keep()
            read: ReadStats = sum_stats(batches, ReadStats())
            read.quarantine.require_at_most(max_bad_rows)
            if is_small and read.memory_bytes > SMALL_CHANGE_MEMORY_BYTES:
                batches = self._backend.distribute([[batch] for batch in batches.collect()]).keep()
        if ranges:
            plan = plan_in_place(request.files, ranges, read, request.outdated, request.settings.target_file_bytes)
            if plan:
                return self._merge_in_place(request, batches, read, plan, seconds)
        with _timed(seconds, "route"):
            if inserts_all:
                resolutions = batches.map(_rows)
                if request.history:
                    resolutions = resolutions.map(resolve_inserts)
            else:
                resolutions = self._resolve(request, batches, read, complete=_needs_values(request, read))
            resolution = total(resolutions.map(_summary), tasks.Resolution(Counts()))
            if resolution.needs_values:
                resolutions.discard()
                resolutions = self._resolve(request, batches, read, complete=True)
                resolution = total(resolutions.map(_summary), tasks.Resolution(Counts()))
            if read.derived:
                _check_key_moves(resolutions)
        persisted: list[Partitions[Any]] = [batches, resolutions]
        outputs = [(resolutions, _plan(request, resolution))]
        if request.history:
            with _timed(seconds, "history"):
                merged_versions, versions_to_write = self._merge_versions(request, request.history, batches, read)
                persisted.append(merged_versions)
                outputs += versions_to_write
        with _timed(seconds, "rewrite"):
            written, *versions_written = self._write(outputs)
            quarantine = reduce(add, (result.quarantine for result in written), read.quarantine)
            quarantine.require_at_most(max_bad_rows)
        for rows in persisted:
            rows.discard()
        table, *versions = (
            Rewrite(
                tuple(file for result in results for file in result.files), tuple(sorted(context.plan.task_of_file))
            )
            for (_, context), results in zip(outputs, [written, *versions_written], strict=True)
        )
        tombstones, forgotten = _tombstones_after(outputs[0][1].tombstone_plan, written)
        return Result(
            read=read,
            resolution=resolution,
            written=table.written,
            rewritten=table.rewritten,
            tombstones=tombstones,
            repeated=quarantine.rows - read.quarantine.rows,
            quarantine_keys=quarantine.keys,
            forgotten=forgotten,
            versions=(versions[0], versions[1]) if versions else None,
            seconds=seconds,
        )

    def _merge_in_place(
        self,
        request: Request,
        batches: Partitions[Any],
        read: ReadStats,
        plan: RewritePlan,
        seconds: dict[str, float],
    ) -> Result:
        """Look up, resolve and rewrite in one stage, see `plan_in_place`."""
        context = _write_context(request, plan, NO_TOMBSTONES)
        merge = partial(
            merge_in_place,
            context=context,
            outdated=request.outdated,
            target_file_bytes=request.settings.target_file_bytes,
            tombstones=request.tombstones,
            forgotten=request.forgotten,
            overlap_end=request.overlap_end,
            complete=_needs_values(request, read),
        )
        with _timed(seconds, "merge"):
            entries = batches.flat_map(partial(rows_by_task, plan=plan)).shuffle(len(plan.tasks))
            merged: Partitions[Merged] = moved(moved(entries, self._backend).run(merge), batches.backend).keep()
            done = merged.map(_summary).collect()
            resolutions = merged.map(_resolution)
            if read.derived:
                _check_key_moves(resolutions)
        resolution = reduce(add, (one.resolution for one in done), tasks.Resolution(Counts()))
        tombstone_plan = plan_tombstones(request.tombstones, resolution.deletes, request.oldest)
        with _timed(seconds, "tombstones"):
            written = _write_tombstones(resolutions, _write_context(request, RewritePlan((), {}, {}), tombstone_plan))
        tombstones, forgotten = _tombstones_after(tombstone_plan, written)
        for rows in (batches, merged):
            rows.discard()
        return Result(
            read=read,
            resolution=resolution,
            written=tuple(file for one in done for file in one.written.files),
            rewritten=tuple(sorted(i for one in done for i in one.rewritten)),
            tombstones=tombstones,
            repeated=0,
            quarantine_keys=read.quarantine.keys,
            forgotten=forgotten,
            seconds=seconds,
        )

    def _read(self, request: Request, home_bounds: Sequence[KeyValue], *, on_driver: bool) -> Partitions[Any]:
        sizes = [part.size_bytes for part in request.parts]
        count = min(self._backend.parallelism * 2, ceil(sum(sizes) / MIN_BYTES_PER_READ_TASK))
        groups = balanced_groups(request.parts, sizes, count)
        read = _reading(read_slices, request, home_bounds=home_bounds)
        backend = InProcessBackend() if on_driver else self._backend
        return backend.distribute(groups).run(read)

    def _resolve(
        self, request: Request, batches: Partitions[Any], read: ReadStats, *, complete: bool
    ) -> Partitions[tasks.Resolution]:
        shape, locations = request.shape, request.locations
        entries = cogroup_by_key(self._backend, batches, read, request.files, shape, locations, complete=complete)
        resolve = partial(
            tasks.resolve_key_range,
            locations=locations,
            shape=shape,
            tombstones=request.tombstones,
            forgotten=request.forgotten,
            overlap_end=request.overlap_end,
            counting=_counting(request),
            complete=complete,
        )
        return entries.map_partitions(resolve).keep()

    def _merge_versions(
        self, request: Request, history: HistoryPlan, batches: Partitions[Any], read: ReadStats
    ) -> tuple[Partitions[VersionMerge], list[tuple[Partitions[tasks.Resolution], tasks.WriteContext]]]:
        """Merge the change into the history.

        Returns:
            The merged versions, and what to write: first open versions, then closed ones.
        """
        shape, files, target = request.shape, request.files, request.settings.target_file_bytes
        counting = tasks.InsertCounting(home_bounds(history.open_files), target)
        merged_versions = merge_into_history(
            self._backend,
            batches,
            read,
            history,
            shape,
            request.locations,
            files,
            counting,
            full_load=request.full_load,
        ).keep()
        merged = total(merged_versions.map(_summary), NO_VERSIONS)
        touched = range(len(history.open_files)) if history.rewrite_all else merged.opened.touched
        opened = plan_rewrite(history.open_files, touched, merged.opened.inserts, target)
        touched = range(len(history.closed_files)) if history.rewrite_all else merged.closed.touched
        closed = plan_closed(history.closed_files, touched, merged.closed.inserts, target)
        return merged_versions, [
            (merged_versions.map(_opened), _plan_versions(request, history, "open-", opened, history.open_files)),
            (merged_versions.map(_closed), _plan_versions(request, history, "closed-", closed, history.closed_files)),
        ]

    def _write(
        self, outputs: Sequence[tuple[Partitions[tasks.Resolution], tasks.WriteContext]]
    ) -> list[list[tasks.WriteResult]]:
        """Write the rows of all outputs (the table, open versions, closed versions) in one stage."""
        counts = [len(context.plan.tasks) + context.tombstone_plan.needed for _, context in outputs]
        if not sum(counts):
            return [[] for _ in outputs]
        firsts = [sum(counts[:output]) for output in range(len(outputs))]
        rows_by_task = [
            resolutions.flat_map(partial(_by_task, first=first, plan=context.plan))
            for (resolutions, context), first in zip(outputs, firsts, strict=True)
        ]
        rows = rows_by_task[0].shuffle(sum(counts), *rows_by_task[1:])
        write = partial(_write_partition, firsts=firsts, contexts=[context for _, context in outputs])
        written = moved(rows, self._backend).run(write).collect()
        return [[result for output, result in written if output == number] for number in range(len(outputs))]


def _write_tombstones(
    resolutions: Partitions[tasks.Resolution], context: tasks.WriteContext
) -> list[tasks.WriteResult]:
    """Write the tombstones of resolutions as one file, where the resolutions are."""
    if not context.tombstone_plan.needed:
        return []
    rows = resolutions.flat_map(partial(tasks.rows_by_write_task, plan=context.plan)).shuffle(1)
    write = partial(_write_partition, firsts=[0], contexts=[context])
    return [result for _, result in rows.run(write).collect()]


def _tombstones_after(
    plan: TombstonePlan, written: Sequence[tasks.WriteResult]
) -> tuple[tuple[TombstoneFile, ...], str]:
    """`Result.tombstones` and `Result.forgotten`."""
    files = (*plan.kept, *(file for result in written for file in result.tombstones))
    return files, max([plan.forgotten, *(result.forgotten for result in written)])


def _is_small(request: Request) -> bool:
    """Whether the change's rows and the lake's rows of the same keys fit in the driver's memory.

    The lake's rows are then only keys, positions and open versions (one per key). A change that leaves columns out or
    compares the whole table with its history needs more, so it is never small.
    """
    history = request.history
    if request.shape.partial or (history and history.compare_all and (history.open_files or request.files)):
        return False
    return sum(part.size_bytes for part in request.parts) <= SMALL_CHANGE_BYTES


def _reading(function: Callable[..., Any], request: Request, **arguments: Any) -> partial[Any]:  # noqa: ANN401 - passed on
    """A task that reads slices of raw files."""
    return partial(
        function,
        locations=request.locations,
        shape=request.shape,
        settings=request.settings,
        table=request.table,
        **arguments,
    )


def _ranges(request: Request) -> HomeRanges | None:
    """The key ranges of the table's files, if changes may be merged in place."""
    has_one_partition = bool(request.shape.primary_key) and not request.shape.partition_key
    if request.full_load or request.history or not has_one_partition:
        return None
    return separate_ranges(request.files)


def _needs_values(request: Request, read: ReadStats) -> bool:
    """Whether resolving needs all columns of the lake's rows."""
    settles_keys = read.derived > 0 and request.settings.unique_checks != IMMEDIATE
    return request.shape.partial or settles_keys


def _counting(request: Request) -> tasks.InsertCounting:
    bounds = home_bounds(request.files) if request.shape.primary_key else {}
    return tasks.InsertCounting(bounds, request.settings.target_file_bytes)


def _plan(request: Request, resolution: tasks.Resolution) -> tasks.WriteContext:
    touched = resolution.touched | request.outdated
    plan = plan_rewrite(request.files, touched, resolution.inserts, request.settings.target_file_bytes)
    return _write_context(request, plan, plan_tombstones(request.tombstones, resolution.deletes, request.oldest))


def _write_context(request: Request, plan: RewritePlan, tombstone_plan: TombstonePlan) -> tasks.WriteContext:
    return tasks.WriteContext(
        plan=plan,
        tombstone_plan=tombstone_plan,
        files=request.files,
        shape=request.shape,
        locations=request.locations,
        full_load=request.full_load,
        max_bad_rows=request.settings.max_quarantined_rows,
    )


def _plan_versions(
    request: Request, history: HistoryPlan, kind: str, plan: RewritePlan, files: tuple[DataFile, ...]
) -> tasks.WriteContext:
    return tasks.WriteContext(
        plan=plan,
        tombstone_plan=NO_TOMBSTONES,
        files=files,
        shape=file_shape(request.shape),
        locations=replace(history.locations, staging=history.locations.staging + kind),
        full_load=False,
        max_bad_rows=0,
    )


def _by_task(
    resolution: tasks.Resolution, *, first: int, plan: RewritePlan
) -> Iterator[tuple[int, tuple[bool, bytes]]]:
    return ((first + task, rows) for task, rows in tasks.rows_by_write_task(resolution, plan=plan))


def _write_partition(
    task: Task,
    entries: Iterable[tuple[bool, bytes]],
    *,
    firsts: Sequence[int],
    contexts: Sequence[tasks.WriteContext],
) -> Iterator[tuple[int, tasks.WriteResult]]:
    """Write one task's rows. The tasks of an output have consecutive numbers, starting at its entry in `firsts`."""
    output = bisect_right(firsts, task.number) - 1
    own_task = Task(task.number - firsts[output], task.attempt)
    yield output, tasks.write_files(own_task, entries, context=contexts[output])


def _load_result(loaded: LoadedSlices) -> LoadResult:
    return loaded.result


def _hashes(loaded: LoadedSlices) -> Iterator[tuple[int, bytes]]:
    return enumerate(loaded.hashes)


def _repeat_key(loaded: Partitions[LoadedSlices], buckets: int) -> bool:
    """Whether a key may occur twice in slices that kept their order."""
    return any(loaded.flat_map(_hashes).shuffle(buckets).map_partitions(repeats_hash).collect())


def _rows(batch: tuple[ReadStats, Any]) -> Any:  # noqa: ANN401 - rows, or their resolution
    return batch[1]


def _with_rows(batch: tuple[ReadStats, bytes], *, function: Callable[[bytes], Any]) -> tuple[ReadStats, Any]:
    return batch[0], function(batch[1])


def _check_key_moves(resolutions: Partitions[tasks.Resolution]) -> None:
    """Check updates that changed keys. Most move a row from a key that had one, and need no check on the driver.

    Raises:
        UnsettledKeyError: See `KeyMoves.check`.
    """
    moves = total(resolutions.map(_exceptional_moves), KeyMoves())
    if moves.has_exceptions:
        total(resolutions.map(_moves), KeyMoves()).check()


def _moves(resolution: tasks.Resolution) -> KeyMoves:
    return resolution.moves


def _exceptional_moves(resolution: tasks.Resolution) -> KeyMoves:
    return replace(resolution.moves, displacing=frozenset())


def _summary(outcome: Outcome) -> Outcome:
    return outcome.summary()


def _resolution(merged: Merged) -> tasks.Resolution:
    return merged.resolution


def _opened(merged: VersionMerge) -> tasks.Resolution:
    return merged.opened


def _closed(merged: VersionMerge) -> tasks.Resolution:
    return merged.closed


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[phase] = round(time.perf_counter() - start, 3)
