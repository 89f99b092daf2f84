"""An update whose key the table lacks is reported or refused if its file does not tell whether it changed the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import UnknownKeyError
from cdclake.lake.operations.release import release
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
FIRST, SECOND = "20240305-101500000.parquet", "20240305-111500000.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})


def row(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


def unknown_keys(table: Table) -> int:
    found: int = table.log.record(table.log.head()).unknown_keys
    return found


SETTINGS = [{}, {"DeleteMode": "soft"}, {"UniqueChecks": "immediate"}, {"PartitionKey": "name"}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_update_that_may_have_changed_the_key_is_counted(table: Table, settings: dict[str, str]) -> None:
    table.item |= settings
    table.load([row(1), row(2)])
    table.apply_file(FIRST, [("U", row(3)), ("U", row(3, "b")), ("U", row(2, "b")), ("I", row(5)), ("U", row(5, "b"))])
    assert unknown_keys(table) == 1
    table.apply_file(SECOND, [("U", row(4)), ("D", row(4)), ("U", row(5, "c")), ("D", row(6))])
    assert unknown_keys(table) == 1


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("files", [1, 2, 3])
def test_a_key_is_unknown_after_its_delete_whichever_files_and_runs_have_both(
    table: Table, settings: dict[str, str], files: int
) -> None:
    """Such as `DELETE` of row 1 and `UPDATE` of row 2 to the key 1; the last change tells the key before."""
    table.item |= settings
    table.load([row(1), row(2)])
    changes = [("D", row(1), None), ("U", row(1, "of row 2"), None), ("I", row(3), None), ("U", row(4), row(3))]
    last = ("U", row(3, "of row 2"), None)
    if files == 1:
        table.write_changes(FIRST, [*changes, last])
    else:
        table.write_changes(FIRST, changes[:1])
        if files == 3:
            table.load_incremental()
            assert unknown_keys(table) == 0
        table.write_changes(SECOND, [*changes[1:], last])
    table.load_incremental()
    assert unknown_keys(table) == 2


def test_a_table_that_refuses_it_applies_nothing(table: Table) -> None:
    table.item["UnknownKeys"] = "refuse"
    table.load([row(1)])
    with pytest.raises(UnknownKeyError, match="UnknownKeys") as caught:
        table.apply_file(FIRST, [("U", row(1, "b")), ("I", row(2)), ("U", row(3))])
    assert (caught.value.details["file"], caught.value.details["row"]) == (FIRST, 3)
    assert [one.row for one in table.rows()] == [row(1)]
    table.item["UnknownKeys"] = "insert"
    table.load_incremental()
    assert len(table.rows()) == 3
    assert unknown_keys(table) == 0


def test_an_update_with_the_before_image_of_its_key_changed_it_or_not(table: Table) -> None:
    table.item["UnknownKeys"] = "refuse"
    table.load([row(1), row(2)])
    table.apply_file(FIRST, [("U", row(3), row(1)), ("U", row(9), row(9))])
    assert {one.row["id"] for one in table.rows()} == {2, 3, 9}


def test_a_part_of_the_key_in_the_before_image_is_not_enough(table: Table) -> None:
    table.item |= {"PrimaryKey": "id,name", "UnknownKeys": "refuse"}
    table.load([row(1, "a")])
    changes = pa.table({"Op": ["U"], "id": [1], "name": ["b"], "BI_id": [1]})
    with pytest.raises(UnknownKeyError, match="BI_name"):
        table.apply_file(FIRST, changes)


def test_a_null_in_the_before_image_is_not_enough(table: Table) -> None:
    """PostgreSQL logs no old key if the replica identity is another index."""
    table.load([row(1, "a")])
    images = pa.nulls(2, pa.int64())
    table.apply_file(FIRST, pa.table({"Op": ["U", "U"], "id": [1, 3], "name": ["b", "b"], "BI_id": images}))
    assert unknown_keys(table) == 1


def test_only_rows_without_the_key_before_count(table: Table) -> None:
    """A database may log old keys only with updates that change them, so rows of both kinds share a file."""
    table.load([row(1), row(2)])
    changes = {"Op": ["U"] * 4, "id": [2, 5, 6, 7], "name": ["b"] * 4, "BI_id": [None, 1, 6, None]}
    table.apply_file(FIRST, pa.table(changes))
    assert unknown_keys(table) == 1
    table.item["UnknownKeys"] = "refuse"
    with pytest.raises(UnknownKeyError) as caught:
        table.apply_file(SECOND, pa.table({**changes, "id": [2, 8, 9, 10], "BI_id": [None, 2, 9, None]}))
    assert (caught.value.details["file"], caught.value.details["row"]) == (SECOND, 4)


def test_a_table_that_begins_with_changes_has_updates_of_unknown_keys(table: Table) -> None:
    table.apply_file(FIRST, [("U", row(3))])
    table.apply_file(SECOND, [("U", row(4))])
    assert unknown_keys(table) == 0


def test_released_rows_count_too(table: Table) -> None:
    table.item |= {"Schema": "id bigint, name string, n int", "MaxQuarantinedRows": "1"}
    table.columns = COLUMNS.append(pa.field("n", pa.int32()))
    table.load([{**row(1), "n": 1}])
    name = FIRST.replace("parquet", "csv")
    table.apply_file(name, b"U,3,a,x\n")
    assert unknown_keys(table) == 0
    table.put(name, b"U,3,a,7\n")
    release(table.run(), {name})
    assert unknown_keys(table) == 1


@pytest.mark.spark
def test_tasks_of_spark_report_them(tmp_path: Path, spark_backend: Any) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"}, spark_backend)
    table.load([row(number) for number in range(50)])
    table.apply_file(FIRST, [("U", row(number)) for number in range(40, 60)])
    assert unknown_keys(table) == 10
