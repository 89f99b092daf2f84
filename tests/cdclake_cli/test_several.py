"""Verbs that take a pattern work on each table that it matches."""

from __future__ import annotations

from typing import Any

import pytest

from cdclake.errors import AttentionError, BadRowError, CdclakeError
from cdclake_cli.printing.output import TextOutput
from cdclake_cli.several import for_each


def failing(**errors: CdclakeError) -> tuple[list[str], Any]:
    done: list[str] = []

    def work(name: str) -> None:
        done.append(name)
        if name in errors:
            raise errors[name]

    return done, work


def test_the_error_of_one_table_does_not_stop_the_others_and_the_gravest_counts(capsys: pytest.CaptureFixture[str]):
    done, work = failing(a=AttentionError("1 finding"), c=BadRowError("Op is X"))
    with pytest.raises(CdclakeError, match="2 of 4 tables failed: a, c") as error:
        for_each(["a", "b", "c", "d"], work, TextOutput())
    assert (done, error.value.exit_code) == (["a", "b", "c", "d"], 3)
    assert "c: BadRowError: Op is X" in capsys.readouterr().out


def test_the_error_of_a_single_table_stays_as_it_is():
    _, work = failing(a=BadRowError("Op is X"))
    with pytest.raises(BadRowError):
        for_each(["a"], work, TextOutput())


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", "shop.x*"),
        ("adopt", "shop.x*", "--yes"),
        ("verify", "shop", "--table", "x*"),
        ("tables", "set", "shop.x*", "--set", "LateWindowHours=5"),
        ("tables", "activate", "shop.x*"),
        ("tables", "pause", "shop.x*"),
    ],
    ids=" ".join,
)
def test_a_pattern_that_matches_no_table_is_an_error(cdclake: Any, state: Any, arguments: tuple[str, ...]):
    assert "No registered table matches the pattern" in cdclake.refused(*arguments)
