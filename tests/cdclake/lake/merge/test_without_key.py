"""A table without a key: every insert is a row."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cdclake.lake.merge.test_against_oracle import LARGE, SMALL, small_changes
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("limits", [SMALL, LARGE], ids=["in the driver", "in tasks"])
@pytest.mark.parametrize("partition", ["null", "city"])
def test_a_large_change_fills_several_files_with_each_row_once(
    tmp_path: Path, partition: str, limits: tuple[int, int, int]
) -> None:
    columns = pa.schema([("city", pa.string()), ("n", pa.int64())])
    item = {"PrimaryKey": "null", "PartitionKey": partition, "TargetFileBytes": "2000"}
    table = Table(tmp_path, columns, item, limits=small_changes(limits))
    rows = [{"city": "ab"[number % 2], "n": number} for number in range(1000)]
    table.apply_file("20240305-100000000.parquet", [("I", row) for row in rows])
    changes = [("U", rows[0]), ("I", rows[1]), ("D", rows[2])]
    books = table.apply_file("20240305-110000000.parquet", changes)["books"]
    assert (books["inserted"], books["ignored"]) == (1, 2)
    assert sorted(one.row["n"] for one in table.rows()) == sorted([*range(1000), 1])
    for _, paths in groupby(table.files(), lambda path: path.rpartition("/")[0]):
        sizes = [pq.read_metadata(table.folder / path).num_rows for path in paths]
        assert len(sizes) > 2
        assert max(sizes) <= 2 * min(sizes)
