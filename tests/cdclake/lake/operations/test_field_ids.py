"""Every data file has the field ids of its columns, so that it can become part of an Iceberg table as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
FIRST, SECOND = (f"20240305-10{minute}00000.parquet" for minute in (10, 20))
ROW: dict[str, Any] = {"id": 1, "city": "Kiel", "n": 1}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "History": "true"})
    table.load([{**ROW, "id": i} for i in range(1, 6)])
    return table


def ids_in(folder: Path) -> dict[str, dict[str, int]]:
    """By name of a data file, the field ids of its columns."""
    found = {}
    for path in folder.rglob("*.parquet"):
        schema = pq.ParquetFile(path).schema_arrow
        found[path.name] = {column.name: int(column.metadata[b"PARQUET:field_id"]) for column in schema}
    return found


def test_files_of_the_table_and_of_its_history_have_ids(table: Table) -> None:
    (ids,) = ids_in(table.folder).values()
    assert ids == {"id": 1, "city": 2, "n": 3, "Op": 4, "_cdc_position": 5}
    snapshot = table.log.snapshot(1)
    assert {name: snapshot.field_ids.of(name) for name in ids} == ids
    assert snapshot.history
    for versions in ids_in(table.lake / table.layout.history.table_prefix).values():
        assert versions == {name: snapshot.history.field_ids.of(name) for name in versions}
    assert all(file.has_field_ids for file in snapshot.all_files)


def test_ids_stay_when_columns_change(table: Table) -> None:
    types = {"note": pa.string(), "n": pa.float64()}
    table.apply_file(FIRST, [("U", {**ROW, "note": "x", "n": 1.5})], types)
    (ids,) = ids_in(table.folder).values()
    assert ids == {"id": 1, "city": 2, "n": 6, "note": 7, "Op": 4, "_cdc_position": 5}
    assert table.log.snapshot(2).history is not None


def test_a_partition_column_has_an_id(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "PartitionKey": "city"})
    table.load([ROW])
    (ids,) = ids_in(table.folder).values()
    assert ids == {"id": 1, "n": 3, "Op": 4, "_cdc_position": 5}
    assert table.log.snapshot(1).field_ids.of("city") == 2


def test_a_full_load_keeps_the_ids_of_columns_that_stay(table: Table) -> None:
    table.columns = pa.schema([("n", pa.int64()), ("id", pa.int64()), ("town", pa.string())])
    table.raw_path("LOAD00000001.parquet").unlink()
    table.write_load([{"n": 1, "id": 1, "town": "Kiel"}])
    table.item["History"] = "false"
    table.load_initial()
    (ids,) = ids_in(table.folder).values()
    assert ids == {"n": 3, "id": 1, "town": 6, "Op": 4, "_cdc_position": 5}
