"""An error about bad rows says what most of them have in common, proposes what fits, and contains no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError
from cdclake.lake.raw.bad_values import TextKind, added, faults_of, text_kind
from cdclake.lake.raw.quarantine import Quarantine
from cdclake.lake.raw.rows import BadRow, BadRowKind
from cdclake.model.table.name import TableName
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

NAME = TableName("shop", "flights")
DOCTOR = "cdclake doctor shop.flights --show-values shows the values"
SAME_NULL = "5 of them have the same value, which looks like a text for null"
AS_TEXT = f"declare it as string in Schema: {DOCTOR}"
ALLOW = "MaxQuarantinedRows"


def bad(row: int, text: str | None, file: str = "LOAD00000001.csv", kind: BadRowKind = BadRowKind.VALUE) -> BadRow:
    return BadRow(file, row, kind, "A value of column n is not a valid int", {"id": "1", "N": text}, ("n",))


def error(rows: list[BadRow], good: int = 0) -> str:
    quarantine = Quarantine(len(rows), rows[0], faults=faults_of(rows))
    with pytest.raises(BadRowError) as caught:
        quarantine.require_at_most(0, NAME, good)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NA", TextKind.NULL),
        (" n/a ", TextKind.NULL),
        ("99999999999999999999", TextKind.NUMBER),
        ("1.5e3", TextKind.NUMBER),
        ("31/12/2024", TextKind.TIME),
        ("1.2.2024 10:00", TextKind.TIME),
        ("1.234,50", TextKind.OTHER_NUMBER),
        ("$12", TextKind.OTHER_NUMBER),
        ("one", TextKind.OTHER),
        ("", TextKind.OTHER),
    ],
)
def test_a_bad_text_looks_like_one_kind(text: str, kind: TextKind) -> None:
    assert text_kind(text) is kind


@pytest.mark.parametrize(
    ("texts", "said", "remedy"),
    [
        (["NA"] * 5, SAME_NULL, f"set CsvNullValue to it: {DOCTOR}"),
        (["NA", "N/A", "one"], "most values look like a text for null", "set CsvNullValue"),
        ([f"{i}.2.2024" for i in range(5)], "most values look like a time", AS_TEXT),
        ([str(10**i) for i in range(20, 25)], "that the type cannot hold", "Declare a wider type of n in Schema"),
        (["1,5", "2,5"], "like a number in another format", "Convert n at the source"),
        (["a secret"] * 3, "3 of them have the same value", "Correct the file, or the type of n in Schema"),
    ],
)
def test_the_error_proposes_what_fits_most_bad_rows(texts: list[str], said: str, remedy: str) -> None:
    text = error([bad(i, value) for i, value in enumerate(texts)], good=2)
    assert f"the first of {len(texts)} bad rows of {len(texts) + 2}" in text
    assert said in text
    assert remedy in text
    assert not any(value in text.replace("20", "") for value in texts if len(value) > 3)
    assert (ALLOW in text) == (texts[0] == "a secret")


def test_few_rows_may_be_quarantined_whatever_they_have_in_common() -> None:
    text = error([bad(1, "NA")], good=20)
    assert "it looks like a text for null" in text
    assert f"set {ALLOW} to 1 or more" in text


def test_the_null_text_of_csv_is_not_proposed_for_parquet() -> None:
    assert "CsvNullValue" not in error([bad(i, "NA", "LOAD00000001.parquet") for i in range(5)])


def test_rows_with_another_fault_do_not_hide_what_most_have_in_common() -> None:
    other = BadRow("LOAD00000001.csv", 0, BadRowKind.WIDTH, "A row has 3 fields instead of 2", "a,b,c")
    text = error([other, *(bad(i, "NA") for i in range(1, 9))])
    assert (
        "A row has 3 fields instead of 2, the first of 9 bad rows of 9; 8 have the fault: A value of column n" in text
    )
    assert "set CsvNullValue" in text


def test_faults_of_several_tasks_add_up() -> None:
    one, other = ([bad(i, "NA") for i in range(3)], [bad(i, "one") for i in range(4)])
    assert added(faults_of(one), faults_of(other)) == faults_of([*one, *other])
    many = faults_of(bad(i, f"text {i}") for i in range(1000))
    (fault,) = added(many, many).values()
    assert (fault.rows, len(fault.texts) <= 64) == (2000, True)


def test_a_full_load_with_another_null_text_names_the_setting(tmp_path: Path) -> None:
    table = Table(tmp_path, pa.schema([]), {"PrimaryKey": "id", "Schema": "id int, n int"})
    rows = "".join(f"{i},{'NA' if i >= 23 else i}\n" for i in range(300))
    with pytest.raises(
        BadRowError, match=r"the first of 277 bad rows of 300; 277 of them .* set CsvNullValue"
    ) as caught:
        table.load_file("LOAD00000001.csv", rows.encode())
    assert ALLOW not in caught.value.remedy
    assert "NA" not in str(caught.value)
    table.item["CsvNullValue"] = "NA"
    assert table.load_initial()["books"]["quarantined"] == 0
