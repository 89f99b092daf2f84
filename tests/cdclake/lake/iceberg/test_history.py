"""The history of a table is an Iceberg table too: each change is one snapshot of both."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.commit.table_files import check_files, compare, repair
from cdclake.errors import LakeFilesError
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_history import find_versions
from tests.cdclake.lake.iceberg.namesake import COLUMNS, row
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.over_time import TABLE, TableOverTime
from tests.cdclake.lake.scd2.versions import version_files, version_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "Readers": "iceberg", "History": "true"})
    table.load([row(1), row(2)], datetime(2024, 2, 1, tzinfo=timezone.utc))
    table.apply(("I", row(3)), ("D", row(2)))
    return table


def readers(table: TableOverTime) -> IcebergReaders:
    return IcebergReaders(table.lake, table.layout.history)


def seen(table: TableOverTime, change: int | None = None, where: str = "true") -> list[tuple[Any, ...]]:
    names = ("id", "city", "operation", "validity_flag")
    rows = readers(table).rows(where, (*names, "_cdc_position"), change)
    rows.sort(key=lambda one: (one["id"], one["_cdc_position"]))
    return [tuple(one[name] for name in names) for one in rows]


LOADED = [(1, "Kiel", "insert", 1), (2, "Kiel", "insert", 1)]
CHANGED = [
    (1, "Kiel", "insert", 1),
    (2, "Kiel", "insert", 0),
    (2, "Kiel", "delete", 1),
    (3, "Kiel", "insert", 1),
]


def test_each_change_is_one_snapshot(table: TableOverTime) -> None:
    assert seen(table) == CHANGED
    assert (seen(table, 1), seen(table, 2)) == (LOADED, CHANGED)
    assert version_files(table) == {}
    assert len(version_rows(table)) == 4
    table.roll_back(1)
    assert (seen(table), seen(table, 2)) == (LOADED, CHANGED)
    assert readers(table).version == 3
    check_files(table.log, table.log.snapshot(3))


def test_filters_find_versions_by_their_month_and_validity(table: TableOverTime) -> None:
    assert seen(table, where="year = '2024' AND month = '03' AND validity_flag = 1") == CHANGED[2:]
    assert seen(table, where="year = '2024' AND month < '03'") == CHANGED[:2]
    assert seen(table, where="year = '2023'") == []
    assert seen(table, where="valid_to IS NULL AND operation <> 'delete'") == [CHANGED[0], CHANGED[3]]


def test_open_and_closed_versions_have_manifests_of_their_own(table: TableOverTime) -> None:
    for number in range(4, 8):
        table.apply(("I", row(number)), ("U", row(1, f"city {number}")))
    history = table.log.snapshot(table.log.head()).history
    assert history
    assert history.iceberg
    remaining, spans = len(history.open), []
    for manifest in history.iceberg.manifests:
        if manifest.files:
            spans.append(manifest.files)
            remaining -= manifest.files
            assert remaining >= 0 or sum(spans[:-1]) >= len(history.open), "a manifest lists files of both kinds"
    assert sum(spans) == len(history.files)


def test_a_switch_to_the_folder_and_back(table: TableOverTime) -> None:
    table.item["Readers"] = "folder"
    table.apply(("I", row(4)))
    assert readers(table).finds_none
    assert len(version_rows(table)) == 5
    assert version_files(table)
    table.roll_back(2)
    assert seen(table) == CHANGED
    assert version_files(table) == {}
    table.item["Readers"] = "both"
    table.apply(("I", row(5)))
    assert seen(table) == [*CHANGED, (4, "Kiel", "insert", 1), (5, "Kiel", "insert", 1)]
    assert len(version_rows(table)) == 6
    assert readers(table).offered == [table.log.head()]
    check_files(table.log, table.log.snapshot(table.log.head()))


def test_a_history_that_begins_later(tmp_path: Path) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "Readers": "iceberg"})
    table.load([row(1)])
    table.item["History"] = "true"
    table.apply(("U", row(1, "Ulm")))
    assert seen(table) == [(1, "Kiel", "insert", 0), (1, "Ulm", "update", 1)]
    table.roll_back(1)
    assert readers(table).finds_none
    check_files(table.log, table.log.snapshot(3))


@pytest.mark.slow
def test_a_history_turned_off_stays_as_it_is(table: TableOverTime) -> None:
    table.item |= {"History": "false", "Readers": "folder"}
    table.apply(("I", row(4)))
    assert seen(table) == CHANGED
    assert readers(table).version == 3
    check_files(table.log, table.log.snapshot(3))
    table.item["History"] = "true"
    table.apply(("I", row(5)))
    assert sorted({one["id"] for one in version_rows(table)}) == [1, 2, 3, 4, 5]
    assert readers(table).finds_none


@pytest.mark.slow
def test_a_clean_up_deletes_what_no_retained_change_needs(table: TableOverTime) -> None:
    for number in range(4, 7):
        table.apply(("U", row(1, f"city {number}")))
    folder = table.lake / table.layout.history.iceberg_prefix
    before = {path for path in folder.rglob("*") if path.is_file()}
    for later in (timedelta(), timedelta(hours=2)):
        table.clean_up(timedelta(hours=2) + later, later)
    assert len(before - {path for path in folder.rglob("*") if path.is_file()}) > 5
    assert readers(table).offered == [4, 5]
    assert [len(seen(table, change)) for change in (4, 5)] == [6, 7]
    table.roll_back(4)
    assert len(seen(table)) == 6


def test_vanished_files_are_detected_and_repaired(table: TableOverTime) -> None:
    snapshot = table.log.snapshot(2)
    assert snapshot.history
    (file,) = snapshot.history.closed
    key = table.layout.data_key(file.path)
    kept = table.lake / table.layout.retired_key(file.path)
    kept.parent.mkdir(parents=True)
    (table.lake / key).rename(kept)
    with pytest.raises(LakeFilesError, match=r"vanished .*_history/_iceberg/data/"):
        table.apply(("I", row(4)))
    repair(table.log, snapshot.change, compare(table.log, snapshot.all_files))
    check_files(table.log, snapshot)
    assert seen(table) == CHANGED


def test_own_readers_read_it(table: TableOverTime) -> None:
    found = find_versions(TableLocation.at(table.location, TABLE), ["2"])
    assert [one["operation"] for one in found.rows] == ["insert", "delete"]
