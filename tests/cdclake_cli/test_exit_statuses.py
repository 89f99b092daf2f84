"""Every verb exits as documented (docs/operations.md), whatever the kind of error.

The table of verbs is complete: a new verb must be added to it.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from typer.main import get_command

from cdclake import errors
from cdclake.errors import CdclakeError
from cdclake_cli.main import assembled
from tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

STORE = "cdclake-raw/shop/store/"

TABLE_VERBS: dict[str, tuple[str, ...]] = {
    "run": ("{}",),
    "plan": ("{}",),
    "status": ("{}",),
    "verify": ("--expect", "{}=5"),
    "compare": ("{}", "--with", "/tmp/nothing-is-there"),
    "history": ("{}", "--key", "1"),
    "diff": ("{}", "1", "2"),
    "export": ("{}", "--to", "/tmp/nothing-is-written"),
    "rollback": ("{}", "--yes"),
    "reapply": ("{}", "--yes"),
    "doctor": ("{}",),
    "repair": ("{}", "--yes"),
    "resync": ("{}", "--yes"),
    "clean-up": ("{}", "--yes"),
    "erase": ("{}", "--key", "1", "--reason", "asked", "--yes"),
    "adopt": ("{}", "--yes"),
    "migrate-walkthrough": ("{}", "--yes"),
    "tables list": ("{}",),
    "tables show": ("{}",),
    "tables set": ("{}", "--set", "LateWindowHours=5"),
    "tables activate": ("{}",),
    "tables pause": ("{}",),
    "tables acknowledge": ("{}", "--yes"),
    "tables unfreeze": ("{}", "--yes"),
    "tables reset": ("{}", "--yes"),
    "changes list": ("{}",),
    "changes show": ("{}", "1"),
    "files": ("{}",),
    "quarantine list": ("{}",),
    "quarantine show": ("{}",),
    "quarantine release": ("{}", "--yes"),
}
"""Verbs that work on a table, with arguments; `{}` is its name."""
ONE_TABLE_VERBS = {"compare", "history", "diff", "erase", "changes show"}
"""Verbs that take no patterns. Here `verify` has a table in each `--expect`, instead of a source and patterns."""
OTHER_VERBS = {
    "apply",
    "export-config",
    "dms settings",
    "import",
    "console",
    "demo",
    "local serve",
    "local shell",
    "local put",
    "local query",
    "local sample",
    "local feed",
    "local replicate",
    "local sample-db",
}


def arguments(verb: str, table: str) -> list[str]:
    return [*verb.split(), *(argument.format(table) for argument in TABLE_VERBS[verb])]


def verbs(command: Any, path: tuple[str, ...] = ()) -> list[str]:
    if not hasattr(command, "commands"):
        return [" ".join(path)]
    return [verb for name, one in command.commands.items() for verb in verbs(one, (*path, name))]


def test_every_verb_is_tested():
    assert set(verbs(get_command(assembled()))) == TABLE_VERBS.keys() | OTHER_VERBS


def test_every_kind_of_error_is_documented_with_its_exit_status():
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (\d?) ?\| (?:`(\w+)`)? ?\|", text[text.index("| exit status |") :], re.MULTILINE)
    documented, status = {}, ""
    for number, kind in rows:
        status = number or status
        documented[kind] = int(status)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CdclakeError)]
    assert documented == {"": 0, **{kind.__name__: kind.exit_code for kind in kinds}}


@pytest.fixture
def exits(cdclake: Any) -> Any:
    """Runs verbs, and returns the exit status of each whose stderr has some words; else its output."""

    def run(words: str, commands: dict[str, list[str]]) -> dict[str, object]:
        results = {verb: cdclake(*command) for verb, command in commands.items()}
        return {verb: one.exit_code if words in one.stderr else one.output for verb, one in results.items()}

    return run


def commands(table: str, *only: str) -> dict[str, list[str]]:
    return {verb: arguments(verb, table) for verb in only or TABLE_VERBS}


def all_exit_with(status: int, verbs: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(verbs, status)


def test_an_unknown_table_exits_with_2_and_similar_names(exits: Any, state: Any):
    with_names = [verb for verb in TABLE_VERBS if verb != "doctor"]  # it checks tables before they are registered
    assert exits("Did you mean shop.store?", commands("shop.stor", *with_names)) == all_exit_with(2, with_names)
    assert exits("shop.stor", commands("shop.stor", "doctor")) == {"doctor": 2}


def test_a_pattern_without_tables_exits_with_2_and_similar_ones(exits: Any, state: Any):
    several = TABLE_VERBS.keys() - ONE_TABLE_VERBS - {"verify"}
    assert exits("Did you mean 'shop.*'?", commands("shp.*", *several)) == all_exit_with(2, several)
    one = "This works on one table, and 'shp.*' is a pattern"
    assert exits(one, commands("shp.*", *ONE_TABLE_VERBS)) == all_exit_with(2, ONE_TABLE_VERBS)


@pytest.mark.slow
def test_an_unknown_table_stops_no_other_and_exits_with_2(cdclake: Any, store: Any, state: Any):
    refused = {"run", "plan", "status", "tables set"}  # a slip must not limit them; all are set, or none
    unsuited = {"verify", "doctor", "adopt", "export", "quarantine release", "resync", "tables reset"}  # to shop.store
    for verb in TABLE_VERBS:
        if verb in ONE_TABLE_VERBS | refused | unsuited:
            continue
        result = cdclake(*arguments(verb, "shop.stor"), "shop.store")
        assert (result.exit_code, verb) == (2, verb)
        assert "Error: 1 of 2 tables failed: shop.stor" in result.stderr, verb
        assert "Did you mean shop.store?" in result.stderr, verb
        assert "shop.store" in result.stdout, verb


def test_a_text_that_is_no_table_name_exits_with_2(exits: Any, state: Any):
    assert exits("store", commands("store")) == all_exit_with(2, TABLE_VERBS)


@pytest.mark.slow
def test_an_unknown_option_exits_with_2(exits: Any):
    wrong = {verb: [*command, "--nonsense"] for verb, command in commands("shop.store").items()}
    assert exits("--nonsense", wrong) == all_exit_with(2, wrong)


def test_a_table_that_a_run_is_working_on_exits_with_4(exits: Any, store: Any, state: Any):
    changing = ("rollback", "clean-up", "tables acknowledge")
    state.acquire_lease(STORE, "jr_7", datetime.now(timezone.utc), 300)
    assert exits("jr_7", commands("shop.store", *changing)) == all_exit_with(4, changing)


def test_a_question_that_nobody_can_answer_exits_with_2(exits: Any, store: Any):
    asking = ("rollback", "clean-up", "tables acknowledge", "tables unfreeze")
    unanswered = {verb: words[:-1] for verb, words in commands("shop.store", *asking).items()}
    assert exits("--yes", unanswered) == all_exit_with(2, asking)
    assert store.log.head() == 3


def test_a_foreign_file_in_the_lake_exits_with_5_where_it_does_harm(exits: Any, store: Any):
    boto3.client("s3").put_object(Bucket="cdclake-lake", Key="shop/store/part-0.parquet", Body=b"x")
    assert exits("part-0.parquet", commands("shop.store", "rollback")) == {"rollback": 5}
    readers_and_repair = ("changes list", "repair", "rollback")
    assert exits("", commands("shop.store", *readers_and_repair)) == all_exit_with(0, readers_and_repair)


def test_a_wrong_setting_exits_with_2_and_needs_action(exits: Any, store: Any, state: Any):
    state.set_attributes(STORE, {"LateWindowHours": "some"})
    expected = {"plan": 6, "status": 6, "tables activate": 2}
    assert exits("LateWindowHours is 'some'", commands("shop.store", *expected)) == expected
