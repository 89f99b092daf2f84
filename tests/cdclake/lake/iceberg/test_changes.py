"""Each change is a snapshot of the Iceberg table, which independent readers read alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from cdclake.commit.log import ChangeLog
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.load import load_incremental
from tests.cdclake.lake.iceberg.readers import IcebergReaders, connection
from tests.cdclake.lake.over_time import TableOverTime
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.ports import ObjectStore

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
FIRST, SECOND, THIRD = (f"20240305-10{minute}00000.parquet" for minute in (10, 20, 30))
CITIES = ["Kiel", "Ulm", None]
ICEBERG = {"PrimaryKey": "id", "Readers": "iceberg"}


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "city": CITIES[number % 3], "n": number, **more}


@pytest.fixture(params=["", "city", "n", "city,n"])
def partition_key(request: pytest.FixtureRequest) -> str:
    return request.param or "null"


@pytest.fixture
def table(tmp_path: Path, partition_key: str) -> Table:
    table = Table(tmp_path, COLUMNS, {**ICEBERG, "PartitionKey": partition_key})
    table.load([row(i) for i in range(9)])
    return table


def readers(table: Table) -> IcebergReaders:
    return IcebergReaders(table.lake, table.layout)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(one["id"] for one in rows)


def test_a_full_load_is_a_snapshot(table: Table) -> None:
    rows = readers(table).rows()
    assert ids(rows) == list(range(9))
    assert all(one["city"] == CITIES[one["id"] % 3] and one["n"] == one["id"] for one in rows)
    assert list(rows[0]) == ["id", "city", "n", "Op", "_cdc_position"]
    assert table.files() == [], "whoever lists the folder finds no rows, rather than some of them"


def test_each_change_can_be_read(table: Table) -> None:
    table.apply_file(FIRST, [("U", row(1, n=100)), ("D", row(2)), ("I", row(50))])
    table.apply_file(SECOND, [("U", row(1, city="Ulm", n=101))])
    iceberg = readers(table)
    assert ids(iceberg.rows()) == [0, 1, 3, 4, 5, 6, 7, 8, 50]
    for change, n in ((1, 1), (2, 100), (3, 101)):
        (found,) = iceberg.rows("id = 1", change=change)
        assert found["n"] == n
    assert iceberg.offered == [1, 2, 3]


def test_filters_on_columns_that_are_not_selected_are_right(table: Table) -> None:
    iceberg = readers(table)
    for where, expected in (
        ("city = 'Kiel'", [0, 3, 6]),
        ("city IS NULL", [2, 5, 8]),
        ("city IS NOT NULL AND n > 4", [6, 7]),
        ("n = 5", [5]),
    ):
        assert ids(iceberg.rows(where, ("id",))) == expected, where


def plain_rows(folder: Path) -> list[dict[str, Any]]:
    """Rows as a reader of the folder finds them, who takes partition columns from paths."""
    files = [str(path) for path in folder.rglob("*.parquet")]
    query = "SELECT id, city, n FROM read_parquet($1, hive_partitioning = true)"
    return [{"id": id, "city": city, "n": n} for id, city, n in connection().execute(query, [files]).fetchall()]


def test_both_readers_find_the_same_rows(tmp_path: Path, partition_key: str) -> None:
    table = Table(tmp_path, COLUMNS, {**ICEBERG, "PartitionKey": partition_key, "Readers": "both"})
    table.load([row(i) for i in range(9)])
    test_filters_on_columns_that_are_not_selected_are_right(table)
    assert ids(plain_rows(table.folder)) == list(range(9))


@pytest.mark.slow
def test_a_column_that_iceberg_cannot_widen_ends_time_travel(table: Table, partition_key: str) -> None:
    """Readers that look for it by its new id would find nothing in earlier snapshots.

    Spark cannot read those from before a partition column became wider at all.
    """
    table.apply_file(FIRST, [("U", row(1, n=100))], {"n": pa.int64()})
    offered = readers(table).offered
    assert offered == ([2] if "n" in partition_key.split(",") else [1, 2])
    assert ids(readers(table).rows("n > 4", ("id",), change=offered[0])) == [1] * (1 not in offered) + [5, 6, 7, 8]
    table.apply_file(SECOND, [("U", row(1, n=1))], {"n": pa.decimal128(22, 2)})
    assert readers(table).offered == [3]
    assert ids(readers(table).rows("n > 4", ("id",))) == [5, 6, 7, 8]


def test_a_partition_column_of_a_new_type_leaves_no_spec_of_the_old_one(tmp_path: Path) -> None:
    """Iceberg's Java library, and so Spark, opens no table with a partition field of a column's name but another id."""
    table = Table(tmp_path, COLUMNS, {**ICEBERG, "PartitionKey": "city,n"})
    table.load([row(1), row(2)])
    partition_ids = readers(table).table.metadata.last_partition_id
    table.apply_file(FIRST, [("U", row(1))], {"n": pa.decimal128(22, 2)})
    metadata = readers(table).table.metadata
    columns = {field.name: field.field_id for field in metadata.schema().fields}
    fields = [field for spec in metadata.partition_specs for field in spec.fields]
    assert {field.source_id for field in fields} == {columns["city"]}
    assert metadata.last_partition_id == partition_ids, "ids of partition fields are not used again"


def test_no_spec_has_a_partition_column_that_the_table_lacks(tmp_path: Path) -> None:
    """Spark opens no such table."""
    table = TableOverTime(tmp_path, COLUMNS, {**ICEBERG})
    table.load([row(1), row(2)])
    table.columns = COLUMNS.append(pa.field("shop", pa.string()))
    table.item["PartitionKey"] = "shop"
    table.reload([row(1, shop="a"), row(2, shop="b")])
    assert readers(table).offered == [1, 2]
    table.roll_back(1)
    metadata = readers(table).table.metadata
    assert [one.snapshot_id for one in metadata.snapshots] == [3]
    assert [spec.fields for spec in metadata.partition_specs] == [()]
    table.reapply()
    metadata = readers(table).table.metadata
    assert [one.snapshot_id for one in metadata.snapshots] == [3, 4]
    assert [[one.name for one in spec.fields] for spec in metadata.partition_specs] == [[], ["shop"]]
    assert ids(readers(table).rows("shop = 'b'", ("id",))) == [2]


@pytest.mark.parametrize("name", ["größe", "order-date", "a b", "1st"])
def test_a_partition_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    columns = pa.schema([("id", pa.int64()), (name, pa.string())])
    table = Table(tmp_path, columns, {**ICEBERG, "PartitionKey": name})
    table.load([{"id": 1, name: "x"}, {"id": 2, name: None}])
    assert [(one["id"], one[name]) for one in readers(table).rows()] == [(1, "x"), (2, None)]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 40])
def test_publishing_takes_the_same_calls_for_any_number_of_files(tmp_path: Path, rows: int) -> None:
    """S3 needs two requests to replace the version hint, and one for each other call."""
    table = Table(tmp_path, COLUMNS, {**ICEBERG, "PartitionKey": "id"})
    table.load([row(i) for i in range(rows)])
    table.write_changes(FIRST, [("U", row(i, n=100)) for i in range(rows)])
    run = table.run()
    store = RecordingStore(run.log.store)
    load_incremental(replace(run, log=ChangeLog(cast("ObjectStore", store), table.layout)), table.spark, "", "")
    record = run.log.record(2)
    assert len(record.added) == rows
    committed = store.calls.index(("put_if_absent", table.layout.change_key(2)))
    visible = store.calls.index(("put_if_unchanged", table.layout.version_hint_key))
    looks = {("get", table.layout.change_key(3))}  # none is due so soon after the commit
    before = [call for call in store.calls[committed + 1 : visible] if call[1] and call not in looks]
    assert before == [  # no file of the folder is moved
        ("get", table.layout.iceberg_metadata_key(1)),
        ("put_if_absent", table.layout.iceberg_metadata_key(2)),
        ("begin_removing", table.layout.staging_folder),
    ]
    after = store.calls[visible + 1 :]
    assert [call for call in after if call[0] == "get"] == [("get", table.layout.change_key(3))]  # was it overtaken?
    assert [one for one in after if one[0] != "get"] == [("put", table.layout.published_key(2))]
    assert len(after) == 2
    assert ids(readers(table).rows("n = 100", ("id",))) == list(range(rows))


def test_the_folder_shows_rows_twice_only_while_files_move_and_the_hint_is_written(tmp_path: Path) -> None:
    """All that takes time and moves no file happens before: the metadata is written, replaced files are looked up."""
    table = Table(tmp_path, COLUMNS, {**ICEBERG, "Readers": "both", "History": "true"})
    table.load([row(i) for i in range(5)])
    table.write_changes(FIRST, [("U", row(1, n=100))])
    run = table.run()
    store = RecordingStore(run.log.store)
    load_incremental(replace(run, log=ChangeLog(cast("ObjectStore", store), table.layout)), table.spark, "", "")
    committed = store.calls.index(("put_if_absent", table.layout.change_key(2)))
    names = [name for name, _ in store.calls[committed + 1 :]]
    first_copy, last_hint = names.index("copy"), len(names) - 1 - names[::-1].index("put_if_unchanged")
    assert names[:first_copy].count("put_if_absent") == 2  # metadata of table and history
    assert "begin_retiring" in names[:first_copy]
    assert set(names[first_copy : last_hint + 1]) == {"copy", "get", "put_if_unchanged"}
    assert names[first_copy : last_hint + 1].count("get") == 1  # was it overtaken?
    assert names[last_hint + 1] == "put"  # it is published, so replaced files are gone


class RecordingStore:
    """Forwards calls to a store, and records the name and the key of each.

    Attributes:
        calls: The calls so far.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.calls_at_once = store.calls_at_once
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(key: str = "", *arguments: Any, **named: Any) -> Any:
            if name != "url":  # it only describes the store
                self.calls.append((name, key))
            return getattr(self._store, name)(key, *arguments, **named)

        return call


