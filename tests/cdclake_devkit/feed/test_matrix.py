"""After `cdclake local feed` and the hourly run, the lake equals the expectation, for all DMS settings."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cdclake.model.names import RunState
from cdclake.model.table.attributes import Attribute
from cdclake_cli.main import assembled
from tests.builders import LAKE, RAW, FolderInstallation
from tests.cdclake_devkit.feed.combinations import COMBINATIONS, SMALL, key_of
from tests.cdclake_devkit.feed.expectation import check_history, check_table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ROUNDS = 2


@pytest.mark.sampled(test=10)
@pytest.mark.parametrize("name", COMBINATIONS)
def test_the_lake_equals_the_expectation_after_each_round(tmp_path: Path, name: str) -> None:
    began_utc = datetime.now(timezone.utc) - timedelta(seconds=1)
    folder = "dms/" if "BucketFolder=dms" in COMBINATIONS[name] else ""
    installation, expected = FolderInstallation(tmp_path, folder), tmp_path / "expected"
    path = f"{RAW}/{folder}feed/{name}/"
    for number in range(1, ROUNDS + 1):
        place = ("local", "feed", str(tmp_path / RAW), "--expected", str(expected), "--table", f"feed.{name}")
        arguments = (*place, *SMALL, *COMBINATIONS[name], "--rounds", str(ROUNDS), "--only-round", str(number))
        done = CliRunner().invoke(assembled(), arguments)
        assert done.exit_code == 0, done.output
        if number == 1:
            installation.run_controller()  # registers the table, inactive
            installation.activate(path, **json.loads((expected / "table.json").read_text()))
        installation.run_controller()
        item = installation.state(path).item
        assert item[Attribute.LAST_ERROR] == ""
        assert item[Attribute.LAST_RUN_STATE] == RunState.SUCCEEDED
        check_table(installation.bucket(LAKE), f"feed.{name}", key_of(name), pq.read_table(expected / "table"))
        if "--history" in COMBINATIONS[name]:
            history = pq.read_table(expected / "history")
            check_history(installation.bucket(LAKE), f"feed.{name}", key_of(name), history, began_utc)
