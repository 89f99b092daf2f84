"""What else works on a table with Iceberg readers: history, export, reads as of a change, direct changes."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from cdclake.lake.operations.export import export_table
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.retained_files import RetainedFileReader
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.over_time import TABLE, TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string())])


def row(number: int) -> dict[str, Any]:
    return {"id": number, "city": "Kiel" if number % 2 else "Ulm"}


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    item = {"PrimaryKey": "id", "PartitionKey": "city", "Readers": "iceberg", "History": "true"}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load([row(1), row(2)])
    table.apply(("I", row(3)), ("D", row(2)))
    return table


def ids(table: TableOverTime, change: int | None = None) -> list[int]:
    return sorted(one["id"] for one in IcebergReaders(table.lake, table.layout).rows(change=change))


def test_an_export_has_partition_folders(table: TableOverTime, tmp_path: Path) -> None:
    for change, expected in ((1, [(1, "Kiel"), (2, "Ulm")]), (2, [(1, "Kiel"), (3, "Kiel")])):
        target = tmp_path / f"export-{change}"
        export_table(table.location, TABLE, str(target), change=change)
        query = f"SELECT id, city FROM read_parquet('{target}/**/*.parquet', hive_partitioning = true) ORDER BY id"
        assert duckdb.sql(query).fetchall() == expected
        assert all(path.parent.name.startswith("city=") for path in target.rglob("*.parquet"))


def test_own_readers_read_every_retained_change(table: TableOverTime) -> None:
    location = TableLocation.at(table.location, TABLE)
    reader = RetainedFileReader(location)
    for change, expected in ((1, [1, 2]), (2, [1, 3])):
        as_of = table_as_of(table.log, change)
        rows = [one for file in as_of.files for group in reader.row_groups(file) for one in group["id"].to_pylist()]
        assert sorted(rows) == expected


def test_a_direct_change_is_a_snapshot(table: TableOverTime) -> None:
    table.item["History"] = "false"
    table.direct("I", [pa.table({"id": [9], "city": ["Bonn"]})])
    assert (ids(table), ids(table, 2)) == ([1, 3, 9], [1, 3])


def test_files_without_field_ids_are_written_again(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(1), row(2)])
    table.apply(("I", row(3)))
    log = table.log
    record = log.record(2)
    old = log.store.get(record.snapshot_key)
    assert old
    of_earlier_version = gzip.decompress(old).replace(b'"has_field_ids":true', b'"has_field_ids":false')
    log.store.put(record.snapshot_key, gzip.compress(of_earlier_version))
    table.item["Readers"] = "iceberg"
    table.apply(("I", row(4)))
    assert ids(table) == [1, 2, 3, 4]
    assert all(file.has_field_ids for file in log.snapshot(3).files)
    assert all("moved" not in file.path for file in log.snapshot(3).files)
