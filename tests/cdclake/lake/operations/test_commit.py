"""What a change's record says about the run that made it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.errors import InputError, LeaseLostError
from cdclake.lake.operations.load import load_incremental
from tests.cdclake.lake.table import RAW_PREFIX, Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
CHANGE = "20240305-100000000.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a full load, and a change file that is due."""
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.write_load([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table.runs = 6
    table.load_initial()
    table.write_changes(CHANGE, [("U", {"id": 1, "name": "c"})])
    return table


def test_a_record_has_the_number_of_its_runs_lease(table: Table) -> None:
    assert table.log.record(1).fencing_token == 7
    table.runs = 8
    table.load_incremental()
    assert table.log.record(2).fencing_token == 9
    table.runs = 7
    with pytest.raises(LeaseLostError):
        table.load_incremental()


def test_a_partition_value_that_is_too_long_is_refused_with_file_and_row(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "PartitionKey": "name"})
    table.load([{"id": 1, "name": "a"}])
    table.write_changes(CHANGE, [("I", {"id": 2, "name": "a"}), ("I", {"id": 3, "name": "x" * 300})])
    with pytest.raises(InputError, match="too long for the name of a data file") as refused:
        table.load_incremental()
    where = {"table": table.layout.name, "file": CHANGE, "row": 2, "column": "name"}
    assert refused.value.details == where
    assert "xxx" not in str(refused.value)
    table.write_load([{"id": 1, "name": "x" * 300}])
    with pytest.raises(InputError, match="too long for the name of a data file") as refused:
        table.load_initial()
    assert "file" not in refused.value.details
    assert table.log.head() == 1


@pytest.mark.parametrize("readers", ["folder", "both"])
@pytest.mark.parametrize("history", ["false", "true"])
def test_a_change_that_is_refused_for_its_partition_value_leaves_nothing(
    tmp_path: Path, readers: str, history: str
) -> None:
    keys = {"PrimaryKey": "id", "PartitionKey": "name", "Readers": readers, "History": history}
    table = Table(tmp_path, COLUMNS, {**keys, "MaxQuarantinedRows": "1"})
    table.load([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table.apply_file(CHANGE, [("D", {"id": 1, "name": "a"})])
    before = stored(table)
    later = "20240305-110000000.parquet"
    changes = [("I", {"id": 3, "name": "long" * 75}), ("D", {"id": 2, "name": "b"}), ("X", {"id": 4, "name": "bad"})]
    table.write_changes(later, changes)
    with pytest.raises(InputError, match="too long for the name of a data file") as refused:
        table.load_incremental()
    assert (refused.value.details["file"], refused.value.details["row"]) == (later, 1)
    assert stored(table) == before
    with pytest.raises(InputError, match="too long for the name of a data file"):
        table.direct("I", [pa.table({"id": [5], "name": ["long" * 75]})])
    assert stored(table) == before
    table.write_load([{"id": 1, "name": "long" * 75}])
    with pytest.raises(InputError, match="too long for the name of a data file"):
        table.load_initial()
    assert stored(table) == before
    table.apply_file(later, changes[1:])
    assert table.log.record(3).books.quarantined == 1


def stored(table: Table) -> dict[str, bytes]:
    """All objects of the lake."""
    paths = (path for path in table.lake.rglob("*") if path.is_file())
    return {path.relative_to(table.lake).as_posix(): path.read_bytes() for path in paths}


def test_a_record_without_a_lease_has_the_number_before_it(table: Table) -> None:
    load_incremental(replace(table.run(), fencing_token=0), table.spark, "", "")
    assert table.log.record(2).fencing_token == 7


def test_bytes_read_count_raw_files_and_replaced_data_files(table: Table) -> None:
    raw_bytes = {path.name: path.stat().st_size for path in (table.raw / RAW_PREFIX).iterdir()}
    assert table.log.record(1).bytes_read == raw_bytes["LOAD00000001.parquet"]
    replaced_bytes = sum(file.bytes for file in table.log.snapshot(1).files)
    table.load_incremental()
    assert len(table.log.record(2).retired) == 1
    assert table.log.record(2).bytes_read == raw_bytes[CHANGE] + replaced_bytes


def test_a_reload_reads_none_of_the_data_files_that_it_replaces(table: Table) -> None:
    table.write_load([{"id": 3, "name": "d"}], 2)
    load_bytes = sum(path.stat().st_size for path in (table.raw / RAW_PREFIX).glob("LOAD*"))
    table.load_initial()
    record = table.log.record(2)
    assert (len(record.retired), record.bytes_read) == (1, load_bytes)
