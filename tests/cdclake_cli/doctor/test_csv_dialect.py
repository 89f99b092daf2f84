"""The CSV dialect is inferred from a few rows, and only where the rows are conclusive."""

from __future__ import annotations

import pytest

from cdclake.model.table.settings import CsvDialect
from cdclake_cli.doctor.csv.dialect import CsvGuess, Head, guess_csv


def guess(*texts: str, change: bool = True, known: CsvDialect | None = None) -> CsvGuess:
    guessed = guess_csv([Head(text.encode(), whole=True, change=change) for text in texts], known)
    assert guessed is not None
    return guessed


@pytest.mark.parametrize("row", ["\n", "\r\n", "\x1e"])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t", "\x01"])
def test_delimiters_are_inferred(delimiter: str, row: str) -> None:
    lines = [delimiter.join(("I", str(i), f"a b {i}", "2024-03-05 10:15:00.000000")) for i in range(5)]
    inferred = guess(row.join([*lines, ""]))
    assert inferred.dialect.delimiter == delimiter
    assert inferred.dialect.row_delimiter == ("\n" if row == "\r\n" else row)
    assert (inferred.width, inferred.has_op, inferred.header, inferred.sure) == (3, True, (), True)


def test_the_tables_dialect_wins_if_it_splits_the_rows() -> None:
    text = "1;a|b\n2;c|d\n"
    for delimiter in ";|":
        assert guess(text, known=CsvDialect(delimiter=delimiter)).dialect.delimiter == delimiter
    assert guess(text, known=CsvDialect(delimiter=",")).dialect.delimiter == ";"


def test_commas_of_texts_do_not_make_the_settings_sure() -> None:
    row = "514|Beta|697|2024-01-01|150|x,y|220|a"
    for text, sure in ((f"{row}\n", False), (f"{row}\n" * 9, False), ("1,a|b|c\n", True), ("1,b,a|b\n", True)):
        inferred = guess(text, change=False, known=CsvDialect())
        assert (inferred.sure, inferred.dialect) == (sure, CsvDialect())


def test_commas_and_newlines_in_quoted_fields_are_ignored() -> None:
    inferred = guess('I;1;"a, b\nc, ""d"""\nU;2;e\n')
    assert (inferred.dialect.delimiter, inferred.width, inferred.quoted) == (";", 2, True)


def test_a_single_column_is_not_sure() -> None:
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
        ("id,$x,`a`\n1,2,3\n", ("id", "$x", "`a`")),
        ("id,<b>, name \n1,2,x\n", ("id", "<b>", " name ")),
        ("id,x\n 1 , 2.5\n", ("id", "x")),
        ("code,q\nNA,NA\nDE,4\n", ("code", "q")),
        ("code,q\nNA,NA\nDE,NA\n", ()),
        ("-5,+1\n1,2\n", ()),
        ("name,city\nAnn,Rome\nBob,Bonn\nEve,Oslo\nJoe,Graz\nZoe,Kiel\n", ("name", "city")),
        ("code,country\nDE,Germany\nFR,France\nIT,Italy\nES,Spain\nPT,Portugal\n", ("code", "country")),
        ("first_name,x\na,b\nc,d\ne,f\ng,h\ni,j\n", ("first_name", "x")),
        ("Mail,Note\na@b,x\nc@d,y\ne@f,z\ng@h,z\ni@j,z\n", ("Mail", "Note")),
        ("red,small\nblue,large\nred,large\n", ()),
        (f"id,{'x' * 200}\n1,2\n", ()),
    ],
)
def test_a_header_has_names_above_values(text: str, header: tuple[str, ...]) -> None:
    assert guess(text, change=False).header == header


@pytest.mark.parametrize(
    "text",
    [
        "id,name\nx,y\n",
        "Ann,Rome\nBob,Bonn\nEve,Oslo\nJoe,Graz\nZoe,Kiel\n",
        "apple,red\npear,green\nplum,blue\nfig,violet\nlime,yellow\n",
        "name,city\n",
    ],
)
def test_texts_above_texts_are_an_unclear_header(text: str) -> None:
    inferred = guess(text, change=False)
    assert (inferred.header, inferred.header_unclear) == ((), True)
    named = guess_csv([Head(text.encode(), whole=True, change=False)], named=("NAME", "apple", "Ann"))
    assert named
    assert named.header
    for says in (True, False):
        inferred = guess(text, change=False, known=CsvDialect(add_column_name=says))
        assert (bool(inferred.header), inferred.header_unclear) == (says, False)


