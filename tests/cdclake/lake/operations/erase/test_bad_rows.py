"""Bad rows of an erased key are removed in any notation of it; those whose key cannot be read are named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.lake.operations.erase.erase import erase, preview
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable, objects_containing

if TYPE_CHECKING:
    from collections.abc import Callable
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
        ("decimal(10,2)", "7", b"I,7.00,Ulm,too,many,hidden"),
        ("timestamp", "2024-03-05T10:00:00Z", b"I,2024-03-05 10:00:00.000000,Ulm,hidden,fields"),
        ("boolean", "true", b"I,1,Ulm,hidden,fields"),
        ("string", "Ann Lee", b"I,Ann Lee,Ulm,hidden,fields"),
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
    assert len(objects_containing(table, "other")) == 1


@pytest.mark.parametrize("line", ["I,#1042b,hidden", "I,hidden", "I,NULL,hidden", "I,a,b,hidden"])
def test_bad_rows_whose_key_cannot_be_read_are_named_without_values_and_erased_on_request(
    tmp_path: Path, line: str
) -> None:
    table = table_of(tmp_path, "bigint")
    table.apply_file(FILE, f"{line}\nI,77,Ulm\nI,1042,Ulm\nI,1042,Ulm,more\n".encode())
    result = preview(table.erasure("1042"))
    found, sentences = result.touched, result.out_of_reach
    assert found.bad_rows == 1
    (sentence,) = [one for one in sentences if "whose key cannot be read" in one]
    assert f"{FILE} (1)" in sentence
    assert "--unread-rows" in sentence
    assert "hidden" not in sentence
    table.erase("1042")
    assert objects_containing(table, "hidden")
    assert preview(table.erasure("1042")).out_of_reach == sentences  # it stays named
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


def quarantine_file(table: ErasableTable) -> Path:
    """The only file of bad rows."""
    (key,) = table.log.record(table.log.head()).quarantine
    return table.lake / key


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[:-40],  # the end is missing, and the last value is in it
        lambda line: line[20:],
        lambda line: b"\x00" * len(line),
        lambda line: line.replace(b"77", b"\xff\xfe"),
        lambda line: b'"77"',
        lambda line: b"null",
        lambda line: b"{}",
        lambda line: b"[" * 100_000,
        lambda line: json.dumps({**json.loads(line), "content": 77}).encode(),
        lambda line: json.dumps({**json.loads(line), "content": {"id": [77]}}).encode(),
        lambda line: json.dumps({**json.loads(line), "file": None}).encode(),
        lambda line: json.dumps({**json.loads(line), "row": "77"}).encode(),
    ],
)
def test_damaged_lines_of_the_quarantine_are_named_or_removed(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    table = table_of(tmp_path, "bigint")
    table.apply_file(FILE, b"I,1,Bonn\nX,77,Aachen\nX,5,Erfurt\nX,1042,Trier\n")
    path = quarantine_file(table)
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([damage(first.strip()) + b"\n", *others]))
    done = table.erase("5")
    assert done.touched.bad_rows == 1
    key = path.relative_to(table.lake).as_posix()
    assert [f"{key} (1)"] in [list(names) for names in done.not_searched.values()]
    assert "Erfurt" not in path.read_text(errors="replace")
    assert erase(replace(table.erasure("6"), unread_rows_too=True), table.runs).touched.bad_rows == 1
    assert b"1042" in path.read_bytes()
    assert len(path.read_bytes().splitlines()) == 1


def test_a_key_in_a_damaged_line_is_erased(tmp_path: Path) -> None:
    table = table_of(tmp_path, "bigint")
    table.apply_file(FILE, b"I,1,Bonn\nX,77,Aachen\nX,1042,Erfurt\n")
    path = quarantine_file(table)
    path.write_bytes(path.read_bytes()[:-3])
    assert table.erase("1042").touched.bad_rows == 1
    assert objects_containing(table, "1042", "Erfurt") == {}
    assert objects_containing(table, "Aachen")


@pytest.mark.parametrize("change", ["000000000001", "000000000002"])
def test_half_written_files_of_dead_runs_are_removed(tmp_path: Path, change: str) -> None:
    table = table_of(tmp_path, "bigint")
    table.apply_file(FILE, b"I,1,Bonn\nX,77,Aachen\nX,5,Erfurt\n")
    kept = quarantine_file(table)
    path = table.lake / table.layout.quarantine_folder / f"{change}-dead" / "read-00000.jsonl"
    path.parent.mkdir()
    path.write_bytes(kept.read_bytes()[:-60])
    result = preview(table.erasure("5"))
    found, sentences = result.touched, result.out_of_reach
    assert found.bad_rows == 1
    assert not [one for one in sentences if "cannot be read" in one]
    done = table.erase("5")
    assert done.touched == found
    assert not path.exists()
    assert kept.read_bytes().count(b"\n") == 1
