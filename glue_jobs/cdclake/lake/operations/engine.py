"""Computes one change of one table: reads it, plans how to merge it, and merges it into the data files.

A change is merged in the cheapest way that its rows and the table's data files allow:

* `load_without_shuffle`: a full load in the order of its keys or of its raw files;
* `_insert`: any other full load, and changes of a table without a key;
* `_merge_in_place`: one stage, if each key belongs to one data file;
* `_merge_by_key`: separate stages that look up existing rows, resolve, and rewrite. For a full load that is taken as a
  difference, the first reads all of the table.

What the first and the third bring (two cores, 8 million rows, medians): to load them takes 3.5 instead of 11.4 s and
1.4 instead of 2.3 GB; to merge 533,000 rows takes 7.3 instead of 11.6 s and 1.1 instead of 2.0 GB.

The driver receives only counts, key samples and file statistics; rows stay in tasks and shuffles. Changes of up to some
megabytes are different, because of the stages that they save, whose overhead exceeds the work:

* Of a small change the rows stay on the driver, which does every step that needs no data file. It reads the rows,
  collects the existing rows that tasks find, resolves them, and sends the result to the tasks that write. To merge
  the newest rows takes 0.7 instead of 0.9 s, 200 files 1.1 instead of 1.6 s.
* Of a medium one that is merged in place, the driver reads the rows and sends them to the tasks that merge them:
  533,000 rows take 7.3 instead of 8.8 s.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

from cdclake.lake.memory_errors import memory_errors_reported
from cdclake.lake.merge.file_ranges import FileBounds
from cdclake.lake.merge.in_place import merge_group, merge_in_place, plan_in_place, rows_by_task, separate_ranges
from cdclake.lake.merge.join_by_key import cogroup_all, cogroup_by_key
from cdclake.lake.merge.key_updates import KeyMoves
from cdclake.lake.merge.read_changes import ReadStats, read_slices, united
from cdclake.lake.merge.repeated_keys import added_hashes, added_keys, any_repeats, earlier_positions
from cdclake.lake.merge.resolve import Counts
from cdclake.lake.merge.rewrite_plan import RewritePlan, plan_rewrite
from cdclake.lake.merge.tasks.resolution import InsertCounting, Resolution
from cdclake.lake.merge.tasks.resolve_range import (
    Inserts,
    read_inserts,
    resolve_compared,
    resolve_key_range,
    resolve_loaded,
)
from cdclake.lake.operations.load_without_shuffle import load_without_shuffle
from cdclake.lake.operations.request import Result, Rewrite, data_files
from cdclake.lake.operations.timing import timed
from cdclake.lake.operations.write_rows import Output, history_context, task_ranges, write, write_context
from cdclake.lake.scd2.closed_files import plan_closed
from cdclake.lake.scd2.join_versions import merge_into_history
from cdclake.lake.scd2.tasks import NO_VERSIONS
from cdclake.lake.spark.backend import balanced_groups, run_on, sum_of
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.storage.tombstones import NO_TOMBSTONES, plan_tombstones
from cdclake.model.table.settings import IMMEDIATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cdclake.lake.merge.file_ranges import FileRanges
    from cdclake.lake.merge.in_place import InPlacePlan, Merged
    from cdclake.lake.merge.messages import Batch, BatchByRange
    from cdclake.lake.merge.tasks.write_file import WriteContext
    from cdclake.lake.operations.request import Request
    from cdclake.lake.raw.rows import Slice
    from cdclake.lake.spark.backend import Backend, Partitions, Task

NOTHING = Resolution(Counts())
IN_PLACE_GROUPS_PER_CORE = 2
"""As `GROUPS_PER_CORE`, for merging in place, which knows the sizes: on two cores, 11 files of 5 MB take 0.52 s in six
tasks, and 0.55 s in eleven."""

Read = TypeVar("Read")


def compute_change(backend: Backend, request: Request) -> Result:
    """Compute a change and stage its files.

    Raises:
        InputError: A raw file cannot be read, or too many of its rows are bad.
        IntegrityError: The lake's files differ from the snapshot.
        TooLargeError: Its rows need more memory than there is.
    """
    with memory_errors_reported():
        return load_without_shuffle(backend, request) or _Engine(backend, request).run()


class _Engine:
    """Computes one change."""

    def __init__(self, backend: Backend, request: Request) -> None:
        self._backend, self._request = backend, request
        self._seconds: dict[str, float] = {}
        self._kept: list[Partitions[Any]] = []

    def run(self, *, in_place: bool = True) -> Result:
        """Read the change, and choose how to merge it.

        Args:
            in_place: Whether to merge it in place if its rows and the table's data files allow it.
        """
        request = self._request
        if request.inserts_all and not request.history:
            return self._insert()
        ranges = _ranges(request) if in_place else None
        on_driver = _is_small(request) or (ranges is not None and _is_medium(request))
        bounds = ranges.bounds if ranges else ()
        read_by_range = partial(read_slices, reading=request.reading, file_bounds=bounds, ahead=on_driver)
        with timed(self._seconds, "read"):
            rows = self._read(read_by_range, on_driver=on_driver)
            batches, read = rows.keep(attrgetter("stats"), ReadStats())
        request.require_few_bad_rows(read.quarantine, read.rows)
        plan = None
        if ranges:
            plan = plan_in_place(request.files, ranges, read, request.stale, request.sizes, request.limits)
        if request.history or not plan:
            batches = self._where_it_fits(batches, read)
        return self._merge_in_place(batches, read, plan) if plan else self._merge_by_key(batches, read)

    def _read(self, read: Callable[[Task, Iterator[Slice]], Iterator[Read]], *, on_driver: bool) -> Partitions[Read]:
        parts = self._request.parts
        if on_driver:
            return InProcessBackend().distribute([parts]).run(read)
        parts = tuple(replace(part, fetched=None) for part in parts)  # tasks fetch their files themselves
        sizes = [part.size_bytes for part in parts]
        count = min(self._backend.parallelism * 2, ceil(sum(sizes) / self._request.limits.min_read_task_bytes))
        return self._backend.distribute(balanced_groups(parts, sizes, count)).run(read)

    def _where_it_fits(self, rows: Partitions[Read], read: ReadStats) -> Partitions[Read]:
        """What was read, on the driver only if it is small in memory, too."""
        request = self._request
        is_small = _is_small(request) and read.memory_bytes <= request.limits.small_change_memory_bytes
        if is_small or rows.backend is self._backend:
            return rows
        return self._backend.distribute([[batch] for batch in rows.collect()])

    @property
    def _counting(self) -> InsertCounting:
        request = self._request
        bounds = FileBounds(request.files if request.shape.primary_key else ())
        return InsertCounting(bounds, request.settings.target_file_bytes, request.limits.samples_per_file)

    def _united(self, batches: Partitions[BatchByRange[ReadStats]]) -> Partitions[Batch[ReadStats]]:
        return batches.map(partial(united, shape=self._request.shape))

    def _insert(self) -> Result:
        """Write rows that replace none: rows of a full load, or changes of a table without a key.

        Only rows that repeat a key need their positions, which are long texts. If it is known before rows are written
        whether a key repeats, they are read without positions, and again with positions if one does.
        """
        inserts, done = self._read_inserts(numbered=not self._splits_keys)
        repeats = self._repeats_keys(inserts.map(attrgetter("resolution")))
        if repeats:
            inserts.discard()
            inserts, done = self._read_inserts(numbered=True)
        resolutions = inserts.map(attrgetter("resolution"))
        output = self._table_output(resolutions, done.resolution, repeats=repeats)
        self._kept.append(inserts)
        return self._rewrite(self._backend, done.stats, done.resolution, [output])

    def _read_inserts(self, *, numbered: bool) -> tuple[Partitions[Inserts], Inserts]:
        """Read the rows; returns them, and their summary.

        Args:
            numbered: As for `normalize`.
        """
        request, nothing = self._request, Inserts(ReadStats(), NOTHING)
        read = partial(
            read_inserts,
            reading=request.reading,
            full_load=request.full_load,
            counting=self._counting,
            numbered=numbered,
        )
        with timed(self._seconds, "read"):
            inserts, done = self._read(read, on_driver=_is_small(request)).keep(methodcaller("summary"), nothing)
        request.require_few_bad_rows(done.stats.quarantine, done.stats.rows)
        return self._where_it_fits(inserts, done.stats), done

    def _merge_in_place(
        self, batches: Partitions[BatchByRange[ReadStats]], read: ReadStats, plan: InPlacePlan
    ) -> Result:
        """Look up, resolve and rewrite in one stage, see `plan_in_place`."""
        request = self._request
        context = write_context(request, plan.rewrite, NO_TOMBSTONES)
        groups = self._groups_in_place(context)
        group_of = [number for number, tasks in enumerate(groups) for _ in tasks]
        merge = partial(
            merge_in_place,
            context=context,
            stale=request.stale,
            target_file_bytes=request.settings.target_file_bytes,
            tombstones=request.tombstones,
            forgotten=request.forgotten,
            overlap_end=request.overlap_end,
            complete=_needs_values(request, read),
        )
        with timed(self._seconds, "merge"):
            by_group = partial(rows_by_task, targets=plan.targets, group_of=group_of)
            rows = batches.flat_map(by_group).shuffle(len(groups))
            if rows.backend is not self._backend and not request.history:
                batches.discard()
            by_task = run_on(self._backend, rows, partial(merge_group, groups=groups, merge=merge), request.limits)
            nothing: tuple[Merged, ...] = ()
            merged, done = by_task.keep(_summaries, nothing)
            if any(one.is_too_large for one in done):  # the clean-up deletes what the other tasks staged
                merged.discard()
                batches.discard()
                return self.run(in_place=False)
            resolutions: Partitions[Resolution] = merged.map(attrgetter("resolution"))
            resolution = sum_of((one.resolution for one in done), NOTHING)
            _check_key_moves(resolutions, resolution)
        tombstone_plan = plan_tombstones(request.tombstones, resolution.deletes, request.oldest, request.limits)
        # Only the tombstones of each task are left to write: too little for as many tasks again.
        few: Partitions[Resolution] = merged.coalesce(batches.backend.parallelism).map(attrgetter("resolution"))
        tombstones = Output(few, write_context(request, RewritePlan((), {}, {}), tombstone_plan))
        self._kept += [batches, merged]
        outputs = [tombstones, *self._history_outputs(batches, read)]
        backend = self._backend if request.history else batches.backend
        return self._rewrite(backend, read, resolution, outputs, done)

    def _groups_in_place(self, context: WriteContext) -> list[range]:
        count = len(context.plan.tasks)
        if not self._backend.tasks_cost_time:
            return [range(number, number + 1) for number in range(count)]
        return task_ranges(context, count, IN_PLACE_GROUPS_PER_CORE * self._backend.parallelism)

    def _merge_by_key(self, by_range: Partitions[BatchByRange[ReadStats]], read: ReadStats) -> Result:
        """Look up existing rows, resolve, and rewrite, in stages of their own."""
        request, batches = self._request, self._united(by_range)
        with timed(self._seconds, "route"):
            resolutions, resolution = self._resolve(batches, read, complete=_needs_values(request, read))
            if resolution.needs_values:
                resolutions.discard()
                resolutions, resolution = self._resolve(batches, read, complete=True)
            _check_key_moves(resolutions, resolution)
        self._kept += [by_range, resolutions]
        output = self._table_output(resolutions, resolution, repeats=self._repeats_keys(resolutions))
        outputs = [output, *self._history_outputs(by_range, read)]
        return self._rewrite(self._backend, read, resolution, outputs)

    def _resolve(
        self, batches: Partitions[Batch[ReadStats]], read: ReadStats, *, complete: bool
    ) -> tuple[Partitions[Resolution], Resolution]:
        """Resolve rows by key; returns the outcomes, and their summary."""
        request, shape, locations = self._request, self._request.shape, self._request.locations
        if request.by_difference:
            everything = cogroup_all(self._backend, batches, read, request.files, shape, locations, self._kept)
            compare = partial(resolve_compared, shape=shape, counting=self._counting)
            return everything.map_partitions(compare).keep(methodcaller("summary"), NOTHING)
        if request.full_load:
            resolve_load = partial(resolve_loaded, shape=shape, counting=self._counting)
            return batches.map(resolve_load).keep(methodcaller("summary"), NOTHING)
        entries = cogroup_by_key(
            self._backend, batches, read, request.files, shape, locations, self._kept, complete=complete
        )
        resolve = partial(
            resolve_key_range,
            locations=locations,
            shape=shape,
            tombstones=request.tombstones,
            forgotten=request.forgotten,
            overlap_end=request.overlap_end,
            counting=self._counting,
            complete=complete,
        )
        return entries.map_partitions(resolve).keep(methodcaller("summary"), NOTHING)

    def _table_output(self, resolutions: Partitions[Resolution], resolution: Resolution, *, repeats: bool) -> Output:
        """Plan which of the table's files to rewrite.

        Args:
            repeats: See `_repeats_keys`.
        """
        request = self._request
        touched = resolution.touched | request.stale
        plan = plan_rewrite(request.files, touched, resolution.inserts, request.sizes)
        tombstone_plan = plan_tombstones(request.tombstones, resolution.deletes, request.oldest, request.limits)
        context = write_context(request, plan, tombstone_plan)
        return Output(resolutions, replace(context, repeated=self._repeated(resolutions) if repeats else frozenset()))

    @property
    def _splits_keys(self) -> bool:
        """Whether writers might miss that rows of a full load repeat a key: each sees one partition."""
        shape = self._request.shape
        return bool(self._request.full_load and shape.primary_key and shape.partition_key)

    def _repeats_keys(self, resolutions: Partitions[Resolution]) -> bool:
        """Whether rows of a full load repeat a key, or perhaps do, if writers might miss it."""
        buckets = self._backend.parallelism
        return self._splits_keys and any_repeats(resolutions.flat_map(partial(added_hashes, buckets=buckets)), buckets)

    def _repeated(self, resolutions: Partitions[Resolution]) -> frozenset[str]:
        """Positions of rows that repeat a key."""
        shape, buckets = self._request.shape, self._backend.parallelism
        keys = resolutions.flat_map(partial(added_keys, buckets=buckets)).shuffle(buckets)
        limit = self._request.settings.max_quarantined_rows
        return frozenset(keys.map_partitions(partial(earlier_positions, shape=shape, limit=limit)).collect())

    def _history_outputs(self, batches: Partitions[BatchByRange[ReadStats]], read: ReadStats) -> list[Output]:
        """Merge a change into the history, if there is one, and plan which of its files to rewrite.

        Returns:
            An output for the files of open versions, and one for closed versions.
        """
        request, history = self._request, self._request.history
        if not history:
            return []
        target = request.settings.target_file_bytes
        with timed(self._seconds, "history"):
            versions, merged = merge_into_history(
                self._backend,
                self._united(batches),
                read,
                history,
                request.shape,
                request.locations,
                request.files,
                InsertCounting(FileBounds(history.open_files), target, request.limits.samples_per_file),
                self._kept,
                full_load=request.full_load,
            ).keep(methodcaller("summary"), NO_VERSIONS)
        self._kept.append(versions)
        outputs = []
        for name, files, part, plan_files in (
            ("opened", history.open_files, merged.opened, partial(plan_rewrite, sizes=request.sizes)),
            ("closed", history.closed_files, merged.closed, partial(plan_closed, target_file_bytes=target)),
        ):
            touched = range(len(files)) if history.rewrite_all else part.touched
            plan = plan_files(files, touched, part.inserts)
            context = history_context(request, history, f"{name}-", plan, files)
            outputs.append(Output(versions.map(attrgetter(name)), context))
        return outputs

    def _rewrite(
        self,
        backend: Backend,
        read: ReadStats,
        resolution: Resolution,
        outputs: Sequence[Output],
        merged: Sequence[Merged] = (),
    ) -> Result:
        """Write the outputs: the table's, then its history's.

        Args:
            merged: What was merged in place before.
        """
        with timed(self._seconds, "rewrite"):
            written, *versions_written = write(backend, outputs)
        for rows in self._kept:
            rows.discard()
        table, *versions = outputs
        return Result.of(
            self._request,
            read,
            resolution,
            [*written, *(one.written for one in merged)],
            [*table.replaced, *(i for one in merged for i in one.rewritten)],
            self._seconds,
            table.context.tombstone_plan,
            tuple(
                Rewrite(data_files(results), output.replaced)
                for output, results in zip(versions, versions_written, strict=True)
            ),
        )


def _is_small(request: Request) -> bool:
    """Whether the change's rows and the lake's rows of the same keys fit in the driver's memory.

    The lake's rows are then only keys, positions and open versions (one per key). A change that leaves columns out or
    compares the whole table with its history or a full load needs more, so it is never small.
    """
    history = request.history
    compares_all = history and history.compare_all and (history.open_files or request.files)
    if request.shape.partial or request.by_difference or compares_all:
        return False
    return _raw_bytes(request) <= request.limits.small_change_bytes


def _is_medium(request: Request) -> bool:
    """Whether the driver may read the change's rows to send them to the tasks that merge them."""
    return not request.history and _raw_bytes(request) <= request.limits.medium_change_bytes


def _raw_bytes(request: Request) -> int:
    return sum(part.size_bytes for part in request.parts)


def _ranges(request: Request) -> FileRanges | None:
    """The key ranges of the table's files, if changes may be merged in place."""
    if request.inserts_all or request.full_load or request.shape.partition_key:
        return None
    return separate_ranges(request.files)


def _needs_values(request: Request, read: ReadStats) -> bool:
    """Whether resolving needs all columns of the lake's rows."""
    settles_keys = read.derived > 0 and request.settings.unique_checks != IMMEDIATE
    return request.shape.partial or settles_keys


def _summaries(merged: Merged) -> tuple[Merged, ...]:
    return (merged.summary(),)


def _check_key_moves(resolutions: Partitions[Resolution], summary: Resolution) -> None:
    """Check updates that changed keys. Most move a row from a key that had one, and need no check on the driver.

    Raises:
        UnsettledKeyError: See `KeyMoves.check`.
    """
    if summary.moves.has_exceptions:
        moves: Partitions[KeyMoves] = resolutions.map(attrgetter("moves"))
        sum_of(moves.collect(), KeyMoves()).check()
