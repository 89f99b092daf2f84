"""The command line of a run: one table, as in the walkthrough, or several."""

from __future__ import annotations

import json

import pytest

from cdclake.control.jobs.arguments import parse_arguments, paths_json, to_argv
from cdclake.control.run.run_arguments import RunArguments
from cdclake.errors import ConfigurationError
from tests.cdclake.control.world import ORDERS

ITEMS = "raw-bucket/dms/shop/items with spaces/"


def parse(**arguments: str):
    return RunArguments.parse(["process_table.py", *to_argv({"out_bucket": "lake", **arguments})])


def test_a_single_table_is_passed_as_its_item():
    arguments = parse(item=json.dumps({"path": ORDERS}))
    assert (arguments.paths, arguments.out_bucket, arguments.out_prefix) == ([ORDERS], "lake", "")
    assert arguments.timeout_seconds == 8 * 3600


def test_several_tables_are_passed_as_paths_and_each_counts_once():
    arguments = parse(
        paths=paths_json([ORDERS, ITEMS, ORDERS]), item=json.dumps({"path": "else"}), timeout_minutes="90"
    )
    assert arguments.paths == [ORDERS, ITEMS]
    assert arguments.timeout_seconds == 90 * 60


@pytest.mark.parametrize("paths", ["[]", "{}", "orders", '["", "a"]', "[1]"])
def test_an_invalid_list_of_paths_is_refused(paths: str):
    with pytest.raises(ConfigurationError, match="--paths is not a JSON list"):
        parse(paths=paths)


def test_arguments_without_a_table_are_refused():
    with pytest.raises(ConfigurationError, match="--item is missing"):
        parse()


@pytest.mark.parametrize("minutes", ["0", "-5", "soon"])
def test_an_invalid_number_of_minutes_is_refused(minutes: str):
    with pytest.raises(ConfigurationError, match="--timeout_minutes is"):
        parse(item=json.dumps({"path": ORDERS}), timeout_minutes=minutes)


def test_formatted_arguments_are_read_back_whatever_their_values():
    arguments = {"item": '{"a": "--b=c"}', "prefix": "--odd/ name=x/", "out_path": "s3://lake/a=b/"}
    assert parse_arguments(to_argv(arguments), list(arguments)) == arguments


def test_the_url_of_lineage_is_empty_unless_it_is_passed():
    item = json.dumps({"path": ORDERS})
    assert parse(item=item).lineage_url == parse(item=item, lineage_url="").lineage_url == ""
    assert parse(item=item, lineage_url="http://marquez:5000/").lineage_url == "http://marquez:5000/"
    assert parse(item=item).catalog_database == parse(item=item, catalog_database="").catalog_database == ""
    assert parse(item=item, catalog_database="cdclake").catalog_database == "cdclake"


def test_what_is_passed_on_is_read_as_it_was():
    given = {
        "out_prefix": "x/",
        "state_table": "s",
        "catalog_database": "c",
        "name_prefix": "a",
        "lineage_url": "http://m",
        "hash_secret": "acme/hashes",
    }
    arguments = parse(item=json.dumps({"path": ORDERS}), **given)
    handed = {"paths": paths_json([ORDERS]), "lease_holder": "run-1"}
    assert RunArguments.parse(to_argv({**arguments.passed_on(), **handed})) == arguments._replace(lease_holder="run-1")
    assert set(given) < set(arguments.passed_on())
