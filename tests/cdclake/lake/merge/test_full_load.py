"""Full loads with raw files sorted by key are detected, and their order is verified."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid5

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.errors import BadRowError
from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.merge.full_load import sorted_groups
from cdclake.lake.raw.reader import inspect_raw_file
from cdclake.lake.raw.rows import Slice
from cdclake.model.raw.files import ListedObject, parse_raw_file
from cdclake.model.table.settings import TableSettings
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.model.snapshot import KeyValue

MIB = 1 << 20
ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def part(low: KeyValue, high: KeyValue, size_bytes: int = MIB) -> Slice:
    entry = ListedObject("shop/orders/LOAD00000001.parquet", size_bytes, datetime(2024, 3, 5, tzinfo=timezone.utc))
    file = parse_raw_file(entry, "shop/orders/")
    assert file
    return Slice(file, size_bytes, key_range=(low, high))


def grouped(slices: list[Slice], **settings: Any) -> list[list[tuple[KeyValue, KeyValue]]] | None:
    known = {"by_key": True, "partitioned": False, "target_file_bytes": 16 * MIB, "parallelism": 2, **settings}
    groups = sorted_groups(slices, limits=DEFAULT_LIMITS, **known)
    return [[one.key_range for one in group] for group in groups] if groups is not None else None


def test_sorted_slices_are_grouped_by_size_for_all_cores() -> None:
    slices = [part(10 * i, 10 * i + 9, 8 * MIB) for i in range(8)]
    groups = grouped(slices)
    assert groups == [[(20 * i, 20 * i + 9), (20 * i + 10, 20 * i + 19)] for i in range(4)]
    three = grouped(slices[:5])  # 40 MiB would be three files, but two cores finish four tasks sooner
    assert three is not None
    assert len(three) == 4


def test_files_in_another_order_than_their_keys_are_sorted() -> None:
    assert grouped([part(20, 29, 16 * MIB), part(0, 9, 16 * MIB)]) == [[(0, 9)], [(20, 29)]]


def test_slices_that_overlap_or_touch_stay_together() -> None:
    slices = [part(0, 9, 9 * MIB), part(9, 15, 9 * MIB), part(16, 20, 9 * MIB), part(21, 30, 9 * MIB)]
    groups = grouped(slices)
    assert groups is not None
    assert [(0, 9), (9, 15)] in [group[:2] for group in groups]


def test_a_small_table_is_one_task_in_any_order() -> None:
    assert grouped([part(0, 9), part(3, 5), part(0, 1)]) == [[(0, 9), (0, 1), (3, 5)]]
    assert grouped([part(0, 9), part(3, 5)], partitioned=True) == [[(0, 9), (3, 5)]]


@pytest.mark.parametrize(
    ("slices", "settings"),
    [
        ([part(0, 9), part(None, None)], {}),
        ([part(0, 9, 20 * MIB), part(3, 12, 20 * MIB)], {}),
        ([part(0, 9, 40 * MIB)], {}),
        ([part(0, 9, 10 * MIB), part(10, 19, 10 * MIB)], {"partitioned": True}),
    ],
    ids=["a range is unknown", "too much overlap", "a slice is too large for a task", "several partitions per task"],
)
def test_a_load_that_needs_a_shuffle_has_no_groups(slices: list[Slice], settings: dict[str, Any]) -> None:
    assert grouped(slices, **settings) is None


def test_a_table_without_a_key_is_loaded_in_file_order() -> None:
    slices = [part(None, None, 16 * MIB) for _ in range(4)]
    assert grouped(slices, by_key=False) == [[(None, None)]] * 4
    assert grouped([], by_key=False) == []


def test_the_footers_of_raw_files_contain_the_key_ranges(tmp_path: Path) -> None:
    table = Table(tmp_path, ROWS, {"PrimaryKey": "ID"})
    table.put("LOAD00000001.parquet", pa.table({"id": range(10), "name": ["x"] * 10}, schema=ROWS), row_group_size=5)
    fs = lake_filesystem((tmp_path / "raw").as_uri()).open()
    settings = TableSettings.from_item(table.item)
    inspection = inspect_raw_file(fs, table.raw_file("LOAD00000001.parquet"), settings)
    assert [one.key_range for one in inspection.parts] == [(0, 4), (5, 9)]


@pytest.mark.parametrize("statistics", [True, False])
def test_a_sorted_load_and_a_shuffle_write_the_same_rows(tmp_path: Path, statistics: bool) -> None:
    table = Table(tmp_path, ROWS, {"PrimaryKey": "id", "TargetFileBytes": "4000"})
    for number in (1, 2, 3):
        rows = [{"id": number * 1000 + i, "name": f"name {i}"} for i in range(300)]
        table.put(f"LOAD{number:08X}.parquet", pa.Table.from_pylist(rows, ROWS), write_statistics=statistics)
        table.loads += rows
    assert ("load" in table.load_initial()["seconds"]) == statistics
    assert sorted(row.row["id"] for row in table.rows()) == [row["id"] for row in table.loads]
    assert {row.position for row in table.rows()} == {""}
    ranges: list[tuple[Any, Any]] = sorted((file.key_min, file.key_max) for file in table.log.snapshot(1).files)
    assert len(ranges) > 1
    assert all(before[1] < after[0] for before, after in zip(ranges, ranges[1:]))


def test_footers_with_wrong_key_ranges_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path, ROWS, {"PrimaryKey": "id", "MaxQuarantinedRows": "1"})
    table.write_load([{"id": i, "name": f"name {i}"} for i in range(300)], 1)
    table.write_load([{"id": i, "name": f"again {i}"} for i in range(299, 600)], 2)  # 299 is repeated
    table.item["TargetFileBytes"] = str(table.raw_path("LOAD00000001.parquet").stat().st_size)
    ranges = iter([(0, 298), (299, 600)])
    monkeypatch.setattr("cdclake.lake.raw.parquet._key_range", lambda *_: next(ranges))
    done = table.load_initial()
    assert "load" not in done["seconds"]
    assert done["books"]["quarantined"] == 1
    assert len(table.rows()) == 600
    assert list(table.log.store.list(table.layout.staging_folder)) == []


def test_a_repeated_key_in_neighboring_slices_is_quarantined(tmp_path: Path) -> None:
    table = Table(tmp_path, ROWS, {"PrimaryKey": "id", "MaxQuarantinedRows": "1"})
    table.write_load([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], 1)
    table.write_load([{"id": 2, "name": "c"}, {"id": 3, "name": "d"}], 2)
    done = table.load_initial()
    assert "load" not in done["seconds"]  # only rows that are shuffled know their file
    assert table.live("name") == {1: "a", 2: "c", 3: "d"}
    assert done["books"]["quarantined"] == 1


TEXT_KEYS = pa.schema([("id", pa.string()), ("number", pa.int64())])


def table_in_source_order(root: Path, key_of: Callable[[int], str], files: int = 4) -> Table:
    """A table with text keys, whose full load has 300 rows a file, and a target size of about a file."""
    table = Table(root, TEXT_KEYS, {"PrimaryKey": "id", "TargetFileBytes": "9000", "MaxQuarantinedRows": "1"})
    for number in range(files):
        numbers = range(number * 300, (number + 1) * 300)
        table.write_load([{"id": key_of(i), "number": i} for i in numbers], number + 1)
    return table


def stored_numbers(table: Table) -> list[list[int]]:
    """The numbers in each data file."""
    paths = [table.folder / file.path for file in table.log.snapshot(table.log.head()).files]
    return sorted(pq.read_table(path, partitioning=None)["number"].to_pylist() for path in paths)


def random_key(number: int) -> str:
    return str(uuid5(NAMESPACE_OID, str(number)))


def test_text_keys_without_an_order_are_loaded_in_the_order_of_the_source(tmp_path: Path) -> None:
    table = table_in_source_order(tmp_path, random_key)
    done = table.load_initial()
    assert "load" in done["seconds"]
    files = stored_numbers(table)
    assert len(files) > 1
    assert [number for file in files for number in file] == list(range(1200))


def test_a_change_of_recent_rows_touches_only_their_files(tmp_path: Path) -> None:
    table = table_in_source_order(tmp_path, random_key)
    table.load_initial()
    before = stored_numbers(table)
    table.write_changes(
        "20240305-101500000.parquet",
        [
            *(("U", {"id": random_key(i), "number": -i}) for i in range(1100, 1150)),
            *(("D", {"id": random_key(i), "number": i}) for i in range(1150, 1200)),
            *(("I", {"id": random_key(i), "number": i}) for i in range(1200, 1210)),
        ],
    )
    done = table.load_incremental()
    assert (done["books"]["updated"], done["books"]["deleted"], done["books"]["inserted"]) == (50, 50, 10)
    after = stored_numbers(table)
    assert [file for file in before if max(file) < 1100] == [file for file in after if file in before]
    expected = merge(("id",), table.loads, table.changes)
    assert by_key(table.rows(), ("id",)) == expected


@pytest.mark.parametrize("repeated_at", [1000, 6], ids=["in another task", "in the same task"])
def test_a_key_that_occurs_twice_in_the_source_order_is_quarantined(tmp_path: Path, repeated_at: int) -> None:
    table = table_in_source_order(tmp_path, lambda number: random_key(5 if number == repeated_at else number))
    done = table.load_initial()
    assert "load" not in done["seconds"]
    assert done["books"]["quarantined"] == 1
    assert {row.row["number"] for row in table.rows()} == {*range(1200)} - {5}
    assert list(table.log.store.list(table.layout.staging_folder)) == []


@pytest.mark.parametrize("key", ["id, number", "number"])
def test_other_keys_without_an_order_are_sorted(tmp_path: Path, key: str) -> None:
    table = table_in_source_order(tmp_path, random_key)
    table.item["PrimaryKey"] = key
    for number in (1, 2, 3, 4):  # the key ranges of the files overlap
        numbers = range(number, 1201, 4)
        table.put(
            f"LOAD{number:08X}.parquet",
            pa.Table.from_pylist([{"id": random_key(i), "number": i} for i in numbers], TEXT_KEYS),
        )
    assert "load" not in table.load_initial()["seconds"]
    assert len(table.rows()) == 1200


@pytest.mark.sampled(quick=3)
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("history", ["false", "true"])
@pytest.mark.parametrize("id_type", [pa.int64(), pa.string()])
def test_a_key_that_is_repeated_in_another_partition_is_quarantined(
    tmp_path: Path, files: int, history: str, id_type: pa.DataType
) -> None:
    columns = pa.schema([("id", id_type), ("place", pa.string()), ("n", pa.int64())])
    keys = pa.array([3, 3, 4, 3, 5, 5]).cast(id_type).to_pylist()
    places = ["a", "b", "a", "c", "a", "a"]
    rows = [{"id": key, "place": place, "n": n} for n, (key, place) in enumerate(zip(keys, places, strict=True))]
    item = {"PrimaryKey": "id", "PartitionKey": "place", "MaxQuarantinedRows": "3", "History": history}
    table = Table(tmp_path, columns, item)
    for number in range(files):
        table.write_load(rows[number * 3 : 3 * number + 6 // files], number + 1)
    done = table.load_initial()
    assert sorted((row.row["n"], row.row["place"]) for row in table.rows()) == [(2, "a"), (3, "c"), (5, "a")]
    assert (done["books"]["quarantined"], done["books"]["rows_after"]) == (3, 3)
    table.apply_file("20240305-100000000.parquet", [("U", {"id": keys[0], "place": "b", "n": 9})])
    assert sorted(row.row["n"] for row in table.rows()) == [2, 5, 9]


def test_more_keys_that_are_repeated_in_other_partitions_than_allowed_are_refused(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("place", pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "id", "PartitionKey": "place", "MaxQuarantinedRows": "1"})
    with pytest.raises(BadRowError, match="later full-load row has the same key"):
        table.load([{"id": i % 5, "place": str(i)} for i in range(15)])
    assert table.files() == []


PLACES = pa.schema([("id", pa.int64()), ("name", pa.string()), ("place", pa.string())])


@pytest.mark.sampled(quick=3)
@pytest.mark.parametrize("partition", ["null", "place"])
@pytest.mark.parametrize("encoded", [(True, True, True), (True, False, True), (False, True, True)])
@pytest.mark.parametrize("descending", [False, True])
def test_texts_are_the_same_whether_raw_files_encode_them(
    tmp_path: Path, partition: str, encoded: tuple[bool, ...], descending: bool
) -> None:
    table = Table(tmp_path, PLACES, {"PrimaryKey": "id", "PartitionKey": partition})
    for number, use_dictionary in enumerate(encoded):
        ids = list(range(number * 300, (number + 1) * 300))
        names = [None if i % 7 == 0 else f"name {i % (number + 5)}" for i in ids]
        places = [f"place {i % 3}" for i in ids]
        rows = pa.table([ids[::-1] if descending else ids, names, places], schema=PLACES)
        table.put(f"LOAD{number + 1:08X}.parquet", rows, use_dictionary=use_dictionary, row_group_size=100)
        table.loads += rows.to_pylist()
    assert "load" in table.load_initial()["seconds"]
    assert by_key(table.rows(), ("id",)) == merge(("id",), table.loads, [])
    for path in table.files():
        written = pq.read_schema(table.folder / path)
        assert all(written.field(name).type == pa.string() for name in ("name", "place") if name in written.names)


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_text_that_is_not_utf8_is_quarantined_whether_it_is_encoded(tmp_path: Path, use_dictionary: bool) -> None:
    names = pa.array([b"a", b"\xff", b"a", b"b"])
    texts = pa.StringArray.from_buffers(4, *names.buffers()[1:])
    table = Table(tmp_path, ROWS, {"PrimaryKey": "id", "MaxQuarantinedRows": "1"})
    table.put(
        "LOAD00000001.parquet", pa.table([pa.array([1, 2, 3, 4]), texts], ROWS.names), use_dictionary=use_dictionary
    )
    assert table.load_initial()["books"]["quarantined"] == 1
    assert table.live("name") == {1: "a", 3: "a", 4: "b"}
    (line,) = [store.read_text() for store in tmp_path.rglob("*.jsonl")]
    assert json.loads(line) == {
        "file": "LOAD00000001.parquet",
        "row": 1,
        "reason": "A value of column name is not UTF-8 text",
        "columns": ["name"],
        "content": {"id": "2", "name": "\\xff"},
    }
