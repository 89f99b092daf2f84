"""A name that is typed means one table, or is refused; what is printed can be typed, and hides nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from tests.cdclake_cli.test_exit_statuses import TABLE_VERBS, arguments

if TYPE_CHECKING:
    from cdclake.adapters.dynamodb import DynamoState

ALIKE = (TableName("a.b", "c"), TableName("a", "b.c"))
REVERSED = TableName("shop", "a\u202eb\x1b[2J")


def add(state: DynamoState, name: TableName) -> TableState:
    """A registered table with a raw file."""
    table = TableState.new("cdclake-raw", f"{name.schema}/", f"{name.table}/").with_attributes(PrimaryKey="id")
    assert state.register(table)
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key=f"{table.raw_prefix}LOAD00000001.csv", Body=b"1\n")
    return table


@pytest.fixture
def alike(state: DynamoState) -> tuple[TableState, TableState]:
    """Two tables whose names differ only in where the schema ends."""
    first, second = (add(state, name) for name in ALIKE)
    return first, second


def test_an_ambiguous_name_is_refused_with_the_exact_ones_and_changes_no_table(
    cdclake: Any, alike: tuple[TableState, ...], state: DynamoState
) -> None:
    register = ["tables", "set", "a.b.c", "--register", "--set", "LateWindowHours=5"]
    for words in (*(arguments(verb, "a.b.c") for verb in TABLE_VERBS), register):
        error = " ".join(cdclake.refused(*words).split())
        assert "'a.b.c' can be the name of 2 tables Write schema/table with a slash: a/b.c or a.b/c" in error, words
    assert [state.get(table.path) for table in alike] == list(alike)


@pytest.mark.parametrize("number", [0, 1])
def test_an_exact_name_means_one_table(
    cdclake: Any, alike: tuple[TableState, ...], state: DynamoState, number: int
) -> None:
    name = str(ALIKE[number])
    assert [record["table"] for record in cdclake.records("tables", "activate", name)] == [name]
    assert [table.active for table in map(state.get, (one.path for one in alike)) if table] == [
        number == 0,
        number == 1,
    ]
    for verb in ("status", "plan"):
        shown = cdclake(verb, name, "--output", "json")
        assert [json.loads(line)["table"] for line in shown.stdout.splitlines()] == [name]


def test_both_tables_are_shown_by_names_that_can_be_typed(cdclake: Any, alike: Any) -> None:
    listed = [record["table"] for record in cdclake.records("tables", "list") if record["table"].startswith("a")]
    assert listed == ["a/b.c", "a.b/c"]
    assert [cdclake.record("tables", "show", name)["item"]["folder"] for name in listed] == ["b.c/", "c/"]


@pytest.mark.parametrize(("pattern", "found"), [("a.*", ["a/b.c"]), ("a.b/*", ["a.b/c"]), ("*/c", ["a.b/c"])])
def test_a_pattern_matches_schema_and_table_each(cdclake: Any, alike: Any, pattern: str, found: list[str]) -> None:
    assert [record["table"] for record in cdclake.records("tables", "pause", pattern)] == found


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_name_hides_nothing_in_a_terminal(cdclake: Any, state: DynamoState, output: str) -> None:
    add(state, REVERSED)
    for verb in (("status",), ("plan",), ("tables",), ("tables", "show", str(REVERSED))):
        shown = cdclake(*verb, "--output", output).output
        assert "202eb" in shown
        assert [char for char in shown if not char.isprintable() and char != "\n"] == []


def test_a_command_in_a_remedy_can_be_copied_whatever_the_name(cdclake: Any, state: DynamoState) -> None:
    add(state, REVERSED)
    shown = " ".join(cdclake("plan", str(REVERSED)).stdout.split())
    assert r"cdclake tables activate $'shop.a\u202eb\x1b[2J'" in shown
