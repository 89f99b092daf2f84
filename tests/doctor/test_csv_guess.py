"""How CSV is written is told from few rows, and not guessed where nothing tells."""

from __future__ import annotations

import pytest

from cdclake.doctor.csv_guess import CsvGuess, Head, guess_csv
from cdclake.model.table import CsvDialect


def guess(*texts: str, change: bool = True, known: CsvDialect | None = None) -> CsvGuess:
    found = guess_csv([Head(text.encode(), whole=True, change=change) for text in texts], known)
    assert found is not None
    return found


@pytest.mark.parametrize("row", ["\n", "\r\n", "\x1e"])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t", "\x01"])
def test_delimiters_are_told(delimiter: str, row: str) -> None:
    lines = [delimiter.join(("I", str(i), f"a b {i}", "2024-03-05 10:15:00.000000")) for i in range(5)]
    found = guess(row.join([*lines, ""]))
    assert found.dialect.delimiter == delimiter
    assert found.dialect.row_delimiter == ("\n" if row == "\r\n" else row)
    assert (found.width, found.operation, found.header, found.sure) == (3, True, (), True)


def test_what_the_table_says_counts_if_rows_can_be_taken_apart_that_way() -> None:
    text = "1;a|b\n2;c|d\n"
    for delimiter in ";|":
        assert guess(text, known=CsvDialect(delimiter=delimiter)).dialect.delimiter == delimiter
    assert guess(text, known=CsvDialect(delimiter=",")).dialect.delimiter == ";"


def test_commas_and_newlines_in_quoted_fields_tell_nothing() -> None:
    found = guess('I;1;"a, b\nc, ""d"""\nU;2;e\n')
    assert (found.dialect.delimiter, found.width, found.quoted) == (";", 2, True)


def test_a_column_of_one_is_not_sure() -> None:
    assert not guess("1\n2\n", change=False).sure


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("Op,id,name\nI,1,x\n", ("id", "name")),
        ("Op,id,name\n", ("id", "name")),
        ("id,name\n1,x\n", ("id", "name")),
        ("id,name\nx,y\n", ()),
        ("I,Ann,Bob\nU,Eve,Joe\n", ()),
        ("1,x\n2,y\n", ()),
        ("id,id\n1,2\n", ()),
    ],
)
def test_a_header_is_names_above_values(text: str, header: tuple[str, ...]) -> None:
    assert guess(text).header == header


def test_the_null_text_is_told_from_columns_of_values_alone() -> None:
    assert guess("I,1,x\nI,\\N,x\nI,\\N,y\nI,\\N,y\n").null_text == "\\N"
    assert guess("I,1,null\nI,2,null\nI,3,null\nI,4,word\n").null_text is None


def test_nothing_comes_of_nothing() -> None:
    assert guess_csv([]) is None
    assert guess_csv([Head(b"", whole=True, change=True)]) is None
