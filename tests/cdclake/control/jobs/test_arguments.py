from __future__ import annotations

import json

import pytest

from cdclake.control.jobs.arguments import (
    folder_prefix,
    parse_arguments,
    parse_item,
    parse_new_table,
    parse_tables,
    tables_text,
)
from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName


def test_both_forms_are_read_and_glues_own_arguments_are_ignored():
    argv = [
        "script.py",
        "--JOB_NAME",
        "x",
        "--bucket=raw=1",
        "--enable-metrics",
        "--prefix",
        "dms/",
        "--extra-py-files",
        "p",
    ]
    assert parse_arguments(argv, ["bucket", "prefix"]) == {"bucket": "raw=1", "prefix": "dms/"}


def test_a_missing_argument_is_named():
    with pytest.raises(ConfigurationError, match="--out_bucket is missing"):
        parse_arguments(["--bucket", "raw"], ["bucket", "out_bucket"])


@pytest.mark.parametrize("argv", [["--bucket", ""], ["--bucket="], ["--bucket"], ["--bucket", "--JOB_NAME", "x"]])
def test_an_empty_value_is_an_error_unless_it_may_be(argv: list[str]):
    with pytest.raises(ConfigurationError, match="--bucket is empty"):
        parse_arguments(argv, ["bucket"])
    assert parse_arguments(argv, ["bucket"], may_be_empty=["bucket"]) == {"bucket": ""}


def test_optional_arguments_have_defaults_that_a_given_value_replaces():
    optional = {"state_table": "DMSCDC_Controller", "tables": ""}
    assert parse_arguments(["--tables", "shop.orders"], [], optional) == {
        "state_table": "DMSCDC_Controller",
        "tables": "shop.orders",
    }


def test_the_last_value_of_a_repeated_name_counts():
    assert parse_arguments(["--bucket", "a", "--bucket", "b"], ["bucket"]) == {"bucket": "b"}


def test_an_item_is_read_with_dynamodbs_types_and_plain():
    item = {"path": "raw/dms/shop/orders/", "PrimaryKey": "id,größe"}
    assert parse_item(json.dumps(item)) == item
    assert parse_item('{"path": {"S": "raw/dms/shop/orders/"}, "PrimaryKey": "null"}')["PrimaryKey"] == "null"


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"path": ""}', '{"path": {"N": "1"}}', '{"path": "p", "x": 1}'])
def test_an_invalid_item_is_refused(text: str):
    with pytest.raises(ConfigurationError, match="--item"):
        parse_item(text)


@pytest.mark.parametrize(("text", "prefix"), [("", ""), ("/", ""), ("dms", "dms/"), ("/a/b/", "a/b/")])
def test_a_prefix_is_empty_or_ends_with_a_slash(text: str, prefix: str):
    assert folder_prefix(text) == prefix


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        ([("shop", "orders"), ("a.b", "c")], "shop.orders,a.b/c"),
        ([("shop", "a,b"), ("shop", "c")], '["shop.a,b", "shop.c"]'),
        ([("shop", " a")], "shop. a"),
        ([("shop", "a ")], '["shop.a "]'),
        ([("1", "2")], "1.2"),
    ],
)
def test_names_of_tables_are_read_as_they_are_written(names: list[tuple[str, str]], text: str):
    tables = [TableName(*parts) for parts in names]
    assert tables_text(tables) == text
    assert parse_tables(text) == tables


def test_spaces_between_names_of_tables_do_not_matter():
    assert parse_tables(" shop.orders , shop.items,") == [TableName("shop", "orders"), TableName("shop", "items")]


@pytest.mark.parametrize("text", ["orders", "a.b.c", '["orders"]', "[1]"])
def test_names_of_tables_that_are_not_exact_are_refused(text: str):
    with pytest.raises(ConfigurationError, match=r"is not a table name|can be the name of"):
        parse_tables(text)


def test_settings_of_new_tables_are_read_from_json():
    assert parse_new_table('{"FullLoadQuietMinutes": "0", "CsvDelimiter": "|"}') == {
        "FullLoadQuietMinutes": "0",
        "CsvDelimiter": "|",
    }
    assert parse_new_table("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "x",
        '{"ActiveFlag": "true"}',
        '{"path": "x"}',
        '{"LastChangeId": "7"}',
        '{"CsvDelimiter": 1}',
        '{"Rfc4180": "no"}',
    ],
)
def test_settings_of_new_tables_cannot_activate_them_or_set_attributes_of_the_jobs(text: str):
    with pytest.raises(ConfigurationError):
        parse_new_table(text)
