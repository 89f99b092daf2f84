"""Tombstone files: what a task reads of them, also after key columns became wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.lake.limits import EngineLimits
from cdclake.lake.storage.keys import KEY, LEADING_KEY, row_keys
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.tombstones import (
    TombstonePlan,
    find_tombstones,
    read_tombstone_file,
    tombstone_schema,
    write_tombstone_file,
    write_tombstones,
)
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import Column, Schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyarrow.fs import FileSystem

    from cdclake.model.snapshot import TombstoneFile

DELETED = "202403051200000000|20240305-120000000/f.csv|0000000000"


def shape_of(*kinds: str) -> TableShape:
    columns = tuple(Column(f"k{i}", kind) for i, kind in enumerate(kinds))
    return TableShape(Schema(columns), tuple(column.name for column in columns), ())


def stored(
    folder: Path, leading: list[Any], keys: list[Any], types: tuple[str, ...]
) -> tuple[FileSystem, TombstoneFile]:
    """A file of deletes, given the types that the keys are encoded for."""
    rows = pa.table({LEADING_KEY: leading, KEY: keys, POSITION: [DELETED] * len(keys)})
    fs = lake_filesystem(folder.as_uri()).open()
    return fs, write_tombstone_file(fs, "old.parquet", rows, "20240305-120000000/f.csv", types)


def found(fs: FileSystem, file: TombstoneFile, shape: TableShape, *key: Any) -> int:
    columns = [pa.array([text]).cast(to_arrow(kind)) for text, kind in zip(key, shape.key_types, strict=True)]
    leading_keys, keys = map(pa.chunked_array, ([column] for column in row_keys(columns)))
    rows: int = find_tombstones(fs, [file], leading_keys, keys, shape).num_rows
    return rows


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
    limits = EngineLimits(tombstone_group_rows=2)
    deletes, fs, shape = deletes_of(keys, kind), LocalFileSystem(), shape_of(from_arrow(kind) or "")
    file = write_tombstone_file(
        fs, str(tmp_path / "deletes.parquet"), deletes, "20240305-101500000", shape.key_types, limits
    )
    read: list[int] = []
    read_row_group = pq.ParquetFile.read_row_group

    def recorded(parquet: pq.ParquetFile, group: int, *columns: Any, **options: Any) -> pa.Table:
        read.append(group)
        return read_row_group(parquet, group, *columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", recorded)
    searched = pa.chunked_array([pa.array(wanted, kind)])

    found = find_tombstones(fs, [file], searched, searched, shape)

    expected = {row[POSITION] for row in deletes.to_pylist() if row[KEY] in wanted}
    assert {row[POSITION] for row in found.to_pylist()} == expected
    assert len(read) == groups


@pytest.mark.parametrize(
    ("kind", "was", "key", "other"),
    [
        ("bigint", "bigint", 5, "6"),
        ("bigint", "int", 5, "6"),
        ("string", "string", "5.0", "5"),
        ("decimal(10,0)", "decimal(10,0)", "5", "6"),
        ("decimal(12,2)", "decimal(12,2)", "5.00", "5.01"),
        ("decimal(12,2)", "decimal(10,0)", "5", "50"),
        ("decimal(12,2)", "int", 5, "50"),
        ("double", "double", "0.1", "0.2"),
        ("double", "float", "0.5", "0.1"),
    ],
)
def test_the_stored_key_of_a_delete_is_found(tmp_path: Path, kind: str, was: str, key: Any, other: str) -> None:
    fs, file = stored(tmp_path, [key], [key], (was,))
    assert found(fs, file, shape_of(kind), str(key)) == 1
    assert found(fs, file, shape_of(kind), other) == 0


def test_the_stored_key_of_several_columns_is_found(tmp_path: Path) -> None:
    types = "string", "decimal(10,0)", "double"
    fs, file = stored(tmp_path, ["a:b\0005\0000"], ["3:a:b:1:5:1:0"], types)
    shape = shape_of("string", "decimal(12,2)", "double")
    assert found(fs, file, shape, "a:b", "5", "0") == 1
    assert found(fs, file, shape, "a:b", "5", "1") == 0


def test_merged_files_have_the_keys_of_the_types_now(tmp_path: Path) -> None:
    fs, file = stored(tmp_path, [5, 6], [5, 6], ("int",))
    shape = shape_of("decimal(12,2)")
    new = tombstone_schema(shape).empty_table()
    merged = write_tombstones(fs, "new.parquet", TombstonePlan((), (file,), "", True), new, shape)[0]
    assert (merged.key_min, merged.key_max, merged.key_types) == ("5.00", "6.00", ("decimal(12,2)",))
    assert found(fs, merged, shape, "6") == 1


def test_the_file_of_a_delete_decides_whether_it_is_dropped(tmp_path: Path) -> None:
    outdated = "9|20240307-000000000/of the ordering value|20240305-120000000/f.csv|0000000000+-"
    kept = {"", "one|part", "a|0000000001|~", "1|20240305-000000000/x|20240306-000000000/2024/f.csv|0000000007_~"}
    shape = shape_of("bigint")
    positions = [*sorted(kept), outdated, DELETED]
    new = pa.table([range(6), range(6), positions], schema=tombstone_schema(shape))
    plan = TombstonePlan((), (), "20240306-000000000", needed=True)
    fs = lake_filesystem(tmp_path.as_uri()).open()
    file, forgotten = write_tombstones(fs, "new.parquet", plan, new, shape)
    assert set(read_tombstone_file(fs, file.key)[POSITION].to_pylist()) == kept
    assert (forgotten, file.newest) == (outdated, "20240306-000000000/2024/f.csv")
