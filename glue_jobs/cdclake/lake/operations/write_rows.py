"""Writes the resolved rows of a change: those of the table and those of its history, in one stage."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from cdclake.lake.merge.tasks import WriteContext, WriteResult, rows_by_write_task, write_files
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
    *firsts, count = accumulate((output.tasks for output in outputs), initial=0)
    if not count:
        return [[] for _ in outputs]
    first, *others = (
        output.resolutions.flat_map(partial(rows_by_write_task, plan=output.context.plan, first=start))
        for output, start in zip(outputs, firsts, strict=True)
    )
    write_task = partial(_write_task, firsts=firsts, contexts=[output.context for output in outputs])
    written = moved(first.shuffle(count, *others), backend).run(write_task).collect()
    return [[one.result for one in written if one.output == number] for number in range(len(outputs))]


def _write_task(
    task: Task, edits: Iterable[FileEdit], *, firsts: Sequence[int], contexts: Sequence[WriteContext]
) -> Iterator[_Written]:
    """Write one task's rows. The tasks of an output have consecutive numbers, starting at its entry in `firsts`."""
    output = bisect_right(firsts, task.number) - 1
    own_task = Task(task.number - firsts[output], task.attempt)
    yield _Written(output, write_files(own_task, edits, context=contexts[output]))


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
