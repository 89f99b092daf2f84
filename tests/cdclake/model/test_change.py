"""The books of a change: which equations must balance, and the error if one does not."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from cdclake.errors import BooksError
from cdclake.model.change.books import Books

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
