"""Columns that change at the source are in the change record, and stop the table if its policy says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import SchemaDriftError
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
FIRST, SECOND, THIRD = (f"20240305-10{minute}00000.parquet" for minute in (10, 20, 30))
ROW: dict[str, Any] = {"id": 1, "city": "Kiel", "n": 1}
NOTE = {"note": pa.string()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([ROW])
    return table


def write(table: Table, file: str, **types: pa.DataType | None) -> None:
    """Write an update whose columns differ from the table's: None leaves a column out."""
    table.write_changes(file, [("U", {**ROW, **dict.fromkeys(types)})], types)


def apply(table: Table, file: str, **types: pa.DataType | None) -> dict[str, Any]:
    write(table, file, **types)
    return table.load_incremental()


def drift(table: Table) -> list[str]:
    record = table.log.record(table.log.head())
    return [f"{one}, {one.file}" for one in record.drift]


def test_a_change_with_the_same_columns_has_no_drift(table: Table) -> None:
    apply(table, FIRST)
    assert drift(table) == []


def test_added_dropped_and_retyped_columns_are_in_the_record_once(table: Table) -> None:
    summary = apply(table, FIRST, note=pa.string(), city=None, n=pa.int64())
    assert summary["drift"] == [
        "n retyped from int to bigint",
        "note string added",
        "city string dropped",
    ]
    assert drift(table) == [
        f"n retyped from int to bigint, {FIRST}",
        f"note string added, {FIRST}",
        f"city string dropped, {FIRST}",
    ]
    apply(table, SECOND, note=pa.string(), city=None, n=pa.int64())
    assert drift(table) == []
    apply(table, THIRD, note=pa.string(), n=pa.int64())
    assert drift(table) == [f"city string added, {THIRD}"]


def test_every_file_of_a_change_is_compared_with_the_file_before_it(table: Table) -> None:
    write(table, FIRST, city=None)
    write(table, SECOND)
    apply(table, THIRD, n=pa.int16())
    assert drift(table) == [
        f"city string dropped, {FIRST}",
        f"city string added, {SECOND}",
        f"n retyped from int to smallint, {THIRD}",
    ]


def test_a_late_file_drifts_only_by_what_the_lake_lacks(table: Table) -> None:
    apply(table, THIRD, note=pa.string())
    apply(table, FIRST)
    assert drift(table) == []
    apply(table, SECOND, old=pa.string(), n=pa.int64())
    assert drift(table) == [f"n retyped from int to bigint, {SECOND}", f"old string added, {SECOND}"]
    assert table.log.snapshot(4).source == table.log.snapshot(2).source


def test_a_reload_with_other_columns_drifts(table: Table) -> None:
    table.columns = COLUMNS.remove(1).append(pa.field("town", pa.string()))
    table.write_load([{"id": 1, "town": "Kiel", "n": 1}])
    table.write_load([{"id": 2, "town": "Kiel", "n": 1}], 2)
    table.load_initial()
    assert [text.partition(",")[0] for text in drift(table)] == ["town string added", "city string dropped"]


def test_after_an_adoption_files_are_compared_with_the_lakes_columns(table: Table) -> None:
    adopted = replace(table.log.snapshot(1), source=None)
    table.log.store.put(table.log.record(1).snapshot_key, adopted.to_bytes())
    apply(table, FIRST, city=None, n=pa.int16(), note=pa.string())
    assert drift(table) == [f"note string added, {FIRST}", f"city string dropped, {FIRST}"]


def test_freeze_refuses_the_change_before_anything_is_applied(table: Table) -> None:
    table.item["SchemaPolicy"] = "freeze"
    write(table, FIRST)
    write(table, SECOND, note=pa.string())
    with pytest.raises(SchemaDriftError, match=r"cdclake tables acknowledge shop\.orders") as refused:
        table.load_incremental()
    assert refused.value.exit_code == 3
    assert (refused.value.details["file"], refused.value.details["columns"]) == (SECOND, "note string added")
    assert table.log.head() == 1
    table.item["AcceptedDrift"] = "note string added"
    table.load_incremental()
    assert drift(table) == [f"note string added, {SECOND}"]


def test_an_accepted_change_does_not_cover_another(table: Table) -> None:
    table.item.update(SchemaPolicy="freeze", AcceptedDrift="note string added")
    write(table, FIRST, note=pa.string(), city=None)
    with pytest.raises(SchemaDriftError, match="note string added; city string dropped"):
        table.load_incremental()


def test_freeze_refuses_a_reload_and_lets_the_first_load_pass(table: Table) -> None:
    table.item["SchemaPolicy"] = "freeze"
    table.columns = COLUMNS.append(pa.field("note", pa.string()))
    table.write_load([{**ROW, "note": ""}])
    table.write_load([{**ROW, "id": 2, "note": ""}], 2)
    with pytest.raises(SchemaDriftError, match="note string added"):
        table.load_initial()
