"""Settings that name columns are compared with the table's raw files before they are stored."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.filesystem import FetchedFile, lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.errors import ConfigurationError
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.state import TableState
from cdclake_cli.doctor.check_settings import RawReader, check_columns

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2024, 3, 6, tzinfo=timezone.utc)
NO_LAKE = Snapshot()
LOAD, CHANGE = "LOAD00000001.parquet", "20240305-101500000.parquet"


def put(folder: Path, name: str, *columns: str) -> None:
    path = folder / "shop" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.table({column: ["1"] for column in columns}), path)
    else:
        path.write_text(",".join(columns) + "\n")


def check(folder: Path, lake: Snapshot = NO_LAKE, **attributes: str) -> None:
    state = TableState.new("raw", "shop/", "orders/").with_attributes(**attributes)
    raw = RawReader(open_store(folder.as_uri()), lambda: lake_filesystem(folder.as_uri()).open())
    check_columns(raw, state, attributes, NOW, lake)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("rows", [1, 40_000])
def test_a_small_file_is_fetched_and_a_large_one_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, rows: int
) -> None:
    fetched: list[str] = []
    fetch = FetchedFile.of

    def noted(filesystem: Any, path: str) -> FetchedFile:
        fetched.append(path)
        return fetch(filesystem, path)

    monkeypatch.setattr(FetchedFile, "of", noted)
    numbers = np.random.default_rng(7).integers(0, 1 << 60, rows)
    file = tmp_path / "shop" / "orders" / f"20240305-101500000.{kind}"
    file.parent.mkdir(parents=True)
    if kind == "parquet":
        pq.write_table(pa.table({"id": numbers}), file)
    else:
        text = "id\n" + "".join(f"{number}\n" for number in numbers)
        file.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())
    raw = RawReader(open_store(tmp_path.as_uri()), lambda: lake_filesystem(tmp_path.as_uri()).open())
    state = TableState.new("raw", "shop/", "orders/").with_attributes(AddColumnName="true", PrimaryKey="id")
    check_columns(raw, state, ["PrimaryKey"], NOW, NO_LAKE)
    with pytest.raises(ConfigurationError, match="'name', which is not a column"):
        check_columns(raw, state.with_attributes(PrimaryKey="name"), ["PrimaryKey"], NOW, NO_LAKE)
    assert fetched == (["shop/orders/" + file.name] * 2 if rows == 1 else [])


@pytest.mark.parametrize(
    "attributes",
    [
        {"PrimaryKey": "id"},
        {"PrimaryKey": "ID,createdAt"},
        {"PartitionKey": "createdat"},
        {"OrderColumn": "AR_H_TIMESTAMP"},
        {"HistoryTimeColumn": "createdat"},
        {"NullMeansUnsent": "createdAt"},
        {"Schema": "createdat timestamp"},
        {"PrimaryKey": "null"},
        {"LateWindowHours": "3"},
    ],
    ids=str,
)
def test_columns_of_the_newest_change_file_are_accepted(tmp_path: Path, attributes: dict[str, str]) -> None:
    put(tmp_path, LOAD, "id")
    put(tmp_path, CHANGE, "Op", "id", "createdat", "AR_H_TIMESTAMP")
    check(tmp_path, NO_LAKE, **attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {"PrimaryKey": "idd"},
        {"PrimaryKey": "id,old"},
        {"PartitionKey": "created"},
        {"OrderColumn": "old"},
        {"HistoryTimeColumn": "Op"},
        {"NullMeansUnsent": "createdat,craetedat"},
        {"Schema": "id int, old string"},
    ],
    ids=str,
)
def test_a_column_that_the_newest_change_file_lacks_is_refused(tmp_path: Path, attributes: dict[str, str]) -> None:
    put(tmp_path, LOAD, "id", "old")
    put(tmp_path, CHANGE, "Op", "id", "createdat")
    (attribute,) = attributes
    with pytest.raises(ConfigurationError, match=f"{attribute} names .* not a column of {CHANGE}") as refused:
        check(tmp_path, NO_LAKE, **attributes)
    assert "--unchecked" in refused.value.remedy
    assert "The columns are id, createdat" in refused.value.remedy


def test_a_similar_name_is_suggested(tmp_path: Path) -> None:
    put(tmp_path, LOAD, "customer_id", "name")
    with pytest.raises(ConfigurationError, match=r"Did you mean customer_id\?"):
        check(tmp_path, PrimaryKey="costumer_id")


def test_values_of_a_file_that_may_have_no_header_are_not_shown(tmp_path: Path) -> None:
    put(tmp_path, "LOAD00000001.csv", "code", "ann")
    with pytest.raises(ConfigurationError, match="no header line") as refused:
        check(tmp_path, PrimaryKey="cod")
    assert "ann" not in str(refused.value)
    check(tmp_path, PrimaryKey="id", Schema="id int, name string", AddColumnName="false")


def test_without_files_columns_come_from_schema_or_the_lake_table(tmp_path: Path) -> None:
    lake = Snapshot(1, Schema((Column("id", "int"),)))
    check(tmp_path, PrimaryKey="id", Schema="id int")
    check(tmp_path, lake, PrimaryKey="id")
    with pytest.raises(ConfigurationError, match="not a column of the lake table"):
        check(tmp_path, lake, PrimaryKey="nr")
    with pytest.raises(ConfigurationError, match="There are no raw files yet to check PrimaryKey against"):
        check(tmp_path, PrimaryKey="id")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    put(tmp_path, LOAD.replace("parquet", "csv"), "id")
    (tmp_path / "shop" / "orders" / LOAD).write_bytes(b"no Parquet")
    with pytest.raises(ConfigurationError, match=f"cannot be checked.*{LOAD}.*--unchecked"):
        check(tmp_path, PrimaryKey="id")


LOADED = Snapshot(change=1, schema=Schema((Column("id", "int"), Column("name", "string"))))


def test_a_schema_must_declare_what_a_csv_file_has_as_text_and_the_lake_as_another_type(tmp_path: Path) -> None:
    put(tmp_path, "LOAD00000001.csv", "id", "name")
    with pytest.raises(ConfigurationError, match=r"does not declare id, which is string.*Declare it as int, or reload"):
        check(tmp_path, LOADED, Schema="null")
    with pytest.raises(ConfigurationError, match=r"does not declare id"):
        check(tmp_path, LOADED, Schema="name string")
    check(tmp_path, LOADED, Schema="id bigint")
    check(tmp_path, LOADED, PrimaryKey="name")
    check(tmp_path, Snapshot(), Schema="null")


def test_types_of_parquet_files_need_no_declaration(tmp_path: Path) -> None:
    put(tmp_path, LOAD, "name")
    check(tmp_path, LOADED, Schema="null")
