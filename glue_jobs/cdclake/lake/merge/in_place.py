"""Merges a change in one stage where each key belongs to one data file: a task looks up, resolves and rewrites.

Otherwise (a partitioned table, keys without an order) the row of a key may be in any of several files. Then
looking rows up, resolving and rewriting are separate stages, see `tasks`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from cdclake.lake.merge.existing_rows import existing_rows, existing_rows_schema
from cdclake.lake.merge.file_ranges import FileRanges
from cdclake.lake.merge.file_sizes import files_for
from cdclake.lake.merge.messages import FileEdit
from cdclake.lake.merge.resolve import Counts, ResolvedBatch, resolve
from cdclake.lake.merge.rewrite_plan import InsertStats, InsertTargets, mean_row_bytes, plan_rewrite
from cdclake.lake.merge.tasks.resolution import Resolution, without_stored_rows
from cdclake.lake.merge.tasks.route import split_by_task
from cdclake.lake.merge.tasks.write_file import WriteResult, removed_keys, rewrite_files
from cdclake.lake.storage.key_ranges import overlapping_files
from cdclake.lake.storage.keys import KEY, LEADING_KEY, key_range, may_contain
from cdclake.lake.storage.tombstones import find_tombstones
from cdclake.lake.storage.wanted_keys import WantedKeys
from cdclake.lake.storage.writer import Encodings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.merge.file_sizes import FileSizes
    from cdclake.lake.merge.messages import BatchByRange
    from cdclake.lake.merge.read_changes import ReadStats
    from cdclake.lake.merge.rewrite_plan import RewritePlan
    from cdclake.lake.merge.tasks.write_file import WriteContext
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.arrow_ipc import Rows
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile

NEIGHBOR_ROWS = 1 << 17
"""Neighboring files of fewer rows get one choice of dictionaries: it takes 4 ms, and writing 90,000 rows 25 ms."""


@dataclass(frozen=True)
class Merged:
    """What a task merged.

    Attributes:
        resolution: What happened to the rows of the change, without the rows that are written.
        written: The new data files.
        rewritten: Indices of the data files that they replace.
        is_too_large: Whether nothing was merged, because the rows need too much memory.
    """

    resolution: Resolution
    written: WriteResult = WriteResult()  # noqa: RUF009 - frozen
    rewritten: frozenset[int] = frozenset()
    is_too_large: bool = False

    def summary(self) -> Merged:
        """The same without rows."""
        return replace(self, resolution=self.resolution.summary())


def separate_ranges(files: Sequence[DataFile]) -> FileRanges | None:
    """The file ranges of data files of one partition; None if key ranges are unknown or overlap."""
    ranges = FileRanges.of(range(len(files)), files)
    return ranges if ranges.owners and not overlapping_files(files) else None


class InPlacePlan(NamedTuple):
    """How to merge a change in place.

    Attributes:
        rewrite: The tasks, which merge as they rewrite.
        targets: The tasks for the rows of the change, by file range.
    """

    rewrite: RewritePlan
    targets: Mapping[int, InsertTargets]


def plan_in_place(
    files: Sequence[DataFile],
    ranges: FileRanges,
    read: ReadStats,
    stale: Collection[int],
    sizes: FileSizes,
    limits: EngineLimits,
) -> InPlacePlan | None:
    """Plan a change of a table without partitions, if each task can merge all rows of its keys.

    Args:
        files: Live data files.
        ranges: Their `separate_ranges`.
        read: Statistics of the change's rows, counted by these ranges.
        stale: Indices of data files to rewrite even if none of their rows changes.
        sizes: As for `plan_rewrite`.

    Returns:
        The plan; None if there is nothing to merge, or if a task would get too many rows.
    """
    if not (read.rows or stale):
        return None
    outside = {number: rows for number, rows in read.by_range.items() if not ranges.owners[number].inside}
    touched = {ranges.owners[number].file for number in read.by_range if number not in outside} | set(stale)
    row_bytes = read.memory_bytes / max(read.rows, 1)
    samples = tuple(key for key in read.samples if not ranges.owners[_range_of(key, ranges.bounds)].inside)
    rows = sum(outside.values())
    new_rows: dict[Partition, InsertStats] = {}
    if outside:
        new_rows[()] = InsertStats(rows, int(rows * row_bytes), samples, outside)
    plan = plan_rewrite(files, touched, new_rows, sizes)
    targets = _targets(read.by_range, ranges, plan)
    inside_rows: dict[int, int] = defaultdict(int)
    for number, count in read.by_range.items():
        owner = ranges.owners[number]
        if owner.inside:
            inside_rows[plan.task_of_file[owner.file]] += count
    if max(inside_rows.values(), default=0) * row_bytes > limits.in_place_task_bytes:
        return None
    return InPlacePlan(plan, targets)


def _range_of(key: KeyValue, bounds: Sequence[KeyValue]) -> int:
    return bisect_right(bounds, key)  # type: ignore[type-var]  # one kind in a table


def _targets(numbers: Iterable[int], ranges: FileRanges, plan: RewritePlan) -> dict[int, InsertTargets]:
    """The tasks for the keys of some file ranges: of the file that contains the range, else of new rows."""
    targets = {}
    for number in numbers:
        low, high = (None, *ranges.bounds)[number], (*ranges.bounds, None)[number]
        owner = ranges.owners[number]
        if owner.inside:
            targets[number] = InsertTargets((), (plan.task_of_file[owner.file],))
        else:
            targets[number] = plan.insert_targets[()].between(low, high)
    return targets


def rows_by_task(
    batch: BatchByRange[ReadStats], *, targets: Mapping[int, InsertTargets], group_of: Sequence[int]
) -> Iterator[tuple[int, FileEdit]]:
    """The rows of a batch by the task that merges them, see `InPlacePlan.targets`.

    Args:
        group_of: Number of the group of each task.
    """
    for number, rows in batch.rows.items():
        if len(targets[number].tasks) == 1:
            parts = [(targets[number].tasks[0], rows)]
        else:
            parts = [(task, rows.part(part)) for task, part in split_by_task(rows.table, targets[number])]
        yield from ((group_of[task], FileEdit(((task, part.num_rows),), rows=part)) for task, part in parts)


def merge_group(
    task: Task,
    edits: Iterable[FileEdit],
    *,
    groups: Sequence[Iterable[int]],
    merge: Callable[[Task, Sequence[Rows], Encodings], Iterator[Merged]],
) -> Iterator[Merged]:
    """Merge the rows of a group of tasks: `merge_in_place` for one after the other."""
    rows: dict[int, list[Rows]] = defaultdict(list)
    for edit in edits:
        assert edit.rows
        rows[edit.counts[0][0]].append(edit.rows)
    encodings = Encodings(NEIGHBOR_ROWS)
    for number in groups[task.number]:
        yield from merge(task._replace(number=number), rows.pop(number, []), encodings)


def merge_in_place(
    task: Task,
    entries: Iterable[Rows],
    encodings: Encodings,
    *,
    context: WriteContext,
    stale: frozenset[int],
    target_file_bytes: int,
    tombstones: Sequence[TombstoneFile],
    forgotten: str,
    overlap_end: str,
    complete: bool,
) -> Iterator[Merged]:
    """Merge the rows of one task, of `plan_in_place`, into its data files.

    Args:
        entries: The rows.
        encodings: Shared with other tasks.
        stale: See `plan_in_place`.
        target_file_bytes: See `FileSizes`.
        forgotten: See `Snapshot.forgotten`.
        overlap_end: See `resolve`.
        complete: Whether resolving needs all columns of the lake's rows.

    Yields:
        What was merged. A task without rows has stale files, or settled ones, and writes them anyway.
    """
    fs, bases = context.locations.lake.open(), frozenset(context.plan.tasks[task.number].bases)
    with context.bases_in_turn(task, fs) as source:
        tables, held_bytes, max_bytes = [], 0, context.shape.limits.in_place_held_bytes
        for entry in entries:
            tables.append(entry.table)
            held_bytes += tables[-1].nbytes
            if held_bytes > max_bytes:
                yield Merged(Resolution(Counts()), is_too_large=True)
                return
        rows = pa.concat_tables([context.shape.in_flight.empty_table(), *tables]).combine_chunks()
        del tables
        resolved = ResolvedBatch(Counts())
        if rows.num_rows:
            remembered = find_tombstones(fs, tombstones, rows[LEADING_KEY], rows[KEY], context.shape)
            existing_with = partial(_existing, source, rows, bases, context, room_bytes=max_bytes - held_bytes)
            resolve_with = partial(
                resolve, rows, tombstones=remembered, shape=context.shape, forgotten=forgotten, overlap_end=overlap_end
            )
            existing = existing_with(complete=complete)
            if existing is not None:
                resolved = resolve_with(existing)
                if resolved.needs_values:
                    existing = existing_with(complete=True)
                    resolved = resolve_with(existing) if existing is not None else resolved
            if existing is None:
                yield Merged(Resolution(Counts()), is_too_large=True)
                return
        resolution = without_stored_rows(resolved)
        stored = [*resolved.replacements.values(), *([resolved.inserts.rows] if resolved.inserts.counts else [])]
        if rows.num_rows and not (stored or resolved.removals or bases & stale):
            yield Merged(resolution)
            return
        added = pa.concat_tables(stored) if stored else context.shape.in_flight.empty_table()
        removed, soft_deleted = removed_keys(list(resolved.removals.values()), context.shape)
        file_count = _file_count(context.files, bases, len(removed or ()), added, target_file_bytes)
        written = rewrite_files(fs, task, context, removed, added, soft_deleted, file_count, source, encodings)
        yield Merged(resolution, written, bases)


def _existing(
    fs: FileSystem,
    rows: pa.Table,
    bases: Collection[int],
    context: WriteContext,
    *,
    room_bytes: int,
    complete: bool,
) -> pa.Table | None:
    """The lake's rows of the same keys; None if they need more memory than there is room."""
    shape, keys = context.shape, WantedKeys(rows, context.shape)
    found = [existing_rows_schema(shape, complete=complete).empty_table()]
    low, high = key_range(rows[LEADING_KEY])
    for i in sorted(bases):
        if not may_contain(context.files[i], low, high):  # a neighbor that the others absorb
            continue
        path = context.locations.layout.data_key(context.files[i].path)
        for part in existing_rows(fs, path, i, context.files[i], shape, keys, complete=complete):
            found.append(part)
            room_bytes -= part.nbytes if complete else 0
            if room_bytes < 0:
                return None
    return pa.concat_tables(found)


def _file_count(
    files: Mapping[int, DataFile], bases: Collection[int], removed: int, added: pa.Table, target_file_bytes: int
) -> int:
    """Number of files to write, by the exact number of rows."""
    if not bases:
        return 1  # the plan has as many tasks as new files
    rows = sum(files[i].rows for i in bases) - removed + added.num_rows
    row_bytes = mean_row_bytes([files[i] for i in bases])
    return files_for(rows * row_bytes, target_file_bytes)
