"""A lake that was moved or copied: its Iceberg tables name files by URL, and so files of the old place."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from cdclake.commit.table_files import check_files
from cdclake.commit.undo import plan_reapply, plan_rollback
from cdclake.errors import ConfigurationError
from tests.cdclake.lake.iceberg.namesake import COLUMNS, row
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.model.layout import LakeLayout

pytestmark = pytest.mark.slow


@pytest.fixture(params=[("iceberg", "null"), ("iceberg", "city"), ("both", "null")])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> ErasableTable:
    """A table after two changes in a lake that is gone, and one in the lake where it is now."""
    readers, partition_key = request.param
    item = {"PrimaryKey": "id", "History": "true", "Readers": readers, "PartitionKey": partition_key}
    table = ErasableTable(tmp_path, COLUMNS, item)
    table.load([row(number) for number in range(1, 4)])
    table.apply(("U", row(1, "Ulm")), ("I", row(4)))
    move(table, "moved")
    return table


def move(table: ErasableTable, name: str) -> None:
    shutil.move(table.lake, table.root / name)
    table.lake = table.root / name


def readers(table: ErasableTable) -> tuple[IcebergReaders, IcebergReaders]:
    return IcebergReaders(table.lake, table.layout), IcebergReaders(table.lake, table.layout.history)


def seen(table: ErasableTable, change: int | None = None) -> tuple[list[int], int]:
    """Keys of the table, and the number of its versions."""
    rows, versions = (one.rows(change=change) for one in readers(table))
    return sorted(one["id"] for one in rows), len(versions)


def offered(table: ErasableTable) -> list[list[int]]:
    return [each.offered for each in readers(table)]


def test_the_next_change_lists_the_files_where_they_are(table: ErasableTable) -> None:
    table.apply(("D", row(2)))
    assert seen(table) == ([1, 3, 4], 6)
    assert offered(table) == [[3], [3]]
    table.apply(("I", row(5)))
    assert seen(table) == ([1, 3, 4, 5], 7)
    if table.item["Readers"] == "iceberg":
        assert (offered(table), seen(table, 3)) == ([[3, 4], [3, 4]], ([1, 3, 4], 6))
    check_files(table.log, table.log.snapshot(4))


def test_what_would_show_files_of_the_old_place_is_refused(table: ErasableTable) -> None:
    refusal = r"Change \d of shop.orders was made while the lake was at \S+/lake/.*Choose a change that was made here"
    with pytest.raises(ConfigurationError, match=refusal):
        table.roll_back(1)
    table.apply(("D", row(2)))
    table.apply(("I", row(5)))
    for to in (1, 2):
        with pytest.raises(ConfigurationError, match=refusal):
            plan_rollback(table.log, to)
    table.roll_back(3)
    assert seen(table) == ([1, 3, 4], 6)
    table.reapply()
    assert seen(table) == ([1, 3, 4, 5], 7)


def test_a_reapply_of_a_change_from_the_old_place_is_refused(table: ErasableTable) -> None:
    move(table, "lake")
    table.roll_back(1)
    assert seen(table) == ([1, 2, 3], 3)
    move(table, "moved")
    with pytest.raises(ConfigurationError, match="Choose a change that was made here"):
        plan_reapply(table.log)
    table.roll_back(0)
    assert readers(table)[0].finds_none


def test_readers_of_the_folder_see_the_rows(table: ErasableTable) -> None:
    table.item["Readers"] = "folder"
    table.apply(("D", row(2)))
    assert sorted(str(one.row["id"]) for one in table.rows()) == ["1", "3", "4"]
    table.item["Readers"] = "iceberg"
    table.apply(("I", row(5)))
    assert seen(table) == ([1, 3, 4, 5], 7)
    check_files(table.log, table.log.snapshot(4))


@pytest.mark.parametrize("changes", [0, 1])
def test_a_clean_up_leaves_what_the_retained_changes_need(table: ErasableTable, changes: int) -> None:
    for number in range(5, 5 + changes):
        table.apply(("I", row(number)))
    for hours in (0, 2):
        table.clean_up(timedelta(), timedelta(hours=hours))
    table.apply(("I", row(9)))
    assert seen(table) == ([1, 2, 3, 4, *range(5, 5 + changes), 9], 6 + changes)
    check_files(table.log, table.log.snapshot(table.log.head()))


@pytest.mark.parametrize("changes", [0, 1])
def test_an_erasure_leaves_nothing_of_the_rows(table: ErasableTable, changes: int) -> None:
    for number in range(5, 5 + changes):
        table.apply(("I", row(number, "Bonn")))
    table.erase("1")  # the only row of Ulm
    assert seen(table) == ([2, 3, 4, *range(5, 5 + changes)], 3 + changes)
    assert offered(table) == [[table.log.head()], [table.log.head()]]
    manifests = [path for layout in layouts(table) for path in (table.lake / layout.iceberg_prefix).rglob("*.avro")]
    needed = {table.lake / key for key in table.log.snapshot(table.log.head()).manifest_keys}
    assert needed <= set(manifests)
    table.apply(("I", row(9)))
    assert seen(table)[0] == [2, 3, 4, *range(5, 5 + changes), 9]
    check_files(table.log, table.log.snapshot(table.log.head()))


def test_an_erasure_that_finds_no_row_changes_nothing_for_good(table: ErasableTable) -> None:
    table.apply(("I", row(5)))
    table.erase("77")
    head = table.log.head()
    table.erase("77")
    assert table.log.head() == head
    assert seen(table)[0] == [1, 2, 3, 4, 5]


def layouts(table: ErasableTable) -> tuple[LakeLayout, LakeLayout]:
    return table.layout, table.layout.history
