"""A catalog proves keys, or suggests them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake_cli.importing.from_catalog import from_catalog
from cdclake_cli.sources.catalog import UniqueIndex
from tests.cdclake_cli.importing.tables import table, with_columns

if TYPE_CHECKING:
    from cdclake_cli.importing.proposal import TableProposal

BY_NAME, BY_DAY = UniqueIndex("by_name", ("name",)), UniqueIndex("by_day", ("day", "name"))


def keys(proposal: TableProposal) -> list[tuple[str, bool]]:
    return [(one.value, one.sure) for one in proposal.settings if one.attribute == "PrimaryKey"]


def test_a_primary_key_is_sure_and_keeps_its_order() -> None:
    proposal = from_catalog(table(key=("name", "id"), unique=(BY_DAY,)))
    assert proposal.attributes == {"PrimaryKey": "name,id", "UniqueChecks": "immediate"}
    assert proposal.settings[0].evidence == "primary key of the source"


@pytest.mark.parametrize(
    ("not_null", "unique", "expected"),
    [
        (("name",), (BY_NAME,), [("name", True)]),
        ((), (BY_NAME,), [("name", False)]),
        (("name",), (BY_NAME, BY_DAY), [("name", True)]),
        (("name", "day"), (BY_NAME, BY_DAY), [("name", False), ("day,name", False)]),
        (("name", "day"), (BY_NAME, UniqueIndex("by_day", ("day",), identifies=True)), [("day", True)]),
        ((), (), []),
    ],
)
def test_without_a_primary_key_only_one_unique_index_without_nulls_is_sure(
    not_null: tuple[str, ...], unique: tuple[UniqueIndex, ...], expected: list[tuple[str, bool]]
) -> None:
    proposal = from_catalog(table(key=(), not_null=not_null, unique=unique))
    assert keys(proposal) == expected
    assert any("has no key" in note for note in proposal.notes) is (not expected)


def test_a_key_that_cannot_be_written_is_for_a_person() -> None:
    odd = with_columns(table(key=("a,b",)), id={"name": "a,b"})
    assert keys(from_catalog(odd)) == [("a,b", False)]


def test_nulls_mean_unsent_where_the_source_has_none() -> None:
    long = {"may_be_unsent": True}
    proposal = from_catalog(with_columns(table(not_null=("id", "name")), id=long, name=long, price=long))
    assert proposal.attributes["NullMeansUnsent"] == "name"
    (note,) = proposal.notes
    assert "values of price" in note


def test_a_candidate_for_the_key_is_always_sent() -> None:
    long = {"may_be_unsent": True}
    proposal = from_catalog(with_columns(table(key=(), not_null=("id", "name"), unique=(BY_NAME,)), id=long, name=long))
    assert (proposal.attributes["PrimaryKey"], proposal.attributes["NullMeansUnsent"]) == ("name", "id")


def test_unsent_columns_that_cannot_be_written_are_for_a_person() -> None:
    odd = with_columns(table(not_null=("name",)), name={"name": "a,b", "may_be_unsent": True})
    assert "NullMeansUnsent" not in from_catalog(odd).attributes


def test_comments_and_notes_come_along() -> None:
    assert from_catalog(table(comment="all orders", notes=("It is odd",))).notes == ("all orders", "It is odd")
