"""Simulates the data files of a table through days of small changes: bytes rewritten a day, and number of files.

The changes are planned and cut by the engine's own functions; the rows are numbers in memory. `python -m
benchmarks.file_sizes` prints the figures of `docs/performance.md`, with files of one size beside those that are smaller
where changes fall.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.merge.file_ranges import FileBounds
from cdclake.lake.merge.file_sizes import FileSizes
from cdclake.lake.merge.rewrite_plan import WriteTask, plan_rewrite
from cdclake.lake.merge.tasks.cuts import SAMPLES_PER_CELL, cuts
from cdclake.lake.merge.tasks.resolution import InsertCounting
from cdclake.lake.storage.key_ranges import candidate_rows, overlapping_files, split_at_bounds
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.partitions import by_partition
from cdclake.model.layout import LakeLayout
from cdclake.model.snapshot import DataFile, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Keys = NDArray[np.int64]

MIB = 1 << 20
START = datetime(2024, 3, 5, tzinfo=timezone.utc)
ROW_BYTES = 1024
LOADED_FILES, LOADED_FILE_BYTES = 22, 93 * MIB
LOADED_ROWS = LOADED_FILES * LOADED_FILE_BYTES // ROW_BYTES
TARGET_BYTES = 128 * MIB
BURSTS_A_DAY, INSERTS, NEW_UPDATES, OLD_UPDATES = 144, 60, 36, 4
NEW_ROWS = BURSTS_A_DAY // 2 * INSERTS
"""New rows are those of half a day."""
NO_KEYS = np.empty(0, np.int64)


class Done(NamedTuple):
    """What a change did, in bytes.

    Attributes:
        own: Of the files that it had to rewrite.
        merged: Of the settled files that it merged beside, and of those that took loose rows.
        written: Of the files that it wrote.
    """

    own: int
    merged: int
    written: int


@dataclass
class SimulatedTable:
    """The data files of a table as sorted keys, rewritten as planned.

    Attributes:
        files: The keys of each file.
        target_bytes: The setting `TargetFileBytes`.
        row_bytes: Size of a row.
        adaptive: Whether files are smaller where changes fall; otherwise all have the target size.
        partitioned: Whether changes are never merged in place, as in a table with partitions; this is one of them.
        now: When the next change is made.
    """

    files: list[Keys]
    target_bytes: int
    limits: EngineLimits = DEFAULT_LIMITS
    row_bytes: int = ROW_BYTES
    adaptive: bool = True
    partitioned: bool = False
    now: datetime = START
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(1, days=((1, START.date().isoformat()),)))

    def __post_init__(self) -> None:
        self._paths = [LakeLayout.data_path(1, number, (), ()) for number in range(len(self.files))]

    @property
    def sizes(self) -> FileSizes:
        """How the next change sizes files."""
        if not self.adaptive:
            return FileSizes(self.target_bytes, self.target_bytes)
        settled = self.snapshot.settled_before(self.now, self.limits.settled_days)
        loose = self.snapshot.settled_before(self.now, self.limits.loose_days)
        return FileSizes.of(self.target_bytes, self.limits.hot_file_bytes, settled, loose)

    @property
    def listed(self) -> list[DataFile]:
        """As in a snapshot."""
        return [
            DataFile(path, len(keys), len(keys) * self.row_bytes, (), int(keys[0]), int(keys[-1]))
            for path, keys in zip(self._paths, self.files, strict=True)
        ]

    def change(self, updated: Keys, inserted: Keys = NO_KEYS, deleted: Keys = NO_KEYS) -> Done:
        """Apply a change; updated and deleted keys exist, inserted keys do not."""
        before, sizes = self.listed, self.sizes
        changed = np.unique(np.concatenate([updated, deleted]))
        touched = {
            i
            for i, start, end in candidate_rows(pa.chunked_array([pa.array(changed)]), before)
            if np.isin(changed[start:end], self.files[i], assume_unique=True).any()
        }
        rows = pa.table({LEADING_KEY: pa.array(np.sort(inserted), pa.int64())})
        if not (self.partitioned or overlapping_files(before)):  # merged in place
            touched |= {i for i, _, _ in candidate_rows(rows[LEADING_KEY], before)}
        counting = InsertCounting(FileBounds(before), self.target_bytes)
        plan = plan_rewrite(before, touched, counting.stats(by_partition(rows, ())), sizes)
        added: dict[int, Keys] = {}
        if len(inserted):
            targets = plan.insert_targets[()]
            for key_range, part in split_at_bounds(rows, targets.bounds):
                number = targets.tasks[key_range]
                added[number] = np.concatenate(
                    [added.get(number, rows[LEADING_KEY].to_numpy()[:0]), part[LEADING_KEY].to_numpy()]
                )
        written = [
            part for task in plan.tasks for part in self._written(task, changed, deleted, added.get(task.number))
        ]
        needed = touched | {i for number in added for i in plan.tasks[number].bases}
        merged = [i for task in plan.tasks if not needed.intersection(task.bases) for i in task.bases]
        merged += [i for task in plan.tasks if task.cuts for i in task.bases[1:] if i not in touched]
        own = [i for i in plan.task_of_file if i not in set(merged)]
        kept = [i for i in range(len(before)) if i not in plan.task_of_file]
        number = self.snapshot.change + 1
        paths = [LakeLayout.data_path(number, n, (), ()) for n in range(len(written))]
        self.files = [*(self.files[i] for i in kept), *written]
        self._paths = [*(self._paths[i] for i in kept), *paths]
        self.snapshot = Snapshot(number, days=self.snapshot.days_after(self.now, self.limits.settled_days))
        return Done(
            sum(before[i].bytes for i in own),
            sum(before[i].bytes for i in merged),
            sum(map(len, written)) * self.row_bytes,
        )

    def _written(self, task: WriteTask, changed: Keys, deleted: Keys, added: Keys | None) -> list[Keys]:
        bases = [self.files[i] for i in task.bases]
        old = np.concatenate([NO_KEYS, *bases])
        rows = old[~np.isin(old, deleted)] if len(deleted) else old
        rows = np.sort(np.concatenate([rows, added])) if added is not None else np.sort(rows)
        touched = [keys[np.isin(keys, changed)] for keys in bases] + ([added] if added is not None else [])
        hot = np.sort(np.concatenate([NO_KEYS, *touched]))
        size_bytes = len(rows) * self.row_bytes
        if task.cuts:
            numbers = np.searchsorted(np.array(task.cuts, np.int64), rows, "right") % task.file_count
            return [part for number in range(task.file_count) if len(part := rows[numbers == number])]
        if task.sizes and task.bases and len(hot) and size_bytes > task.sizes.hot_bytes and 2 * len(hot) <= len(old):
            step = max(1, int(task.sizes.hot_bytes / self.row_bytes / SAMPLES_PER_CELL))
            keys = pa.chunked_array([pa.array(hot)])
            bounds = cuts(rows[::step].tolist(), keys, size_bytes, task.sizes)
            if bounds:
                return [part for part in np.split(rows, np.searchsorted(rows, np.array(bounds, np.int64))) if len(part)]
        return [part for part in np.array_split(rows, task.file_count) if len(part)]


def loaded(pattern: Pattern | RandomKeys | Tenants, *, adaptive: bool, partitioned: bool = False) -> SimulatedTable:
    """A table of 2 GB after its full load."""
    files = np.array_split(pattern.loaded, LOADED_FILES)
    return SimulatedTable(files, TARGET_BYTES, adaptive=adaptive, partitioned=partitioned)


Burst = tuple["Keys", "Keys"]
"""Updated and inserted keys."""


class Pattern:
    """Where the rows of a burst are.

    Args:
        old: Chooses old rows, of so many; None for no old rows.
    """

    def __init__(self, old: Callable[[np.random.Generator, int], Keys] | None) -> None:
        self._rng, self._old = np.random.default_rng(7), old
        self._rows = LOADED_ROWS
        self.loaded = np.arange(self._rows, dtype=np.int64)

    def burst(self) -> Burst:
        """The next."""
        new = np.arange(self._rows, self._rows + INSERTS, dtype=np.int64)
        recent = self._rng.integers(self._rows - NEW_ROWS, self._rows, NEW_UPDATES)
        updated = [recent] if self._old is None else [recent, self._old(self._rng, self._rows)]
        self._rows += INSERTS
        return np.unique(np.concatenate(updated)), new


def spread(rng: np.random.Generator, rows: int) -> Keys:
    """Old rows that are anywhere."""
    return rng.integers(0, rows, OLD_UPDATES, np.int64)


def recent(rng: np.random.Generator, rows: int) -> Keys:
    """Old rows, most of which are not very old: the age of half of them is below a fiftieth of the oldest's."""
    ages = rows * np.exp(-rng.uniform(0, 8, OLD_UPDATES))
    chosen: Keys = np.maximum(0, rows - 1 - ages).astype(np.int64)
    return chosen


