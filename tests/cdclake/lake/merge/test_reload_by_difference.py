"""A full load that is taken as a difference makes the table that it would make in place of the old one."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.commit.undo import apply_undo, plan_rollback
from cdclake.errors import NeedsSparkError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.row_origin import row_origins
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.storage.types import TIMESTAMP
from cdclake.model.iceberg.table import Readers
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.feeding import Feeding
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.merge.test_against_oracle import SECOND_HALF, TINY, TYPES, feeds, rows, small_changes
from tests.cdclake.lake.scd2.test_history_against_oracle import check_versions
from tests.cdclake.lake.table import Table, by_key, without_ordering
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cdclake.lake.spark.backend import Backend
    from cdclake.lake.spark.spark_backend import SparkBackend


NAMES = pa.schema([("id", pa.int64()), ("name", pa.string())])
DIFF = {"PrimaryKey": "id", "ReloadMode": "diff"}


def at(hour: int) -> datetime:
    return datetime(2024, 3, 5, hour, tzinfo=timezone.utc)


@st.composite
def reloads(draw: st.DrawFn) -> dict[str, Any]:
    """A feed whose full load is what the table is expected to have, but for some rows; see `_drifted`."""
    feed = draw(feeds(max_files=2))
    same_types = draw(st.booleans())
    return {
        **feed,
        "types": [{name: kinds[0] for name, kinds in TYPES.items()} for _ in feed["types"]]
        if same_types
        else feed["types"],
        "lost": draw(st.sets(st.integers(0, 12), max_size=3)),
        "changed": draw(st.dictionaries(st.integers(0, 12), rows, max_size=3)),
    }


def _drifted(feed: dict[str, Any], known: list[Mapping[str, Any]], key: tuple[str, ...]) -> dict[str, Any]:
    """The feed with its full load: known rows, but some are lost, some have other values, and some are new.

    New rows may repeat the key of a known one.
    """
    load = [
        {**feed["changed"].get(i, row), **{name: row[name] for name in key}}
        for i, row in enumerate(known)
        if i not in feed["lost"]
    ]
    return {**feed, "full_load": [*load, *feed["full_load"][:2]] or feed["full_load"]}


def check(fed: list[dict[str, Any]], spark: Backend, *, history: bool) -> None:
    first, key = fed[0], fed[0]["key"]
    item = {
        "PrimaryKey": ",".join(key),
        "PartitionKey": ",".join(first["partition"]) or "null",
        "TargetFileBytes": first["target"],
        "DeleteMode": first["delete_mode"],
        "MissingColumns": "null",
        "Schema": "code string",
        "LateWindowHours": "72",
        "MaxQuarantinedRows": "100",
        "ReloadMode": "diff",
        "History": str(history).lower(),
        **({"OrderColumn": first["order"]} if first["order"] else {}),
    }
    soft = first["delete_mode"] == "soft"
    with tempfile.TemporaryDirectory() as folder:
        feeding = Feeding(folder, item, key, spark)
        table, tiny = feeding.table, {name: TINY[name] for name in first["tiny"]}
        table.limits = replace(small_changes(first["small"]), in_place_task_bytes=first["in_place"], **tiny)
        known: list[Mapping[str, Any]] = []
        for feed in fed:
            feeding.feed(_drifted(feed, known, key))
            expected = merge(key, *feeding.table_expected(), soft_delete=soft)
            assert without_ordering(by_key(table.rows(), key)) == without_ordering(expected)
            snapshot = table.log.snapshot(table.log.head())
            assert sorted(file.path for file in snapshot.files) == table.files()
            known = [one.row for one in expected if one.op != "D"]
            assert snapshot.rows == len(known)
        if history:
            check_versions(feeding)


@SECOND_HALF
@examples(thorough=1_500, ci=12, test=5)
@given(fed=st.lists(reloads(), min_size=2, max_size=3), history=st.booleans())
def test_any_feeds_equal_the_oracle(fed: list[dict[str, Any]], *, history: bool) -> None:
    check(fed, InProcessBackend(), history=history)


@pytest.mark.long
@pytest.mark.spark
@SECOND_HALF
@examples(thorough=60, ci=1, test=1)
@given(fed=st.lists(reloads(), min_size=2, max_size=2))
def test_any_feeds_equal_the_oracle_on_spark(spark_backend: SparkBackend, fed: list[dict[str, Any]]) -> None:
    check(fed, spark_backend, history=False)


def _rows(count: int = 3000) -> dict[int, dict[str, Any]]:
    return {number: {"id": number, "name": f"name of row {number}"} for number in range(count)}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, NAMES, {**DIFF, "TargetFileBytes": "4000"})
    table.load([*_rows().values()], at(1))
    return table


def _ids(table: Table, path: str) -> set[int]:
    return set(pq.read_table(table.folder / path)["id"].to_pylist())


def test_only_files_with_rows_that_differ_are_written_and_the_change_says_how_many(table: Table) -> None:
    ids = {path: _ids(table, path) for path in table.files()}
    assert len(ids) > 15
    rows = _rows()
    rows[10]["name"], rows[5000] = "drifted", {"id": 5000, "name": "missing"}
    del rows[2000], rows[2001]
    summary = table.load([*rows.values()], at(5))
    assert table.live("name") == {number: row["name"] for number, row in rows.items()}
    record = table.log.record(summary["change"])
    assert record.reason == "by difference: rows missing in the lake 1, different 1, surplus 2, equal 2,997"
    books = record.books
    assert (books.inserted, books.updated, books.deleted, books.superseded, books.replaced) == (1, 1, 2, 2997, 0)
    touched = {path for path, own in ids.items() if own & {10, 2000, 2001, 2999}}  # 5000 follows 2999
    paths = sorted(ids)
    numbers = {paths.index(path) + step for path in touched for step in (-1, 0, 1)}
    neighbors = {path for number, path in enumerate(paths) if number in numbers}
    assert touched <= set(record.retired) <= neighbors  # small neighbors become one file
    assert record.bytes_read > sum(file.bytes for file in table.log.snapshot(1).files)


def test_a_load_without_differences_writes_nothing(table: Table) -> None:
    table.apply_file("20240305-020000000.parquet", [("U", {"id": 7, "name": "changed"})])
    table.set_modified("20240305-020000000.parquet", at(2))
    files, rows = table.files(), _rows()
    rows[7]["name"] = "changed"
    record = table.log.record(table.load([*rows.values()], at(5))["change"])
    assert (table.files(), record.added, record.retired) == (files, (), ())


@pytest.mark.parametrize("rewritten", [False, True])
def test_an_ordering_value_before_the_load_does_not_win_against_a_change_after_it(
    tmp_path: Path, *, rewritten: bool
) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", TIMESTAMP)])
    table = Table(tmp_path, columns, {**DIFF, "OrderColumn": "at"})
    other = {"id": 2, "name": "other", "at": at(1)}
    table.load([{"id": 1, "name": "loaded", "at": at(1)}, other], at(1))
    table.write_changes("20240305-020000000.parquet", [("U", {"id": 1, "name": "from the future", "at": at(23)})])
    table.set_modified("20240305-020000000.parquet", at(2))
    table.load_incremental()
    other = {**other, "name": "drifted"} if rewritten else other
    table.load([{"id": 1, "name": "from the future", "at": at(23)}, other], at(5))
    table.write_changes("20240305-080000000.parquet", [("U", {"id": 1, "name": "corrected", "at": at(8)})])
    table.set_modified("20240305-080000000.parquet", at(8))
    table.load_incremental()
    assert table.live("name")[1] == "corrected"


@pytest.mark.parametrize("names", ["az", "za", "aa"])
def test_the_last_row_of_a_repeated_key_counts_and_the_others_are_quarantined(tmp_path: Path, names: str) -> None:
    table = Table(tmp_path, NAMES, {**DIFF, "MaxQuarantinedRows": "1"})
    table.load([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], at(1))
    books = table.load([*({"id": 1, "name": name} for name in names), {"id": 2, "name": "b"}], at(5))["books"]
    assert table.live("name") == {1: names[-1], 2: "b"}
    assert (books["updated"], books["inserted"], books["superseded"], books["quarantined"]) == (1, 0, 1, 1)


def test_rows_that_repeat_a_key_meet_even_if_none_of_their_keys_is_sampled(tmp_path: Path) -> None:
    """A file of one row lets new rows seem large enough for several files."""
    table = Table(tmp_path, NAMES, {**DIFF, "MaxQuarantinedRows": "1", "TargetFileBytes": "500"})
    table.limits = EngineLimits(samples_per_file=1)
    table.load([{"id": 1, "name": "a"}], at(1))
    books = table.load([{"id": 1, "name": name} for name in "bc"], at(5))["books"]
    assert table.live("name") == {1: "c"}
    assert (books["updated"], books["inserted"], books["quarantined"]) == (1, 0, 1)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("key", ["id", "value"])
def test_zeros_of_other_signs_are_different_values(tmp_path: Path, kind: pa.DataType, key: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("value", kind)])
    table = Table(tmp_path, columns, {**DIFF, "PrimaryKey": key})
    values = [0.0, math.nan, 1e-40, None, -1.5]
    rows = [{"id": number, "value": value} for number, value in enumerate(values) if value is not None or key == "id"]
    table.load(rows, at(1))
    equal = len(rows) - 1
    for hour, zero in ((2, -0.0), (3, 0.0)):
        rows[0]["value"] = zero
        record = table.log.record(table.load(rows, at(hour))["change"])
        reason = f"by difference: rows missing in the lake 0, different 1, surplus 0, equal {equal}"
        assert (record.reason, str(table.live("value")[0])) == (reason, str(zero))


def test_zeros_of_both_signs_in_one_folder_are_equal(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("value", pa.float64())])
    table = Table(tmp_path, columns, {**DIFF, "PartitionKey": "value"})
    table.load([{"id": 1, "value": 0.0}, {"id": 2, "value": -0.0}], at(1))
    record = table.log.record(table.load([{"id": 1, "value": -0.0}, {"id": 2, "value": -0.0}], at(2))["change"])
    assert record.reason.endswith("different 0, surplus 0, equal 2")


def test_a_rollback_brings_the_positions_back(table: Table) -> None:
    table.write_changes("20240305-020000000.parquet", [("U", {"id": 7, "name": "changed"})])
    table.set_modified("20240305-020000000.parquet", at(2))
    table.load_incremental()
    files, before = table.files(), table.rows()
    rows = _rows()
    rows[7]["name"], rows[8]["name"] = "changed", "drifted"
    table.load([*rows.values()], at(5))
    assert table.rows() != before
    apply_undo(table.log, plan_rollback(table.log, 2), "by hand", 9, lambda: table.now)
    assert (table.files(), table.rows()) == (files, before)


def test_the_origin_of_a_row_is_the_load(table: Table) -> None:
    table.write_changes("20240305-020000000.parquet", [("U", {"id": 7, "name": "changed"})])
    table.set_modified("20240305-020000000.parquet", at(2))
    table.load_incremental()
    location = TableLocation(table.lake.as_uri(), table.layout, lake_filesystem(table.lake.as_uri()))
    assert [one.file for one in row_origins(location, ["7"])] == ["20240305-020000000.parquet"]
    rows = _rows()
    rows[7]["name"] = "changed"
    table.load([*rows.values()], at(5))
    assert [one.file for one in row_origins(location, ["7"])] == [""]


@pytest.mark.parametrize(
    ("columns", "item", "obstacle"),
    [
        (NAMES, {"PrimaryKey": "null"}, "the table has no PrimaryKey"),
        (NAMES, {"PartitionKey": "name"}, "The lake table was created with PartitionKey"),
        (pa.schema([*NAMES, ("city", pa.string())]), {}, "column city is new or has another type"),
        (pa.schema([("id", pa.int64())]), {}, "the full load has no column name"),
        (pa.schema([("id", pa.decimal128(20, 0)), ("name", pa.string())]), {}, "column id is new or has another type"),
        (pa.schema([*NAMES.remove(1), ("name", pa.date32())]), {}, "name"),
    ],
)
def test_what_cannot_be_compared_is_replaced_and_the_change_says_why(
    tmp_path: Path, columns: pa.Schema, item: dict[str, str], obstacle: str
) -> None:
    table = Table(tmp_path, NAMES, {"PrimaryKey": item.get("PrimaryKey", "id"), "ReloadMode": "diff"})
    table.load([{"id": 1, "name": "a"}], at(1))
    table.item |= item
    table.columns = columns
    name = date(2024, 1, 1) if pa.date32() in columns.types else "b"
    record = table.log.record(table.load([{"id": 1, "name": name, "city": "Ulm"}], at(5))["change"])
    assert record.reason.startswith("replaced, although ReloadMode is diff: ")
    assert obstacle in record.reason
    assert (record.books.replaced, record.books.inserted) == (1, 1)


def test_a_table_with_a_lost_file_is_replaced(table: Table) -> None:
    lost = table.files()[3]
    (table.folder / lost).unlink()
    record = table.log.record(table.load([*reversed(_rows().values())], at(5))["change"])
    assert "A file vanished from the lake folder" in record.reason
    assert lost in record.reason
    assert table.live("name") == {number: row["name"] for number, row in _rows().items()}


def test_too_large_a_table_goes_to_spark_before_anything_is_written(table: Table) -> None:
    table.limits = EngineLimits(rewritten_bytes=100)
    files = table.files()
    with pytest.raises(NeedsSparkError, match="compares data files"):
        table.load([*reversed(_rows().values())], at(5))
    assert table.files() == files


@pytest.mark.parametrize("readers", [Readers.ICEBERG, Readers.BOTH])
def test_iceberg_readers_see_the_rows_and_most_files_stay(tmp_path: Path, readers: Readers) -> None:
    table = Table(tmp_path, NAMES, {**DIFF, "TargetFileBytes": "4000", "Readers": readers.value})
    rows = _rows()
    table.load([*rows.values()], at(1))
    rows[10]["name"] = "drifted"
    del rows[2000]
    record = table.log.record(table.load([*rows.values()], at(5))["change"])
    assert record.reason == "by difference: rows missing in the lake 0, different 1, surplus 1, equal 2,998"
    assert len(record.retired) < len(table.log.snapshot(2).files) / 4
    seen = IcebergReaders(table.lake, table.layout).rows()
    assert {row["id"]: row["name"] for row in seen} == {number: row["name"] for number, row in rows.items()}
