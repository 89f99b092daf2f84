"""Plans which files of closed versions a change writes. A file that has grown to the target size stays as it is."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

from cdclake.lake.merge.rewrite_plan import (
    InsertStats,
    InsertTargets,
    RewritePlan,
    WriteTask,
    expected_bytes,
    mean_row_bytes,
)
from cdclake.lake.storage.key_ranges import quantiles
from cdclake.lake.storage.partitions import in_partition_order

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile

MAX_SMALL_FILES = 16
"""If a month has this many files below half the target size, the next change that adds versions merges some."""


def plan_closed(
    files: Sequence[DataFile],
    touched: Collection[int],
    inserts: Mapping[Partition, InsertStats],
    target_file_bytes: int,
) -> RewritePlan:
    """Plan which files of closed versions to write.

    New versions of a month go into a new file. Once a month has `MAX_SMALL_FILES`, the new file absorbs the smallest of
    them, up to the target size. So each version is written a few times at most, and a month without new versions stays
    as it is.

    Args:
        files: Data files of closed versions.
        touched: Indices of files to rewrite, because a late version changes versions in them.
        inserts: New versions of each month.
        target_file_bytes: Size that data files grow to.
    """
    row_bytes = mean_row_bytes(files)
    small: dict[Partition, list[int]] = defaultdict(list)
    for i, file in enumerate(files):
        if 2 * file.bytes < target_file_bytes and i not in touched:
            small[file.partition].append(i)
    tasks: list[WriteTask] = []
    task_of_file: dict[int, int] = {}
    targets: dict[Partition, InsertTargets] = {}
    for i in sorted(touched):
        task_of_file[i] = len(tasks)
        tasks.append(WriteTask(len(tasks), (i,), files[i].partition))
    for partition in in_partition_order(inserts):
        new_bytes = expected_bytes(inserts[partition], row_bytes)
        bases = _absorbed(small[partition], files, target_file_bytes - new_bytes)
        count = 1 if bases else max(1, round(new_bytes / target_file_bytes))
        bounds = tuple(quantiles(inserts[partition].samples, count))
        numbers = tuple(range(len(tasks), len(tasks) + len(bounds) + 1))
        tasks += [WriteTask(number, bases, partition) for number in numbers]
        task_of_file.update(dict.fromkeys(bases, numbers[0]))
        targets[partition] = InsertTargets(bounds, numbers)
    return RewritePlan(tuple(tasks), task_of_file, targets)


def _absorbed(small: Sequence[int], files: Sequence[DataFile], room_bytes: float) -> tuple[int, ...]:
    """The smallest files of a month that fit into the room; none while the month has few small files."""
    if len(small) < MAX_SMALL_FILES:
        return ()
    by_size = sorted(small, key=lambda i: (files[i].bytes, i))
    sums = accumulate(files[i].bytes for i in by_size)
    return tuple(i for i, total in zip(by_size, sums, strict=True) if total <= room_bytes)
