"""Where new rows go, and which data files a change writes, from counts alone."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.merge.file_ranges import FileBounds
from cdclake.lake.merge.file_sizes import FileSizes
from cdclake.lake.merge.rewrite_plan import InsertStats, InsertStatsByPartition, InsertTargets, plan_rewrite
from cdclake.lake.merge.tasks.resolution import InsertCounting
from cdclake.lake.storage.key_ranges import candidate_rows, split_at_bounds
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.partitions import by_partition
from cdclake.model.snapshot import DataFile

if TYPE_CHECKING:
    from collections.abc import Sequence

ROW_BYTES = 100
TARGET_ROWS = 100
TARGET_BYTES = TARGET_ROWS * ROW_BYTES
SIZES = FileSizes(TARGET_BYTES, TARGET_BYTES)


@dataclass
class Files:
    """The data files of a partition as sorted arrays of keys, rewritten as planned."""

    keys: list[np.ndarray] = field(default_factory=list)

    @property
    def listed(self) -> list[DataFile]:
        return [
            DataFile(str(i), len(keys), len(keys) * ROW_BYTES, (), int(keys[0]), int(keys[-1]))
            for i, keys in enumerate(self.keys)
        ]

    def change(self, updated: Sequence[int], inserted: Sequence[int]) -> int:
        """Update and insert keys; returns the number of rewritten files."""
        files = self.listed
        touched = {i for i, keys in enumerate(self.keys) if np.isin(updated, keys).any()}
        rows = inserts_of(inserted)
        inserts = counting(files).stats(by_partition(rows, ()))
        plan = plan_rewrite(files, touched, inserts, SIZES)
        written = [np.concatenate([np.empty(0, np.int64), *(self.keys[i] for i in task.bases)]) for task in plan.tasks]
        if inserted:
            targets = plan.insert_targets[()]
            for key_range, part in split_at_bounds(rows, targets.bounds):
                number = targets.tasks[key_range]
                written[number] = np.concatenate([written[number], part[LEADING_KEY].to_numpy()])
        kept = [keys for i, keys in enumerate(self.keys) if i not in plan.task_of_file]
        self.keys = kept + [
            part
            for task, keys in zip(plan.tasks, written, strict=True)
            for part in np.array_split(np.sort(keys), task.file_count)
            if len(part)
        ]
        return len(plan.task_of_file)

    def probes_per_key(self) -> float:
        """How many files a lookup of a key opens, on average over all keys."""
        every = pa.chunked_array([pa.array(np.sort(np.concatenate(self.keys)))])
        return sum(end - start for _, start, end in candidate_rows(every, self.listed)) / len(every)


def inserts_of(keys: Sequence[int]) -> pa.Table:
    return pa.table({LEADING_KEY: pa.array(sorted(keys), pa.int64())})


def counting(files: Sequence[DataFile]) -> InsertCounting:
    return InsertCounting(FileBounds(files), TARGET_BYTES)


def loaded(files: int) -> Files:
    return Files([np.arange(i * TARGET_ROWS, (i + 1) * TARGET_ROWS) * 10 for i in range(files)])


def plan_inserts(table: Files, inserted: Sequence[int], updated: Sequence[int] = ()) -> list[list[int]]:
    """Insert and update keys; returns the keys of each written file that has new ones."""
    before = {keys.tobytes() for keys in table.keys}
    table.change(updated, inserted)
    new = set(inserted)
    return sorted(
        sorted(new & set(keys.tolist()))
        for keys in table.keys
        if keys.tobytes() not in before and new & set(keys.tolist())
    )


def test_a_new_row_goes_into_the_rewritten_file_of_its_key_range() -> None:
    assert plan_inserts(loaded(3), [15, 1_015, 2_015], updated=[0, 1_000, 2_000]) == [[15], [1_015], [2_015]]


def test_new_rows_after_all_others_do_not_widen_the_file_of_an_updated_old_row() -> None:
    table = loaded(3)
    assert plan_inserts(table, [5_001, 5_002], updated=[0]) == [[5_001, 5_002]]
    assert table.probes_per_key() == 1.0


def test_a_new_row_does_not_rewrite_a_full_file_that_ends_before_it() -> None:
    table = loaded(3)
    assert table.change([], [5_001]) == 0
    assert [len(keys) for keys in table.keys] == [TARGET_ROWS, TARGET_ROWS, TARGET_ROWS, 1]


def test_a_new_row_goes_into_the_open_file_that_ends_before_it() -> None:
    table = Files([np.arange(TARGET_ROWS), np.arange(500, 510)])
    assert table.change([], [600]) == 1
    assert [len(keys) for keys in table.keys] == [TARGET_ROWS, 11]


def test_new_rows_between_all_others_share_one_more_file() -> None:
    table = loaded(20)
    inserted = [i * 1_000 + 5 for i in range(20)]
    assert (table.change([], inserted), len(table.keys)) == (0, 21)
    assert table.change([], [key + 1 for key in inserted]) == 1, "the next ones join them"
    assert len(table.keys) == 21


def test_many_new_rows_of_one_key_range_become_files_of_their_own() -> None:
    table = loaded(2)
    table.change([0], range(10_000, 10_000 + 20 * TARGET_ROWS))
    sizes = [len(keys) for keys in table.keys]
    assert len(sizes) >= 20
    assert max(sizes) <= 2 * TARGET_ROWS


def test_a_few_new_rows_go_to_the_first_of_files_whose_keys_are_unknown() -> None:
    files = [DataFile(str(i), TARGET_ROWS, TARGET_BYTES, ()) for i in range(3)]
    stats = counting(files).stats(by_partition(inserts_of([7]), ()))
    plan = plan_rewrite(files, range(3), stats, SIZES)
    assert [task.bases for task in plan.tasks] == [(0,), (1,), (2,)]
    assert plan.insert_targets[()] == InsertTargets((), (0,))


def test_many_new_rows_become_several_files_if_no_key_range_is_known() -> None:
    """After a key's type changed."""
    files = [DataFile(str(i), TARGET_ROWS, TARGET_BYTES, ()) for i in range(4)]
    rows = inserts_of(range(20 * TARGET_ROWS))
    stats = counting(files).stats(by_partition(rows, ()))
    plan = plan_rewrite(files, range(4), stats, SIZES)
    assert [task.bases for task in plan.tasks[:4]] == [(0,), (1,), (2,), (3,)]
    sizes = [part.num_rows for _, part in split_at_bounds(rows, plan.insert_targets[()].bounds)]
    assert len(sizes) == len(plan.insert_targets[()].tasks) >= 18
    assert max(sizes) <= 2 * TARGET_ROWS


