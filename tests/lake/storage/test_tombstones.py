"""Tombstone files: what a task reads of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from cdclake.lake.storage import tombstones
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.tombstones import find_tombstones, write_tombstone_file
from cdclake.model.position import COLUMN as POSITION

if TYPE_CHECKING:
    from pathlib import Path


def deletes_of(keys: list[Any], kind: pa.DataType) -> pa.Table:
    columns = {LEADING_KEY: pa.array(keys, kind), KEY: pa.array(keys, kind)}
    return pa.table({**columns, POSITION: pa.array([f"p{i}" for i in range(len(keys))])})


@pytest.mark.parametrize(
    ("keys", "wanted", "kind", "groups"),
    [
        pytest.param([900, 5, 100, 6, 300, 7, -4, 2**62], [7, 8, 300], pa.int64(), 2, id="integers"),
        pytest.param(["é", "z", "a", "b", "", "𝄞", "ab", "zz"], ["ab", "é", "q"], pa.string(), 2, id="text"),
        pytest.param(["x" * 9_000 + c for c in "dabc"], ["x" * 9_000 + "b"], pa.string(), 2, id="no statistics"),
    ],
)
def test_a_task_reads_only_row_groups_that_may_contain_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[Any], wanted: list[Any], kind: pa.DataType, groups: int
) -> None:
    monkeypatch.setattr(tombstones, "ROWS_PER_GROUP", 2)
    deletes, fs = deletes_of(keys, kind), LocalFileSystem()
    file = write_tombstone_file(fs, str(tmp_path / "deletes.parquet"), deletes, "20240305-101500000")
    read: list[int] = []
    read_row_group = pq.ParquetFile.read_row_group

    def recorded(parquet: pq.ParquetFile, group: int, **options: Any) -> pa.Table:
        read.append(group)
        return read_row_group(parquet, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", recorded)
    searched = pa.chunked_array([pa.array(wanted, kind)])

    found = find_tombstones(fs, [file], searched, searched, deletes.schema)

    expected = {row[POSITION] for row in deletes.to_pylist() if row[KEY] in wanted}
    assert {row[POSITION] for row in found.to_pylist()} == expected
    assert len(read) == groups