class RandomKeys:
    """Every key is random, and updated rows are anywhere."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(7)
        self.loaded = self._known = np.arange(LOADED_ROWS, dtype=np.int64) * 1_000

    def burst(self) -> Burst:
        """The next."""
        updated = np.unique(self._rng.choice(self._known, NEW_UPDATES + OLD_UPDATES))
        new = np.setdiff1d(self._rng.integers(0, self._known.max(), INSERTS), self._known)
        self._known = np.concatenate([self._known, new])
        return updated, new


class Tenants:
    """Keys of two columns, a tenant and a number: a burst inserts the next rows of a few tenants.

    Args:
        updates: Whether it also updates new rows, and a few old ones anywhere.
    """

    TENANTS, IN_BURST, WIDTH = 1_000, 10, 1_000_000

    def __init__(self, *, updates: bool) -> None:
        self._rng, self._updates = np.random.default_rng(7), updates
        self._next = np.full(self.TENANTS, LOADED_ROWS // self.TENANTS, np.int64)
        numbers = np.arange(self._next[0], dtype=np.int64)
        self.loaded = np.concatenate([tenant * self.WIDTH + numbers for tenant in range(self.TENANTS)])
        self._recent = self.loaded[-NEW_ROWS:]

    def burst(self) -> Burst:
        """The next."""
        tenants = np.sort(self._rng.choice(self.TENANTS, self.IN_BURST, replace=False))
        numbers = self._next[tenants][:, None] + np.arange(INSERTS // self.IN_BURST)
        self._next[tenants] += INSERTS // self.IN_BURST
        new = (tenants[:, None] * self.WIDTH + numbers).ravel()
        recent, old = self._rng.choice(self._recent, NEW_UPDATES), self._rng.choice(self.loaded, OLD_UPDATES)
        updated = np.unique(np.concatenate([recent, old])) if self._updates else NO_KEYS
        self._recent = np.concatenate([self._recent, new])[-NEW_ROWS:]
        return updated, new


def days(
    table: SimulatedTable, pattern: Pattern | RandomKeys | Tenants, count: int, bursts: int = BURSTS_A_DAY
) -> list[tuple[int, int]]:
    """Bytes written and number of files of each of some days.

    Args:
        bursts: Bursts of a day.
    """
    result = []
    for _ in range(count):
        written = 0
        for _ in range(bursts):
            updated, inserted = pattern.burst()
            written += table.change(updated, inserted).written
            table.now += timedelta(days=1) / bursts
        result.append((written, len(table.files)))
    return result


def main() -> None:
    """Print the figures."""
    patterns: Sequence[tuple[str, Callable[[], Pattern | RandomKeys | Tenants], bool, int, int]] = (
        ("4 old updates anywhere", lambda: Pattern(spread), False, 1, 30),
        ("4 old updates, mostly recent", lambda: Pattern(recent), False, 1, 30),
        ("newest rows only", lambda: Pattern(None), False, 1, 60),
        ("random keys", RandomKeys, False, 1, 1),
        ("tenants in a partition", lambda: Tenants(updates=True), True, 1, 14),
        ("tenants in a partition, inserts only", lambda: Tenants(updates=False), True, 30, 30),
    )
    for name, pattern, partitioned, *counts in patterns:
        for adaptive, count in zip((False, True), counts, strict=True):
            bursts = pattern()
            table = loaded(bursts, adaptive=adaptive, partitioned=partitioned)
            done = days(table, bursts, count)
            tail = done[-7:]
            mean = sum(written for written, _ in tail) / len(tail) / 1e9
            files = [number for _, number in done]
            kind = "adaptive" if adaptive else "one size"
            print(f"{name}, {kind}: {mean:.1f} GB a day, at most {max(files)} files", flush=True)


if __name__ == "__main__":
    main()
