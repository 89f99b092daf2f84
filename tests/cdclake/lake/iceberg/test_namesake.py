"""A table `orders_history` of the source, beside a table `orders` that has, or had, a history in the same place."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from cdclake.commit import undo
from cdclake.commit.clean_up import clean_up, has_leftovers, plan_clean_up
from cdclake.commit.table_files import check_files, compare
from cdclake.commit.undo import plan_reapply, plan_rollback
from cdclake.errors import ConfigurationError
from tests.cdclake.lake.iceberg.namesake import COLUMNS, READERS, Namesake, row, with_undone_history
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cdclake.lake.over_time import TableOverTime


def seen(table: TableOverTime, readers: str) -> list[int]:
    """Keys that readers of a table see, in each of the places that they may open."""
    if readers != "folder":
        found = sorted(one["id"] for one in IcebergReaders(table.lake, table.layout).rows())
    if readers != "iceberg":
        files = [pq.read_table(path)["id"].to_pylist() for path in table.folder.rglob("*.parquet")]
        listed = sorted(number for numbers in files for number in numbers)
        assert readers == "folder" or found == listed
        found = listed
    return found


@pytest.mark.slow
@READERS
def test_a_history_is_not_reapplied_in_the_place_of_another_table(tmp_path: Path, readers: str) -> None:
    table, other = with_undone_history(tmp_path, readers)
    other.load([row(1), row(2)])
    for make_plan in (lambda: plan_reapply(table.log), lambda: plan_rollback(table.log, 2)):
        with pytest.raises(ConfigurationError, match=r"shop\.orders_history uses.*Set History to false"):
            make_plan()
    assert (table.log.head(), seen(table, readers), seen(other, readers)) == (3, [5], [1, 2])
    other.apply(("D", row(1)))
    with pytest.raises(ConfigurationError, match=r"shop\.orders_history uses.*Set History to false"):
        table.apply(("U", row(5, "Bonn")))
    table.item["History"] = "false"  # the way out
    table.apply(("U", row(5, "Ulm")), ("I", row(6)))
    assert (seen(table, readers), seen(other, readers)) == ([5, 6], [2])


@pytest.mark.slow
@READERS
def test_two_tables_in_one_place_get_out_of_it(tmp_path: Path, readers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history is reapplied while the first change of the other table is committed."""
    table, other = with_undone_history(tmp_path, readers)
    other.load([row(1), row(2)])
    with monkeypatch.context() as patched:
        patched.setattr(undo, "require_place_of_history", lambda *_: None)
        table.reapply()
    with pytest.raises(ConfigurationError, match=r"history of shop\.orders.*cdclake rollback shop\.orders --to"):
        other.apply(("D", row(1)))
    with pytest.raises(ConfigurationError, match=r"cdclake rollback shop\.orders --to"):
        table.apply(("U", row(5, "Bonn")))
    head = table.log.snapshot(table.log.head())
    assert not compare(table.log, head.all_files)  # a repair would move the files of the other table away
    check_files(table.log, head)
    table.roll_back(1)
    table.item["History"] = "false"
    other.apply(("D", row(1)))
    table.apply(("I", row(6)))
    assert (seen(table, readers), seen(other, readers)) == ([5, 6], [2])
    for one in (table, other):
        check_files(one.log, one.log.snapshot(one.log.head()))


@pytest.mark.slow
@READERS
def test_an_erasure_leaves_the_place_of_another_table_alone(tmp_path: Path, readers: str) -> None:
    table, other = with_undone_history(tmp_path, readers)
    other.load([row(5), row(2)])
    files = {path: path.read_bytes() for path in (table.lake / "_iceberg/shop/orders_history").rglob("*.*")}
    files |= {path: path.read_bytes() for path in other.folder.rglob("*.*")}
    with pytest.raises(
        ConfigurationError, match=r"shop\.orders_history uses.*cdclake clean-up shop\.orders --retention-days 0"
    ):
        table.erase("5")
    assert {path: path.read_bytes() for path in files} == files
    assert table.log.head() == 3
    clean_up(table.log, plan_clean_up(table.log, timedelta(0), table.next_time()))  # the way out
    table.erase("5")
    assert (seen(table, readers), seen(other, readers)) == ([], [2, 5])


def test_the_folder_of_another_table_is_left_alone(tmp_path: Path) -> None:
    """Without a history of `orders`, the folder may be that of a table `orders_history`."""
    item = {"PrimaryKey": "id", "Readers": "iceberg"}
    other = Namesake(tmp_path / "other", COLUMNS, item)
    other.load([row(1)])
    other.apply(("U", row(1, "Ulm")), ("I", row(2)))
    table = ErasableTable(tmp_path / "orders", COLUMNS, item)
    table.lake.rmdir()
    table.lake = other.lake
    table.load([row(1)])
    table.apply(("U", row(1, "Ulm")))
    files = {path for path in (other.lake / other.layout.iceberg_prefix).rglob("*") if path.is_file()}
    assert not has_leftovers(table.log, 2)
    for retention in (timedelta(), timedelta(hours=2)):
        now = table.next_time() + timedelta(days=10_000) + retention  # files are as old as this test
        clean_up(table.log, plan_clean_up(table.log, timedelta(), now))
    table.erase("1")
    assert IcebergReaders(table.lake, table.layout).rows() == []
    assert {path for path in (other.lake / other.layout.iceberg_prefix).rglob("*") if path.is_file()} == files
    assert [len(IcebergReaders(other.lake, other.layout).rows(change=change)) for change in (1, 2)] == [1, 2]
