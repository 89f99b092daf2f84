"""Many small raw files are read concurrently and returned in order."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem, FileSystemHandler, LocalFileSystem, PyFileSystem

from cdclake.adapters.filesystem import open_input
from cdclake.errors import UnreadableFileError
from cdclake.lake.raw import parquet, read_ahead
from cdclake.lake.raw.read_ahead import READS_AHEAD, SMALL_BYTES, read_all
from cdclake.lake.raw.reader import Slice, inspect_raw_file
from cdclake.lake.storage.shape import TableShape
from cdclake.model.rawfiles import ListedObject, parse_raw_file
from cdclake.model.schema import Column, Schema
from cdclake.model.table import TableName, TableSettings

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.raw.rows import ReadBatch

FILES = 50
LATENCY_S = 0.02
SHAPE = TableShape(Schema((Column("id", "bigint"),)), ("id",), ())
SETTINGS = TableSettings(primary_key=("id",))
TABLE = TableName("shop", "orders")


class Bucket:
    """A local folder whose files take a while to open.

    Attributes:
        max_concurrent: Largest number of files that were being opened at once.
    """

    def __init__(self) -> None:
        self.max_concurrent = self._now = 0
        self._lock = Lock()

    def open(self, path: str) -> pa.NativeFile:
        with self._lock:
            self._now += 1
            self.max_concurrent = max(self.max_concurrent, self._now)
        time.sleep(LATENCY_S)
        with self._lock:
            self._now -= 1
        return LocalFileSystem().open_input_file(path)

    def file_system(self) -> PyFileSystem:
        methods: dict[str, Any] = dict.fromkeys(FileSystemHandler.__abstractmethods__)
        methods["open_input_file"] = methods["open_input_stream"] = lambda _, path: self.open(path)
        return PyFileSystem(type("Handler", (FileSystemHandler,), methods)())


def slices(folder: Path, size_bytes: int | None = None) -> list[Slice]:
    """Change files of one row each, whose key is the file's number; `size_bytes` overrides their size."""
    parts = []
    for number in range(FILES):
        path = folder / f"20240305-1015{number:02d}000.parquet"
        pq.write_table(pa.table({"Op": ["I"], "id": pa.array([number], pa.int64())}), path)
        entry = ListedObject(str(path), path.stat().st_size, datetime(2024, 3, 5, tzinfo=timezone.utc))
        file = parse_raw_file(entry, f"{folder}/")
        assert file is not None
        parts.append(Slice(file, size_bytes or file.size_bytes))
    return parts


def keys(bucket: Bucket, parts: list[Slice]) -> list[int]:
    batches = read_all(bucket.file_system(), parts, SHAPE, SETTINGS, TABLE)
    return [key for batch in batches for key in batch.rows["id"].to_pylist()]


def test_small_files_are_read_concurrently_and_returned_in_order(tmp_path: Path) -> None:
    bucket = Bucket()
    assert keys(bucket, slices(tmp_path)) == list(range(FILES))
    assert READS_AHEAD / 2 < bucket.max_concurrent <= READS_AHEAD


def test_large_files_are_read_one_at_a_time(tmp_path: Path) -> None:
    bucket = Bucket()
    assert keys(bucket, slices(tmp_path, SMALL_BYTES + 1)) == list(range(FILES))
    assert bucket.max_concurrent == 1


def test_a_large_file_between_small_ones_keeps_its_place(tmp_path: Path) -> None:
    parts = slices(tmp_path)
    parts[7] = Slice(parts[7].file, SMALL_BYTES + 1)
    assert keys(Bucket(), parts) == list(range(FILES))


def test_rows_before_a_damaged_file_are_read_before_the_error(tmp_path: Path) -> None:
    parts = slices(tmp_path)
    (tmp_path / parts[20].file.relative).write_bytes(b"no Parquet")
    batches = read_all(LocalFileSystem(), parts, SHAPE, SETTINGS, TABLE)
    assert [next(batches).rows["id"].to_pylist() for _ in range(20)] == [[number] for number in range(20)]
    with pytest.raises(UnreadableFileError, match=parts[20].file.relative):
        next(batches)


def test_row_groups_of_a_file_are_read_with_one_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "LOAD00000001.parquet"
    pq.write_table(pa.table({"id": range(200)}), path, row_group_size=2)
    entry = ListedObject(str(path), path.stat().st_size, datetime(2024, 3, 5, tzinfo=timezone.utc))
    file = parse_raw_file(entry, f"{tmp_path}/")
    assert file is not None
    opened: list[str] = []

    def counted(fs: FileSystem, key: str) -> Any:
        opened.append(key)
        return open_input(fs, key)

    monkeypatch.setattr(parquet, "open_input", counted)
    monkeypatch.setattr(parquet, "_RUN_BYTES", 1000)
    fs = LocalFileSystem()
    parts = inspect_raw_file(fs, file, SETTINGS).parts
    first, second = parts[:70], parts[70:]
    assert (len(parts), len(opened)) == (100, 1)
    halves = (read_all(fs, half, SHAPE, SETTINGS, TABLE) for half in (second, first))
    assert [id for half in halves for batch in half for id in ids_of(batch)] == [*range(140, 200), *range(140)]
    assert len(opened) == 3


def ids_of(batch: ReadBatch) -> list[int]:
    """Ids of rows whose number in the file equals their id."""
    ids: list[int] = batch.rows["id"].to_pylist()
    assert [int(text.rpartition("|")[2]) for text in batch.rows["_cdc_position"].to_pylist()] == ids
    return ids


def test_only_adjacent_row_groups_are_joined(tmp_path: Path) -> None:
    (part,) = slices(tmp_path)[:1]
    groups = [replace(part, row_groups=(number,), size_bytes=1) for number in (0, 1, 3, 4)]
    assert [group.row_groups for group in read_ahead._joined(groups)] == [(0, 1), (3, 4)]
    some = replace(groups[1], only_rows=frozenset({1}))
    assert len(list(read_ahead._joined([groups[0], some, groups[3], part, part]))) == 5


@pytest.mark.parametrize("row_group_size", [7, 1000])
def test_long_values_make_short_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_size: int) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(parquet, "_RUN_BYTES", 5_000)
    texts = [f"{i:03d}" * 333 for i in range(100)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": texts}), path, row_group_size=row_group_size, use_dictionary=False)
    batches = list(parquet.batches(LocalFileSystem(), str(path), None, 0))
    assert [text for batch in batches for text in batch.columns["text"].to_pylist()] == texts
    assert max(batch.columns.nbytes for batch in batches) <= 12_000
