"""cdclake's readers leave out soft-deleted rows unless they are requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from cdclake.lake.operations.export import export_table
from cdclake.lake.read.change_feed import read_changes
from cdclake.lake.read.dataframe import read_table
from cdclake.lake.read.diff import read_diff
from cdclake.lake_table import LakeTable
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import ManualClock, MemoryState
from tests.cdclake.lake.over_time import TABLE, TableOverTime, digest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string())])
ITEM = {"PrimaryKey": "id", "PartitionKey": "city", "DeleteMode": "soft"}


def row(number: int, city: str = "Ulm") -> dict[str, Any]:
    return {"id": number, "city": city}


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    """Change 2 deletes row 2 and all of Bonn, change 3 inserts row 2 again, change 4 deletes it again."""
    table = TableOverTime(tmp_path / "source", COLUMNS, ITEM)
    table.load([row(1), row(2), row(3, "Bonn")])
    table.apply(("D", row(2)), ("D", row(3, "Bonn")))
    table.apply(("I", row(2)))
    table.apply(("D", row(2)))
    return table


def found(frame: DataFrame) -> set[tuple[Any, ...]]:
    rows = [tuple(one) for one in frame.collect()]
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_soft_deleted_rows_are_read_only_on_request(session: SparkSession, table: TableOverTime) -> None:
    ids = {n: {one[0] for one in found(read_table(session, table.location, TABLE, change=n))} for n in (1, 2, 3, 4)}
    assert ids == {1: {1, 2, 3}, 2: {1}, 3: {1, 2}, 4: {1}}
    everything = read_table(session, table.location, TABLE, with_deleted=True).select("id", "city", "Op")
    assert found(everything) == {(1, "Ulm", "I"), (2, "Ulm", "D"), (3, "Bonn", "D")}


def test_diffs_and_the_feed_report_soft_deletes_as_deletes(session: SparkSession, table: TableOverTime) -> None:
    feed = read_changes(session, table.location, TABLE, 1).select("change", "change_type", "id")
    assert found(feed) == {(2, "delete", 2), (2, "delete", 3), (3, "insert", 2), (4, "delete", 2)}
    assert found(read_diff(session, table.location, TABLE, 2, 4)) == set()
    assert found(read_diff(session, table.location, TABLE, 4, 1)) == {("insert", 2, "Ulm"), ("insert", 3, "Bonn")}


def test_an_export_omits_soft_deleted_rows_and_copies_other_files(table: TableOverTime, tmp_path: Path) -> None:
    live = export_table(table.location, TABLE, str(tmp_path / "live"))
    assert (live.files, live.rows) == (1, 1)
    assert live.bytes == sum(path.stat().st_size for path in (tmp_path / "live").rglob("*.parquet"))
    read = ds.dataset(tmp_path / "live", partitioning="hive").to_table(columns=["id", "city", "Op"])
    assert read.to_pylist() == [{**row(1), "Op": "I"}]
    every = export_table(table.location, TABLE, str(tmp_path / "every"), with_deleted=True)
    assert (every.files, every.rows) == (2, 3)
    folder = tmp_path / "every"
    copies = {path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in folder.rglob("*.parquet")}
    assert copies == table.hashes()


def test_direct_changes_soft_delete_and_reinsert_rows(
    tmp_path: Path, session: SparkSession, clock: ManualClock
) -> None:
    states = MemoryState()
    people = LakeTable("crm.people", lake=tmp_path.as_uri(), spark=session, states=states, clock=clock, user="ann")
    people.register(["id"])
    (state,) = states.all("")
    states.set_attributes(state.path, {Attribute.DELETE_MODE: "soft", Attribute.HISTORY: "true"})
    people.insert([row(1), row(2), row(3, "Bonn")])
    assert people.delete("city = 'Ulm'").deleted == 2
    clock.advance(60)
    assert people.delete("id <= 3").deleted == 1
    clock.advance(60)
    assert people.insert([row(2, "Kiel")]).inserted == 1
    assert found(people.as_of().select("id", "city")) == {(2, "Kiel")}
    deleted = people.as_of(with_deleted=True).where("Op = 'D'").select("id", "city")
    assert found(deleted) == {(1, "Ulm"), (3, "Bonn")}
    versions = people.history(2).select("operation", "city").collect()
    assert [tuple(one) for one in versions] == [("insert", "Ulm"), ("delete", "Ulm"), ("insert", "Kiel")]
    totals = [tuple(one) for one in people.changes().select("change", "deleted", "rows").orderBy("change").collect()]
    assert totals == [(1, 0, 3), (2, 2, 1), (3, 1, 0), (4, 0, 1)]
