"""A column of a raw file without a type (Arrow's null) has the type that the table, Schema or another file tells."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import RefusedChangeError, SchemaMismatchError
from cdclake.lake.operations.direct.input_tables import input_rows
from cdclake.model.snapshot import Snapshot
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

TYPES = {
    "boolean": True,
    "int": 7,
    "decimal(10,2)": Decimal("1.50"),
    "double": 0.5,
    "string": "a",
    "binary": b"a",
    "date": date(2024, 3, 5),
}
FIRST = "20240305-101000000.parquet"


def put_change(table: Table, file: str, op: str, **columns: pa.Array) -> None:
    table.put(file, pa.table({"Op": [op], **columns}))


def values(table: Table, name: str = "v") -> list[Any]:
    return [row.row[name] for row in table.rows()]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, pa.schema([("id", pa.int64()), ("v", pa.int32())]), {"PrimaryKey": "id"})


@pytest.mark.parametrize("kind", TYPES)
def test_a_change_without_values_sets_them_to_null_in_a_column_of_any_type(tmp_path: Path, kind: str) -> None:
    value = pa.array([TYPES[kind]])
    columns = pa.schema([("id", pa.int64()), ("v", value.type)])
    table = Table(tmp_path, columns, {"PrimaryKey": "id", "Schema": f"id bigint, v {kind}"})
    table.load_file("LOAD00000001.parquet", pa.table({"id": [1], "v": value}))
    put_change(table, FIRST, "U", id=pa.array([1]), v=pa.nulls(1))
    table.load_incremental()
    assert values(table) == [None]
    assert table.log.record(2).missing_columns == ()


def test_the_lake_tells_the_type_and_the_column_did_not_change_at_the_source(table: Table) -> None:
    table.load_file("LOAD00000001.parquet", pa.table({"id": [1], "v": pa.array([5], pa.int32())}))
    put_change(table, "20240305-100000000.parquet", "U", id=pa.array([1]), v=pa.array([1 << 40]))
    table.load_incremental()
    put_change(table, FIRST, "U", id=pa.array([1]), v=pa.nulls(1))
    assert not table.load_incremental()["drift"]
    put_change(table, "20240305-102000000.parquet", "U", id=pa.array([1]), v=pa.array([6]))
    assert not table.load_incremental()["drift"]
    assert values(table) == [6]
    assert table.log.snapshot(3).schema.to_json() == [["id", "bigint"], ["v", "bigint"]]


def test_another_file_of_a_full_load_tells_the_type_whichever_comes_first(table: Table) -> None:
    table.put("LOAD00000001.parquet", pa.table({"id": [1], "v": pa.nulls(1)}))
    table.put("LOAD00000002.parquet", pa.table({"id": [2], "V": pa.array([5], pa.int16())}))
    table.load_file("LOAD00000003.parquet", pa.table({"id": [3], "v": pa.nulls(1)}))
    assert values(table) == [None, 5, None]
    assert table.log.snapshot(1).schema.columns[1].type == "smallint"


def test_a_reload_keeps_the_type_of_the_table(table: Table) -> None:
    table.load_file("LOAD00000001.parquet", pa.table({"id": [1], "v": [5]}))
    table.load_file("LOAD00000001.parquet", pa.table({"id": [1], "v": pa.nulls(1)}))
    assert values(table) == [None]
    assert table.log.snapshot(2).schema.columns[1].type == "bigint"


def test_a_type_that_nothing_tells_is_refused_until_it_is_declared(table: Table) -> None:
    table.put("LOAD00000001.parquet", pa.table({"id": [1], "v": pa.nulls(1), "a b": pa.nulls(1)}))
    with pytest.raises(SchemaMismatchError, match="v of a raw file has no type, because it has no values") as caught:
        table.load_initial()
    assert "--schema 'v <type>'" in caught.value.remedy
    table.item["Schema"] = "v date"
    with pytest.raises(SchemaMismatchError, match="a b") as caught:
        table.load_initial()
    assert "--schema 'v date, `a b` <type>'" in caught.value.remedy
    assert table.log.snapshot(table.log.head()) == Snapshot()
    table.item["Schema"] = "v date, `a b` double"
    table.load_initial()
    assert table.log.snapshot(1).schema.to_json() == [["id", "bigint"], ["v", "date"], ["a b", "double"]]


@pytest.mark.parametrize("column", ["id", "BI_id", "AR_H_CHANGE_SEQ", "Op"])
def test_a_key_or_added_column_without_values_is_read_as_one_of_nulls(table: Table, column: str) -> None:
    table.item["MaxQuarantinedRows"] = "1"
    table.load_file("LOAD00000001.parquet", pa.table({"id": [1], "v": pa.array([5], pa.int32())}))
    columns = {"Op": pa.array(["U"]), "id": pa.array([1]), "v": pa.array([6], pa.int32()), column: pa.nulls(1)}
    table.apply_file(FIRST, pa.table(columns))
    assert values(table) == [6 if column == "BI_id" else 5]
    assert table.log.record(2).books.quarantined == (column != "BI_id")


def test_direct_changes_take_columns_without_values_as_nulls_but_create_none(tmp_path: Path, table: Table) -> None:
    table.load_file("LOAD00000001.parquet", pa.table({"id": [1], "v": [5]}))
    table.direct("I", input_rows([{"id": 2, "v": None}]))
    assert values(table) == [5, None]
    new = Table(tmp_path / "new", pa.schema([]), {"PrimaryKey": "id"})
    with pytest.raises(RefusedChangeError, match="no type, because it has no values"):
        new.direct("I", input_rows([{"id": 2, "v": None}]))
