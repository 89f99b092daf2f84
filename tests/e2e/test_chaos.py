"""Fifty tables, of which three are broken. Events and hourly runs race, and runs are killed at any call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.model.change.record import ChangeKind
from cdclake.model.table.attributes import Attribute
from tests.e2e.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

TABLES, ROUNDS, CALM_ROUNDS = 50, 10, 4
TRUNCATED, WRONG_KEY, FOREIGN_FILE = 7, 19, 33
SEED = 20240305


def test_47_tables_end_equal_to_the_oracle_and_3_broken_ones_report_their_errors(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, TABLES, SEED)
    for table in fleet.tables:
        fleet.write_load(table)
    fleet.run_hourly()  # registers them as inactive
    fleet.wait_until_idle()
    for number, table in enumerate(fleet.tables):
        fleet.activate(
            table.path, PrimaryKey="no_such_column" if number == WRONG_KEY else "id", FullLoadQuietMinutes="0"
        )
    for number in range(ROUNDS):
        chaotic_round(fleet, number)
    fleet.kills_runs = False
    for _ in range(CALM_ROUNDS):
        fleet.run_hourly()
        fleet.wait_until_idle()
        fleet.advance_clock()
    fleet.close()

    for number, table in enumerate(fleet.tables):
        item = fleet.state(table.path).item
        assert Attribute.LEASE_HOLDER not in item, table.path
        if number in (TRUNCATED, WRONG_KEY, FOREIGN_FILE):
            assert item[Attribute.LAST_RUN_STATE] == "FAILED", table.path
        else:
            assert (item[Attribute.LAST_RUN_STATE], item[Attribute.LAST_ERROR]) == ("SUCCEEDED", ""), table.path
            assert fleet.rows(table) == table.expected(), table.path
    errors = {number: fleet.state(fleet.tables[number].path).item[Attribute.LAST_ERROR] for number in EXPECTED_ERRORS}
    assert all(word in errors[number] for number, words in EXPECTED_ERRORS.items() for word in words), errors
    remaining = fleet.lake_folder(fleet.tables[FOREIGN_FILE]).glob("0*.parquet")
    assert any(remaining)  # readers still see the earlier files
    counts = fleet.counts
    assert counts["ProcessTable killed"] > 3, counts
    assert counts["Spark job killed"] > 3, counts
    assert counts["packs"] > 5, counts
    assert counts["events lost"] > 0, counts
    assert takeovers(fleet) > 3


EXPECTED_ERRORS = {
    TRUNCATED: ("UnreadableFileError", "20240305-120000000.parquet"),
    WRONG_KEY: ("ConfigurationError", "no column no_such_column", "Correct PrimaryKey"),
    FOREIGN_FILE: ("LakeFilesError", "foreign.parquet"),
}


def chaotic_round(fleet: Fleet, number: int) -> None:
    """DMS writes files, S3 sends their events once or twice in any order, and two hourly runs start in between."""
    random = fleet.random
    hour = 10 + number
    keys = []
    for table in fleet.tables:
        for file in range(random.choice((0, 0, 1, 2))):
            file_hour = hour - 3 if random.random() < 0.1 else hour
            keys.append(fleet.write_changes(table, f"20240305-{file_hour:02d}00{file:02d}{number:03d}.parquet"))
    if number == 2:
        broken = fleet.tables[TRUNCATED].folder / "20240305-120000000.parquet"
        broken.write_bytes(b"PAR1 and no more")
    if number == 4:
        fleet.lake_folder(fleet.tables[FOREIGN_FILE]).mkdir(parents=True, exist_ok=True)
        (fleet.lake_folder(fleet.tables[FOREIGN_FILE]) / "foreign.parquet").write_bytes(b"foreign content")
    if number == 5:  # whatever was drawn, a change is due that meets the foreign file
        keys.append(fleet.write_changes(fleet.tables[FOREIGN_FILE], f"20240305-{hour:02d}0009{number:03d}.parquet"))
    events = keys + random.sample(keys, len(keys) // 4)
    random.shuffle(events)
    fleet.run_hourly()
    for first in range(0, len(events), 3):
        fleet.event(events[first : first + 3])
        if first == 12:
            fleet.run_hourly()
    fleet.wait_until_idle()
    fleet.advance_clock()


def takeovers(fleet: Fleet) -> int:
    """Number of takeovers in all tables."""
    return sum(record.kind is ChangeKind.TAKEOVER for table in fleet.tables for record in fleet.change_records(table))
