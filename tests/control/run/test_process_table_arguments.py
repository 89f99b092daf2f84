"""ProcessTable's command line: one table as the walkthrough names it, or several."""

from __future__ import annotations

import pytest

from cdclake.control.jobs.arguments import item_json, parse_arguments, paths_json, to_argv
from cdclake.control.run.process_table import DEFAULT_TIMEOUT_SECONDS
from cdclake.control.run.process_table_arguments import ProcessTableArguments
from cdclake.errors import ConfigurationError
from tests.control.world import ORDERS

ITEMS = "raw-bucket/dms/shop/items with spaces/"


def asked(**arguments: str):
    return ProcessTableArguments.parse(["process_table.py", *to_argv({"out_bucket": "lake", **arguments})])


def test_a_single_table_is_named_by_its_item_as_in_the_walkthrough():
    given = asked(item=item_json({"path": ORDERS}))
    assert (given.paths, given.out_bucket, given.out_prefix) == ([ORDERS], "lake", "")
    assert given.timeout_seconds == DEFAULT_TIMEOUT_SECONDS


def test_several_tables_are_named_by_their_paths_each_once():
    given = asked(paths=paths_json([ORDERS, ITEMS, ORDERS]), item=item_json({"path": "else"}), timeout_minutes="90")
    assert given.paths == [ORDERS, ITEMS]
    assert given.timeout_seconds == 90 * 60


@pytest.mark.parametrize("paths", ["[]", "{}", "orders", '["", "a"]', "[1]"])
def test_paths_that_are_no_list_of_paths_are_refused(paths: str):
    with pytest.raises(ConfigurationError, match="--paths is not a JSON list"):
        asked(paths=paths)


def test_no_table_at_all_is_refused():
    with pytest.raises(ConfigurationError, match="--item is missing"):
        asked()


@pytest.mark.parametrize("minutes", ["0", "-5", "soon"])
def test_a_time_that_is_no_number_of_minutes_is_refused(minutes: str):
    with pytest.raises(ConfigurationError, match="--timeout_minutes is"):
        asked(item=item_json({"path": ORDERS}), timeout_minutes=minutes)


def test_arguments_as_words_are_read_back_whatever_they_hold():
    arguments = {"item": '{"a": "--b=c"}', "prefix": "--odd/ name=x/", "out_path": "s3://lake/a=b/"}
    assert parse_arguments(to_argv(arguments), list(arguments)) == arguments


def test_the_catalog_is_left_alone_unless_a_database_is_named():
    item = item_json({"path": ORDERS})
    assert asked(item=item).catalog_database == asked(item=item, catalog_database="").catalog_database == ""
    assert asked(item=item, catalog_database="cdclake").catalog_database == "cdclake"
