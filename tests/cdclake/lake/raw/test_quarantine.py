"""Bad rows in the whole engine: they stop a table by default; if allowed, they are quarantined and counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError
from cdclake.model.change.books import Books
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("n", pa.int32())])
ITEM = {"PrimaryKey": "id", "Schema": "id int, name string, n int"}
CHANGES = b"U,1,b,2\nI,2,c,three\nX,3,d,4\nD,1,b,2\nI,NULL,e,5\nI,4,f,6\nI,5\n"
BAD_ROWS = [1, 2, 4, 6]


def loaded(folder: Path, **item: str) -> Table:
    table = Table(folder, COLUMNS, {**ITEM, **item})
    table.load_file("LOAD00000001.csv", b"1,a,1\n")
    return table


def quarantined(table: Table, change: int) -> list[dict[str, Any]]:
    texts = [table.log.store.get(key) for key in table.log.record(change).quarantine]
    return [json.loads(line) for text in texts for line in (text or b"").decode().splitlines()]


@pytest.mark.parametrize("item", [{}, {"MaxQuarantinedRows": "3"}])
def test_more_bad_rows_than_allowed_stop_the_table_and_the_error_counts_them(
    tmp_path: Path, item: dict[str, str]
) -> None:
    table = loaded(tmp_path, **item)
    with pytest.raises(BadRowError, match=r"the first of 4 bad rows.*MaxQuarantinedRows to 4 or more") as caught:
        table.apply_file("20240305-101500000.csv", CHANGES)
    assert caught.value.details == {"file": "20240305-101500000.csv", "row": 2}
    assert [one.row["id"] for one in table.rows()] == [1]
    assert table.log.head() == 1


def test_allowed_bad_rows_are_quarantined_with_file_row_and_reason_and_good_rows_applied(tmp_path: Path) -> None:
    table = loaded(tmp_path, MaxQuarantinedRows="4")
    summary = table.apply_file("20240305-101500000.csv", CHANGES)
    assert [one.row["id"] for one in table.rows()] == [4]
    bad_rows = quarantined(table, 2)
    assert [(one["file"], one["row"]) for one in bad_rows] == [("20240305-101500000.csv", row) for row in BAD_ROWS]
    assert "three" in str(bad_rows[0]["content"])
    assert all(one.keys() == {"file", "row", "reason", "columns", "content"} and one["reason"] for one in bad_rows)
    books = Books(**summary["books"])
    assert (books.read, books.read_unknown, books.quarantined) == (7, 4, 4)
    assert (books.applied, books.superseded, books.inserted, books.deleted) == (2, 1, 1, 1)


def test_bad_rows_of_several_files_count_together(tmp_path: Path) -> None:
    table = loaded(tmp_path, MaxQuarantinedRows="1")
    table.put("20240305-101500000.csv", b"X,3,d,4\nI,7,g,7\n")
    table.put("20240305-111500000.csv", b"X,3,d,4\n")
    with pytest.raises(BadRowError, match="the first of 2 bad rows"):
        table.load_incremental()


def test_all_but_the_last_row_of_a_repeated_full_load_key_are_quarantined(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {**ITEM, "MaxQuarantinedRows": "2"})
    table.put("LOAD00000001.csv", b"1,first,1\n2,other,1\n1,second,1\n")
    summary = table.load_file("LOAD00000002.csv", b"1,third,1\n")
    assert table.live("name") == {1: "third", 2: "other"}
    assert {one.position for one in table.rows()} == {""}
    bad_rows = quarantined(table, 1)
    assert [(one["file"], one["row"], one["content"]["name"]) for one in bad_rows] == [
        ("LOAD00000001.csv", 0, "first"),
        ("LOAD00000001.csv", 2, "second"),
    ]
    books = Books(**summary["books"])
    assert (books.read_insert, books.quarantined, books.inserted, books.rows_after) == (4, 2, 2, 2)


def test_a_key_update_counts_the_row_once_and_the_delete_of_the_old_key_as_derived(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([{"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 2}])
    moved = {"id": 9, "name": "a", "n": 1}
    books = Books(**table.apply_file("20240305-101500000.parquet", [("U", moved, {"id": 1})])["books"])
    assert {one.row["id"] for one in table.rows()} == {2, 9}
    assert (books.read, books.derived, books.applied, books.inserted, books.deleted) == (1, 1, 2, 1, 1)
