"""The books of a change: which equations must balance, and the error if one does not; the rows of its raw files."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from cdclake.errors import BooksError
from cdclake.model.change.books import Books
from cdclake.model.change.record import RawFileRows
from tests.builders import change_record

GOOD = Books(
    read_insert=5,
    read_update=4,
    read_delete=3,
    read_unknown=1,
    derived=1,
    applied=9,
    superseded=2,
    ignored=2,
    quarantined=1,
    inserted=4,
    updated=2,
    deleted=2,
    absent=1,
    replaced=7,
    restored=6,
    erased=1,
    rows_before=100,
    rows_after=100,
)


def test_books_that_balance_are_accepted() -> None:
    GOOD.check()
    assert [one.off_by for one in GOOD.equations] == [0, 0, 0]


@pytest.mark.parametrize("name", [field.name for field in fields(Books)])
def test_every_count_is_in_an_equation_that_a_wrong_count_unbalances(name: str) -> None:
    wrong = replace(GOOD, **{name: getattr(GOOD, name) + 1})
    affected = [one for one in wrong.equations if name in one.left or name in one.right]
    assert affected
    assert [one for one in wrong.equations if one.off_by] == affected
    with pytest.raises(BooksError, match=r"is off by -?1"):
        wrong.check()


def test_the_error_names_the_equation_and_the_difference() -> None:
    with pytest.raises(BooksError, match=r"applied = inserted \+ updated \+ deleted \+ absent is off by -3"):
        replace(GOOD, inserted=GOOD.inserted + 3).check()


def test_the_rows_of_the_raw_files_are_those_of_the_books() -> None:
    files = (RawFileRows("a.csv", 12, quarantined=1), RawFileRows("b.csv", 1))
    change_record(1, books=GOOD, raw_files=files).check()
    change_record(1, books=GOOD, raw_files=(RawFileRows("rewritten by an erasure.csv"),)).check()
    with pytest.raises(BooksError, match=r"raw files of a change have 14 rows, and its books 13"):
        change_record(1, books=GOOD, raw_files=(*files, RawFileRows("c.csv", 1))).check()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (RawFileRows("a.csv"), "a.csv"),
        (RawFileRows("a.csv", 1), "a.csv (1 row)"),
        (RawFileRows("a.csv", 1_234, quarantined=3), "a.csv (1,234 rows, 3 of them quarantined)"),
    ],
)
def test_a_raw_file_is_shown_with_its_rows(file: RawFileRows, text: str) -> None:
    assert str(file) == text
