"""Which raw files are accepted, and what happens to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import ConfigurationError, InputError, SchemaMismatchError, UnreadableFileError
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

PERSONS = pa.schema([("id", pa.int32()), ("name", pa.string())])
ANN: dict[str, Any] = {"id": 1, "name": "Ann"}
CHANGE = "20240305-101500000.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, PERSONS, {"PrimaryKey": "id"})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1 and then nothing of the sort",
        b"PAR1" + bytes(99) + b"PAR1",
        b"id,name\n",
        ABORTS_PYARROW.read_bytes(),
    ],
    ids=["empty", "cut", "no footer", "footer", "csv", "aborts pyarrow"],
)
def test_a_damaged_parquet_file_is_named_and_nothing_is_applied(table: Table, content: bytes) -> None:
    table.load([ANN])
    table.write_changes("20240305-091500000.parquet", [("D", ANN)])
    before = table.files()
    with pytest.raises(UnreadableFileError, match=CHANGE) as caught:
        table.apply_file(CHANGE, content)
    assert caught.value.details["file"] == CHANGE
    assert "IgnoreFiles" in caught.value.remedy
    assert table.files() == before
    assert table.log.head() == 1


def test_a_parquet_file_with_damaged_pages_is_named(table: Table) -> None:
    table.write_load([{"id": i, "name": f"name {i}" * 9} for i in range(3000)])
    path = table.raw_path("LOAD00000001.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(5000) + whole[5100:])
    with pytest.raises(UnreadableFileError, match="LOAD00000001"):
        table.load_initial()
    assert table.files() == []


def test_a_column_without_a_common_type_stops_the_table(table: Table) -> None:
    table.load([ANN])
    with pytest.raises(SchemaMismatchError, match="name is string in the lake and bigint in a raw file"):
        table.apply_rows(CHANGE, [{"Op": "I", "id": 2, "name": 5}], name=pa.int64())
    assert table.log.head() == 1


def test_no_full_load_files_is_a_clear_error(table: Table) -> None:
    with pytest.raises(InputError, match="no full-load files"):
        table.load_initial()


def test_a_key_or_partition_column_that_does_not_exist_is_a_clear_error(table: Table) -> None:
    table.item["PartitionKey"] = "country"
    with pytest.raises(ConfigurationError, match="no column country"):
        table.load([ANN])
