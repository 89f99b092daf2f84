"""Many small raw files are read concurrently and returned in order."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem, FileSystemHandler, LocalFileSystem, PyFileSystem

from cdclake.adapters.filesystem import open_input
from cdclake.errors import SchemaMismatchError, UnreadableFileError
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.raw import parquet, read_ahead
from cdclake.lake.raw.read_ahead import read_all
from cdclake.lake.raw.reader import fetch_raw_file, inspect_raw_file, read, read_raw
from cdclake.lake.raw.rows import Slice
from cdclake.lake.storage.shape import ENCODED_TEXT, TableShape
from cdclake.model.raw.files import ListedObject, parse_raw_file
from cdclake.model.schema import Column, Schema
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings
from cdclake_devkit.memory import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.raw.rows import ReadBatch

FILES = 50
LATENCY_S = 0.02
SMALL_FILE_BYTES = DEFAULT_LIMITS.small_file_bytes
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
    tables = [pa.table({"Op": ["I"], "id": pa.array([number], pa.int64())}) for number in range(FILES)]
    return [whole(path, folder, size_bytes) for path in written(tables, folder)]


def written(
    tables: list[pa.Table], folder: Path, prefix: str = "20240305-1015", suffix: str = ".parquet"
) -> list[Path]:
    """Raw files with these rows."""
    paths = [folder / f"{prefix}{number:02d}000{suffix}" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        if suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.output_stream(path) as sink:  # compresses a .gz file
                pa_csv.write_csv(table, sink)
    return paths


def whole(path: Path, folder: Path, size_bytes: int | None = None) -> Slice:
    entry = ListedObject(str(path), size_bytes or path.stat().st_size, datetime(2024, 3, 5, tzinfo=timezone.utc))
    file = parse_raw_file(entry, f"{folder}/")
    assert file is not None
    return Slice(file, file.size_bytes)


def keys(fs: FileSystem, parts: list[Slice]) -> list[int]:
    batches = read_all(fs, parts, SHAPE, SETTINGS, TABLE)
    return [key for batch in batches for key in batch.rows["id"].to_pylist()]


def test_small_files_are_read_concurrently_and_returned_in_order(tmp_path: Path) -> None:
    bucket = Bucket()
    assert keys(bucket.file_system(), slices(tmp_path)) == list(range(FILES))
    assert DEFAULT_LIMITS.reads_ahead / 2 < bucket.max_concurrent <= DEFAULT_LIMITS.reads_ahead


def test_large_files_are_read_one_at_a_time(tmp_path: Path) -> None:
    bucket = Bucket()
    assert keys(bucket.file_system(), slices(tmp_path, SMALL_FILE_BYTES + 1)[:5]) == list(range(5))
    assert bucket.max_concurrent == 1


def test_a_large_file_between_small_ones_keeps_its_place(tmp_path: Path) -> None:
    parts = slices(tmp_path)
    parts[7] = Slice(replace(parts[7].file, size_bytes=SMALL_FILE_BYTES + 1), SMALL_FILE_BYTES + 1)
    assert keys(LocalFileSystem(), parts) == list(range(FILES))


def test_rows_before_a_damaged_file_are_read_before_the_error(tmp_path: Path) -> None:
    parts = slices(tmp_path)
    (tmp_path / parts[20].file.relative).write_bytes(b"no Parquet")
    batches = read_all(LocalFileSystem(), parts, SHAPE, SETTINGS, TABLE)
    assert next(batches).rows["id"].to_pylist() == list(range(20))
    with pytest.raises(UnreadableFileError, match=parts[20].file.relative):
        next(batches)


MOVED = pa.table(
    {
        "Op": ["I", "U", "D"],
        "id": [1, 2, 3],
        "BI_id": pa.array([None, 7, None], pa.int64()),
        "at": pa.array(["2024-03-05 10:00:00", "2024-03-05 10:00:01", None]),
    }
)
TIMED = TableShape(Schema((Column("id", "bigint"), Column("at", "timestamp"))), ("id",), ())
BY_TIME = replace(SETTINGS, order_column="at", schema=TIMED.schema)


@pytest.mark.parametrize("settings", [replace(SETTINGS, schema=TIMED.schema), BY_TIME])
@pytest.mark.parametrize("prefix", ["20240305-1015", "LOAD000"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
def test_rows_converted_together_are_those_of_each_file(
    tmp_path: Path, settings: TableSettings, prefix: str, suffix: str
) -> None:
    table = MOVED.drop_columns(["Op", "BI_id"]) if prefix == "LOAD000" else MOVED
    parts = [whole(path, tmp_path) for path in written([table] * 3, tmp_path, prefix, suffix)]
    fs = LocalFileSystem()
    (together,) = read_all(fs, parts, TIMED, settings, TABLE)
    each = [batch for part in parts for batch in read(fs, part, TIMED, settings, TABLE)]
    assert rows_of([together]) == rows_of(each)
    assert together.derived == sum(batch.derived for batch in each) == (0 if prefix == "LOAD000" else 3)


def rows_of(batches: list[ReadBatch]) -> list[dict[str, Any]]:
    """Rows by position, which is unique."""
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    assert len({row["_cdc_position"] for row in rows}) == len(rows)
    return sorted(rows, key=itemgetter("_cdc_position"))


def test_a_bad_row_among_small_files_keeps_its_file_and_number(tmp_path: Path) -> None:
    bad = pa.table({"Op": ["I", "I"], "id": pa.array([8, None], pa.int64())})
    good = pa.table({"Op": ["I"], "id": pa.array([9], pa.int64())})
    parts = [whole(path, tmp_path) for path in written([good, bad, good], tmp_path)]
    batches = list(read_all(LocalFileSystem(), parts, SHAPE, SETTINGS, TABLE))
    assert [key for batch in batches for key in batch.rows["id"].to_pylist()] == [9, 8, 9]
    assert [(row.file, row.row) for batch in batches for row in batch.bad_rows] == [(parts[1].file.relative, 1)]


def test_an_error_among_small_files_names_its_file_and_row(tmp_path: Path) -> None:
    image = pa.table({"Op": ["U", "I"], "id": [1, 2], "BI_id": pa.array([None, 1], pa.int64())})
    parts = [whole(path, tmp_path) for path in written([image.slice(0, 1), image], tmp_path)]
    with pytest.raises(SchemaMismatchError) as raised:
        list(read_all(LocalFileSystem(), parts, SHAPE, SETTINGS, TABLE))
    assert (raised.value.details["file"], raised.value.details["row"]) == (parts[1].file.relative, 2)


def test_text_of_one_length_in_each_file_orders_changes(tmp_path: Path) -> None:
    settings = replace(SETTINGS, order_column="at")
    shape = TableShape(Schema((Column("id", "bigint"), Column("at", "string"))), ("id",), ())
    times = ["2024-03-05 10:00:00", "2024-03-05 10:00:00.5"]
    tables = [pa.table({"Op": ["I"], "id": [number], "at": [time]}) for number, time in enumerate(times)]
    parts = [whole(path, tmp_path) for path in written(tables, tmp_path)]
    batches = list(read_all(LocalFileSystem(), parts, shape, settings, TABLE))
    assert [key for batch in batches for key in batch.rows["id"].to_pylist()] == [0, 1]


def test_files_with_other_columns_are_converted_by_themselves(tmp_path: Path) -> None:
    narrow = pa.table({"Op": ["I"], "id": pa.array([1], pa.int32())})
    wide = pa.table({"Op": ["I"], "id": pa.array([2], pa.int64())})
    parts = [whole(path, tmp_path) for path in written([narrow, narrow, wide, wide, narrow], tmp_path)]
    batches = list(read_all(LocalFileSystem(), parts, SHAPE, SETTINGS, TABLE))
    assert [batch.rows["id"].to_pylist() for batch in batches] == [[1, 1], [2, 2], [1]]


def test_few_bytes_are_converted_together(tmp_path: Path) -> None:
    parts = slices(tmp_path)
    (row,) = read_raw(LocalFileSystem(), parts[0], SETTINGS)
    shape = replace(SHAPE, limits=EngineLimits(together_bytes=20 * row.columns.nbytes))
    batches = list(read_all(LocalFileSystem(), parts, shape, SETTINGS, TABLE))
    assert [batch.rows.num_rows for batch in batches] == [20, 20, 10]


def test_row_groups_of_a_file_are_read_with_one_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "LOAD00000001.parquet"
    pq.write_table(pa.table({"id": range(200)}), path, row_group_size=2)
    file = whole(path, tmp_path, SMALL_FILE_BYTES + 1).file
    opened: list[str] = []

    def counted(fs: FileSystem, key: str) -> Any:
        opened.append(key)
        return open_input(fs, key)

    monkeypatch.setattr(parquet, "open_input", counted)
    fs, shape = LocalFileSystem(), replace(SHAPE, limits=EngineLimits(raw_group_bytes=1000))
    parts = inspect_raw_file(fs, file, SETTINGS).parts
    first, second = parts[:70], parts[70:]
    assert (len(parts), len(opened)) == (100, 1)
    halves = (read_all(fs, half, shape, SETTINGS, TABLE) for half in (second, first))
    assert [id for half in halves for batch in half for id in ids_of(batch)] == [*range(140, 200), *range(140)]
    assert len(opened) == 3


def ids_of(batch: ReadBatch) -> list[int]:
    """Ids of rows whose number in the file equals their id."""
    ids: list[int] = batch.rows["id"].to_pylist()
    assert [int(text.rpartition("|")[2]) for text in batch.rows["_cdc_position"].to_pylist()] == ids
    return ids


def test_repeated_short_texts_stay_encoded_except_in_keys(tmp_path: Path) -> None:
    shape = TableShape(
        Schema(tuple(Column(name, "string") for name in ("id", "place", "name", "note"))), ("id",), ("place",)
    )
    table = pa.table({"id": ["a", "b"], "place": ["x", "x"], "name": ["n", "m"], "note": ["n", "n" * 1000]})
    parts = [whole(path, tmp_path) for path in written([table] * 2, tmp_path, "LOAD000")]
    encoded = [replace(part, encoded=True) for part in parts]
    (batch,) = read_all(LocalFileSystem(), encoded, shape, SETTINGS, TABLE)
    (plain,) = read_all(LocalFileSystem(), parts, shape, SETTINGS, TABLE)
    types = [batch.rows.schema.field(name).type for name in table.column_names]
    assert types == [pa.string(), pa.string(), ENCODED_TEXT, ENCODED_TEXT]
    assert plain.rows.schema == shape.in_flight
    assert batch.rows.to_pylist() == plain.rows.to_pylist()


def test_only_adjacent_row_groups_are_joined(tmp_path: Path) -> None:
    (part,) = slices(tmp_path)[:1]
    groups = [replace(part, row_groups=(number,), size_bytes=1) for number in (0, 1, 3, 4)]
    assert [group.row_groups for group in read_ahead._joined(groups)] == [(0, 1), (3, 4)]
    some = replace(groups[1], only_rows=frozenset({1}))
    assert len(list(read_ahead._joined([groups[0], some, groups[3], part, part]))) == 5


@pytest.mark.parametrize("row_group_size", [7, 1000])
def test_long_values_make_short_batches(tmp_path: Path, row_group_size: int) -> None:
    limits = EngineLimits(batch_bytes=10_000, raw_group_bytes=5_000)
    texts = [f"{i:03d}" * 333 for i in range(100)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": texts}), path, row_group_size=row_group_size, use_dictionary=False)
    batches = list(parquet.batches(LocalFileSystem(), str(path), None, 0, limits=limits))
    assert [text for batch in batches for text in batch.columns["text"].to_pylist()] == texts
    assert max(batch.columns.nbytes for batch in batches) <= 12_000


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
def test_a_file_that_was_fetched_when_it_was_inspected_is_not_opened_again(tmp_path: Path, suffix: str) -> None:
    paths = written([pa.table({"Op": ["I"], "id": [number]}) for number in range(3)], tmp_path, suffix=suffix)
    fs, bucket = LocalFileSystem(), MemoryStore()
    for path in paths:
        bucket.put(str(path), path.read_bytes())
    files = [whole(path, tmp_path).file for path in paths]
    for path in paths:
        path.unlink()
    inspections = [inspect_raw_file(fs, file, SETTINGS, fetch_raw_file(bucket, fs, file)) for file in files]
    parts = [part for one in inspections for part in one.parts]
    rows = pa.concat_tables([batch.rows for batch in read_all(fs, parts, SHAPE, SETTINGS, TABLE)])
    assert rows["id"].to_pylist() == [0, 1, 2]