@pytest.mark.parametrize("by_range", [{}, {1: 5, 2: 1}])
def test_rows_with_a_key_go_to_one_task_if_none_of_their_keys_is_sampled(by_range: dict[int, int]) -> None:
    """Tiny files make new rows seem large. Rows without a key are split anyhow."""
    files = [DataFile(str(i), 1, 2 * TARGET_BYTES, (), i * 10, i * 10) for i in range(2)]
    stats = InsertStats(6, 6 * ROW_BYTES, (), by_range)
    targets = plan_rewrite(files if by_range else files[:0], (), {(): stats}, SIZES).insert_targets[()]
    assert len(targets.tasks) == len(targets.bounds) + 1 == (2 if by_range else 1)
    keyless = InsertStats(600, 600 * ROW_BYTES, has_key=False)
    assert len(plan_rewrite((), (), {(): keyless}, SIZES).insert_targets[()].tasks) == 2


@pytest.mark.long
@pytest.mark.sampled(ci=1)
@pytest.mark.parametrize("tenants", [3, 1])
def test_a_key_stays_in_few_files_after_thousands_of_changes(tenants: int) -> None:
    """Each change inserts the newest rows of each tenant, whose keys are apart, and updates old rows."""
    rng = random.Random(5)
    width = 10**9
    table = Files(
        [np.arange(TARGET_ROWS) + i * TARGET_ROWS + tenant * width for tenant in range(tenants) for i in range(20)]
    )
    known = [int(key) for keys in table.keys for key in keys]
    newest = [20 * TARGET_ROWS] * tenants
    for _ in range(2_000):
        updated = rng.sample(known, 3)
        inserted: list[int] = []
        for tenant in range(tenants):
            inserted += range(tenant * width + newest[tenant], tenant * width + newest[tenant] + 2)
            newest[tenant] += 2
        table.change(updated, inserted)
        known += inserted
    assert sum(len(keys) for keys in table.keys) == len(known)
    assert table.probes_per_key() <= 1.5
    assert len(table.keys) * TARGET_ROWS <= 2.5 * len(known)


