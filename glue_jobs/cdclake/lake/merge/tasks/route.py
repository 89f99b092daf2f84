"""Sends rows to the tasks that resolve them, and those that write them; and takes them apart there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.messages import FileEdit, Source, SourceRows
from cdclake.lake.merge.sorted_rows import SortedRows
from cdclake.lake.storage.key_ranges import split_at_bounds
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.wide_rows import take

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.rewrite_plan import InsertTargets, RewritePlan
    from cdclake.lake.merge.tasks.resolution import Resolution
    from cdclake.lake.storage.arrow_ipc import Rows
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import KeyValue

    _Counts = tuple[tuple[int, int], ...]


def rows_by_key_range(
    batch: Batch[Any], *, source: Source, bounds: Sequence[KeyValue]
) -> Iterator[tuple[int, SourceRows]]:
    """The rows of a batch by key range, so that one task gets all rows of a key."""
    if not bounds:
        yield 0, SourceRows(source, batch.rows)
        return
    for key_range, rows in split_at_bounds(batch.rows.table, bounds):
        yield key_range, SourceRows(source, batch.rows.part(rows))


def rows_by_source(entries: Iterable[SourceRows]) -> dict[Source, list[Rows]]:
    """The rows of each source."""
    by_source: dict[Source, list[Rows]] = {source: [] for source in Source}
    for source, rows in entries:
        by_source[source].append(rows)
    return by_source


def rows_by_write_task(
    resolution: Resolution, *, plan: RewritePlan, group_of: Sequence[int]
) -> Iterator[tuple[int, FileEdit]]:
    """Send rows to the tasks that write them, and the rows of small tasks together.

    Args:
        group_of: Number of the group of each task.

    Yields:
        Number of the group, and rows; tombstones go to the task after the plan's last.
    """
    for i, keys in resolution.removals.items():
        task = plan.task_of_file[i]
        yield group_of[task], FileEdit(((task, 0),), removals=keys)
    for i, rows in resolution.replacements.items():
        task = plan.task_of_file[i]
        yield group_of[task], FileEdit(((task, rows.num_rows),), rows=rows)
    if resolution.additions:
        yield from _additions(resolution.additions, resolution.inserts.rows, plan, group_of)
    if resolution.tombstones:
        task = len(plan.tasks)
        yield group_of[task], FileEdit(((task, resolution.tombstones.num_rows),), rows=resolution.tombstones)


def _additions(
    additions: Rows, counts: Mapping[Partition, int], plan: RewritePlan, group_of: Sequence[int]
) -> Iterator[tuple[int, FileEdit]]:
    rows = additions.table
    pieces = list(_pieces(rows, counts, plan))
    if any(group_of[before[0]] > group_of[after[0]] for before, after in zip(pieces, pieces[1:])):
        groups = np.repeat([group_of[task] for task, _ in pieces], [count for _, count in pieces])
        rows = take(rows, pa.array(np.argsort(groups, kind="stable")))
        pieces.sort(key=lambda piece: group_of[piece[0]])
    start = 0
    for group, own_pieces in groupby(pieces, lambda piece: group_of[piece[0]]):
        own_counts = tuple(own_pieces)
        size = sum(count for _, count in own_counts)
        yield group, FileEdit(own_counts, rows=additions.part(rows.slice(start, size)))
        start += size


def _pieces(rows: pa.Table, counts: Mapping[Partition, int], plan: RewritePlan) -> Iterator[tuple[int, int]]:
    """Numbers of tasks, each with its number of consecutive rows.

    Args:
        counts: Number of rows of each partition.
    """
    start = 0
    for partition, count in counts.items():
        targets = plan.insert_targets[partition]
        if len(targets.tasks) == 1:  # quicker for thousands of partitions
            yield targets.tasks[0], count
        else:
            for task, part in split_by_task(rows.slice(start, count), targets):
                yield task, part.num_rows
        start += count


def split_by_task(rows: pa.Table, targets: InsertTargets) -> Iterator[tuple[int, pa.Table]]:
    """Rows of a batch by number of the task that writes them.

    Args:
        rows: Rows, sorted by leading key if there is one.
    """
    if len(targets.tasks) == 1:
        yield targets.tasks[0], rows
    elif targets.bounds:
        for key_range, part in split_at_bounds(rows, targets.bounds):
            yield targets.tasks[key_range], part
    else:
        size = -(-rows.num_rows // len(targets.tasks))
        for i in range(len(targets.tasks)):
            part = rows.slice(i * size, size)
            if part.num_rows:
                yield targets.tasks[i], part


class TaskEdits(NamedTuple):
    """What one task removes from data files, and adds to them.

    Attributes:
        removals: See `ResolvedBatch.removals`.
        rows: Rows to write; None for none.
    """

    removals: Sequence[pa.Table] = ()
    rows: pa.Table | SortedRows | None = None


def edits_by_task(edits: Iterable[FileEdit], limits: EngineLimits) -> dict[int, TaskEdits]:
    """What each task removes and adds, given the edits of a group of tasks."""
    removals: dict[int, list[pa.Table]] = defaultdict(list)
    rows: list[tuple[_Counts, pa.Table]] = []
    on_disk: dict[int, SortedRows] = defaultdict(lambda: SortedRows(replace(limits, sorted_bytes=0)))
    size_bytes = 0
    for edit in edits:
        if edit.removals:
            removals[edit.counts[0][0]].append(edit.removals.table)
            continue
        assert edit.rows
        rows.append((edit.counts, edit.rows.table))
        size_bytes += rows[-1][1].nbytes
        while size_bytes > limits.sorted_bytes and rows:
            for task, part in _by_task(*rows.pop()):
                on_disk[task].add(part)
    added: Mapping[int, pa.Table | SortedRows] = on_disk or dict(_rows_by_number(rows))
    return {number: TaskEdits(removals[number], added.get(number)) for number in {*removals, *added}}


def _by_task(counts: _Counts, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    start = 0
    for task, count in counts:
        yield task, rows.slice(start, count)
        start += count


def _rows_by_number(edits: Sequence[tuple[_Counts, pa.Table]]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each task, sorted by leading key if there is one.

    Cutting rows costs more than sorting them, if the pieces are many and small, and so does sorting them by themselves.
    """
    if not edits:
        return
    rows = pa.concat_tables([table for _, table in edits])
    pieces = [piece for counts, _ in edits for piece in counts]
    numbers = np.repeat([task for task, _ in pieces], [count for _, count in pieces])
    if (numbers != numbers[0]).any():
        columns = {"number": numbers, **({LEADING_KEY: rows[LEADING_KEY]} if LEADING_KEY in rows.column_names else {})}
        order = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])
        rows, numbers = take(rows, order), numbers[order.to_numpy()]
    tasks, starts = np.unique(numbers, return_index=True)
    for task, start, end in zip(tasks.tolist(), starts.tolist(), [*starts[1:].tolist(), len(numbers)]):
        yield task, rows.slice(start, end - start)
