"""Writes the resolved rows of a change: the table's and its history's, in one stage."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.lake.merge.tasks.route import TaskEdits, edits_by_task, rows_by_write_task
from cdclake.lake.merge.tasks.write_file import WriteContext, WriteResult, write_files
from cdclake.lake.scd2.versions import file_shape
from cdclake.lake.spark.backend import Task, moved
from cdclake.lake.storage.tombstones import NO_TOMBSTONES
from cdclake.lake.storage.writer import Encodings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.lake.merge.messages import FileEdit
    from cdclake.lake.merge.rewrite_plan import RewritePlan
    from cdclake.lake.merge.tasks.resolution import Resolution
    from cdclake.lake.operations.request import Request
    from cdclake.lake.scd2.tasks import HistoryPlan
    from cdclake.lake.spark.backend import Backend, Partitions
    from cdclake.lake.storage.tombstones import TombstonePlan
    from cdclake.model.snapshot import DataFile

GROUPS_PER_CORE = 4
"""Tasks of the backend that write, for each core, if there are as many files: their sizes are estimates."""


class Output(NamedTuple):
    """Rows to write, and how: the table's, or open or closed versions of its history."""

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


class _Group(NamedTuple):
    """Index of an output, and numbers of its tasks that one task of the backend does."""

    output: int
    tasks: range


class _Written(NamedTuple):
    """What a task wrote, and the index of its output."""

    output: int
    result: WriteResult


def write(backend: Backend, outputs: Sequence[Output]) -> list[list[WriteResult]]:
    """Write the rows of all outputs in one stage.

    Returns:
        For each output, what its tasks wrote.
    """
    groups_wanted = GROUPS_PER_CORE * backend.parallelism
    ranges = [task_ranges(output.context, output.tasks, groups_wanted) for output in outputs]
    groups = [_Group(number, tasks) for number, own_ranges in enumerate(ranges) for tasks in own_ranges]
    if not groups:
        return [[] for _ in outputs]
    edits: list[Partitions[Any]] = []
    first = 0
    for output, own_ranges in zip(outputs, ranges, strict=True):
        group_of = [group for group, tasks in enumerate(own_ranges, first) for _ in tasks]
        context, first = output.context, first + len(own_ranges)
        send = partial(rows_by_write_task, plan=context.plan, group_of=group_of)
        edits.append(output.resolutions.flat_map(send))
    write_group = partial(_write_group, groups=groups, contexts=[output.context for output in outputs])
    written = moved(edits[0].shuffle(len(groups), *edits[1:]), backend).run(write_group).collect()
    return [[one.result for one in written if one.output == number] for number in range(len(outputs))]


def task_ranges(context: WriteContext, count: int, groups: int) -> list[range]:
    """Consecutive ones of a number of tasks that one task of the backend does, which costs time by itself.

    Args:
        groups: Number of such ranges, unless they would be too large, or the plan's tasks are.
    """
    sizes = [task.size_bytes for task in context.plan.tasks]
    known = sum(size for size in sizes if size < inf)
    limit = min(context.shape.limits.write_group_bytes, known / groups)
    firsts: list[int] = []
    filled = inf
    for number, size in enumerate([*sizes, *[inf] * (count - len(sizes))]):
        filled += size
        if filled > limit:
            firsts.append(number)
            filled = size
    return [range(start, end) for start, end in zip(firsts, [*firsts[1:], count])]


def _write_group(
    task: Task, edits: Iterable[FileEdit], *, groups: Sequence[_Group], contexts: Sequence[WriteContext]
) -> Iterator[_Written]:
    """Write the rows of one group of tasks."""
    output, tasks = groups[task.number]
    context, encodings = contexts[output], Encodings()
    fs = context.locations.lake.open()
    by_task = edits_by_task(edits, context.shape.limits)
    for number in tasks:
        own = task._replace(number=number)
        own_edits = by_task.get(number, TaskEdits())
        yield _Written(output, write_files(fs, own, own_edits, context=context, encodings=encodings))


def write_context(request: Request, plan: RewritePlan, tombstone_plan: TombstonePlan) -> WriteContext:
    """What all tasks share that write the table's rows.

    Raises:
        NeedsSparkError: They would rewrite more than `EngineLimits.rewritten_bytes`.
    """
    return WriteContext(
        plan=plan,
        tombstone_plan=tombstone_plan,
        files=_rewritten_files(request, plan, request.files),
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

    Raises:
        As `write_context`.
    """
    return WriteContext(
        plan=plan,
        tombstone_plan=NO_TOMBSTONES,
        files=_rewritten_files(request, plan, files),
        shape=replace(file_shape(request.shape), field_ids=history.field_ids),
        locations=replace(history.locations, staging=history.locations.staging + kind),
        full_load=False,
        max_bad_rows=0,
    )


def _rewritten_files(request: Request, plan: RewritePlan, files: Sequence[DataFile]) -> dict[int, DataFile]:
    rewritten = {i: files[i] for i in plan.task_of_file}
    request.limits.check_rewritten(rewritten.values())
    return rewritten
