"""New rows whose keys are spread over a partition's files wait in a loose file, and go home: no file stays uncut."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.file_sizes import SimulatedTable
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.limits import EngineLimits
from cdclake.lake.merge.file_ranges import are_in_order, split_by_order
from cdclake.lake.merge.file_sizes import MANY_ROWS, MAX_FILES, FileSizes, rows_going_home
from cdclake.lake.merge.rewrite_plan import InsertStats, plan_rewrite
from cdclake.lake.storage.key_ranges import overlapping_files
from cdclake.model.layout import LakeLayout
from cdclake.model.snapshot import DataFile
from tests.cdclake.lake.table import Table
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from cdclake.lake.storage.partitions import Partition

    Keys = NDArray[np.int64]

ROW_BYTES, HOT_BYTES, TARGET_BYTES, FILE_ROWS = 10, 80, 1_200, 200
LIMITS = EngineLimits(hot_file_bytes=HOT_BYTES)
DAY = timedelta(days=1)
COLUMNS = pa.schema([("tenant", pa.string()), ("number", pa.int64()), ("text", pa.string()), ("part", pa.string())])


def files_of(*ranges: tuple[int, int, int, int]) -> list[DataFile]:
    """Data files of some bytes, from a key to a key, by a change."""
    return [
        DataFile(LakeLayout.data_path(change, i, (), ()), size, size, (), low, high)
        for i, (size, low, high, change) in enumerate(ranges)
    ]


@pytest.mark.parametrize(
    ("ranges", "apart", "loose"),
    [
        pytest.param([(9, 20, 29), (9, 0, 9), (9, 10, 19)], [1, 2, 0], [], id="apart"),
        pytest.param([(9, 0, 9), (9, 10, 19), (9, 20, 29), (12, 5, 25)], [0, 1, 2], [3], id="spans several"),
        pytest.param([(50, 0, 99), (5, 10, 19), (5, 50, 59)], [0], [1, 2], id="two inside a larger one"),
        pytest.param([(9, 0, 9), (3, 9, 20), (9, 21, 29)], [0, 2], [1], id="the smaller of two"),
        pytest.param([(3, 0, 9), (9, 9, 20), (9, 21, 29)], [1, 2], [0], id="the smaller of two comes first"),
    ],
)
def test_files_that_overlap_others_are_loose(
    ranges: Sequence[tuple[int, int, int]], apart: list[int], loose: list[int]
) -> None:
    files = files_of(*((*one, 1) for one in ranges))
    assert split_by_order(range(len(files)), files) == (apart, loose)


ranges = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 60), st.integers(0, 30)), max_size=12)


@examples(thorough=20_000, ci=1_000, test=300)
@given(ranges)
def test_files_that_are_not_loose_are_apart(ranges: list[tuple[int, int, int]]) -> None:
    files = files_of(*((size, low, low + width, 1) for size, low, width in ranges))
    apart, loose = split_by_order(range(len(files)), files)
    assert sorted(apart + loose) == list(range(len(files)))
    assert not overlapping_files([files[i] for i in apart])
    assert bool(loose) == bool(overlapping_files(files))
    assert [files[i].key_min for i in apart] == sorted(files[i].key_min for i in apart)  # type: ignore[type-var]


def test_files_that_all_overlap_have_no_order() -> None:
    files = files_of(*((9, i, 100, 1) for i in range(5)))
    assert not are_in_order(*split_by_order(range(5), files), files)


def going_home(files: Sequence[DataFile], own_bytes: float = 1, loose_before: int = 0) -> Any:
    by_key, loose = split_by_order(range(len(files)), files)
    sizes = FileSizes(1_000, 100, loose_before=loose_before)
    home = rows_going_home(files, by_key, loose, set(), sizes, own_bytes)
    return home and ([by_key[n] for n in range(home.start, home.end)], home.cuts, home.pieces)


def test_few_loose_rows_wait_until_there_are_many_or_a_change_rewrites_as_much_anyway() -> None:
    homes = [(160, 0, 9, 1), (160, 10, 19, 2), (160, 20, 29, 3)]
    few, many = files_of(*homes, (3, 5, 25, 4)), files_of(*homes, (-(-480 // MANY_ROWS), 5, 25, 4))
    assert going_home(few) is None
    assert going_home(many) == ([0, 1, 2], (10, 20), 3)
    assert going_home(few, own_bytes=480) == ([0, 1, 2], (10, 20), 3)
    assert going_home(few, loose_before=5) == ([0, 1, 2], (10, 20), 3)
    assert going_home(few, loose_before=4) is None


@pytest.mark.parametrize(
    ("oldest", "expected"),
    [
        pytest.param(0, ([0, 1], (10, 20), 3), id="first"),
        pytest.param(2, ([2, 3], (20, 30, 40), 3), id="in the middle"),
        pytest.param(4, ([3, 4], (30, 40), 3), id="last"),
    ],
)
def test_homes_are_rewritten_up_to_the_target_the_oldest_first(oldest: int, expected: Any) -> None:
    files = files_of(*((500, 10 * i, 10 * i + 9, 5 - (i == oldest)) for i in range(5)), (100, 5, 45, 5))
    assert going_home(files) == expected


def test_rows_do_not_go_home_where_a_new_file_comes() -> None:
    files = files_of((120, 0, 9, 1), (120, 20, 29, 1), (120, 40, 49, 1), (10, 5, 45, 1))
    after: dict[Partition, InsertStats] = {(): InsertStats(1, 1, (35,), {4: 1})}
    tasks = plan_rewrite(files, {2}, after, FileSizes(1_000, 100)).tasks
    assert [task.bases for task in tasks] == [(3, 0), (2,), ()]


def spread_over(table: SimulatedTable) -> Keys:
    """New keys between those of every file."""
    starts: Keys = np.array([int(keys[len(keys) // 2]) for keys in table.files])
    return starts + 1


def partition(files: int = 20) -> SimulatedTable:
    """Files with the keys 0, 10, 20 and so on."""
    keys = np.array_split(np.arange(files * FILE_ROWS, dtype=np.int64) * 10, files)
    return SimulatedTable(keys, TARGET_BYTES, LIMITS, ROW_BYTES, partitioned=True)


def test_files_are_cut_after_new_keys_were_spread_over_them() -> None:
    table = partition()
    inserted = spread_over(table)
    assert table.change(np.array([0]), inserted).written < 3 * FILE_ROWS * ROW_BYTES
    assert len(overlapping_files(table.listed)) > 1
    written = [table.change(np.array([5_000])).written for _ in range(5)]
    assert written == [FILE_ROWS * ROW_BYTES, *[70] * 4]


def test_loose_rows_go_home_after_some_days() -> None:
    table = partition()
    table.change(np.array([0]), spread_over(table))
    for _ in range(50):
        table.now += DAY
        done = table.change(np.array([0]))
        assert done.own + done.merged <= 4 * TARGET_BYTES
    assert not overlapping_files(table.listed)
    assert sum(map(len, table.files)) == 20 * FILE_ROWS + 20


def test_many_rows_go_where_their_keys_belong_at_once() -> None:
    table = partition()
    table.change(np.array([0]), np.concatenate([spread_over(table) + extra for extra in range(2)]))
    assert not overlapping_files(table.listed)


keys = st.integers(0, 3_000)
changes = st.tuples(
    st.sampled_from(["newest", "range", "anywhere", "bulk", "tenants", "tenants"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 0.3, 3]),
)


@examples(thorough=300, ci=20, test=8)
@given(history=st.lists(changes, min_size=10, max_size=60), partitioned=st.booleans())
def test_files_are_few_and_apart_again_after_any_history(
    history: list[tuple[str, int, float]], partitioned: bool
) -> None:
    table = partition(6)
    table.partitioned = partitioned
    known = np.concatenate(table.files)
    inserted_bytes = own_bytes = merged_bytes = 0
    for kind, seed, later in history:
        rng = np.random.default_rng(seed)
        start = int(rng.integers(0, len(known)))
        chosen = {
            "range": known[start : start + 10],
            "anywhere": rng.choice(known, 4),
            "bulk": known[start : start + len(known) // 2],
        }.get(kind, known[-20:])
        updated = np.unique(rng.choice(chosen, min(len(chosen), 4 if kind != "bulk" else len(chosen))))
        deleted = updated[: len(updated) // 4]
        inserted = known[-1] + 10 * np.arange(1, 4)
        if kind == "tenants":
            inserted = np.setdiff1d(rng.integers(0, known[-1], int(rng.integers(5, 20))), known)
        elif kind != "newest":
            inserted = inserted[:0]
        done = table.change(np.setdiff1d(updated, deleted), inserted, deleted)
        known = np.union1d(np.setdiff1d(known, deleted), inserted)
        inserted_bytes += len(inserted) * ROW_BYTES
        own_bytes += done.own
        merged_bytes += done.merged
        table.now += later * DAY
        assert np.array_equal(np.sort(np.concatenate(table.files)), known), "no row is lost, none is twice"
        assert max(map(len, table.files)) * ROW_BYTES <= 2 * TARGET_BYTES
    elapsed = sum(later for _, _, later in history)
    size_bytes = len(known) * ROW_BYTES
    settled_bytes = (elapsed / LIMITS.settled_days + 1) * (size_bytes + 2 * TARGET_BYTES)
    home_bytes = MANY_ROWS * inserted_bytes + (elapsed / LIMITS.loose_days + 1) * 2 * TARGET_BYTES
    assert merged_bytes <= own_bytes + settled_bytes + home_bytes
    for _ in range(7 + 6 * size_bytes // TARGET_BYTES):  # nothing else touches old rows
        table.now += DAY
        table.change(known[-1:])
    assert not overlapping_files(table.listed)
    assert len(table.files) <= MAX_FILES * (1 + size_bytes / (TARGET_BYTES / 2)) + 1


def row(tenant: int, number: int, text: str = "") -> dict[str, Any]:
    return {
        "tenant": f"t{tenant:02d}",
        "number": number,
        "text": text or f"{tenant * 7919 + number * 104_729:032d}",
        "part": "a",
    }


@pytest.mark.slow
@pytest.mark.parametrize("item", [{}, {"DeleteMode": "soft"}])
def test_rows_are_right_while_they_wait_and_when_they_go_home(tmp_path: Path, item: dict[str, str]) -> None:
    settings = {"PrimaryKey": "tenant,number", "PartitionKey": "part", "TargetFileBytes": "40000"}
    table = Table(tmp_path, COLUMNS, {**settings, **item})
    table.limits = EngineLimits(hot_file_bytes=8_000)
    expected = {(one["tenant"], one["number"]): one for one in (row(t, n) for t in range(12) for n in range(600))}
    table.load(list(expected.values()))
    overlapping = []
    for day in range(16):
        tenants = range(1, 12) if day in (1, 2) else [0]
        changes = [("I", row(tenant, 600 + day)) for tenant in tenants]
        changes += [("U", row(tenants[-1], 600 + day - 1, "new"))] if ("t00", 600 + day - 1) in expected else []
        changes += [("D", row(5, 601))] if day == 4 else []
        for op, one in changes:
            expected[one["tenant"], one["number"]] = one
            if op == "D":
                del expected[one["tenant"], one["number"]]
        table.now += DAY
        table.apply_file(f"2024{3 + day // 28:02d}{1 + day % 28:02d}-101500000.parquet", changes)
        found = {(one.row["tenant"], one.row["number"]): one.row for one in table.rows() if one.op != "D"}
        assert found == expected
        overlapping.append(bool(overlapping_files(table.log.snapshot(table.log.head()).files)))
    assert overlapping[1:4] == [True, True, True]
    assert not overlapping[-1]
