"""Fifty tables, three broken in different ways; events and hourly runs race, and runs are killed at any call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.model.change import ChangeKind
from cdclake.model.names import Attribute
from tests.e2e.town import Town

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TABLES, ROUNDS, CALM_ROUNDS = 50, 10, 4
TRUNCATED, WRONG_KEY, STRANGER = 7, 19, 33
SEED = 20240305


def test_in_the_end_47_tables_equal_the_oracle_and_3_say_what_is_wrong(tmp_path: Path) -> None:
    town = Town(tmp_path, TABLES, SEED)
    for table in town.tables:
        town.write_load(table)
    town.run_hourly()  # it registers them, inactive
    town.come_to_rest()
    for number, table in enumerate(town.tables):
        town.activate(
            table.path, PrimaryKey="no_such_column" if number == WRONG_KEY else "id", FullLoadQuietMinutes="0"
        )
    for number in range(ROUNDS):
        chaotic_round(town, number)
    town.deadly = False
    for _ in range(CALM_ROUNDS):
        town.run_hourly()
        town.come_to_rest()
        town.pass_time()
    town.close()

    for number, table in enumerate(town.tables):
        item = town.state(table.path).item
        assert Attribute.LEASE_HOLDER not in item, table.path
        if number in (TRUNCATED, WRONG_KEY, STRANGER):
            assert item[Attribute.LAST_RUN_STATE] == "FAILED", table.path
        else:
            assert (item[Attribute.LAST_RUN_STATE], item[Attribute.LAST_ERROR]) == ("SUCCEEDED", ""), table.path
            assert town.rows(table) == table.expected(), table.path
    told = {number: town.state(town.tables[number].path).item[Attribute.LAST_ERROR] for number in BROKEN_SAYS}
    assert all(word in told[number] for number, words in BROKEN_SAYS.items() for word in words), told
    kept = town.lake_folder(town.tables[STRANGER]).glob("0*.parquet")
    assert any(kept)  # readers keep what there was
    seen = town.happened
    assert seen["ProcessTable killed"] > 3, seen
    assert seen["Spark job killed"] > 3, seen
    assert seen["packs"] > 5, seen
    assert town.left_over_batches() <= 2 * seen["ProcessTable killed"]
    assert takeovers(town) > 3


BROKEN_SAYS = {
    TRUNCATED: ("UnreadableFileError", "20240305-120000000.parquet"),
    WRONG_KEY: ("ConfigurationError", "no column no_such_column", "Correct PrimaryKey"),
    STRANGER: ("LakeFilesError", "stranger.parquet"),
}


def chaotic_round(town: Town, number: int) -> None:
    """DMS writes, S3 tells of it once or twice and in any order, and the hourly run comes in between, twice."""
    dice = town.dice
    hour = 10 + number
    keys = []
    for table in town.tables:
        for file in range(dice.choice((0, 0, 1, 2))):
            late_or_not = hour - 3 if dice.random() < 0.1 else hour
            keys.append(town.write_changes(table, f"20240305-{late_or_not:02d}00{file:02d}{number:03d}.parquet"))
    if number == 2:
        broken = town.tables[TRUNCATED].folder / "20240305-120000000.parquet"
        broken.write_bytes(b"PAR1 and no more")
    if number == 4:
        town.lake_folder(town.tables[STRANGER]).mkdir(parents=True, exist_ok=True)
        (town.lake_folder(town.tables[STRANGER]) / "stranger.parquet").write_bytes(b"who put this here?")
    events = keys + dice.sample(keys, len(keys) // 4)
    dice.shuffle(events)
    town.run_hourly()
    for first in range(0, len(events), 3):
        town.event(events[first : first + 3])
        if first == 12:
            town.run_hourly()
    town.come_to_rest()
    town.pass_time()


def takeovers(town: Town) -> int:
    """How many runs were taken over from, in all tables."""
    return sum(record.kind is ChangeKind.TAKEOVER for table in town.tables for record in town.change_records(table))
