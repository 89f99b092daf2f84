"""The commands and the snippet in docs/feed.md work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdclake_cli.main import assembled
from tests import ROOT
from tests.builders import FolderInstallation

DOCUMENT = (ROOT / "docs" / "feed.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_documented_comparison_finds_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    installation = FolderInstallation(tmp_path)
    (command,) = re.findall(r"^cdclake (local feed s3://cdclake-raw .*)$", DOCUMENT, re.MULTILINE)
    arguments = shlex.split(command.replace("s3://cdclake-raw", "raw"))
    assert CliRunner().invoke(assembled(), arguments).exit_code == 0
    installation.run_controller()
    installation.activate("raw/shop/orders/", **json.loads(Path("expected/table.json").read_text()))
    installation.run_controller()
    (snippet,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(snippet, {})
    assert capsys.readouterr().out.splitlines()[-1] == "0 rows differ"
    Path("expected/table/again.parquet").write_bytes(Path("expected/table/part-00000.parquet").read_bytes())
    exec(snippet, {})
    assert capsys.readouterr().out.splitlines()[-1] != "0 rows differ"


@pytest.mark.slow
def test_the_first_example_writes_the_listed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = next(iter(re.findall(r"^cdclake (local feed raw .*)$", DOCUMENT, re.MULTILINE)))
    assert CliRunner().invoke(assembled(), shlex.split(command)).exit_code == 0
    listed = re.findall(r"^((?:raw|expected)/\S+)", DOCUMENT, re.MULTILINE)
    assert len(listed) == 6
    assert [path for path in listed if not Path(path).is_file()] == []
    assert len(list(Path("raw/shop/orders").iterdir())) == 1 + 10
