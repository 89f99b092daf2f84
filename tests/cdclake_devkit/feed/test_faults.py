"""Injected faults are where the manifest lists them, and the expectation excludes exactly the rows they affect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cdclake.model.names import RunState, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake_cli.main import assembled
from tests.builders import LAKE, RAW, FolderInstallation
from tests.cdclake_devkit.feed.combinations import SMALL
from tests.cdclake_devkit.feed.expectation import check_table

if TYPE_CHECKING:
    from pathlib import Path

TABLE, PATH = "shop.orders", "raw/shop/orders/"


class FedTable(FolderInstallation):
    """An installation with one table, which has a feed, and the faults injected into it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder)
        self.raw, self._expected = folder / RAW, folder / "expected"
        self._arguments = ("local", "feed", str(self.raw), "--expected", str(self._expected), *SMALL, *arguments)

    def feed(self, *more: str) -> list[dict[str, Any]]:
        """Write the feed or a round of it; returns the faults in the manifest."""
        done = CliRunner().invoke(assembled(), [*self._arguments, *more])
        assert done.exit_code == 0, done.output
        return self._manifest("faults")

    def files(self) -> list[dict[str, Any]]:
        """The files in the manifest of the last feed."""
        return self._manifest("files")

    def _manifest(self, what: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = json.loads((self._expected / "feed.json").read_text())[what]
        return entries

    def activate_and_run(self) -> None:
        self.run_controller()
        self.activate(PATH, **json.loads((self._expected / "table.json").read_text()))
        self.run_controller()

    def skip_pending_file(self) -> None:
        """Continue without the pending file, as an operator does."""
        self.activate(PATH, **{Attribute.LAST_PENDING: Sentinel.NONE})

    def check(self) -> None:
        assert self.state(PATH).item[Attribute.LAST_RUN_STATE] == RunState.SUCCEEDED
        check_table(self.bucket(LAKE), TABLE, ["id"], pq.read_table(self._expected / "table"))


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("--set", "DataFormat=csv"),
        ("--set", "PreserveTransactions=true", "--set", "CdcPath=cdc"),
        ("--set", "CdcInsertsOnly=true"),
    ],
)
def test_bad_rows_are_quarantined_with_the_row_numbers_of_the_manifest(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    table = FedTable(tmp_path, "--fault", "bad-rows", "--bad-rows", "3", *settings)
    (fault,) = table.feed()
    table.activate_and_run()
    table.check()
    (key,) = table.log(PATH).record(table.log(PATH).head()).quarantine
    content = table.bucket(LAKE).get(key)
    assert content is not None
    kept = [json.loads(line) for line in content.splitlines()]
    assert {one["file"].rpartition("/")[2] for one in kept} == {fault["key"].rpartition("/")[2]}
    assert [one["row"] for one in kept] == [one["row"] for one in fault["rows"]]
    for quarantined, bad in zip(kept, fault["rows"], strict=True):
        assert ("Key column id" if bad["wrong"] == "no id" else "operation") in quarantined["reason"]


@pytest.mark.parametrize("settings", [(), ("--set", "DataFormat=csv", "--set", "CompressionType=gzip")])
def test_a_truncated_file_stops_the_table_with_its_name_until_it_is_removed(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    table = FedTable(tmp_path, "--fault", "truncated", *settings)
    (fault,) = table.feed()
    table.activate_and_run()
    error = table.state(PATH).item[Attribute.LAST_ERROR]
    assert "UnreadableFileError" in error
    assert fault["key"].rpartition("/")[2] in error
    (table.raw / fault["key"]).unlink()
    table.skip_pending_file()
    table.run_controller()
    table.check()


def test_rows_stay_when_their_file_vanishes_after_it_was_applied(tmp_path: Path) -> None:
    table = FedTable(tmp_path, "--fault", "vanished", "--rounds", "2")
    (fault,) = table.feed("--only-round", "1")
    table.activate_and_run()
    assert (table.raw / fault["key"]).exists()
    assert table.feed("--only-round", "2") == []
    (gone,) = [one for one in table.files() if one["kind"] == "gone"]
    assert (gone["key"], gone["round"], gone["rows"]) == (fault["key"], 2, 0)
    assert not (table.raw / fault["key"]).exists()
    table.run_controller()
    table.check()


def test_the_expectation_excludes_a_file_that_is_never_written(tmp_path: Path) -> None:
    table = FedTable(tmp_path, "--fault", "vanished")
    (fault,) = table.feed()
    assert not (table.raw / fault["key"]).exists()
    table.activate_and_run()
    table.check()


def test_a_gap_in_the_full_load_holds_the_table_back(tmp_path: Path) -> None:
    table = FedTable(tmp_path, "--fault", "vanished-load", "--load-files", "3", "--changes", "0")
    (fault,) = table.feed()
    assert fault["key"].endswith("LOAD00000001.parquet")
    table.activate_and_run()
    assert table.log(PATH).head() == 0