@pytest.mark.slow
def test_a_key_stays_in_few_files_if_new_keys_have_no_order() -> None:
    rng = random.Random(6)
    table = loaded(20)
    for _ in range(500):
        updated = [int(rng.choice(rng.choice(table.keys))) for _ in range(2)]
        table.change(updated, sorted({rng.randrange(20_000) * 10 + 1 for _ in range(8)}))
    rows = sum(len(keys) for keys in table.keys)
    assert table.probes_per_key() <= 0.75 * len(table.keys)
    assert len(table.keys) * TARGET_ROWS <= 2.5 * rows


def test_the_driver_gets_a_few_keys_per_file_to_write_however_many_partitions_a_batch_has() -> None:
    """Of 4,000 partitions, each batch has a few rows of each."""
    rng = np.random.default_rng(7)
    target = 1_000_000
    total = InsertStatsByPartition()
    for batch in range(4):
        keys = np.arange(batch * 20_000, (batch + 1) * 20_000)
        table = pa.table(
            {LEADING_KEY: keys, "p": rng.integers(0, 4_000, len(keys)).astype(str), "text": ["x" * 80] * len(keys)}
        )
        total += InsertCounting(FileBounds(()), target).stats(by_partition(table, ["p"]))
    memory_bytes = sum(stats.memory_bytes for stats in total.values())
    samples = sum(len(stats.samples) for stats in total.values())
    expected = memory_bytes / target * DEFAULT_LIMITS.samples_per_file
    assert sum(total.rows.values()) == 80_000
    assert 0.5 * expected < samples < 2 * expected


def test_sizes_of_batches_add_up() -> None:
    a, b = ("a",), ("b",)
    left = InsertStatsByPartition({a: 2, b: 1}, {a: 100, b: 7}, {a: (1, 5)}, {a: {0: 2}})
    right = InsertStatsByPartition({(None,): 4, a: 3}, {(None,): 9, a: 50}, {a: (2,)}, {a: {0: 1, 4: 2}})
    assert dict(left + right) == {
        a: InsertStats(5, 150, (1, 2, 5), {0: 3, 4: 2}),
        b: InsertStats(1, 7),
        (None,): InsertStats(4, 9),
    }


def test_file_bounds_are_computed_for_the_partitions_asked_for_and_sent_without_files() -> None:
    files = [DataFile(f"{i}", 9, 9, (str(i % 10),), 10 * i, 10 * i + 5) for i in range(1_000)]
    bounds = FileBounds(files)
    sent = pickle.loads(pickle.dumps(bounds))
    for partition in (("3",), ("7",), ("none",)):
        assert sent.of(partition) == bounds.of(partition)
    assert bounds.of(("3",))[:4] == (30, 36, 130, 136)
    assert bounds.of(("none",)) == ()
    assert len(pickle.dumps(bounds)) < len(pickle.dumps(files)) / 3


def test_files_without_a_key_range_may_contain_every_key() -> None:
    keys = pa.chunked_array([pa.array([5, 15, 16, 40], pa.int64())])
    ranges = [(10, 20), (None, None), (50, 60), (0, 9), ("a", "b")]
    files = [DataFile(str(i), 1, 1, (), low, high) for i, (low, high) in enumerate(ranges)]
    assert list(candidate_rows(keys, files)) == [(0, 1, 3), (1, 0, 4), (3, 0, 1), (4, 0, 4)]
