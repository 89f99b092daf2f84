"""What makes a row bad and how it is reported; the other rows are read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdclake.lake.limits import EngineLimits
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.keys import UNSENT
from tests.cdclake.lake.table import Table, row_numbers

if TYPE_CHECKING:
    from pathlib import Path

CHANGE = "20240305-101500123.csv"
PARQUET = "20240305-101500123.parquet"
PERSONS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("age", pa.int32())])
ITEM = {"PrimaryKey": "id", "Schema": "id int, name string, age int"}


@pytest.fixture
def persons(tmp_path: Path) -> Table:
    return Table(tmp_path, PERSONS, dict(ITEM))


def bad_and_good(table: Table, relative: str = CHANGE) -> tuple[list[tuple[int | None, str]], list[Any]]:
    batch = table.read(relative)
    assert all(bad.file == relative for bad in batch.bad_rows)
    good = list(zip(row_numbers(batch), batch.rows["id"].to_pylist(), strict=True))
    return [(bad.row, bad.reason) for bad in batch.bad_rows], good


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"X,1,a,5", "The operation of a change row is not I, U or D"),
        (b"NULL,1,a,5", "The operation of a change row is not I, U or D"),
        (b"u,1,a,5", "The operation of a change row is not I, U or D"),
        (b"I,NULL,a,5", "Key column id is null"),
        (b"U,,a,5", "Key column id is null"),
        (b"D,NULL,NULL,NULL", "Key column id is null"),
        (b"I,one,a,5", "A value of column id is not a valid int"),
        (b"I,99999999999,a,5", "A value of column id is not a valid int"),
        (b"I,1,a,4.5", "A value of column age is not a valid int"),
        (b"I,1,\xff,5", "A value of column name is not UTF-8 text"),
        (b"\xff,1,a,5", "A value of column Op is not UTF-8 text"),
        (b"I,1,a", "A row has 3 fields instead of 4"),
        (b"I,1,a,5,6", "A row has 5 fields instead of 4"),
        (b'I,1,"a",b,5', "A row has 5 fields instead of 4"),
        (b"I,\xff", "A row has 2 fields instead of 4"),
    ],
)
@pytest.mark.parametrize("header", [b"", b"Op,id,name,age\n"])
def test_a_bad_row_keeps_its_number_and_the_other_rows_are_read(
    persons: Table, line: bytes, reason: str, header: bytes
) -> None:
    persons.put(CHANGE, header + b'I,10,"a\nb",5\n' + line + b"\nI,30,c,5\n" + line + b"\nI,50,d,5\n")
    assert bad_and_good(persons) == ([(1, reason), (3, reason)], [(0, 10), (2, 30), (4, 50)])


@pytest.mark.parametrize(
    ("declared", "bad"),
    [
        ("timestamp", "2024-03-05 10:15:00.1234567"),
        ("timestamp", "2024-02-30 00:00:00"),
        ("timestamp", "0000-00-00 00:00:00"),
        ("date", "2024-03-05 10:15:00"),
        ("decimal(5,2)", "1.005"),
        ("decimal(5,2)", "1234.00"),
        ("double", "1e999"),
        ("double", "1,5"),
        ("double", "9007199254740993"),
        ("double", "0.1234567890123456789"),
        ("double", "1e-400"),
        ("float", "1e39"),
        ("float", "16777217"),
        ("float", "0.1234567890"),
        ("boolean", "2"),
        ("boolean", "yes!"),
        ("bigint", "1e3"),
    ],
)
def test_a_value_that_does_not_parse_or_fit_makes_the_row_bad(tmp_path: Path, declared: str, bad: str) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "Schema": f"id int, v {declared}"})
    table.put(CHANGE, f'I,1,NULL\nI,2,"{bad}"\nI,3,\n'.encode())
    assert bad_and_good(table) == ([(1, f"A value of column v is not a valid {declared}")], [(0, 1), (2, 3)])


DOUBLES, FLOATS = st.floats(-1e300, 1e300), st.floats(-(2.0**120), 2.0**120, width=32).map(np.float32)


@example((("double", 15), 2.0**-24), 3)  # half of its shortest text's last digit is rounded up
@given(st.tuples(st.just(("double", 15)), DOUBLES) | st.tuples(st.just(("float", 6)), FLOATS), st.integers(3, 6))
def test_a_float_is_read_from_any_text_with_the_digits_that_it_keeps(
    drawn: tuple[tuple[str, int], Any], more: int
) -> None:
    (kind, digits), number = drawn
    texts = [str(number), f"{number:.{digits + more - 1}e}", f"{number:.{digits - 1}e}", "-0.00", "7." + "0" * 30]
    values, bad = cast_column(pa.array(texts), kind)
    assert bad == []
    assert values[0].as_py() == values[1].as_py() == float(number)


def test_a_key_that_was_not_sent_makes_the_row_bad(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {**ITEM, "CsvNoSupValue": "?"})
    table.put(CHANGE, b"U,?,a,5\nU,2,?,5\n")
    assert bad_and_good(table) == ([(0, "Key column id was not sent")], [(1, 2)])


def test_every_key_column_must_have_a_value(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {**ITEM, "PrimaryKey": "id,name"})
    table.put(CHANGE, b"I,1,a,5\nI,2,NULL,5\nD,3,,5\n")
    assert bad_and_good(table) == ([(1, "Key column name is null")], [(0, 1), (2, 3)])


def test_a_bad_row_is_reported_by_column_or_as_a_raw_line_if_its_width_is_wrong(persons: Table) -> None:
    assert [bad.content for bad in persons.read_file(CHANGE, b'I,1,"a, b",five\nI,2\r\nU,\xff,NULL,5\n').bad_rows] == [
        {"Op": "I", "id": "1", "name": "a, b", "age": "five"},
        "I,2",
        {"Op": "U", "id": "\\xff", "name": None, "age": "5"},
    ]


def test_a_bad_parquet_row_is_reported_by_column(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    columns = {
        "Op": ["I", "?", "U", "D"],
        "id": pa.array([1, 2, 3, None], pa.int32()),
        "data": [b"\x00", b"\x01", b"\x02", None],
        "at": pa.array([1_000, 1_000, 1_001, 1_000], pa.timestamp("ns")),
        "BI_id": pa.array([None, 7, None, None], pa.int32()),
    }
    batch = table.read_file(PARQUET, pa.table(columns), row_group_size=1, version="2.6")
    at = "1970-01-01 00:00:00.000001000"
    assert [(bad.row, bad.content) for bad in batch.bad_rows] == [
        (1, {"Op": "?", "id": "2", "data": "01", "at": at, "BI_id": "7"}),
        (2, {"Op": "U", "id": "3", "data": "02", "at": "1970-01-01 00:00:00.000001001", "BI_id": None}),
        (3, {"Op": "D", "id": None, "data": None, "at": at, "BI_id": None}),
    ]
    assert batch.rows["id"].to_pylist() == [1]


def test_bad_rows_are_numbered_across_chunks(persons: Table) -> None:
    persons.limits = EngineLimits(csv_chunk_bytes=200, csv_head_bytes=100)
    lines = [f"I,{i},n{i},5" for i in range(300)]
    for i in (17, 150, 151, 299):
        lines[i] = f"I,{i}"
    for i in (0, 149, 250):
        lines[i] = f"I,{i},n,x"
    persons.put(CHANGE, ("\n".join(lines) + "\n").encode())
    bad, good = bad_and_good(persons)
    assert [row for row, _ in bad] == [0, 17, 149, 150, 151, 250, 299]
    assert good == [(i, i) for i in range(300) if i not in {0, 17, 149, 150, 151, 250, 299}]


def test_only_the_first_fault_of_a_row_is_reported(persons: Table) -> None:
    persons.put(CHANGE, b"X,one,\xff,1.5\n")
    assert bad_and_good(persons) == ([(0, "A value of column id is not a valid int")], [])


def test_a_bad_before_image_makes_an_update_bad_and_is_ignored_in_other_rows(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "Schema": "id int, name string, BI_id int"})
    table.put(CHANGE, b"U,1,a,x\nD,2,b,x\nD,3,c,x\n")
    assert bad_and_good(table) == ([(0, "A value of column BI_id is not a valid int")], [(1, 2), (2, 3)])


@pytest.mark.slow
@pytest.mark.parametrize("bad", [b"I,1,a,x\n", b"I,1,a\n"])
def test_bad_rows_do_not_make_reading_slow(persons: Table, bad: bytes) -> None:
    good = b"".join(b"I,%d,name %d,5\n" % (i, i) for i in range(100_000))
    persons.put(CHANGE, good)
    started = time.process_time()
    persons.read(CHANGE)
    without = time.process_time() - started
    persons.put(CHANGE, bad + good + bad)
    started = time.process_time()
    assert len(persons.read(CHANGE).bad_rows) == 2
    assert time.process_time() - started < 20 * without + 5


def test_an_update_of_the_key_that_lacks_a_column_is_bad_unless_its_before_image_is_sent(tmp_path: Path) -> None:
    declared = "id int, name string, age int, BI_id int, BI_name string"
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "Schema": declared, "CsvNoSupValue": "?"})
    batch = table.read_file(CHANGE, b"U,10,?,5,1,ann\nU,20,b,?,2,b\nU,3,?,?,3,c\nU,40,?,5,4,?\n")
    reason = "An update of the key did not send column"
    assert [(bad.row, bad.reason.partition(":")[0]) for bad in batch.bad_rows] == [
        (1, f"{reason} age"),
        (3, f"{reason} name"),
    ]
    values = batch.rows.select(["id", "name", "age", "Op", UNSENT]).to_pylist()
    assert [tuple(row.values()) for row in values] == [
        (10, "ann", 5, "U", ""),
        (3, None, None, "U", "011"),
        (1, None, None, "D", ""),
    ]


def test_the_text_for_null_in_a_partition_column_makes_a_row_bad_but_not_a_delete(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {**ITEM, "PartitionKey": "NAME"})
    table.put(CHANGE, b"I,1,__HIVE_DEFAULT_PARTITION__,5\nI,2,NULL,5\nD,3,__HIVE_DEFAULT_PARTITION__,5\nI,4,a,5\n")
    reason = "Partition column name is __HIVE_DEFAULT_PARTITION__, which readers take as null: correct the value"
    assert bad_and_good(table) == ([(0, f"{reason}, or set another PartitionKey")], [(1, 2), (2, 3), (3, 4)])


def test_the_text_for_null_in_a_binary_partition_column_makes_a_row_bad(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "PartitionKey": "p", "Schema": "id int, p binary"})
    table.put(CHANGE, b"I,1,__HIVE_DEFAULT_PARTITION__\nI,2,\n")
    assert [row for row, _ in bad_and_good(table)[0]] == [0]