@pytest.mark.parametrize(
    ("one", "other", "header", "unclear"),
    [
        ("id,name\nx,y\n", "id,name\nv,w\n", True, False),
        ("id,name\nx,y\n", "id,name,more\nv,w,u\n", True, False),
        ("id,name\nx,y\n", "Op,id,name\nI,v,w\n", True, False),
        ("id,name\nx,y\n", "AR_H_CHANGE_SEQ,id,other\nu,v,w\n", True, False),
        ("Ann,Rome\nBob,Bonn\n", "Eve,Oslo\nJoe,Graz\n", False, False),
        ("Ann,Rome\nBob,Bonn\n", "Eve,Rome\nJoe,Graz\n", False, True),
        ("Ann,Rome\nBob,Bonn\n", "Ann,Rome\nBob,Bonn\n", False, True),
        ("Ann,Rome\n", "I,Eve,Oslo\n", False, False),
    ],
)
def test_first_lines_of_several_files_tell_a_header(one: str, other: str, header: bool, unclear: bool) -> None:
    heads = [Head(one.encode(), whole=True, change=False), Head(other.encode(), whole=True, change=False)]
    for ordered in (heads, heads[::-1]):
        inferred = guess_csv(ordered)
        assert inferred
        assert (bool(inferred.header), inferred.header_unclear) == (header, unclear)


@pytest.mark.parametrize("row", ["\r", "\x1e", "\x02", "\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [";", ",", "|"])
@pytest.mark.parametrize("few", [",", "\n", ", \n", "\r", ";"])
@pytest.mark.parametrize("size", [6, 300])
def test_a_row_delimiter_is_right_although_few_texts_have_others(delimiter: str, row: str, few: str, size: int) -> None:
    """With the settings' defaults, one record with many commas was taken for the file."""
    text = few.replace(delimiter, "").replace(row, "")
    text = "" if row == "\r\n" and "\n" in few else text
    fields = [("I", str(i), f"a{text}b" if i % 5 == 1 else "c", "d") for i in range(size)]
    data = row.join([*map(delimiter.join, fields), ""]).encode()
    head = Head(data[: 1 << 11], whole=size == 6, change=True)
    inferred = guess_csv([head], CsvDialect())
    assert inferred
    assert inferred.sure
    assert inferred.dialect.delimiter == delimiter
    assert inferred.dialect.row_delimiter == ("\n" if row == "\r\n" else row)
    assert inferred.width == 3


@pytest.mark.parametrize("row", ["\r", "\x1e", "\n", "~"])
@pytest.mark.parametrize("text", ["a", "a,b", "a\nb"])
def test_of_files_with_one_column_the_settings_stay(row: str, text: str) -> None:
    data = row.join([*(f"{text} {i}" if i % 3 == 0 else f"c{i}" for i in range(50)), ""])
    inferred = guess(data, change=False, known=CsvDialect())
    assert (inferred.sure, inferred.dialect) == (False, CsvDialect())


def test_the_rows_of_settings_without_quotes_are_split_without_quotes() -> None:
    inferred = guess('1;5" disk\n2;3" disk\n', change=False, known=CsvDialect(quoting=False))
    assert inferred.dialect == CsvDialect(delimiter=";", quoting=False)


@pytest.mark.parametrize(
    ("text", "says", "header"),
    [
        ("code,name\nA,x\n", True, ("code", "name")),
        ("code,name\n", True, ("code", "name")),
        ("id,name\n1,x\n", False, ()),
        ("1,x\n2,y\n", True, ()),
    ],
)
def test_the_table_says_whether_a_line_that_may_be_a_header_is_one(
    text: str, says: bool, header: tuple[str, ...]
) -> None:
    assert guess(text, change=False, known=CsvDialect(add_column_name=says)).header == header


def test_the_null_text_is_inferred_only_from_columns_of_numbers_and_times() -> None:
    assert guess("I,1,x\nI,\\N,x\nI,\\N,y\nI,\\N,y\n").null_text == "\\N"
    assert guess("I,1,null\nI,2,null\nI,3,null\nI,4,word\n").null_text is None


def test_a_declared_null_text_wins() -> None:
    heads = [Head(b"1,2\n3,\\N\n4,\\N\n5,\\N\n", whole=True, change=False)]
    for known in (None, CsvDialect(null_value="NA")):
        inferred = guess_csv(heads, known, null_declared=True)
        assert inferred
        assert (inferred.null_text, inferred.dialect.null_value) == (None, known.null_value if known else "NULL")


def test_no_rows_give_no_guess() -> None:
    assert guess_csv([]) is None
    assert guess_csv([Head(b"", whole=True, change=True)]) is None
