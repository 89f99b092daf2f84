"""The raw files whose changes made rows what they are, of keys in any kind of column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.row_origin import RowOrigin, row_origins
from tests.cdclake.lake.table import NAME, Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string())])
FILE = "20240305-100000000.parquet"


@pytest.mark.parametrize(("key", "partition"), [("id", "null"), ("id,city", "city"), ("city,id", "id"), ("id", "id")])
def test_key_columns_may_be_partition_columns(tmp_path: Path, key: str, partition: str) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": key, "PartitionKey": partition})
    table.load([{"id": 1, "city": "Ulm"}])
    table.apply_file(FILE, [("I", {"id": 2, "city": "Bonn"})])
    location = TableLocation.at(table.lake.as_uri(), NAME.typed)

    def origins(number: int, city: str) -> list[RowOrigin]:
        return row_origins(location, [str(number) if key == "id" else f'{{"id": {number}, "city": "{city}"}}'])

    (loaded,), (inserted,) = origins(1, "Ulm"), origins(2, "Bonn")
    assert (loaded.file, loaded.row, loaded.key["id"]) == ("", None, 1)
    assert (inserted.file, inserted.row, inserted.key["id"]) == (FILE, 0, 2)
