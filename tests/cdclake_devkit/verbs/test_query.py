"""A query of a local lake sees the columns and types of each table, whichever its files have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from cdclake.model.table.name import TableName
from cdclake_devkit.verbs.query import lake_rows
from tests.cdclake.lake.over_time import TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("zip", pa.string())])


def asked(lake: TableOverTime, sql: str) -> list[tuple[object, ...]]:
    rows = lake_rows(SubTreeFileSystem(str(lake.lake), LocalFileSystem()), lake.log)
    assert rows is not None
    with duckdb.connect() as session:
        session.register("rides", rows)
        return session.sql(sql).fetchall()


@pytest.mark.parametrize("readers", ["folder", "iceberg", "both"])
def test_partitions_keep_their_text_and_columns_that_came_later_are_there(tmp_path: Path, readers: str) -> None:
    lake = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "PartitionKey": "zip", "Readers": readers})
    lake.load([{"id": 1, "zip": "04103"}, {"id": 2, "zip": None}])
    later = COLUMNS.append(pa.field("rider", pa.string()))
    lake.apply(("I", {"id": 3, "zip": "99999", "rider": "Ada"}), schema=later)
    rows = asked(lake, "select id, zip, rider from rides order by id")
    assert rows == [(1, "04103", None), (2, None, None), (3, "99999", "Ada")]


def test_a_table_may_have_a_name_that_hides_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cdclake.lake.table.NAME", TableName("shop", "_rides"))
    lake = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    lake.load([{"id": 1, "zip": "04103"}])
    assert asked(lake, "select id from rides") == [(1,)]


def test_a_table_without_rows_is_there_and_one_that_was_never_loaded_is_not(tmp_path: Path) -> None:
    lake = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    assert lake_rows(SubTreeFileSystem(str(tmp_path), LocalFileSystem()), lake.log) is None
    lake.load([])
    assert asked(lake, "select count(*) from rides") == [(0,)]
