"""Planted faults are found where the manifest says, and the expectation leaves out what they spoil, and no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.devkit.feed.combinations import SMALL
from tests.devkit.feed.expectation import check_table
from tests.devkit.feed.plant import Plant
from typer.testing import CliRunner

from cdclake.cli.main import app
from cdclake.commit.log import ChangeLog
from cdclake.model.layout import LakeLayout
from cdclake.model.names import Attribute, RunState, Sentinel

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "shop.orders"


class Fed:
    """A table that is fed, and what was planted."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.plant, self._expected = Plant(folder, "raw/shop/orders/"), folder / "expected"
        self._arguments = ("local", "feed", str(self.plant.raw), "--expected", str(self._expected), *SMALL, *arguments)

    def feed(self, *more: str) -> list[dict[str, Any]]:
        """Write the feed, or a round; the faults in its manifest."""
        done = CliRunner().invoke(app, [*self._arguments, *more])
        assert done.exit_code == 0, done.output
        return self._told("faults")

    def files(self) -> list[dict[str, Any]]:
        """What came, by the manifest of the last feed."""
        return self._told("files")

    def _told(self, what: str) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads((self._expected / "feed.json").read_text())[what]
        return told

    def turn_on(self) -> None:
        self.plant.hour()
        self.plant.turn_on(json.loads((self._expected / "table.json").read_text()))

    def thaw(self) -> None:
        """What a person does who has made up his mind to go on without a file."""
        self.plant.turn_on({Attribute.LAST_PENDING: Sentinel.NONE})

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(self.plant.lake, LakeLayout("", "", self.plant.state().name))

    def check(self) -> None:
        assert self.plant.state().item[Attribute.LAST_RUN_STATE] == RunState.SUCCEEDED
        check_table(self.plant.lake, TABLE, ["id"], pq.read_table(self._expected / "table"))


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("--set", "DataFormat=csv"),
        ("--set", "PreserveTransactions=true", "--set", "CdcPath=cdc"),
        ("--set", "CdcInsertsOnly=true"),
    ],
)
def test_bad_rows_are_put_aside_with_the_numbers_that_the_manifest_has(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    fed = Fed(tmp_path, "--fault", "bad-rows", "--bad-rows", "3", *settings)
    (fault,) = fed.feed()
    fed.turn_on()
    fed.plant.hour()
    fed.check()
    (key,) = fed.log.record(fed.log.head()).quarantine
    content = fed.plant.lake.get(key)
    assert content is not None
    kept = [json.loads(line) for line in content.splitlines()]
    assert {one["file"].rpartition("/")[2] for one in kept} == {fault["key"].rpartition("/")[2]}
    assert [one["row"] for one in kept] == [one["row"] for one in fault["rows"]]
    for one, planted in zip(kept, fault["rows"], strict=True):
        assert ("key column id" if planted["wrong"] == "no id" else "operation") in one["reason"]


@pytest.mark.parametrize("settings", [(), ("--set", "DataFormat=csv", "--set", "CompressionType=gzip")])
def test_a_truncated_file_stops_the_table_and_is_named_until_it_is_moved_away(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    fed = Fed(tmp_path, "--fault", "truncated", *settings)
    (fault,) = fed.feed()
    fed.turn_on()
    fed.plant.hour()
    error = fed.plant.state().item[Attribute.LAST_ERROR]
    assert "UnreadableFileError" in error
    assert fault["key"].rpartition("/")[2] in error
    (fed.plant.raw / fault["key"]).unlink()
    fed.thaw()
    fed.plant.hour()
    fed.check()


def test_a_file_that_vanishes_after_it_was_applied_takes_nothing_along(tmp_path: Path) -> None:
    fed = Fed(tmp_path, "--fault", "vanished", "--rounds", "2")
    (fault,) = fed.feed("--only-round", "1")
    fed.turn_on()
    fed.plant.hour()
    assert (fed.plant.raw / fault["key"]).exists()
    assert fed.feed("--only-round", "2") == []
    (gone,) = [one for one in fed.files() if one["kind"] == "gone"]
    assert (gone["key"], gone["round"], gone["rows"]) == (fault["key"], 2, 0)
    assert not (fed.plant.raw / fault["key"]).exists()
    fed.plant.hour()
    fed.check()


def test_a_file_that_never_came_is_not_expected(tmp_path: Path) -> None:
    fed = Fed(tmp_path, "--fault", "vanished")
    (fault,) = fed.feed()
    assert not (fed.plant.raw / fault["key"]).exists()
    fed.turn_on()
    fed.plant.hour()
    fed.check()


def test_a_gap_in_the_full_load_is_waited_for_and_the_rest_is_expected(tmp_path: Path) -> None:
    fed = Fed(tmp_path, "--fault", "vanished-load", "--load-files", "3", "--changes", "0")
    (fault,) = fed.feed()
    assert fault["key"].endswith("LOAD00000001.parquet")
    fed.turn_on()
    fed.plant.hour()
    assert fed.log.head() == 0
