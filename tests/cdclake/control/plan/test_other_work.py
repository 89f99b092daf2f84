"""A table of which no raw file is due gets a run for anything else. What is wrong is refused or told with a remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.fates import Fate, fates
from cdclake.control.plan.loaded_files import MAX_FILES, LoadedFiles
from cdclake.control.plan.plan_table import plan_table
from cdclake.control.plan.raw_scan import RECONCILED_EVERY, run_begin
from cdclake.errors import ConfigurationError, IntegrityError
from cdclake.model.names import RunState
from cdclake.model.raw.files import ListedObject, RawFiles, raw_files
from cdclake.model.raw.ledger import Entry, Ledger, Recorded, Segment
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import iso_utc
from tests.builders import SCHEMA
from tests.cdclake.control.plan.test_plan_table import CHANGE_1, CHANGE_2, NOW, PREFIX, T0, planned, table

LOAD = "LOAD00000001.parquet"
LOADED = {"LastFullLoadDate": "2024-03-05 10:00:00"}
FUTURE = "20990305-100000000.parquet"


def listed(*names: str, etag: str = "a", written: datetime = T0, ignore: tuple[str, ...] = ()) -> RawFiles:
    return raw_files([ListedObject(PREFIX + name, 10, written, etag) for name in names], PREFIX, ignore)


@pytest.mark.parametrize(
    ("item", "kind", "reason"),
    [
        ({}, DecisionKind.NOTHING_NEW, "every raw file is accounted for"),
        ({"LastCatalogError": "denied"}, DecisionKind.RESCAN, "the catalog could not be updated: denied"),
        ({"LastRunState": RunState.FAILED}, DecisionKind.RESCAN, "the last run failed"),
        (
            {"LeaseHolder": "run-1", "LeaseExpiresUtc": iso_utc(NOW - timedelta(minutes=1))},
            DecisionKind.RESCAN,
            "run run-1 did not release its lease, which expired at 2024-03-05 10:59:00 UTC",
        ),
        (
            {"LeaseHolder": "run-1", "LeaseExpiresUtc": iso_utc(NOW + timedelta(days=1))},
            DecisionKind.RESCAN,
            "run run-1 did not release its lease, which counts as expired: ",
        ),
        (
            {"LastChangeId": "2", "LastRetiredSinceUtc": iso_utc(NOW - timedelta(days=60))},
            DecisionKind.CLEAN_UP,
            "states are no longer to be kept (RetentionDays: 30, KeepEveryState: ",
        ),
    ],
)
def test_a_table_without_due_files_gets_a_run_for_what_is_left_to_do(
    item: dict[str, str], kind: DecisionKind, reason: str
) -> None:
    decision = planned(table(**LOADED, **item), **{LOAD: 0})
    assert decision.kind is kind
    assert decision.reason.startswith(reason)


def test_a_table_that_a_rollback_turned_off_names_both_ways_out() -> None:
    decision = planned(table(ActiveFlag="false", LastOffByRollback="true"), **{LOAD: 0})
    assert decision.to_do == (
        "a rollback turned it off: check it, then turn it on (cdclake tables activate shop.orders), or leave it off"
        " (cdclake tables pause shop.orders)"
    )


def test_an_applied_file_that_is_stamped_in_the_future_stops_the_table() -> None:
    state = table(**LOADED, LastIncrementalFile=f"raw/{PREFIX}{FUTURE}")
    with pytest.raises(IntegrityError, match=f"stamped in the future: {FUTURE}") as error:
        planned(state, **{LOAD: 0})
    assert "cdclake rollback shop.orders --to" in (error.value.remedy or "")


@pytest.mark.parametrize("with_lake", [False, True])
def test_a_watermark_that_was_set_by_hand_is_refused_with_the_one_to_set_back(with_lake: bool) -> None:
    recorded = json.dumps({Attribute.LAST_INCREMENTAL_FILE: f"raw/{PREFIX}{CHANGE_2}"})
    state = table(**LOADED, LastIncrementalFile=f"raw/{PREFIX}{CHANGE_1}", LastRecorded=recorded)
    lake = Snapshot(2, SCHEMA, watermark=CHANGE_2, full_load_utc=LOADED["LastFullLoadDate"]) if with_lake else None
    with pytest.raises(ConfigurationError, match=f"contains the changes up to raw/{PREFIX}{CHANGE_2}"):
        planned(state, lake, **{LOAD: 0})


@pytest.mark.parametrize(("hours", "found"), [(1, False), (25, True)])
def test_a_table_that_never_read_a_transaction_is_told_so_a_day_after_its_full_load(hours: int, found: bool) -> None:
    state = table(**LOADED, CdcPath="cdc")
    files = listed(LOAD)._replace(no_transactions=True)
    decision = plan_table(state, files, T0 + timedelta(hours=hours))
    assert any("holds no transaction file" in one for one in decision.findings) is found


def test_load_files_of_two_formats_are_of_two_full_loads() -> None:
    decision = planned(table(FullLoadQuietMinutes="0"), **{LOAD: 0, LOAD.replace("parquet", "csv"): 1})
    assert decision.kind is DecisionKind.WAITING
    assert decision.reason.startswith("LOAD files of two full loads are mixed: ")


def test_vanished_files_are_made_up_for_by_a_reload_of_the_same_rows() -> None:
    """Otherwise files with the same content count as copies of those that were loaded."""
    files = listed(LOAD, written=T0 + timedelta(minutes=5))
    known = {"LastFullLoadFiles": str(LoadedFiles.of_files(files.full_load)), "FullLoadQuietMinutes": "0"}
    pending = planned(table(**LOADED), **{LOAD: 0, CHANGE_1: 1}).note
    lake = Snapshot(1, SCHEMA, full_load_utc=LOADED["LastFullLoadDate"])
    state = table(**LOADED, **known)
    assert plan_table(state, files, NOW, lake).kind is DecisionKind.NOTHING_NEW
    assert plan_table(state.with_attributes(LastPending=pending), files, NOW, lake).kind is DecisionKind.FULL_LOAD


def test_more_load_files_than_an_item_has_room_for_are_not_noted() -> None:
    hashes = {number.to_bytes(6, "big"): b"same" for number in range(MAX_FILES + 1)}
    assert str(LoadedFiles(hashes)) == ""
    hashes.popitem()
    assert len(str(LoadedFiles(hashes))) > MAX_FILES


def test_an_ignored_file_that_is_in_the_lake_stays_there_and_a_late_one_is_named() -> None:
    names = (LOAD, "LOAD00000002.parquet", CHANGE_1, CHANGE_2, "20240101-000000000.parquet")
    entries = {CHANGE_1: Entry("10-a", 3)}
    watermark = "20240305-100009000.parquet"
    lake = Snapshot(3, SCHEMA, watermark=watermark, ledger=Ledger({LOAD: "10-a"}, 1, entries))
    state, recorded = table(LateWindowHours="24"), Recorded(frozenset(entries))
    ignored = {
        one.file: (one.fate, one.change)
        for one in fates(state, listed(*names, ignore=("*2024*", "LOAD*")), lake, entries, recorded)
    }
    assert ignored == {
        LOAD: (Fate.LOADED, 1),
        "LOAD00000002.parquet": (Fate.IGNORED, None),
        CHANGE_1: (Fate.APPLIED, 3),
        CHANGE_2: (Fate.IGNORED, None),
        "20240101-000000000.parquet": (Fate.IGNORED, None),
    }
    (late,) = (one for one in fates(state, listed(*names), lake, entries, recorded) if one.fate is Fate.LATE)
    assert late.reason == f"came after {watermark}, and is more than 24 hours older"


def test_a_run_lists_only_the_newest_files_if_the_ledger_covers_the_others_and_all_were_listed_that_day() -> None:
    ledger = Ledger(segments=(Segment("key", "20240304", "20240305-100000000", 9, ""),), covers_floor=True)
    lake = Snapshot(3, SCHEMA, watermark=CHANGE_1, ledger=ledger)
    state = table(LateWindowHours="1", LastSeen=json.dumps({"all_listed_utc": iso_utc(NOW)}))
    assert run_begin(state, lake, NOW).startswith("20240305-0900")
    assert run_begin(state, lake, NOW + RECONCILED_EVERY) == ""
    assert run_begin(state, replace(lake, ledger=Ledger()), NOW) == ""
    assert run_begin(table(), lake, NOW) == ""


def test_a_full_load_cannot_contain_changes_that_were_written_after_it() -> None:
    recorded = json.dumps({Attribute.LAST_INCREMENTAL_FILE: f"raw/{PREFIX}{CHANGE_1}"})
    state = table(LastFullLoadDate="2024-03-01 00:00:00", LastIncrementalFile=f"raw/{PREFIX}{CHANGE_2}")
    state = state.with_attributes(LastRecorded=recorded)
    with pytest.raises(ConfigurationError, match=f"up to {CHANGE_2}, but files up to there were written after it"):
        planned(state, **{LOAD: 0, CHANGE_1: -10, CHANGE_2: 5})
    assert planned(state, **{LOAD: 9, CHANGE_1: -10, CHANGE_2: 5}).load_begin == CHANGE_2
