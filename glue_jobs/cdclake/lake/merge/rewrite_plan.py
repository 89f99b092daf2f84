"""Plans which data files a change writes, so that small ones are joined (compaction).

The driver plans from counts alone, tasks execute.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cdclake.lake.counts import summed
from cdclake.lake.merge.file_ranges import FileRanges, are_in_order, indices_by_partition, split_by_order
from cdclake.lake.merge.file_sizes import FileSizes, are_many, files_for, rows_going_home, settled_groups
from cdclake.lake.storage.key_ranges import quantiles
from cdclake.lake.storage.partitions import Partition, in_partition_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from cdclake.model.snapshot import DataFile, KeyValue

Value = TypeVar("Value")
PARQUET_SHARE_OF_MEMORY = 0.4
"""Estimated size of rows in Parquet relative to Arrow, for a table without files to measure."""
MAX_OPENED_FILES = 4
"""A change rewrites at most this many more files of a partition to put new rows where their keys belong."""


@dataclass(frozen=True)
class InsertStats:
    """New rows of one partition.

    Attributes:
        rows: Number of rows.
        memory_bytes: Their size in Arrow.
        samples: Leading keys of some of them, ascending, about one for a fixed number of bytes: few rows may have none.
        by_range: Number of rows in each of the partition's `FileRanges`; empty ranges are left out.
        has_key: Whether the table has a key.
    """

    rows: int
    memory_bytes: int
    samples: tuple[KeyValue, ...] = ()
    by_range: Mapping[int, int] = field(default_factory=dict)
    has_key: bool = True


@dataclass(frozen=True, eq=False)  # a mapping compares its items
class InsertStatsByPartition(Mapping[Partition, InsertStats]):
    """New rows of several partitions.

    Rows of thousands of partitions travel with it, so it holds numbers: to pickle an object for each partition takes
    five times as long.

    Attributes:
        rows: Number of rows of each partition, in the order of the rows.
        memory_bytes: Their size.
        samples: Of the partitions that have any.
        by_range: Likewise.
        has_key: As in `InsertStats`.
    """

    rows: Mapping[Partition, int] = field(default_factory=dict)
    memory_bytes: Mapping[Partition, int] = field(default_factory=dict)
    samples: Mapping[Partition, tuple[KeyValue, ...]] = field(default_factory=dict)
    by_range: Mapping[Partition, Mapping[int, int]] = field(default_factory=dict)
    has_key: bool = True

    def __getitem__(self, partition: Partition) -> InsertStats:
        return InsertStats(
            self.rows[partition],
            self.memory_bytes[partition],
            self.samples.get(partition, ()),
            self.by_range.get(partition, {}),
            self.has_key,
        )

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: InsertStatsByPartition) -> InsertStatsByPartition:
        return InsertStatsByPartition(
            _merged(add, self.rows, other.rows),
            _merged(add, self.memory_bytes, other.memory_bytes),
            _merged(_in_order, self.samples, other.samples),
            _merged(summed, self.by_range, other.by_range),
            self.has_key and other.has_key,
        )


def _merged(
    combine: Callable[[Value, Value], Value], left: Mapping[Partition, Value], right: Mapping[Partition, Value]
) -> dict[Partition, Value]:
    merged = dict(left)
    for partition, value in right.items():
        merged[partition] = combine(merged[partition], value) if partition in merged else value
    return merged


def _in_order(left: tuple[KeyValue, ...], right: tuple[KeyValue, ...]) -> tuple[KeyValue, ...]:
    return tuple(sorted(left + right))  # type: ignore[type-var]  # one kind in a table


@dataclass(frozen=True)
class WriteTask:
    """One task of the rewrite.

    Attributes:
        number: Index of the task.
        bases: Indices of the data files it replaces; empty if all its rows are new.
        partition: Partition that it writes.
        file_count: Number of files to split the result into.
        size_bytes: Expected size of the result.
        sizes: How to cut the result around the rows that change; None to leave it whole.
        cuts: Leading keys at which to cut it in any case. If it has as many files, the rows before the first and from
            the last on are in one.
    """

    number: int
    bases: tuple[int, ...]
    partition: Partition
    file_count: int = 1
    size_bytes: float = inf
    sizes: FileSizes | None = None
    cuts: tuple[KeyValue, ...] = ()


@dataclass(frozen=True)
class InsertTargets:
    """The tasks for the inserts of a partition: key range `i`, as split at `bounds`, goes to `tasks[i]`.

    Several ranges may go to one task. For a table without a key, `bounds` is empty and batches go to the tasks in turn.
    """

    bounds: tuple[KeyValue, ...]
    tasks: tuple[int, ...]

    def between(self, low: KeyValue, high: KeyValue) -> InsertTargets:
        """The targets of the keys from `low` (inclusive; None: the first) to `high` (exclusive; None: the last)."""
        first = 0 if low is None else bisect_right(self.bounds, low)  # type: ignore[type-var]  # one kind in a table
        last = len(self.bounds) if high is None else bisect_left(self.bounds, high)  # type: ignore[type-var]  # likewise
        return InsertTargets(self.bounds[first:last], self.tasks[first : last + 1])


@dataclass(frozen=True)
class RewritePlan:
    """The tasks of a rewrite, and which rows go to which task."""

    tasks: tuple[WriteTask, ...]
    task_of_file: Mapping[int, int]
    insert_targets: Mapping[Partition, InsertTargets]


def plan_rewrite(
    files: Sequence[DataFile],
    touched: Collection[int],
    inserts: Mapping[Partition, InsertStats],
    sizes: FileSizes,
) -> RewritePlan:
    """Plan which files to write.

    Every touched file is rewritten. New rows go where their keys belong, so that key ranges stay apart and a key stays
    in few files, however many changes follow:

    * into the file of their key range, if it is touched, or if only a few more files must be rewritten for that, or if
      they are many
    * into new files, if they follow a file that has reached its size, or exceed the target size themselves
    * all into one more, loose file, if they belong to many files that are not touched. They go home from there later,
      see `rows_going_home`

    A rewritten file absorbs its neighbors by key, touched or not, up to its size: the hot size if the key ranges of
    most of the partition's files are apart, so that files stay small where changes fall, else the target size. So two
    rewritten neighbors together exceed it. Settled neighbors are merged up to the target size, see `settled_groups`:
    tables need no compaction. The result does not depend on the order of the mappings.

    Args:
        files: Live data files.
        touched: Indices of files that lose or replace rows.
        inserts: New rows of each partition.
        sizes: How large data files are to be.
    """
    planner = _Planner(files, sizes)
    bases = indices_by_partition(files, sorted(touched))
    for partition in in_partition_order({*bases, *inserts}):
        planner.plan_partition(partition, set(bases.get(partition, ())), inserts.get(partition, InsertStats(0, 0)))
    planner.plan_settled()
    return RewritePlan(tuple(planner.tasks), planner.task_of_file, planner.targets)


class _NewRows(NamedTuple):
    """What happens to a partition's new rows, by `FileRanges`. A range is in one of the three.

    Attributes:
        base_of: Index of the file that takes them.
        apart: Ranges with new files of their own.
        unordered: Ranges whose rows go into one more file together.
    """

    base_of: dict[int, int]
    apart: set[int]
    unordered: set[int]


class _Planner:
    """Plans one partition after another."""

    def __init__(self, files: Sequence[DataFile], sizes: FileSizes) -> None:
        self._files, self._sizes, self._target_bytes = files, sizes, sizes.target_bytes
        self._cuts_files = False  # of the partition that is planned
        self._orders: dict[Partition, tuple[list[int], list[int]]] = {}
        self._before_new: set[int] = set()  # files that new files may follow by key
        self._in_partition = indices_by_partition(files, range(len(files)))
        self._row_bytes = mean_row_bytes(files)
        self.tasks: list[WriteTask] = []
        self.task_of_file: dict[int, int] = {}
        self.targets: dict[Partition, InsertTargets] = {}

    def plan_partition(self, partition: Partition, bases: set[int], inserts: InsertStats) -> None:
        """Plan a partition's rewritten files and its new rows.

        Args:
            bases: Files that must be rewritten.
        """
        by_key, loose = self._order(partition)
        self._cuts_files = self._sizes.cuts and are_in_order(by_key, loose, self._files)
        if inserts.by_range:
            self._plan_by_home(partition, bases, inserts)
        else:
            self._plan_without_homes(partition, bases, inserts)

    def plan_settled(self) -> None:
        """Plan which settled neighbors the change merges beside its own work."""
        own_bytes = sum(task.size_bytes for task in self.tasks if task.bases)
        if own_bytes and self._sizes.settled_before:
            excluded = self._before_new.union(self.task_of_file)
            for group in settled_groups(self._files, self._in_partition.values(), excluded, self._sizes, own_bytes):
                self._add_task(self._files[group[0]].partition, group, 0)

    def _order(self, partition: Partition) -> tuple[list[int], list[int]]:
        """The files of a partition, see `split_by_order`."""
        if partition not in self._orders:
            self._orders[partition] = split_by_order(self._in_partition.get(partition, ()), self._files)
        return self._orders[partition]

    def _plan_by_home(self, partition: Partition, bases: set[int], inserts: InsertStats) -> None:
        ranges = FileRanges.of(self._in_partition[partition], self._files)
        row_bytes = expected_bytes(inserts, self._row_bytes) / inserts.rows
        new_bytes = {number: rows * row_bytes for number, rows in sorted(inserts.by_range.items())}
        rows = self._choose_files(partition, bases, ranges, new_bytes)
        self._before_new.update(ranges.owners[number].file for number in rows.apart | rows.unordered)
        added: dict[int, float] = defaultdict(float)
        for number, base in rows.base_of.items():
            added[base] += new_bytes[number]
        self._rewrite(partition, bases | set(rows.base_of.values()), added)
        together = sum(new_bytes[number] for number in rows.unordered)
        one_more = self._add_files(partition, inserts.samples, together) if rows.unordered else None
        bounds: list[KeyValue] = []
        tasks: list[int] = []
        for number in new_bytes:
            low, high = (None, *ranges.bounds)[number], (*ranges.bounds, None)[number]
            if number in rows.base_of:
                targets = InsertTargets((), (self.task_of_file[rows.base_of[number]],))
            elif one_more and number in rows.unordered:
                targets = one_more.between(low, high)
            else:
                samples = [key for key in inserts.samples if _is_between(key, low, high)]
                targets = self._add_files(partition, samples, new_bytes[number])
            bounds += [*([low] if tasks else []), *targets.bounds]
            tasks += targets.tasks
        self.targets[partition] = InsertTargets(tuple(bounds), tuple(tasks))

    def _choose_files(
        self, partition: Partition, bases: set[int], ranges: FileRanges, new_bytes: Mapping[int, float]
    ) -> _NewRows:
        """Choose the files for new rows, see `plan_rewrite`.

        Args:
            new_bytes: Expected size of the new rows of each range that has any.
        """
        owners = {number: ranges.owners[number] for number in new_bytes}
        apart = {number for number, size in new_bytes.items() if size > self._target_bytes}
        away = {number for number, owner in owners.items() if owner.file not in bases} - apart
        unordered: set[int] = set()
        base_of = {number: owner.file for number, owner in owners.items() if number not in apart}
        if len(away) <= MAX_OPENED_FILES:
            full = {n for n in away if not owners[n].inside and not self._is_open(owners[n].file)}
            apart |= full
        elif not self._are_many(sum(new_bytes[n] for n in away), {owners[n].file for n in away}):
            open_file = self._open_loose_file(partition)
            if open_file is None:
                unordered = away
            else:
                base_of.update(dict.fromkeys(away, open_file))
        left_out = apart | unordered
        return _NewRows({n: file for n, file in base_of.items() if n not in left_out}, apart, unordered)

    def _plan_without_homes(self, partition: Partition, bases: set[int], inserts: InsertStats) -> None:
        """Plan a partition whose files are unknown by key: a new one, or the one of a table without a key."""
        new_bytes = expected_bytes(inserts, self._row_bytes)
        open_file = self._smallest_below(self._size_bytes, self._in_partition.get(partition, ()))
        if inserts.rows and not bases and open_file is not None and new_bytes <= self._target_bytes:
            bases = {open_file}
        goes_apart = not bases or new_bytes > self._target_bytes
        share = 0.0 if goes_apart else new_bytes
        groups = self._rewrite(partition, bases, dict.fromkeys(bases, share / max(len(bases), 1)))
        if inserts.rows and goes_apart:
            self.targets[partition] = self._add_files(partition, inserts.samples, new_bytes, has_key=inserts.has_key)
        elif inserts.rows:
            bounds = tuple(self._files[group[0]].key_min for group in groups[1:])
            numbers = tuple(self.task_of_file[group[0]] for group in groups)
            self.targets[partition] = _with_distinct_bounds(InsertTargets(bounds, numbers))

    def _rewrite(self, partition: Partition, bases: set[int], added: Mapping[int, float]) -> list[list[int]]:
        """Add a task for each group of neighboring files that become one.

        Args:
            bases: Files that must be rewritten.
            added: Expected size of the new rows of each of them.

        Returns:
            The groups.
        """
        by_key, loose = self._order(partition)
        runs = [by_key, loose]
        own_bytes = sum(self._files[i].bytes for i in bases)
        home = self._cuts_files and rows_going_home(
            self._files, by_key, loose, self._before_new, self._sizes, own_bytes
        )
        if home:
            runs = [by_key[: home.start], by_key[home.end :], [i for i in loose if i != home.loose]]
            group = [home.loose, *by_key[home.start : home.end]]
            self._add_task(partition, group, sum(added.get(i, 0) for i in group), home.cuts, home.pieces)
        groups = [group for run in runs for group in _with_neighbors(bases, run, self._files, self._size_bytes)]
        for group in groups:
            self._add_task(partition, group, sum(added.get(i, 0) for i in group))
        return groups

    def _add_files(
        self, partition: Partition, samples: Sequence[KeyValue], new_bytes: float, *, has_key: bool = True
    ) -> InsertTargets:
        """Add tasks that write new rows into new files, one file each.

        Args:
            samples: Their keys, as in `InsertStats`.
            has_key: Likewise. Then rows are split by key only, so that those that repeat one meet.
        """
        count = max(1, round(new_bytes / self._target_bytes))
        bounds = tuple(quantiles(samples, count))
        count = len(bounds) + 1 if has_key else count
        return InsertTargets(bounds, tuple(self._add_task(partition, (), new_bytes / count) for _ in range(count)))

    def _add_task(
        self,
        partition: Partition,
        bases: Sequence[int],
        new_bytes: float,
        cuts: tuple[KeyValue, ...] = (),
        pieces: int = 1,
    ) -> int:
        all_bytes = sum(self._files[i].bytes for i in bases) + new_bytes
        file_count = pieces if cuts else files_for(all_bytes, self._target_bytes)
        is_cut = self._cuts_files and bases and set(bases).isdisjoint(self._order(partition)[1])
        sizes = self._sizes if is_cut else None
        self.tasks.append(WriteTask(len(self.tasks), tuple(bases), partition, file_count, all_bytes, sizes, cuts))
        self.task_of_file.update(dict.fromkeys(bases, self.tasks[-1].number))
        return self.tasks[-1].number

    @property
    def _size_bytes(self) -> int:
        """Size that files of the partition grow to by small changes."""
        return self._sizes.hot_bytes if self._cuts_files else self._target_bytes

    def _is_open(self, i: int) -> bool:
        """Whether a file is below its size, so that it takes new rows."""
        return self._files[i].bytes < self._size_bytes

    def _are_many(self, new_bytes: float, homes: Iterable[int]) -> bool:
        """Whether new rows are many enough to rewrite the files where their keys belong."""
        return self._cuts_files and are_many(new_bytes, sum(self._files[i].bytes for i in homes))

    def _open_loose_file(self, partition: Partition) -> int | None:
        """The loose file that takes more rows: below half the target if its rows go home."""
        loose = self._order(partition)[1]
        return self._smallest_below(self._target_bytes / 2 if self._cuts_files else self._target_bytes, loose)

    def _smallest_below(self, max_bytes: float, indices: Iterable[int]) -> int | None:
        smaller = (i for i in indices if self._files[i].bytes < max_bytes)
        return min(smaller, key=lambda i: (self._files[i].bytes, i), default=None)


def _is_between(key: Any, low: Any, high: Any) -> bool:  # noqa: ANN401 - keys of one kind, or None for no limit
    return (low is None or low <= key) and (high is None or key < high)


def unchanged_files(files: Sequence[DataFile], rewritten: Collection[int]) -> tuple[DataFile, ...]:
    """Data files that a rewrite leaves as they are.

    Args:
        rewritten: Indices of the rewritten files.
    """
    excluded = set(rewritten)
    return tuple(file for i, file in enumerate(files) if i not in excluded)


def _with_neighbors(
    bases: Collection[int], by_key: Sequence[int], files: Sequence[DataFile], max_bytes: int
) -> list[list[int]]:
    """Groups of neighboring files, each to become one file; groups and their files are in key order.

    Args:
        bases: Files that must be rewritten.
        by_key: All files of the partition.
        max_bytes: Up to which size a file absorbs its neighbors.
    """
    groups: list[list[int]] = []
    end = 0  # of the last group, in `by_key`
    for index, i in enumerate(by_key):
        if index < end or i not in bases:
            continue
        first, min_first, end = index, end, index + 1
        room = max_bytes - files[i].bytes
        while end < len(by_key) and files[by_key[end]].bytes <= room:
            room -= files[by_key[end]].bytes
            end += 1
        while first > min_first and files[by_key[first - 1]].bytes <= room:
            first -= 1
            room -= files[by_key[first]].bytes
        groups.append(list(by_key[first:end]))
    return groups


def _with_distinct_bounds(targets: InsertTargets) -> InsertTargets:
    """Make bounds ascend: of files with equal or unknown lower bounds, the first takes the rows."""
    bounds: list[KeyValue] = []
    tasks = [targets.tasks[0]]
    for bound, task in zip(targets.bounds, targets.tasks[1:], strict=True):
        if bound is not None and (not bounds or bound != bounds[-1]):
            bounds.append(bound)
            tasks.append(task)
    return InsertTargets(tuple(bounds), tuple(tasks))


def expected_bytes(stats: InsertStats, row_bytes: float) -> float:
    """Expected size of new rows in Parquet, given the size of a row, or 0 if unknown."""
    return stats.rows * row_bytes if row_bytes else stats.memory_bytes * PARQUET_SHARE_OF_MEMORY


def mean_row_bytes(files: Sequence[DataFile]) -> float:
    """Mean size of a row in data files; 0 if they have no rows."""
    rows = sum(file.rows for file in files)
    return sum(file.bytes for file in files) / rows if rows else 0.0