def test_a_text_whose_bound_cannot_be_encoded_stops_no_table(tmp_path: Path) -> None:
    """The bound of a longer text is its beginning with a greater last character, here a surrogate."""
    text = "x" * 15 + "\ud7ff" + "y"
    table = Table(tmp_path, COLUMNS, ICEBERG)
    table.load([row(1, city=text), row(2)])
    assert ids(readers(table).rows("city IS NULL", ("id",))) == [2]
    assert {one["city"] for one in readers(table).rows()} == {text, None}


@pytest.mark.parametrize("city", ["z" * 5000, "a" * 5000])
def test_a_row_group_without_bounds_leaves_the_file_none(tmp_path: Path, city: str) -> None:
    """Parquet has no bounds of a row group with a value of more than 4,096 bytes. Those of the others say nothing."""
    table = Table(tmp_path, COLUMNS, ICEBERG, limits=EngineLimits(row_group_rows=2))
    table.load([*(row(number, city="m") for number in range(3)), row(3, city=city), row(4), row(5)])
    assert ids(readers(table).rows(f"city = '{city}'", ("id",))) == [3]
    assert ids(readers(table).rows(f"city {'>' if city > 'm' else '<'} 'm' AND n > 2", ("id",))) == (
        [3] if city > "m" else [3, 4]
    )
    (file,) = readers(table).table.inspect.files().to_pylist()
    bounds = {name: (one["lower_bound"], one["upper_bound"]) for name, one in file["readable_metrics"].items()}
    assert (bounds["city"], bounds["n"]) == ((None, None), (0, 5))
    assert file["readable_metrics"]["city"]["null_value_count"] == 1


def test_a_row_group_of_nulls_needs_no_bounds(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, ICEBERG, limits=EngineLimits(row_group_rows=2))
    table.load([row(number, city="Kiel" if number > 1 else None) for number in range(4)])
    (file,) = readers(table).table.inspect.files().to_pylist()
    metrics = file["readable_metrics"]["city"]
    assert (metrics["lower_bound"], metrics["upper_bound"], metrics["null_value_count"]) == ("Kiel", "Kiel", 2)
