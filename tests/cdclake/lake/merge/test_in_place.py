"""Changes that a task per data file looks up, resolves and rewrites."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.engine import IN_PLACE_GROUPS_PER_CORE
from cdclake.lake.spark.in_process import InProcessBackend
from tests.cdclake.lake.merge.test_full_load import random_key, table_in_source_order
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROWS, TARGET_BYTES = 6_000, 20_000
FIRST, SECOND, LATE = "20240305-101500000.parquet", "20240305-111500000.parquet", "20240305-091500000.parquet"


def row(key: int, text: str = "") -> dict[str, Any]:
    return {"id": key, "text": text or f"{key * 7919 % 1_000_003:032d}"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of several data files, whose keys are 0, 10, 20 and so on."""
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "TargetFileBytes": str(TARGET_BYTES)})
    table.load([row(10 * number) for number in range(ROWS)])
    assert len(table.files()) > 3
    return table


def apply(table: Table, relative: str, changes: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return table.apply_file(relative, changes)


def keys(table: Table) -> list[int]:
    return sorted(one.row["id"] for one in table.rows())


def merges_in_place(summary: dict[str, Any]) -> bool:
    return "merge" in summary["seconds"]


def test_a_change_is_merged_in_one_stage_and_rewrites_only_the_files_of_its_keys(table: Table) -> None:
    before = table.files()
    changes = [("U", row(0, "new")), ("D", row(10)), ("I", row(15)), ("D", row(17))]
    summary = apply(table, FIRST, changes)
    assert merges_in_place(summary)
    assert [summary["books"][name] for name in ("inserted", "updated", "deleted", "absent")] == [1, 1, 1, 1]
    assert len(set(before) - set(table.files())) <= 2, "the file may absorb a small neighbor"
    assert keys(table)[:4] == [0, 15, 20, 30]
    apply(table, LATE, [("I", row(10, "late"))])
    assert keys(table)[:4] == [0, 15, 20, 30]


def test_where_a_task_costs_time_neighboring_files_share_one(table: Table) -> None:
    changed = range(0, ROWS, 20)
    apply(table, LATE, [("U", row(10 * number, "first")) for number in changed])
    files, tasks = len(table.files()), []
    for relative, tasks_cost_time in ((FIRST, False), (SECOND, True)):
        done: list[int] = []
        table.spark = InProcessBackend(1, tasks_cost_time=tasks_cost_time, before_task=partial(done.append, 1))
        summary = apply(table, relative, [("U", row(10 * number, relative)) for number in changed])
        assert merges_in_place(summary)
        assert summary["files_retired"] == len(table.files()) == files
        tasks.append(len(done))
    assert tasks == [files, IN_PLACE_GROUPS_PER_CORE + 1]
    texts = {one.row["id"]: one.row["text"] for one in table.rows()}
    assert texts == {10 * number: row(10 * number, "" if number % 20 else SECOND)["text"] for number in range(ROWS)}


def test_a_file_whose_rows_are_all_superseded_stays(table: Table) -> None:
    apply(table, FIRST, [("U", row(0, "new"))])
    before = table.files()
    summary = apply(table, LATE, [("U", row(0, "late"))])
    assert merges_in_place(summary)
    assert summary["books"]["superseded"] == 1
    assert table.files() == before


@pytest.mark.slow
def test_new_rows_after_the_last_file_get_files_of_their_own_if_it_is_full(table: Table) -> None:
    last = 10 * ROWS
    before = table.files()
    summary = apply(table, FIRST, [("I", row(last + number)) for number in range(3 * ROWS)])
    assert merges_in_place(summary)
    snapshot = table.log.snapshot(2)
    assert max(file.bytes for file in snapshot.files) <= 2 * TARGET_BYTES
    assert len(set(before) - set(table.files())) <= 1
    assert len(keys(table)) == len(set(keys(table))) == 4 * ROWS


@pytest.mark.slow
def test_a_file_that_outgrows_twice_the_target_is_cut(table: Table) -> None:
    summary = apply(table, FIRST, [("I", row(10 * number + 5)) for number in range(ROWS)])
    assert merges_in_place(summary)
    snapshot = table.log.snapshot(2)
    assert max(file.bytes for file in snapshot.files) <= 2 * TARGET_BYTES
    bounds = sorted((file.key_min, file.key_max) for file in snapshot.files)
    assert all(before[1] < after[0] for before, after in zip(bounds, bounds[1:]))  # type: ignore[operator]
    assert keys(table) == list(range(0, 10 * ROWS, 5))


@pytest.mark.parametrize(
    ("item", "in_place"),
    [({"PartitionKey": "text"}, False), ({"History": "true"}, True)],
    ids=["partitioned", "with a history"],
)
def test_only_partitioned_tables_are_always_merged_in_stages(
    tmp_path: Path, item: dict[str, str], in_place: bool
) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", **item})
    table.load([row(key, "a") for key in range(9)])
    assert merges_in_place(apply(table, FIRST, [("U", row(3, "b"))])) == in_place
    assert [one.row["text"] for one in table.rows() if one.row["id"] == 3] == ["b"]


def test_overlapping_files_are_merged_in_stages(tmp_path: Path) -> None:
    table = table_in_source_order(tmp_path, random_key)
    table.load_initial()
    rows = len(table.rows())
    assert not merges_in_place(table.apply_file(FIRST, [("D", {"id": random_key(7), "number": None})]))
    assert len(table.rows()) == rows - 1


def test_a_file_with_too_many_changes_for_a_task_is_merged_in_stages(
    table: Table,
) -> None:
    table.limits = EngineLimits(in_place_task_bytes=100)
    changes = [("U", row(10 * number, "new")) for number in range(50)]
    assert not merges_in_place(apply(table, FIRST, changes))
    assert sum(one.row["text"] == "new" for one in table.rows()) == 50


def test_an_update_that_moves_a_row_to_another_file_keeps_its_values(table: Table) -> None:
    table.item["UniqueChecks"] = "deferred"
    far = 10 * ROWS - 5
    assert merges_in_place(table.apply_file(FIRST, [("U", row(far, "moved"), {"id": 0})]))
    assert [one.row["text"] for one in table.rows() if one.row["id"] in (0, far)] == ["moved"]


def test_a_type_change_rewrites_every_file(table: Table) -> None:
    table.columns = pa.schema([("id", pa.decimal128(20, 0)), ("text", pa.string())])
    before = table.files()
    apply(table, FIRST, [("D", row(10))])
    assert not set(before) & set(table.files())
    assert len(table.rows()) == ROWS - 1
