"""Bad rows of an erased key are removed in any notation of it; those whose key cannot be read are named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.lake.operations.erase.erase import erase, preview
from tests.lake.operations.erase.erasable_table import ErasableTable, objects_containing

if TYPE_CHECKING:
    from pathlib import Path

FILE = "20240305-100000000.csv"


def table_of(root: Path, kind: str) -> ErasableTable:
    item = {"PrimaryKey": "id", "MaxQuarantinedRows": "9", "Schema": f"id {kind}, city string"}
    columns = pa.schema([("id", pa.string() if kind == "string" else pa.int64()), ("city", pa.string())])
    return ErasableTable(root, columns, item)


@pytest.mark.parametrize(
    ("kind", "key", "line"),
    [
        ("string", 'o"brien@x', b'I,"o""brien@x",Ulm,hidden'),
        ("string", "müller", "I,müller,Ulm,hidden".encode("latin-1")),
        ("string", "müller", "I,müller,hidden".encode("latin-1")),
        ("string", "müller", "I,müller,Ulm,hidden".encode()),
        ("bigint", "1042", b'I,"1,042",Ulm,hidden'),
        ("bigint", "1042", b'I,"1,042",hidden'),
        ("bigint", "5", b"I,5e0,Ulm,hidden"),
        ("bigint", "5", b"I,5e0,hidden"),
        ("bigint", "5", b"I,5.0,hidden"),
        ("decimal(10,2)", "1234567", b"I,1'234'567,hidden"),
    ],
)
def test_a_bad_row_is_erased_in_other_spellings_of_its_key(tmp_path: Path, kind: str, key: str, line: bytes) -> None:
    table = table_of(tmp_path, kind)
    table.apply_file(FILE, line + b"\nI,77,Ulm,stays\nI,78,other\nI,79,other\nI,80,other\n")
    assert len(objects_containing(table, "hidden")) == 1
    done = table.erase(key)
    assert done.touched.bad_rows == 1
    assert objects_containing(table, "hidden") == {}
    assert objects_containing(table, "stays")


@pytest.mark.parametrize("line", ["I,#1042b,hidden", "I,hidden", "I,NULL,hidden", "I,a,b,hidden"])
def test_bad_rows_whose_key_cannot_be_read_are_named_without_values_and_erased_on_request(
    tmp_path: Path, line: str
) -> None:
    table = table_of(tmp_path, "bigint")
    table.apply_file(FILE, f"{line}\nI,77,Ulm\nI,1042,Ulm\nI,1042,Ulm,more\n".encode())
    found, sentences = preview(table.erasure("1042"))
    assert found.bad_rows == 1
    (sentence,) = [one for one in sentences if "whose key cannot be read" in one]
    assert f"{FILE} (1)" in sentence
    assert "--unread-rows" in sentence
    assert "hidden" not in sentence
    table.erase("1042")
    assert objects_containing(table, "hidden")
    assert preview(table.erasure("1042"))[1] == sentences  # it stays named
    done = erase(replace(table.erasure("1042"), unread_rows_too=True), table.runs)
    assert done.touched.bad_rows == 1
    assert objects_containing(table, "hidden") == {}
    assert [values["id"] for values in table.rows_as_of(table.log.head())] == [77]


def test_a_bad_row_that_moved_the_key_away_is_erased(tmp_path: Path) -> None:
    table = table_of(tmp_path, "bigint")
    del table.item["Schema"]
    table.apply_file(FILE, b"Op,id,city,BI_id\nI,5,Ulm,\nX,6,hidden,1042\nX,7,stays,8\n")
    table.erase("1042")
    assert objects_containing(table, "hidden", "1042") == {}
    assert objects_containing(table, "stays")
