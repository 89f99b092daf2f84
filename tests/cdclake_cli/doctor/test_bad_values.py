"""The doctor shows bad values only if the operator asks, escaped, and never in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from cdclake_cli.main import assembled

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "\x1b[31msecret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "shop" / "flights"
    path.mkdir(parents=True)
    rows = [f"{i},{'NA' if i > 2 else i},{SECRET}" for i in range(40)]
    (path / "LOAD00000001.csv").write_text("id,delay,day\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def doctor(folder: Path, *arguments: str, schema: str) -> str:
    command = ["doctor", "shop.flights", "--folder", str(folder), "--schema", schema, *arguments]
    return CliRunner().invoke(assembled(), command).stdout


def test_bad_values_are_shown_on_request_and_escaped(folder: Path) -> None:
    schema = "id int, delay int, day string"
    text = doctor(folder, "--show-values", schema=schema)
    assert "'NA' in 37 rows" in text
    assert "37 of them have the same value, which looks like a text for null" in " ".join(text.split())
    assert "cdclake tables set shop.flights --set CsvNullValue=NA" in text
    text = doctor(folder, "--show-values", schema="id int, delay string, day date")
    assert "'\\x1b[31msecret' in 40 rows" in text


@pytest.mark.parametrize("arguments", [(), ("-o", "json"), ("-o", "json", "--show-values")], ids=" ".join)
def test_bad_values_are_not_shown_otherwise(folder: Path, arguments: tuple[str, ...]) -> None:
    text = doctor(folder, *arguments, schema="id int, delay string, day date")
    assert "secret" not in text
    assert "40 of them have the same value" in " ".join(text.split())
    if arguments:
        assert json.loads(text)["findings"]


@pytest.mark.parametrize("rule", ["exclude day", "hash day", "redact day", "truncate day 3"])
def test_bad_values_of_a_column_with_a_rule_are_not_shown_even_on_request(folder: Path, rule: str) -> None:
    text = doctor(folder, "--show-values", "--set", f"ColumnPolicy={rule}", schema="id int, delay string, day date")
    assert "secret" not in text
    assert "Checked" in text or "rows" in text
