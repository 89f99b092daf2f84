"""Writes the resolved rows of a change: those of the table and those of its history, in one stage."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from cdclake.lake.merge.tasks import (
    TaskEdits,
    WriteContext,
    WriteResult,
    edits_by_task,
    rows_by_write_task,
    write_files,
)
from cdclake.lake.scd2.versions import file_shape
from cdclake.lake.spark.backend import Task, moved
from cdclake.lake.storage.tombstones import NO_TOMBSTONES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.lake.merge.messages import FileEdit
    from cdclake.lake.merge.rewrite_plan import RewritePlan
    from cdclake.lake.merge.tasks import Resolution
    from cdclake.lake.operations.request import Request
    from cdclake.lake.scd2.tasks import HistoryPlan
    from cdclake.lake.spark.backend import Backend, Partitions
    from cdclake.lake.storage.tombstones import TombstonePlan
    from cdclake.model.snapshot import DataFile


GROUP_BYTES = 32 << 20
"""A task of the backend writes several files if they are expected to be smaller than this together,"""
GROUPS_PER_CORE = 4
"""but there are at least so many for each core, as the sizes are estimates."""


class Output(NamedTuple):
    """Rows to write, and how: the table's, or those of the open or the closed versions of its history."""

    resolutions: Partitions[Resolution]
    context: WriteContext

    @property
    def tasks(self) -> int:
        """Number of tasks that write it."""
        return len(self.context.plan.tasks) + self.context.tombstone_plan.needed

    @property
    def replaced(self) -> tuple[int, ...]:
        """Indices of the data files that the new ones replace."""
        return tuple(sorted(self.context.plan.task_of_file))


class _Written(NamedTuple):
    """What a task wrote, and the index of its output."""

    output: int
    result: WriteResult


def write(backend: Backend, outputs: Sequence[Output]) -> list[list[WriteResult]]:
    """Write the rows of all outputs in one stage.

    Returns:
        For each output, what its tasks wrote.
    """
    groups = [_groups(output.context, output.tasks, backend.parallelism) for output in outputs]
    *firsts, count = accumulate(map(len, groups), initial=0)
    if not count:
        return [[] for _ in outputs]
    first, *others = (
        output.resolutions.flat_map(
            partial(_edits, context=output.context, groups=own_groups, first=start),
        )
        for output, own_groups, start in zip(outputs, groups, firsts, strict=True)
    )
    contexts = [output.context for output in outputs]
    ends = [[*own_groups[1:], output.tasks] for output, own_groups in zip(outputs, groups, strict=True)]
    write_group = partial(_write_group, firsts=firsts, groups=groups, ends=ends, contexts=contexts)
    written = moved(first.shuffle(count, *others), backend).run(write_group).collect()
    return [[one.result for one in written if one.output == number] for number in range(len(outputs))]


def _groups(context: WriteContext, tasks: int, parallelism: int) -> list[int]:
    """Number of the first task of each group; each group is one task of the backend, which costs time by itself."""
    sizes = [task.size_bytes for task in context.plan.tasks]
    known = sum(size for size in sizes if size < inf)
    limit = min(GROUP_BYTES, known / (GROUPS_PER_CORE * parallelism))
    firsts: list[int] = []
    filled = inf
    for number, size in enumerate([*sizes, *[inf] * (tasks - len(sizes))]):
        filled += size
        if filled > limit:
            firsts.append(number)
            filled = size
    return firsts


def _edits(
    resolution: Resolution, *, context: WriteContext, groups: Sequence[int], first: int
) -> Iterator[tuple[int, FileEdit]]:
    edits = rows_by_write_task(resolution, plan=context.plan, shape=context.shape, groups=groups)
    return ((first + group, edit) for group, edit in edits)


def _write_group(
    task: Task,
    edits: Iterable[FileEdit],
    *,
    firsts: Sequence[int],
    groups: Sequence[Sequence[int]],
    ends: Sequence[Sequence[int]],
    contexts: Sequence[WriteContext],
) -> Iterator[_Written]:
    """Write the rows of one group of tasks. The groups of an output follow each other, from its entry in `firsts`."""
    output = bisect_right(firsts, task.number) - 1
    group = task.number - firsts[output]
    by_task = edits_by_task(edits)
    for number in range(groups[output][group], ends[output][group]):
        own_edits = by_task.get(number, TaskEdits())
        yield _Written(output, write_files(Task(number, task.attempt), own_edits, context=contexts[output]))


def write_context(request: Request, plan: RewritePlan, tombstone_plan: TombstonePlan) -> WriteContext:
    """What all tasks share that write the table's rows."""
    return WriteContext(
        plan=plan,
        tombstone_plan=tombstone_plan,
        files={i: request.files[i] for i in plan.task_of_file},
        shape=request.shape,
        locations=request.locations,
        full_load=request.full_load,
        max_bad_rows=request.settings.max_quarantined_rows,
    )


def history_context(
    request: Request, history: HistoryPlan, kind: str, plan: RewritePlan, files: tuple[DataFile, ...]
) -> WriteContext:
    """What all tasks share that write versions.

    Args:
        kind: Prefix of their files' names.
        files: The files of such versions.
    """
    return WriteContext(
        plan=plan,
        tombstone_plan=NO_TOMBSTONES,
        files={i: files[i] for i in plan.task_of_file},
        shape=file_shape(request.shape),
        locations=replace(history.locations, staging=history.locations.staging + kind),
        full_load=False,
        max_bad_rows=0,
    )
