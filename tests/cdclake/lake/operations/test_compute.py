"""Preparing a change does not copy the data files that it leaves as they are."""

from __future__ import annotations

from cdclake.lake.operations.compute import _with_partitions
from cdclake.lake.storage.shape import TableShape
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot


def test_only_files_in_another_partition_are_copied() -> None:
    was, now = (Schema((Column("id", "int"), Column("p", f"decimal({size})"))) for size in ("4,1", "6,2"))
    stays, moves = DataFile("p=1.10/1.parquet", 3, 9, ("1.10",)), DataFile("p=1.1/2.parquet", 3, 9, ("1.1",))
    before = Snapshot(1, was, ("id",), ("p",), files=(stays, moves))
    files = _with_partitions(before, TableShape(now, ("id",), ("p",)))
    assert [file.partition for file in files] == [("1.10",), ("1.10",)]
    assert files[0] is stays
