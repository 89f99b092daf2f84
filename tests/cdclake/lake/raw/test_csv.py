"""Raw CSV files, one test per fact."""

from __future__ import annotations

import gzip
import time
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.errors import (
    ConfigurationError,
    InputError,
    SchemaMismatchError,
    UnreadableFileError,
)
from cdclake.lake.limits import EngineLimits
from cdclake.lake.raw import csv
from cdclake.lake.storage.keys import UNSEEN, UNSENT
from cdclake.model.table.settings import TableSettings
from tests.cdclake.lake.table import Table, row_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.raw.rows import ReadBatch

LOAD, CHANGE, TRANSACTIONS = "LOAD00000001.csv", "20240305-101500123.csv", "CDC_TXN-20240305101500123.csv"
PERSONS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("city", pa.string())])
DECLARED = "id int, name string, city string"


def csv_table(root: Path, **item: str) -> Table:
    return Table(root, PERSONS, {"PrimaryKey": "id", "Schema": DECLARED, **item})


def values(batch: ReadBatch, *names: str) -> list[tuple[Any, ...]]:
    columns = [batch.rows[name].to_pylist() for name in names or ("id", "name", "city")]
    assert batch.bad_rows == ()
    return list(zip(*columns, strict=True))


def test_a_header_line_names_the_columns(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    batch = table.read_file(CHANGE, b"Op,id,name,city\nI,1,a,x\nU,2,b,y\n")
    assert values(batch, "Op", "id", "name", "city") == [("I", "1", "a", "x"), ("U", "2", "b", "y")]
    assert row_numbers(batch) == [0, 1]


def test_a_header_alone_is_read_as_no_rows(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    for content in (b"Op,id,name,city\n", b"Op,id,name,city", b"Op,id,name,city\r\n"):
        assert values(table.read_file(CHANGE, content)) == []


def test_a_header_may_have_any_order_and_case(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    assert values(table.read_file(CHANGE, b"Op,CITY,Name,ID\nI,x,a,1\n")) == [(1, "a", "x")]


def test_a_header_without_a_key_column_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    table.load_file(LOAD, b"id,name\n1,a\n")
    with pytest.raises(SchemaMismatchError, match="has no key column id") as caught:
        table.apply_file(CHANGE, b"Op,name\nU,b\n")
    assert caught.value.details["file"] == CHANGE


def test_a_header_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    with pytest.raises(SchemaMismatchError, match=r"Column NAME .* appears twice"):
        table.read_file(CHANGE, b"Op,id,name,NAME\nU,1,a,b\n")


@pytest.mark.parametrize("name", ["op", "_cdc_position", "_KEY", "_unsent"])
def test_a_source_column_with_a_reserved_name_is_refused(tmp_path: Path, name: str) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    with pytest.raises(SchemaMismatchError, match="reserved by cdclake"):
        table.read_file(CHANGE, f"Op,id,{name}\nU,1,a\n".encode())


def test_a_file_without_header_may_have_op_or_not(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    assert values(table.read_file(CHANGE, b"U,1,a,x\n"), "Op", "id", "name", "city") == [("U", 1, "a", "x")]
    assert values(table.read_file(CHANGE, b"1,a,x\n"), "Op", "id", "name", "city") == [("I", 1, "a", "x")]


def test_a_file_with_other_columns_than_declared_is_refused(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    with pytest.raises(SchemaMismatchError, match="has 5 fields, and the Schema attribute names 3 columns"):
        table.read_file(CHANGE, b"U,1,a,x,more\nU,1,a,x,more\n")


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    assert values(table.read_file(LOAD, b"\xef\xbb\xbfid,name\n1,a\n"), "id", "name") == [("1", "a")]


@pytest.mark.parametrize("name", ["id,name\n", "\ufeffid,name\n"])
def test_a_byte_order_mark_after_the_header_is_data(tmp_path: Path, name: str) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    batch = table.read_file(LOAD, (name + "\ufeffx,1\ny,2\n").encode())
    assert values(batch, "id", "name") == [("\ufeffx", "1"), ("y", "2")]


def test_only_one_byte_order_mark_of_a_file_without_header_is_dropped(tmp_path: Path) -> None:
    table = csv_table(tmp_path, Schema="id string, n int")
    batch = table.read_file(LOAD, "\ufeff\ufeffx,1\n\ufeffy,2\n".encode())
    assert values(batch, "id", "n") == [("\ufeffx", 1), ("\ufeffy", 2)]


def test_a_value_that_becomes_the_first_of_a_file_keeps_its_byte_order_mark(tmp_path: Path) -> None:
    table = csv_table(tmp_path, Schema="id string, n int")
    table.put(LOAD, "x,1\n\ufeffy,2\n".encode())
    fs = lake_filesystem(table.raw.as_uri()).open()
    content = csv.without_rows(fs, table.raw_file(LOAD), TableSettings.from_item(table.item), {0})
    assert values(table.read_file(LOAD, content), "id", "n") == [("\ufeffy", 2)]


@pytest.mark.parametrize(
    ("delimiter", "setting"), [("\t", "\\t"), (";", ";"), ("|", "|"), ("¦", "¦"), ("\x01", "\x01")]
)
def test_any_field_delimiter(tmp_path: Path, delimiter: str, setting: str) -> None:
    table = csv_table(tmp_path, CsvDelimiter=setting)
    table.put(CHANGE, "".join(f"I{delimiter}{i}{delimiter}a,{i}{delimiter}\n" for i in range(3)).encode())
    assert values(table.read(CHANGE)) == [(0, "a,0", ""), (1, "a,1", ""), (2, "a,2", "")]


@pytest.mark.parametrize("delimiter", ["\n", "\r\n", "\r", ";", "|~|\n", "¶"])
@pytest.mark.parametrize("ends", [True, False])
def test_any_row_delimiter_and_a_last_row_without_one(tmp_path: Path, delimiter: str, ends: bool) -> None:
    table = csv_table(tmp_path, CsvRowDelimiter=delimiter)
    rows = delimiter.join(["I,1,a,x", f'U,2,"b{delimiter}b",NULL', "D,3,c,z"])
    batch = table.read_file(CHANGE, (rows + delimiter * ends).encode())
    assert values(batch) == [(1, "a", "x"), (2, f"b{delimiter}b", None), (3, "c", "z")]
    assert row_numbers(batch) == [0, 1, 2]


def test_row_delimiter_newline_also_matches_carriage_return_and_newline(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    table.put(CHANGE, b"I,1,a,x\r\nU,2,b,y\r\nD,3,c,z")
    assert values(table.read(CHANGE)) == [(1, "a", "x"), (2, "b", "y"), (3, "c", "z")]


def test_a_carriage_return_alone_belongs_to_the_field(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    assert values(table.read_file(CHANGE, b'I,1,a\rb,x\nI,2,"c\rd",y\n')) == [(1, "a\rb", "x"), (2, "c\rd", "y")]

    table.item = {"Schema": "note string"}
    assert values(table.read_file(LOAD, b"a\rb\nc\n"), "note") == [("a\rb",), ("c",)]


def test_a_newline_alone_belongs_to_the_field_if_rows_end_with_carriage_return_and_newline(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": "note string", "CsvRowDelimiter": "\\r\\n", "Rfc4180": "false"})
    assert values(table.read_file(LOAD, b"a\nb\r\nc\r\n"), "note") == [("a\nb",), ("c",)]


def test_rfc_4180_quotes_delimiters_quotes_and_newlines_in_a_field(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    table.put(CHANGE, b'I,1,"Smith, ""Ann""","one\ntwo\r\n\nthree"\nU,2,"""",""\n')
    assert values(table.read(CHANGE)) == [(1, 'Smith, "Ann"', "one\ntwo\r\n\nthree"), (2, '"', "")]


@pytest.mark.parametrize("row", [b'U,3,"big" box,z', b'U,3,"c\nU,4,d" disk,z', b'U,3,6" pipe,z', b'U,3,"c"""d,z'])
@pytest.mark.parametrize(("ends", "setting"), [(b"\n", "\\n"), (b"\n", ";"), (b"", "\\n")])
def test_a_quote_where_rfc_4180_has_none_refuses_the_file(
    tmp_path: Path, row: bytes, ends: bytes, setting: str
) -> None:
    table = csv_table(tmp_path, CsvRowDelimiter=setting)
    content = b'I,1,"a",x\nI,2,b,y\n' + row + ends
    with pytest.raises(UnreadableFileError, match="quote") as caught:
        table.read_file(CHANGE, content.replace(b"\n", setting.encode()) if setting == ";" else content)
    assert (caught.value.details["file"], caught.value.details["row"]) == (CHANGE, 3)
    assert "Rfc4180" in caught.value.remedy


def test_a_quote_where_rfc_4180_has_none_in_a_header_refuses_the_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="quote"):
        csv_table(tmp_path).read_file(LOAD, b'id,"na"me,city\n1,a,x\n')


def test_without_rfc_4180_quotes_are_plain_characters(tmp_path: Path) -> None:
    table = csv_table(tmp_path, Rfc4180="false")
    table.put(CHANGE, b'I,1,"a,"b"\nU,2,""c"",6" pipe\nU,3,"NULL",NULL\n')
    assert values(table.read(CHANGE)) == [(1, '"a', '"b"'), (2, '""c""', '6" pipe'), (3, '"NULL"', None)]


def test_without_rfc_4180_and_with_another_row_delimiter_newlines_are_data(tmp_path: Path) -> None:
    table = csv_table(tmp_path, Rfc4180="false", CsvRowDelimiter="|~|")
    assert values(table.read_file(CHANGE, b'I,1,one\ntwo,"x|~|U,2,b,y|~|')) == [(1, "one\ntwo", '"x'), (2, "b", "y")]


def test_only_the_unquoted_null_text_is_null(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    assert values(table.read_file(CHANGE, b'I,1,NULL,"NULL"\nI,2,null,\n')) == [(1, None, "NULL"), (2, "null", "")]


def test_an_empty_null_text_differs_from_a_quoted_empty_text(tmp_path: Path) -> None:
    table = csv_table(tmp_path, CsvNullValue="")
    assert values(table.read_file(CHANGE, b'I,1,,""\nI,2,NULL,x\n')) == [(1, None, ""), (2, "NULL", "x")]


def test_columns_that_were_not_sent_are_null_and_marked(tmp_path: Path) -> None:
    table = csv_table(tmp_path, CsvNoSupValue="<none>")
    batch = table.read_file(CHANGE, b'U,1,<none>,x\nU,2,b,"<none>"\nU,3,c,NULL\nD,4,<none>,<none>\n')
    assert values(batch) == [(1, None, "x"), (2, "b", None), (3, "c", None), (4, None, None)]
    assert batch.rows[UNSENT].to_pylist() == ["010", "001", "", "011"]
    assert batch.rows.column_names == [
        "id",
        "name",
        "city",
        "Op",
        "_cdc_position",
        UNSENT,
        UNSEEN,
        "_leading_key",
        "_key",
    ]


def test_the_text_for_unsent_columns_is_plain_text_unless_it_is_set(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    batch = table.read_file(CHANGE, b"U,1,<none>,x\n")
    assert values(batch) == [(1, "<none>", "x")]
    assert UNSENT not in batch.rows.column_names


def test_gzipped_csv_may_have_several_members(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    table.put(CHANGE + ".gz", gzip.compress(b"I,1,a,x\nI,2,") + gzip.compress(b"b,y\n"))
    assert values(table.read(CHANGE + ".gz")) == [(1, "a", "x"), (2, "b", "y")]


def test_empty_text_is_null_in_every_column_but_text(tmp_path: Path) -> None:
    declared = "id int, a int, b decimal(9,2), c date, d timestamp, e boolean, f double, g string"
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id", "Schema": declared})
    table.put(LOAD, b"1,,,,,,,\n2,1,1,2024-03-05,2024-03-05,t,1,x\n")
    assert values(table.read(LOAD), *"abcdefg")[0] == (None,) * 6 + ("",)


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2024-03-05 10:15:00", 0),
        ("2024-03-05T10:15:00.1", 100_000),
        ("2024-03-05 10:15:00.123", 123_000),
        ("2024-03-05 10:15:00.123456", 123_456),
        ("2024-03-05 10:15:00.1234560", 123_456),
        ("2024-03-05 10:15:00.123456000", 123_456),
        ("2024-03-05 12:15:00.123456000+02", 123_456),
        ("2024-03-05T10:15:00Z", 0),
    ],
)
def test_timestamps_have_up_to_nine_digits_of_a_second_and_are_utc(tmp_path: Path, text: str, microsecond: int) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": "at timestamp, other timestamp"})
    table.put(LOAD, f"{text},2024-03-05\n".encode())
    at = datetime(2024, 3, 5, 10, 15, 0, microsecond, tzinfo=timezone.utc)
    assert values(table.read(LOAD), "at", "other") == [(at, datetime(2024, 3, 5, tzinfo=timezone.utc))]


def test_booleans_have_many_spellings(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": "yes boolean, no boolean"})
    table.put(LOAD, b"true,false\nTRUE,False\nt,f\n1,0\ny,n\nY,N\nNULL,\n")
    assert values(table.read(LOAD), "yes", "no") == [(True, False)] * 6 + [(None, None)]


def test_a_date_may_include_midnight_and_spaces_around_numbers_are_ignored(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": "day date, n int, price decimal(9,2), ratio double"})
    table.put(LOAD, b"2024-03-05 00:00:00.000000, 7 ,12.50 , 1e-3\n2024-03-05,-7,.5,-inf\n")
    assert values(table.read(LOAD), "day", "n", "price", "ratio") == [
        (date(2024, 3, 5), 7, Decimal("12.50"), 0.001),
        (date(2024, 3, 5), -7, Decimal("0.50"), float("-inf")),
    ]


def test_a_binary_column_accepts_any_bytes(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": "id int, data binary"})
    assert values(table.read_file(LOAD, b"1,\xff\xfe\n"), "id", "data") == [(1, b"\xff\xfe")]


def test_empty_lines_are_not_rows_unless_the_file_has_one_column(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    batch = table.read_file(CHANGE, b"I,1,a,x\n\nI,2,b,y\n\r\n\n")
    assert values(batch) == [(1, "a", "x"), (2, "b", "y")]
    assert row_numbers(batch) == [0, 1]

    table.item = {"Schema": "note string", "AddColumnName": "false"}
    assert values(table.read_file(LOAD, b"a\n\nb\n"), "note") == [("a",), ("",), ("b",)]


@pytest.mark.parametrize("quoted", [True, False])
def test_a_file_of_many_chunks_is_read_as_one(tmp_path: Path, quoted: bool) -> None:
    table = csv_table(tmp_path)
    table.limits = EngineLimits(csv_chunk_bytes=1000, csv_head_bytes=100)
    name = 'a, "b"\n' * 9 if quoted else "abc" * 21
    text = '"' + name.replace('"', '""') + '"' if quoted else name
    batch = table.read_file(CHANGE, "".join(f"I,{i},{text},x\n" for i in range(500)).encode())
    assert values(batch) == [(i, name, "x") for i in range(500)]
    assert row_numbers(batch) == list(range(500))


def test_a_row_longer_than_a_chunk_is_read(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    table.limits = EngineLimits(csv_chunk_bytes=1000, csv_head_bytes=100)
    long = "line\n" * 5000
    assert values(table.read_file(CHANGE, f'I,1,"{long}",x\nI,2,b,y\n'.encode())) == [(1, long, "x"), (2, "b", "y")]


def test_a_row_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    table.limits = EngineLimits(csv_head_bytes=1000, csv_record_bytes=1 << 20)
    with pytest.raises(UnreadableFileError, match="longer than 1 MB"):
        table.read_file(CHANGE, b'I,1,"never closed\n' + b"I,2,b,y\n" * 500_000)


@pytest.mark.parametrize("before", [b"", b"I,1,a,x\n", b'I,1,"a",x\n' * 999])
@pytest.mark.parametrize("delimiters", [{}, {"CsvRowDelimiter": "|~|\n"}])
def test_a_row_of_more_fields_than_any_table_has_columns_is_refused_at_once(
    tmp_path: Path, before: bytes, delimiters: dict[str, str]
) -> None:
    table, seconds = csv_table(tmp_path, **delimiters), time.perf_counter()
    content = (before + b'I,2,"b",y' + b",z" * 3_000_000 + b"\n").replace(b"\n", b"|~|\n" if delimiters else b"\n")
    with pytest.raises(UnreadableFileError, match="has more than 10,000 fields") as caught:
        table.read_file(CHANGE, content)
    assert caught.value.details["file"] == CHANGE
    assert caught.value.details["row"] in ({before.count(b"\n") + 1} if not delimiters else {None, 1, 2})
    assert time.perf_counter() - seconds < 2  # 15 seconds if all fields are split


def test_a_row_of_as_many_fields_as_the_widest_tables_have_columns_is_read(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(9_999)]
    table = Table(tmp_path, PERSONS)
    batch = table.read_file(CHANGE, (",".join(["Op", *names]) + "\n" + ",".join(["I", *names]) + "\n").encode())
    assert batch.rows["c9998"].to_pylist() == ["c9998"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (CHANGE, b""),
        (CHANGE + ".gz", b""),
        (CHANGE + ".gz", gzip.compress(b"")),
        (CHANGE + ".gz", b"I,1,a,x\n"),
        (CHANGE + ".gz", gzip.compress(b"I,1,a,x\n" * 999)[:-9]),
        (CHANGE, b'I,1,"a,x\nI,2,b,y\n'),
        (CHANGE, b'I,1,a,x\nI,2,b,"y\nI,3,c,z\n'),
    ],
    ids=["empty", "empty gz", "gz of nothing", "no gzip", "truncated gzip", "quote never closed", "later quote"],
)
def test_a_damaged_csv_file_is_refused_and_named(tmp_path: Path, name: str, content: bytes) -> None:
    table = csv_table(tmp_path)
    with pytest.raises(UnreadableFileError) as caught:
        table.read_file(name, content)
    assert caught.value.details["file"] == name


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="vanished"):
        csv_table(tmp_path).read(CHANGE)


def test_a_table_reads_its_rows_of_a_transaction_file_in_commit_order(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    text = (
        'I,orders,shop,1,a,x\nI,items,shop,1\nU,orders,shop,1,"b, c",NULL\nI,orders,other,7,z,z\nD,orders,shop,2,d,y\n'
    )
    table.put("../../cdc/" + TRANSACTIONS, text.encode())
    batch = table.read(TRANSACTIONS, "cdc")
    assert values(batch, "Op", "id", "name", "city") == [("I", 1, "a", "x"), ("U", 1, "b, c", None), ("D", 2, "d", "y")]
    assert row_numbers(batch) == [0, 2, 4]
    assert batch.rows["_cdc_position"][0].as_py().startswith("202403051015001230|20240305-101500123/CDC_TXN-")


def test_a_row_of_the_table_with_too_few_fields_in_a_transaction_file_is_bad(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    table.put("../../cdc/" + TRANSACTIONS, b"I,items,shop,1\nI,orders,shop,1\nI,orders,shop,2,b,y\n")
    batch = table.read(TRANSACTIONS, "cdc")
    assert batch.rows["id"].to_pylist() == [2]
    assert [(bad.row, bad.content) for bad in batch.bad_rows] == [(1, "I,orders,shop,1")]


@pytest.mark.parametrize("names", ["ORDERS,SHOP", "shop,orders", " orders,shop", "orders,Shop ", '"SHOP","Orders"'])
def test_a_row_of_no_table_whose_names_resemble_the_tables_is_refused_with_file_and_row(
    tmp_path: Path, names: str
) -> None:
    table = csv_table(tmp_path, CdcPath="cdc")
    table.put("../../cdc/" + TRANSACTIONS, f"I,items,shop,1\nI,orders,shop,1,a,x\nU,{names},1,b,y\n".encode())
    with pytest.raises(SchemaMismatchError, match="resemble the names of shop") as caught:
        table.read(TRANSACTIONS, "cdc")
    assert (caught.value.details["file"], caught.value.details["row"]) == (TRANSACTIONS, 3)


def test_a_row_of_another_table_whose_names_resemble_the_tables_is_not_read(tmp_path: Path) -> None:
    table = csv_table(tmp_path, CdcPath="cdc")
    table.put("../../SHOP/ORDERS/" + LOAD, b"1,a,x\n")
    table.put("../../orders/shop/" + LOAD, b"1,a,x\n")
    table.put("../../cdc/" + TRANSACTIONS, b"I,ORDERS,SHOP,1,b,y\nI,shop,orders,1,b,y\nI,orders,shop,1,a,x\n")
    assert row_numbers(table.read(TRANSACTIONS, "cdc")) == [2]


def test_a_transaction_file_needs_the_schema_attribute(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"PrimaryKey": "id"})
    table.put("../../cdc/" + TRANSACTIONS, b"I,orders,shop,1,a,x\n")
    with pytest.raises(ConfigurationError, match="Schema attribute"):
        table.read(TRANSACTIONS, "cdc")


def test_padding_after_text_is_kept(tmp_path: Path) -> None:
    table = csv_table(tmp_path)
    assert values(table.read_file(LOAD, b"1,a   ,x\n")) == [(1, "a   ", "x")]
