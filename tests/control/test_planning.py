from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from cdclake.control.planning import Decision, DecisionKind, plan_table
from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute
from cdclake.model.rawfiles import ListedObject, raw_files
from cdclake.model.table import TableState

T0 = datetime(2024, 3, 5, 10, 0, 0, tzinfo=timezone.utc)
PREFIX = "dms/shop/orders/"
CHANGE_1, CHANGE_2, CHANGE_3 = (f"20240305-10000{n}000.parquet" for n in (1, 2, 3))


def table(**attributes: str) -> TableState:
    state = TableState.new("raw", "dms/shop/", "orders/")
    return state.with_attributes(**{Attribute.ACTIVE_FLAG: "true", **attributes})


def planned(state: TableState, **written: float) -> Decision:
    """Plan with files written so many seconds after T0."""
    listing = [ListedObject(PREFIX + name, 10, T0 + timedelta(seconds=at)) for name, at in written.items()]
    return plan_table(state, *raw_files(listing, PREFIX))


def test_a_new_table_with_load_files_and_change_files_gets_both_in_that_order():
    decision = planned(table(), **{"LOAD00000001.parquet": 0, "LOAD00000002.parquet": 5, CHANGE_1: 1, CHANGE_2: 2})
    assert decision.kind is DecisionKind.BOTH
    assert decision.full_load_utc == T0 + timedelta(seconds=5)
    assert (decision.watermark, decision.new_watermark) == ("", CHANGE_2)
    assert (decision.files, decision.bytes) == (4, 40)


def test_change_files_older_than_the_load_files_count_on_the_first_load():
    decision = planned(table(), **{"LOAD00000001.parquet": 60, CHANGE_1: 0})
    assert decision.kind is DecisionKind.BOTH


def test_change_files_older_than_the_load_files_are_no_work_of_their_own_on_a_reload():
    state = table(LastFullLoadDate="2024-03-01 00:00:00")
    decision = planned(state, **{"LOAD00000001.parquet": 60, "LOAD00000002.parquet": 90, CHANGE_1: 0, CHANGE_2: 59})
    assert decision.kind is DecisionKind.FULL_LOAD
    assert decision.new_watermark == decision.watermark == ""


def test_change_files_written_after_the_oldest_load_file_count_on_a_reload():
    state = table(LastFullLoadDate="2024-03-01 00:00:00")
    decision = planned(state, **{"LOAD00000001.parquet": 60, "LOAD00000002.parquet": 90, CHANGE_1: 0, CHANGE_2: 70})
    assert decision.kind is DecisionKind.BOTH
    assert decision.new_watermark == CHANGE_2
    assert decision.files == 3


@pytest.mark.parametrize(("seconds", "kind"), [(0.9, DecisionKind.NOTHING_NEW), (1, DecisionKind.FULL_LOAD)])
def test_the_last_full_load_is_compared_to_the_second(seconds: float, kind: DecisionKind):
    assert planned(table(LastFullLoadDate="2024-03-05 10:00:00"), **{"LOAD00000001.csv": seconds}).kind is kind


def test_a_load_file_that_comes_late_brings_all_of_them_again():
    state = table(LastFullLoadDate="2024-03-05 10:00:00")
    decision = planned(state, **{"LOAD00000001.csv": 0, "LOAD00000002.csv": 300})
    assert decision.kind is DecisionKind.FULL_LOAD
    assert decision.files == 2


def test_only_change_files_after_the_watermark_count():
    state = table(LastFullLoadDate="2024-03-05 10:00:00", LastIncrementalFile=f"raw/{PREFIX}{CHANGE_2}")
    files = {"LOAD00000001.parquet": 0, CHANGE_1: 1, CHANGE_2: 2}
    assert planned(state, **files).kind is DecisionKind.NOTHING_NEW
    decision = planned(state, **files, **{CHANGE_3: 3})
    assert decision.kind is DecisionKind.INCREMENTAL
    assert (decision.watermark, decision.new_watermark, decision.files) == (CHANGE_2, CHANGE_3, 1)


def test_date_folders_of_any_pattern_do_not_disturb_the_order():
    state = table(LastFullLoadDate="2024-03-05 10:00:00", LastIncrementalFile=f"raw/{PREFIX}05032024/{CHANGE_1}")
    decision = planned(state, **{f"05032024/{CHANGE_1}": 1, f"04032024/{CHANGE_3}": 3, f"06032024/{CHANGE_2}": 2})
    assert decision.new_watermark == f"04032024/{CHANGE_3}"
    assert decision.files == 2


def test_an_inactive_table_is_not_looked_at():
    decision = planned(table(ActiveFlag="false"), **{"LOAD00000001.parquet": 0})
    assert decision.kind is DecisionKind.INACTIVE
    assert not decision.work


@pytest.mark.parametrize("sentinel", [f"raw/{PREFIX}0.parquet", "null", ""])
def test_the_sentinels_of_the_watermark_mean_nothing_applied_yet(sentinel: str):
    assert planned(table(LastIncrementalFile=sentinel), **{CHANGE_1: 1}).kind is DecisionKind.INCREMENTAL


def test_absent_attributes_count_as_their_sentinels():
    state = TableState({"path": f"raw/{PREFIX}", "ActiveFlag": "TRUE"})
    assert planned(state, **{"LOAD00000001.parquet": 0, CHANGE_1: 1}).kind is DecisionKind.BOTH


@pytest.mark.parametrize(
    ("attribute", "value"), [("LastFullLoadDate", "yesterday"), ("LastIncrementalFile", "other/place.parquet")]
)
def test_an_attribute_that_does_not_parse_is_named_with_a_remedy(attribute: str, value: str):
    with pytest.raises(ConfigurationError, match=attribute) as caught:
        planned(table(**{attribute: value}), **{"LOAD00000001.csv": 0, CHANGE_1: 1})
    assert caught.value.remedy


def test_reasons_name_what_was_found():
    assert planned(table()).reason == "there are no raw files"
    assert "1 LOAD file " in planned(table(), **{"LOAD00000001.csv": 0}).reason
    assert "2 change files" in planned(table(), **{CHANGE_1: 0, CHANGE_2: 0}).reason


def test_a_decision_is_good_for_json():
    decision = planned(table(), **{"LOAD00000001.csv": 0.5, CHANGE_1: 2})
    assert decision.to_json() == {
        "kind": "full load and incremental",
        "reason": decision.reason,
        "watermark": "",
        "new_watermark": CHANGE_1,
        "full_load_utc": "2024-03-05 10:00:00",
        "files": 2,
        "bytes": 20,
    }
