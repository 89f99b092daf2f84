"""Which columns a CSV file has, and files that are refused because it is unclear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.errors import CdclakeError, SchemaMismatchError
from cdclake.lake.limits import EngineLimits
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

LOAD, CHANGE = "LOAD00000001.csv", "20240305-101500123.csv"
PERSONS = pa.schema([("id", pa.string()), ("name", pa.string()), ("city", pa.string())])
DECLARED = "id string, name string, city string"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, PERSONS, {"PrimaryKey": "id", "Schema": DECLARED})


def rows(table: Table, name: str) -> list[tuple[str | None, ...]]:
    batch = table.read(name)
    assert batch.bad_rows == ()
    return list(zip(*(batch.rows[column].to_pylist() for column in PERSONS.names), strict=True))


def refusal(table: Table, name: str, content: bytes) -> SchemaMismatchError:
    table.put(name, content)
    with pytest.raises(SchemaMismatchError) as caught:
        table.read(name)
    assert caught.value.details["file"] == name
    return caught.value


def test_a_change_file_that_lost_a_column_is_refused_before_its_op_becomes_a_key(table: Table) -> None:
    table.load_file(LOAD, b"a1,ann,7\n")
    table.put(CHANGE, b"U,a1,ann2\n")
    with pytest.raises(SchemaMismatchError, match="first field of a row is an operation") as caught:
        table.load_incremental()
    assert caught.value.details == {"file": CHANGE, "row": 1}
    assert "Schema" in caught.value.remedy
    assert [one.row["id"] for one in table.rows()] == ["a1"]
    assert table.log.head() == 1


def test_one_row_that_begins_with_an_operation_is_enough_to_refuse_a_change_file(table: Table) -> None:
    assert refusal(table, CHANGE, b"1,a,x\n2,b,y\nD,3,z\n").details["row"] == 3


def test_a_row_far_into_the_file_that_begins_with_an_operation_refuses_it(table: Table) -> None:
    table.limits = EngineLimits(csv_head_bytes=100, csv_chunk_bytes=100)
    content = b"".join(b"%d,name,x\n" % i for i in range(200))
    assert refusal(table, CHANGE, content + b"U,7,name\n").details["row"] == 201


def test_a_change_file_without_op_has_no_row_that_begins_with_an_operation(table: Table) -> None:
    table.put(CHANGE, b"1,a,x\nu,b,y\nID,c,z\n")
    assert [row[0] for row in rows(table, CHANGE)] == ["1", "u", "ID"]


def test_the_rows_of_a_change_file_that_gained_a_column_but_has_no_op_are_bad(table: Table) -> None:
    table.put(CHANGE, b"1,a,x,new\n2,b,y,new\n")
    assert [bad.reason for bad in table.read(CHANGE).bad_rows] == ["The operation of a change row is not I, U or D"] * 2


def test_a_full_load_that_gained_a_column_is_refused_instead_of_shifted(table: Table) -> None:
    assert "one field more" in refusal(table, LOAD, b"1,a,x,new\n").message
    assert refusal(table, LOAD, b"I,1,a,x\nI,2,b,y\n3,c,z,new\n").details["row"] == 3


def test_a_full_load_of_rows_that_all_begin_with_i_and_lack_a_column_is_refused(table: Table) -> None:
    assert "every row" in refusal(table, LOAD, b"I,1,a\nI,2,b\n").message


def test_a_full_load_whose_first_column_has_other_values_than_i_has_no_op(table: Table) -> None:
    table.put(LOAD, b"I,a,x\nU,b,y\n")
    assert rows(table, LOAD) == [("I", "a", "x"), ("U", "b", "y")]


def test_a_change_row_that_equals_the_column_names_is_not_a_header(table: Table) -> None:
    table.put(CHANGE, b"I,id,name,city\nU,2,b,y\n")
    assert rows(table, CHANGE) == [("id", "name", "city"), ("2", "b", "y")]


def test_a_column_may_have_the_name_of_an_operation(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": "I string, name string"})
    assert table.read_file(LOAD, b"I,name\n1,a\n").rows["I"].to_pylist() == ["1"]


@pytest.mark.parametrize(
    ("name", "header"),
    [(CHANGE, b"Op,id,name"), (CHANGE, b"Op,id,name,phone"), (LOAD, b"id,name"), (LOAD, b"name,id,AR_H_USER,BI_id")],
)
def test_a_header_that_lacks_a_declared_column_is_still_a_header(table: Table, name: str, header: bytes) -> None:
    values = {"Op": "U", "id": "1", "name": "a", "BI_id": ""}
    row = ",".join(values.get(column, "x") for column in header.decode().split(","))
    batch = table.read_file(name, header + b"\n" + row.encode() + b"\n")
    assert (batch.rows["id"].to_pylist(), batch.rows["name"].to_pylist()) == (["1"], ["a"])


def test_a_first_line_that_may_be_a_header_or_data_is_refused(table: Table) -> None:
    error = refusal(table, LOAD, b"id,name,phone\n1,a,555\n")
    assert "or a header" in error.message
    assert error.details["row"] == 1


@pytest.mark.parametrize("header", [b"id,label,town", b"kode,label,town", b"Op,kode,label,town", b"town,label"])
def test_a_header_that_shares_few_names_with_schema_is_not_taken_as_a_row(table: Table, header: bytes) -> None:
    error = refusal(table, LOAD, header + b"\n" + b",".join([b"1"] * len(header.split(b","))) + b"\n")
    assert error.details["row"] == 1
    assert "AddColumnName" in error.remedy


def test_a_first_line_that_may_be_a_header_or_data_is_what_the_setting_says(table: Table) -> None:
    table.put(LOAD, b"id,label,town\n7,ann,x\n")
    table.item["AddColumnName"] = "true"
    assert table.read(LOAD).rows.select(["id", "label", "town"]).to_pylist() == [
        {"id": "7", "label": "ann", "town": "x"}
    ]
    table.item["AddColumnName"] = "false"
    assert rows(table, LOAD) == [("id", "label", "town"), ("7", "ann", "x")]


@pytest.mark.parametrize("row", [b"a1,ann,2024-03-05", b"a1,,x", b"a1,x,x", b"a1,true,x", b"a1,NULL,x", b'a1,"b\nc",x'])
def test_a_first_line_with_a_value_that_is_no_name_is_a_row(table: Table, row: bytes) -> None:
    table.put(LOAD, row + b"\n")
    assert rows(table, LOAD)[0][0] == "a1"


@pytest.mark.parametrize(
    ("column", "line", "is_row"),
    [
        ("d date", b"D,2024-03-05", True),
        ("i int", b"I,7", True),
        ("i string", b"I,i", True),
        ("i string", b"I,z", None),
        ("i string", b"Op,I", False),
        ("i string", b"I,AR_H_CHANGE_SEQ", False),
        ("i string, name string", b"I,NAME", False),
        ("i string, name string", b"I,a,b", None),
    ],
)
def test_a_column_may_be_named_like_an_operation(tmp_path: Path, column: str, line: bytes, is_row: bool | None) -> None:
    table = Table(tmp_path, PERSONS, {"Schema": column, "PrimaryKey": column.split()[0]})
    if is_row is None:
        assert "may be data, or a header" in refusal(table, CHANGE, line + b"\n").message
        table.item["AddColumnName"] = "false"
        is_row = True
    table.put(CHANGE, line + b"\n")
    assert table.read(CHANGE).rows.num_rows == is_row


def test_a_data_row_may_contain_the_name_of_a_column(table: Table) -> None:
    table.put(LOAD, b"1,name,x\n2,b,city\n")
    assert [row[0] for row in rows(table, LOAD)] == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "line"),
    [(CHANGE, b"I,a,b"), (CHANGE, b"D,id,b"), (LOAD, b"7,ann"), (LOAD, b"ann,2024-03-05 10:15:00"), (LOAD, b"ann,")],
)
def test_a_data_row_is_not_taken_as_a_header_without_schema(tmp_path: Path, name: str, line: bytes) -> None:
    error = refusal(Table(tmp_path, PERSONS, {}), name, line + b"\n")
    assert "no header line" in error.message
    assert "Schema" in error.remedy


def test_without_schema_the_setting_says_that_a_first_line_of_text_is_a_row(tmp_path: Path) -> None:
    error = refusal(Table(tmp_path, PERSONS, {"AddColumnName": "false"}), "LOAD00000001.csv", b"Ann,Rome\nBob,Oslo\n")
    assert "no header line" in error.message
    assert "Schema" in error.remedy


def test_full_load_files_whose_first_lines_share_no_name_are_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, PERSONS, {})
    table.put(LOAD, b"ann,Ulm\nbob,Bonn\n")
    table.put("LOAD00000002.csv", b"cid,Kiel\ndan,Jena\n")
    with pytest.raises(SchemaMismatchError, match="may be a row") as caught:
        table.load_initial()
    assert caught.value.details == {"file": "LOAD00000002.csv", "row": 1}
    assert table.log.head() == 0


SECRET = "Secret"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "Secret,secret"),
        ({}, "_cdc_Secret,Rome"),
        ({}, "Secret\x07,Rome"),
        ({"PrimaryKey": "id"}, "Secret,Rome"),
        ({"PartitionKey": "city"}, "Secret,Rome"),
        ({"NullMeansUnsent": "city"}, "Secret,Rome"),
    ],
)
def test_a_first_line_that_may_be_a_row_is_not_in_errors_of_full_loads(
    tmp_path: Path, settings: dict[str, str], line: str
) -> None:
    table = Table(tmp_path, PERSONS, settings)
    table.put(LOAD, f"{line}\nBob,Oslo\n".encode())
    with pytest.raises(CdclakeError) as caught:
        table.load_initial()
    assert SECRET.lower() not in f"{caught.value} {caught.value.remedy} {caught.value.details}".lower()
    assert table.log.head() == 0


@pytest.mark.parametrize("settings", [{}, {"SchemaPolicy": "freeze"}, {"PrimaryKey": "id"}], ids=str)
@pytest.mark.parametrize("reloads", [False, True])
def test_a_first_line_that_may_be_a_row_is_not_in_errors_of_loaded_tables(
    tmp_path: Path, settings: dict[str, str], *, reloads: bool
) -> None:
    table = Table(tmp_path, PERSONS, settings)
    table.load_file(LOAD, b"id,name\n1,a\n")
    line = b"Secret,Rome\nBob,Oslo\n"
    table.put(LOAD if reloads else CHANGE, line)
    with pytest.raises(CdclakeError) as caught:
        table.load_initial() if reloads else table.apply_file(CHANGE, line)
    assert SECRET.lower() not in f"{caught.value} {caught.value.remedy} {caught.value.details}".lower()
    assert table.log.head() == 1


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"PrimaryKey": "id"}, b"id,Name,name"),
        ({}, b"Op,Name,name"),
        ({"AddColumnName": "true"}, b"Name,name"),
        ({}, b"AR_H_CHANGE_SEQ,Name,name"),
    ],
)
def test_a_header_that_shows_itself_is_named_in_errors(tmp_path: Path, settings: dict[str, str], line: bytes) -> None:
    assert "Column name " in refusal(Table(tmp_path, PERSONS, settings), CHANGE, line + b"\n").message
