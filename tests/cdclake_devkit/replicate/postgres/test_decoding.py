"""Messages of the output plugin are parsed exactly."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from cdclake.model.table.name import TableName
from cdclake_devkit.replicate.postgres.decoding import DecodedRow, DecodedValue, Truncate, commit_time, parse_change

T = TableName("public", "t")


def test_an_insert_has_its_values_in_order():
    change = parse_change(
        "table public.t: INSERT: id[integer]:-1 n[numeric]:NaN b[boolean]:true v[text]:'it''s ]: x[int]:1'"
        " bits[bit]:B'01' none[character varying]:null word[text]:'null' list[integer[]]:'{1,2}'"
    )
    assert isinstance(change, DecodedRow)
    assert (change.table, change.operation, change.old) == (T, "I", {})
    assert [(name, value.kind, value.text) for name, value in change.new.items()] == [
        ("id", "integer", "-1"),
        ("n", "numeric", "NaN"),
        ("b", "boolean", "true"),
        ("v", "text", "it's ]: x[int]:1"),
        ("bits", "bit", "01"),
        ("none", "character varying", None),
        ("word", "text", "null"),
        ("list", "integer[]", "{1,2}"),
    ]


def test_an_update_may_have_the_row_before_it():
    change = parse_change("table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 v[text]:''")
    assert change == DecodedRow(
        T,
        "U",
        {"id": DecodedValue("integer", "2"), "v": DecodedValue("text", "")},
        {"id": DecodedValue("integer", "1")},
    )


def test_a_large_value_that_did_not_change_is_marked():
    change = parse_change("table public.t: UPDATE: id[integer]:1 v[text]:unchanged-toast-datum w[text]:null")
    assert isinstance(change, DecodedRow)
    assert change.new["v"] == DecodedValue("text", None, is_unchanged=True)
    assert change.new["w"] == DecodedValue("text", None)


def test_an_unchanged_value_is_that_of_the_row_before_if_the_log_has_it():
    before, after = "old-key: id[integer]:1 v[text]:'long'", "new-tuple: id[integer]:2 v[text]:unchanged-toast-datum"
    change = parse_change(f"table public.t: UPDATE: {before} {after}")
    assert isinstance(change, DecodedRow)
    assert change.new == {"id": DecodedValue("integer", "2"), "v": DecodedValue("text", "long")}


def test_a_delete_has_the_row_before_it():
    change = parse_change("table public.t: DELETE: id[integer]:1")
    assert change == DecodedRow(T, "D", {}, {"id": DecodedValue("integer", "1")})
    assert parse_change("table public.t: DELETE: (no-tuple-data)") == DecodedRow(T, "D")


def test_names_and_types_may_be_quoted():
    change = parse_change(
        'table "My ""Shop"."a.b, c": INSERT: "x [y]: ""z"""[shop."Odd ]:\'type"]:\'v\' "new-tuple"[text]:null'
    )
    assert isinstance(change, DecodedRow)
    assert change.table == TableName('My "Shop', "a.b, c")
    assert change.new == {
        'x [y]: "z"': DecodedValue('shop."Odd ]:\'type"', "v"),
        "new-tuple": DecodedValue("text", None),
    }


def test_one_statement_may_truncate_several_tables():
    message = 'table public.t, shop."O": TRUNCATE: restart_seqs cascade'
    assert parse_change(message) == Truncate((T, TableName("shop", "O")))


@pytest.mark.slow
def test_text_with_line_breaks_and_of_many_megabytes_is_whole():
    text = "a'\n" * 3_000_000
    change = parse_change(f"table public.t: INSERT: v[text]:'{text.replace(chr(39), chr(39) * 2)}' w[text]:'end'")
    assert isinstance(change, DecodedRow)
    assert change.new["v"].text == text
    assert change.new["w"].text == "end"


@pytest.mark.parametrize(
    "text",
    [
        "table public.t: INSERT: id[integer]:1 ",
        "table public.t: INSERT: id[integer]:1 v[text]:'open",
        "table public.t: UPDATE: old-key: id[integer]:1",
        "table public.t: MERGE: id[integer]:1",
        "message: transactional: 1",
        "",
    ],
)
def test_an_unknown_message_is_an_error(text: str):
    with pytest.raises(ValueError, match=r"unknown|without its new values"):
        parse_change(text)


def test_a_commit_has_its_time():
    assert commit_time("COMMIT 700 (at 2024-03-05 12:00:00.123456+00)") == datetime(
        2024, 3, 5, 12, 0, 0, 123456, tzinfo=timezone.utc
    )
    assert commit_time("COMMIT 700 (at 2024-03-05 12:00:00.5+00)") == datetime(
        2024, 3, 5, 12, 0, 0, 500000, tzinfo=timezone.utc
    )
    assert commit_time("table public.t: INSERT: id[integer]:1") is None
    with pytest.raises(ValueError, match="unknown"):
        commit_time("COMMIT 700")
