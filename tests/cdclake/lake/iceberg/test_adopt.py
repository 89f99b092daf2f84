"""A table that other jobs wrote is adopted, and switched to Iceberg readers by its next change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.model.iceberg.table import Readers
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.operations.adopt.adoptable_table import APPLIED, AdoptableTable
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
FILTERS = {"n > 20": {3, 9}, "city = 'Ulm'": {1, 9}, "city IS NULL": {3}, "id < 3": {1}}


def row(number: int, city: str | None, n: int) -> dict[str, Any]:
    return {"id": number, "city": city, "n": n}


def adopted(tmp_path: Path, partition_key: str) -> AdoptableTable:
    """A table with rows 1, 2 and 3 in two files, which have no operations, positions and field ids."""
    item = {"PrimaryKey": "id", "PartitionKey": partition_key, "Schema": "id bigint, city string, n int"}
    table = AdoptableTable(Table(tmp_path, COLUMNS, item))
    for file, city, rows in (("a", "Ulm", [row(1, "Ulm", 10), row(2, "Ulm", 20)]), ("b", None, [row(3, None, 30)])):
        columns = pa.Table.from_pylist(rows, COLUMNS).select(["n", "city", "id"])
        folder = f"city={city or '__HIVE_DEFAULT_PARTITION__'}/" if partition_key == "city" else ""
        table.write(f"{folder}{file}.parquet", columns.drop_columns(["city"]) if folder else columns)
    table.adopt()
    return table


@pytest.mark.slow
@pytest.mark.parametrize("partition_key", ["null", "city"])
@pytest.mark.parametrize("readers", [Readers.ICEBERG, Readers.BOTH])
def test_an_adopted_table_can_get_iceberg_readers(tmp_path: Path, readers: Readers, partition_key: str) -> None:
    adoptee = adopted(tmp_path, partition_key)
    table = adoptee.table
    table.item["Readers"] = readers.value
    table.write_changes("20240305-100000000.parquet", [("D", row(2, "Ulm", 20)), ("I", row(9, "Ulm", 90))])
    assert table.load_incremental(APPLIED)["change"] == 2

    reading = IcebergReaders(table.lake, table.log.layout)
    for read in (reading.pyiceberg, reading.duckdb):
        assert sorted((one["id"], one["city"], one["n"]) for one in read()) == [
            (1, "Ulm", 10),
            (3, None, 30),
            (9, "Ulm", 90),
        ]
        for condition, ids in FILTERS.items():
            assert {one["id"] for one in read(condition)} == ids, (read, condition)
    in_folder = {one.row["id"] for one in table.rows()}
    assert in_folder == ({1, 3, 9} if readers is Readers.BOTH else set())

    adoptee.clock.advance(3600)
    adoptee.registered("undo").rollback()
    assert {one.row["id"] for one in table.rows()} == {1, 2, 3}


def test_adopted_files_without_erased_rows_can_get_iceberg_readers_after_a_rollback(tmp_path: Path) -> None:
    adoptee = adopted(tmp_path, "null")
    table = adoptee.table
    table.item["TargetFileBytes"] = str((adoptee.folder / "a.parquet").stat().st_size)  # so that no files are merged
    table.apply_file("20240305-100000000.parquet", [("U", row(3, None, 31))])
    assert (adoptee.folder / "a.parquet").exists()
    adoptee.erase("1")
    adoptee.registered("undo").rollback(to=1)
    table.runs = table.log.record(4).fencing_token
    table.item["Readers"] = "iceberg"
    assert table.load_incremental(APPLIED)["change"] == 5

    reading = IcebergReaders(table.lake, table.log.layout)
    for read in (reading.pyiceberg, reading.duckdb):
        assert sorted((one["id"], one["city"], one["n"]) for one in read()) == [(2, "Ulm", 20), (3, None, 31)]
