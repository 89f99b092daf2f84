"""An erasure reaches everything that cdclake ever moved aside: foreign files, temporary files of killed processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.folder import TEMPORARY_FOLDER
from cdclake.commit.table_files import compare, repair
from cdclake.errors import LakeFilesError
from cdclake.lake.operations.erase.erase import preview
from tests.builders import parquet_bytes
from tests.cdclake.lake.operations.erase.erasable_table import (
    SECRET_ID,
    SECRET_NAME,
    ErasableTable,
    objects_containing,
    row,
    secret,
)
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = str(SECRET_ID)


@pytest.fixture
def table(in_folder: ErasableTable) -> ErasableTable:
    in_folder.load([row(1), secret()])
    return in_folder


def test_temporary_files_of_killed_processes_are_removed_at_once(table: ErasableTable) -> None:
    folders = (table.lake / TEMPORARY_FOLDER, table.raw / TEMPORARY_FOLDER)
    for folder in folders:
        folder.mkdir(exist_ok=True)
        (folder / "half").write_bytes(SECRET_NAME.encode())
    table.erase(KEY)
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}
    table.erase(KEY, raw=True)
    assert not (folders[1] / "half").exists()


def move_away(table: ErasableTable, path: str, content: pa.Table | bytes) -> str:
    """Put a foreign file among the data files, and let a repair move it; returns its key then."""
    file = table.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        pq.write_table(content, file, compression="none")
    log = table.log
    change = log.head()
    repair(log, change, compare(log, log.snapshot(change).all_files))
    return log.layout.foreign_key(path)


def test_rows_in_files_that_a_repair_moved_away_are_removed(table: ErasableTable) -> None:
    rows = pa.table({"ID": [SECRET_ID, 7], "name": [SECRET_NAME, "seven"]})
    some = move_away(table, "000000000009-00001.parquet", rows)
    whole = move_away(table, "another.parquet", rows.slice(0, 1))
    result = preview(table.erasure(KEY))
    found, sentences = result.touched, result.out_of_reach
    assert (found.foreign_rows, found.foreign_files) == (2, 2)
    assert not any("moved away" in sentence for sentence in sentences)
    assert table.erase(KEY).touched == found
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}
    assert pq.read_table(table.lake / some).to_pylist() == [{"ID": 7, "name": "seven"}]
    assert not (table.lake / whole).exists()


def test_moved_files_that_cannot_be_searched_are_named(table: ErasableTable) -> None:
    keys = [
        move_away(table, "notes.txt.parquet", b"no Parquet"),
        move_away(table, "other.parquet", pa.table({"name": [SECRET_NAME]})),
        move_away(table, "text.parquet", pa.table({"id": ["one"]})),
        move_away(table, "twice.parquet", pa.table({"id": [SECRET_ID], "ID": [7]})),
        move_away(table, "nested.parquet", pa.table({"id": [[SECRET_ID]]})),
    ]
    sentences = preview(table.erasure(KEY)).out_of_reach
    (sentence,) = [one for one in sentences if "moved away" in one]
    assert all(key in sentence for key in keys)
    assert sorted(keys) in map(sorted, table.erase(KEY).not_searched.values())


SECRETS = pa.table({"id": [SECRET_ID], "name": [SECRET_NAME]})
UNCOMPRESSED = parquet_bytes(SECRETS, compression="none", store_schema=False)
COMPRESSED = parquet_bytes(SECRETS, compression="zstd")


def replaced_in_footer(content: bytes, old: bytes, new: bytes) -> bytes:
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert old in content[begin:]
    return content[:begin] + content[begin:].replace(old, new)


DAMAGED = {
    "it ends the process": ABORTS_PYARROW.read_bytes(),
    "a name is no text": replaced_in_footer(UNCOMPRESSED, b"name", b"n\xffme"),
    "a page is damaged": COMPRESSED.replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xff", 1),
    "no end": UNCOMPRESSED[:-100],
    "empty": b"",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_that_were_moved_away_are_named(table: ErasableTable, content: bytes) -> None:
    key = move_away(table, "damaged.parquet", content)
    assert [[key]] == [list(names) for names in table.erase(KEY).not_searched.values()]
    assert (table.lake / key).read_bytes() == content


@pytest.mark.parametrize("erase", [lambda table: preview(table.erasure(KEY)), lambda table: table.erase(KEY)])
def test_a_damaged_data_file_is_named(table: ErasableTable, erase: Callable[[ErasableTable], object]) -> None:
    (file,) = table.folder.rglob("*.parquet")
    good = file.read_bytes()
    for content in (
        replaced_in_footer(good, b"name", b"n\xffme"),
        good[:-8] + b"\xff\xff\xff\x7fPAR1",
        good[:4] + bytes(40) + good[44:],
    ):
        file.write_bytes(content)
        with pytest.raises(LakeFilesError, match="cannot be read as Parquet") as raised:
            erase(table)
        assert file.name in str(raised.value.details["file"])
        assert SECRET_NAME not in str(raised.value)
