"""Data files are small where changes fall, and become large again where no change fell for days."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.file_sizes import Pattern, SimulatedTable, days, loaded, spread
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.limits import EngineLimits
from cdclake.lake.merge.file_sizes import MAX_FILES, FileSizes, settled_groups
from cdclake.lake.merge.rewrite_plan import InsertStats, plan_rewrite
from cdclake.lake.merge.tasks.cuts import cuts
from cdclake.model.layout import HISTORY, ICEBERG, LakeLayout, change_of
from cdclake.model.snapshot import DataFile, Snapshot
from tests.cdclake.lake.table import Table
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cdclake.lake.storage.partitions import Partition

ROW_BYTES, HOT_BYTES, TARGET_BYTES = 10, 80, 1_200
SIZES = FileSizes(TARGET_BYTES, HOT_BYTES)
LIMITS = EngineLimits(hot_file_bytes=HOT_BYTES)
DAY = timedelta(days=1)
COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROWS = 6_000


def cut(rows: int, changed: Sequence[int], sizes: FileSizes = SIZES) -> list[Any]:
    """Where a file with the keys from 0 is cut."""
    return cuts(range(rows), pa.chunked_array([pa.array(sorted(changed), pa.int64())]), rows * ROW_BYTES, sizes)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param([119], [114], id="the newest rows"),
        pytest.param([0, 3], [6], id="the oldest rows"),
        pytest.param([61], [60, 66], id="a row in the middle"),
        pytest.param([61, 67, 73, 85, 91], [60, 96], id="a hot range, of which not every cell is touched"),
        pytest.param([3, 119], [6, 114], id="both ends"),
        pytest.param(range(0, 120, 10), [], id="rows everywhere"),
        pytest.param(range(30, 120), [], id="most rows"),
    ],
)
def test_a_file_is_cut_around_the_rows_that_change(changed: Sequence[int], expected: list[int]) -> None:
    assert cut(120, changed) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param([11], [10], id="the last row"),
        pytest.param([8, 11], [7], id="new and recent rows"),
        pytest.param([3, 11], [], id="not only recent rows"),
        pytest.param([10], [6], id="no new row"),
    ],
)
def test_of_a_small_file_that_grows_at_its_end_most_stays_behind(changed: Sequence[int], expected: list[int]) -> None:
    assert cut(12, changed) == expected


def test_a_table_that_grows_at_its_end_has_few_files_and_writes_little() -> None:
    table = SimulatedTable([np.arange(8, dtype=np.int64)], TARGET_BYTES, LIMITS, row_bytes=1)
    changes = [table.change(np.array([last - 3]), np.arange(last + 1, last + 3)) for last in range(7, 2_007, 2)]
    *behind, _ = [len(keys) for keys in sorted(table.files, key=max)]
    assert min(behind) >= 0.8 * HOT_BYTES, "not halves"
    assert sum(done.written for done in changes) / len(changes) <= 0.6 * HOT_BYTES


def test_large_pieces_are_split_at_the_target_size() -> None:
    bounds = [0, *cut(600, [599]), 600]
    assert [after - before for before, after in zip(bounds, bounds[1:])] == [114, 120, 120, 120, 120, 6]


def test_rows_larger_than_the_target_have_files_of_their_own() -> None:
    assert cut(4, [3], FileSizes(3, 1)) == [1, 2, 3]


def test_the_number_of_the_change_is_in_the_path() -> None:
    path = LakeLayout.data_path(42, 3, ("day",), ("2024-03-05",))
    folder = f"{ICEBERG}data/{17:012d}-jr_1/00000-000-0.parquet"
    paths = [path, HISTORY + path, folder, HISTORY + folder, "part-00000.parquet", "000000000042.parquet"]
    assert [change_of(one) for one in paths] == [42, 42, 17, 17, 0, 0]


def test_a_snapshot_knows_which_changes_are_older_than_some_days() -> None:
    now, snapshot = datetime(2024, 3, 5, 23, tzinfo=timezone.utc), Snapshot()
    for _ in range(40):
        snapshot = Snapshot(snapshot.change + 1, days=snapshot.days_after(now, 7))
        now += timedelta(hours=6)
    now -= timedelta(hours=6)  # of change 40, at 17:00
    assert len(snapshot.days) == 7
    first = snapshot.settled_before(now, 7)
    ages = {change: (now.date() - (now - timedelta(hours=6) * (40 - change)).date()).days for change in range(1, 41)}
    assert {change for change in ages if change < first} == {change for change, age in ages.items() if age >= 7}
    assert Snapshot.from_bytes(snapshot.to_bytes(), "key") == snapshot
    assert snapshot.settled_before(now + 8 * DAY, 7) == 41


def settled(own_bytes: float, sizes: Sequence[int], excluded: Sequence[int] = ()) -> list[list[int]]:
    files = [
        DataFile(LakeLayout.data_path(1, i, (), ()), size, size, (), 10 * i, 10 * i + 9) for i, size in enumerate(sizes)
    ]
    return settled_groups(files, [range(len(files))], excluded, FileSizes(100, 10, 2), own_bytes)


def test_a_change_merges_settled_neighbors_up_to_its_own_work() -> None:
    assert settled(60, [90, 20, 20, 95, 90, 90, 90]) == [[1, 2]]
    assert settled(60, [90, 20, 20, 95, 25, 25, 90, 90]) == [[1, 2]], "the other two are too much"
    assert settled(39, [90, 20, 20, 95, 90, 90, 90]) == []
    assert settled(60, [90, 20, 20, 95, 90, 90, 90], excluded=[1]) == []
    assert settled(100, [90, 10, 95]) == [], "to save one file is not worth it"


def test_a_table_with_far_too_many_files_merges_some_in_any_change() -> None:
    assert settled(5, [10] * 10 + [90]) == [list(range(10))]
    assert settled(5, [10, 10] + [90] * 10) == []


def test_settled_neighbors_between_which_a_new_file_comes_are_not_merged() -> None:
    ranges = [(25, 0, 10), (25, 20, 30), (90, 100, 110)]
    files = [
        DataFile(LakeLayout.data_path(1, i, (), ()), size, size, (), low, high)
        for i, (size, low, high) in enumerate(ranges)
    ]
    sizes = FileSizes(100, 10, 2)
    assert [task.bases for task in plan_rewrite(files, {2}, {}, sizes).tasks] == [(2,), (0, 1)]
    between: dict[Partition, InsertStats] = {(): InsertStats(1, 10, (15,), {2: 1})}
    assert [task.bases for task in plan_rewrite(files, {2}, between, sizes).tasks] == [(2,), ()]


class Counted(list[DataFile]):
    """Data files that count how often one is looked at."""

    looks = 0

    def __getitem__(self, i: Any) -> Any:
        self.looks += 1
        return super().__getitem__(i)


@pytest.mark.parametrize(("size", "first"), [(60, 2), (20, 1)], ids=["no two fit into a file", "none is settled"])
def test_partitions_without_settled_small_files_are_looked_at_briefly(size: int, first: int) -> None:
    files = Counted(
        DataFile(LakeLayout.data_path(first, 3 * n + i, (), ()), size, size, (str(n),), 10 * i, 10 * i + 9)
        for n in range(1_000)
        for i in range(3)
    )
    plan = plan_rewrite(files, {4}, {}, FileSizes(100, 10, settled_before=first))
    assert [task.bases for task in plan.tasks] == [(4,)]
    assert files.looks <= 5 * len(files)


keys = st.integers(0, 3_000)
changes = st.tuples(
    st.sampled_from(["newest", "range", "anywhere", "bulk"]), st.integers(0, 2**32 - 1), st.sampled_from([0, 0.3, 3])
)


@pytest.mark.slow
@examples(thorough=300, ci=20, test=8, quick=3)
@given(history=st.lists(changes, min_size=10, max_size=60))
def test_files_stay_apart_and_few_over_long_histories(history: list[tuple[str, int, float]]) -> None:
    files = [np.arange(i * 100, (i + 1) * 100, dtype=np.int64) * 10 for i in range(4)]
    table = SimulatedTable(files, TARGET_BYTES, LIMITS, ROW_BYTES)
    known = np.concatenate(files)
    own_bytes = merged_bytes = 0
    for kind, seed, later in history:
        rng = np.random.default_rng(seed)
        start = int(rng.integers(0, len(known)))
        chosen = {
            "newest": known[-20:],
            "range": known[start : start + 10],
            "anywhere": rng.choice(known, 4),
            "bulk": known[start : start + len(known) // 2],
        }[kind]
        updated = np.unique(rng.choice(chosen, min(len(chosen), 4 if kind != "bulk" else len(chosen))))
        deleted = updated[: len(updated) // 4]
        inserted = known[-1] + 10 * np.arange(1, 4) if kind == "newest" else np.empty(0, np.int64)
        done = table.change(np.setdiff1d(updated, deleted), inserted, deleted)
        known = np.union1d(np.setdiff1d(known, deleted), inserted)
        own_bytes += done.own
        merged_bytes += done.merged
        assert done.merged <= max(done.own + len(inserted) * ROW_BYTES, TARGET_BYTES)
        table.now += later * DAY
        ordered = sorted(table.files, key=lambda one: int(one[0]))
        assert np.concatenate(ordered).tolist() == known.tolist(), "files are apart, and no row is lost"
        assert max(map(len, table.files)) * ROW_BYTES <= 2 * TARGET_BYTES
    elapsed = sum(later for _, _, later in history)
    size_bytes = len(known) * ROW_BYTES
    assert merged_bytes <= (elapsed / LIMITS.settled_days + 1) * (size_bytes + 2 * TARGET_BYTES)
    for _ in range(25):  # nothing else touches old rows
        table.now += DAY
        table.change(known[-1:])
    needed = 1 + size_bytes / (TARGET_BYTES / 2)
    assert len(table.files) <= MAX_FILES * needed + 1


def test_a_localized_change_cuts_once_and_then_rewrites_only_small_files() -> None:
    table = SimulatedTable([np.arange(120, dtype=np.int64)], TARGET_BYTES, LIMITS, ROW_BYTES)
    written = [table.change(np.array([61])).written for _ in range(20)]
    assert written == [1_200, *[60] * 19]
    assert sorted(map(len, table.files)) == [6, 54, 60]


def test_what_was_merged_is_not_cut_and_merged_by_turns() -> None:
    """Each change touches another old row, far apart; bytes that are merged count."""
    table = SimulatedTable([np.arange(i * 120, (i + 1) * 120, dtype=np.int64) for i in range(4)], 1_200, LIMITS, 10)
    merged = 0
    for day in range(200):
        table.now += DAY
        merged += table.change(np.array([day * 271 % 480])).merged
        assert len(table.files) <= 48
    assert merged <= 200 / LIMITS.settled_days * 480 * ROW_BYTES


def test_a_smaller_target_counts_for_all_files() -> None:
    sizes = FileSizes.of(50, 80)
    assert (sizes.hot_bytes, sizes.cuts) == (50, False)


@pytest.mark.slow
def test_the_recorded_pattern_rewrites_a_fifteenth() -> None:
    """2 GB in 22 files; 144 bursts a day, each of 60 new rows, 36 updates of new rows and 4 of old ones."""
    pattern = Pattern(spread)
    before = days(loaded(pattern, adaptive=False), Pattern(spread), 1, bursts=5)[0][0] / 5
    table = loaded(pattern, adaptive=True)
    days(table, pattern, 2, bursts=144)
    after = days(table, pattern, 1, bursts=30)[0][0] / 30
    assert 400e6 < before < 600e6
    assert after <= before / 15
    assert len(table.files) <= 600


def row(key: int, text: str = "") -> dict[str, Any]:
    return {"id": key, "text": text or f"{key * 7919 % 1_000_003:032d}"}


def adaptive_table(folder: Path, item: dict[str, str] | None = None, **limits: int) -> Table:
    table = Table(folder, COLUMNS, {"PrimaryKey": "id", "LateWindowHours": "1", **(item or {})})
    table.limits = EngineLimits(hot_file_bytes=8_000, **limits)
    return table


def sizes_by_key(table: Table) -> list[int]:
    files = table.log.snapshot(table.log.head()).files
    return [file.bytes for file in sorted(files, key=lambda file: str(file.key_min).zfill(30))]


def name_of(number: int) -> str:
    return f"202403{5 + number // 24:02d}-{number % 24:02d}1500000.parquet"


@pytest.mark.parametrize("item", [{}, {"Readers": "both"}, {"DeleteMode": "soft"}, {"History": "true"}])
def test_a_touched_file_is_cut_in_place_and_merges_again(tmp_path: Path, item: dict[str, str]) -> None:
    table = adaptive_table(tmp_path, item)
    table.load([row(key) for key in range(ROWS)])
    assert len(sizes_by_key(table)) == 1
    first = table.apply_file(name_of(0), [("U", row(3_000, "new")), ("D", row(3_001)), ("I", row(ROWS))])
    cold, hot, cold_too, *rest = sizes_by_key(table)
    assert hot <= 12_000 < min(cold, cold_too)
    second = table.apply_file(name_of(1), [("U", row(3_002, "new"))])
    assert second["bytes_added"] < first["bytes_added"] / 4
    rows = {one.row["id"]: one.row["text"] for one in table.rows() if one.op != "D"}
    table.now += 8 * DAY
    table.apply_file(name_of(200), [("U", row(10, "last"))])
    files = sizes_by_key(table)
    assert len(files) < 4 + len(rest)
    assert {one.row["id"]: one.row["text"] for one in table.rows() if one.op != "D"} == {**rows, 10: "last"}


def test_files_of_a_partition_are_cut_too(tmp_path: Path) -> None:
    table = adaptive_table(tmp_path, {"PartitionKey": "part"})
    table.columns = COLUMNS.append(pa.field("part", pa.string()))
    rows = [{**row(key), "part": "ab"[key % 2]} for key in range(ROWS)]
    table.load(rows)
    table.apply_file(name_of(0), [("U", {**rows[1_000], "text": "new"})])
    snapshot = table.log.snapshot(2)
    assert sorted(file.partition for file in snapshot.files) == [("a",)] * 3 + [("b",)]
    table.now += 8 * DAY
    table.apply_file(name_of(200), [("U", {**rows[1], "text": "new"})])
    assert len([file for file in table.log.snapshot(3).files if file.partition == ("a",)]) == 2
    assert len(table.rows()) == ROWS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_rows_are_the_same_whatever_the_limits(tmp_path: Path, seed: int) -> None:
    tables = [
        adaptive_table(tmp_path / str(number), {"TargetFileBytes": str(target)})
        for number, target in enumerate([60_000, 20_000, 1 << 27])
    ]
    tables[2].limits = EngineLimits()
    rng = random.Random(seed)
    present = list(range(2_000))
    for table in tables:
        table.load([row(key) for key in present])
    for number in range(12):
        start = rng.randrange(len(present))
        near = present[start : start + rng.choice([5, 50, 1_000])]
        changed = [("U", row(key, f"{number}-{key}")) for key in rng.sample(near, min(len(near), 6))]
        removed = [("D", row(key)) for key in rng.sample(present, 2)]
        gone = {one["id"] for _, one in removed}
        new = [("I", row(present[-1] + 1 + i)) for i in range(3)]
        changes = [*(one for one in changed if one[1]["id"] not in gone), *removed, *new]
        present = [key for key in present if key not in gone] + [one["id"] for _, one in new]
        for table in tables:
            table.now += timedelta(hours=rng.choice([1, 30]))
            table.apply_file(name_of(number), changes)
        rows = [sorted((one.row["id"], one.row["text"]) for one in table.rows()) for table in tables]
        assert rows[0] == rows[1] == rows[2]
        files = sorted((file.key_min, file.key_max) for file in tables[0].log.snapshot(number + 2).files)
        assert all(before[1] < after[0] for before, after in zip(files, files[1:]))  # type: ignore[operator]
