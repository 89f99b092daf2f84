"""Rows go to the tasks of the plan, and each task gets its own, in memory or on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.merge.messages import FileEdit
from cdclake.lake.merge.resolve import Counts
from cdclake.lake.merge.rewrite_plan import InsertStatsByPartition, InsertTargets, RewritePlan
from cdclake.lake.merge.sorted_rows import parts_of
from cdclake.lake.merge.tasks.resolution import Resolution
from cdclake.lake.merge.tasks.route import edits_by_task, rows_by_write_task, split_by_task
from cdclake.lake.storage.arrow_ipc import Rows
from cdclake.lake.storage.keys import LEADING_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.storage.partitions import Partition


def keys(*values: int) -> pa.Table:
    return pa.table({LEADING_KEY: pa.array(values, pa.int64())})


def values(rows: pa.Table) -> list[int]:
    found: list[int] = rows[LEADING_KEY].to_pylist()
    return found


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (InsertTargets((), (7,)), {7: [1, 2, 3, 4, 5]}),
        (InsertTargets((3,), (7, 9)), {7: [1, 2], 9: [3, 4, 5]}),
        (InsertTargets((), (7, 9)), {7: [1, 2, 3], 9: [4, 5]}),
        (InsertTargets((), tuple(range(9))), {0: [1], 1: [2], 2: [3], 3: [4], 4: [5]}),
    ],
    ids=["one task", "by key", "in turn", "more tasks than rows"],
)
def test_new_rows_are_split_among_the_tasks_of_their_partition(
    targets: InsertTargets, expected: dict[int, list[int]]
) -> None:
    assert {task: values(rows) for task, rows in split_by_task(keys(1, 2, 3, 4, 5), targets)} == expected


@pytest.mark.parametrize("group_of", [[0, 1, 2], [2, 1, 0], [1, 0, 1], [0, 0, 0]])
def test_each_group_of_tasks_gets_its_new_rows_in_one_edit(group_of: Sequence[int]) -> None:
    targets: dict[Partition, InsertTargets] = {(): InsertTargets((3,), (0, 1)), ("x",): InsertTargets((), (2,))}
    inserts = InsertStatsByPartition(rows={(): 4, ("x",): 2})
    resolution = Resolution(Counts(), inserts=inserts, additions=Rows(keys(1, 2, 3, 4, 8, 9)))
    sent = list(rows_by_write_task(resolution, plan=RewritePlan((), {}, targets), group_of=group_of))
    assert [group for group, _ in sent] == sorted(set(group_of))
    for group, edit in sent:
        assert {group_of[task] for task, _ in edit.counts} == {group}
    edits = edits_by_task([edit for _, edit in sent], DEFAULT_LIMITS)
    found = {
        task: [value for part in parts_of(edit.rows) for value in values(part)]
        for task, edit in edits.items()
        if edit.rows is not None
    }
    assert found == {0: [1, 2], 1: [3, 4], 2: [8, 9]}


def test_tasks_get_the_same_rows_on_disk_as_in_memory() -> None:
    random = np.random.default_rng(1)
    edits = []
    for _ in range(5):
        counts = tuple((int(task), int(random.integers(0, 6))) for task in random.permutation(4))
        rows = keys(*random.integers(0, 1000, sum(count for _, count in counts)).tolist())
        edits.append(FileEdit(counts, rows=Rows(rows)))
    edits.append(FileEdit(((9, 0),), removals=Rows(keys(5))))
    in_memory = edits_by_task(edits, DEFAULT_LIMITS)
    on_disk = edits_by_task(edits, replace(DEFAULT_LIMITS, sorted_bytes=100))
    assert in_memory.keys() == on_disk.keys() >= {9}
    assert [values(rows) for rows in on_disk[9].removals] == [[5]]
    for task in in_memory:
        found = [
            sorted(value for part in parts_of(edit.rows) for value in values(part)) if edit.rows is not None else None
            for edit in (in_memory[task], on_disk[task])
        ]
        assert found[0] == found[1]
