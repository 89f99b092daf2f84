from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.plan_table import plan_table
from cdclake.errors import ConfigurationError
from cdclake.model.due_files import mark_applied
from cdclake.model.raw.files import ListedObject, raw_files
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.builders import SCHEMA, recorded
from tests.cdclake.control.world import seen

T0 = datetime(2024, 3, 5, 10, 0, 0, tzinfo=timezone.utc)
NOW = T0 + timedelta(hours=1)
PREFIX = "dms/shop/orders/"
CHANGE_1, CHANGE_2, CHANGE_3 = (f"20240305-10000{n}000.parquet" for n in (1, 2, 3))


def table(**attributes: str) -> TableState:
    state = TableState.new("raw", "dms/shop/", "orders/")
    return state.with_attributes(**{Attribute.ACTIVE_FLAG: "true", **attributes})


def planned(state: TableState, lake: Snapshot | None = None, /, **written: float) -> Decision:
    """Plan with files written the given number of seconds after T0."""
    listing = [ListedObject(PREFIX + name, 10, T0 + timedelta(seconds=at)) for name, at in written.items()]
    files = raw_files(listing, PREFIX)
    return plan_table(state, files, NOW, lake, recorded=recorded(lake or Snapshot(), files.changes))


def test_a_new_table_with_load_files_and_change_files_gets_a_full_load_then_an_incremental():
    decision = planned(table(), **{"LOAD00000001.parquet": 0, "LOAD00000002.parquet": 5, CHANGE_1: 1, CHANGE_2: 2})
    assert decision.kind is DecisionKind.BOTH
    assert decision.full_load_utc == T0 + timedelta(seconds=5)
    assert (decision.watermark, decision.new_watermark) == ("", CHANGE_2)
    assert (decision.files, decision.bytes) == (4, 40)


def test_the_first_load_covers_no_change_files():
    assert planned(table(), **{"LOAD00000001.parquet": 60, CHANGE_1: 0}).kind is DecisionKind.BOTH


def test_a_reload_covers_change_files_older_than_its_load_files():
    state = table(LastFullLoadDate="2024-03-01 00:00:00")
    decision = planned(state, **{"LOAD00000001.parquet": 60, "LOAD00000002.parquet": 90, CHANGE_1: 0, CHANGE_2: 59})
    assert decision.kind is DecisionKind.FULL_LOAD
    assert decision.new_watermark == decision.watermark == ""


def test_a_reload_does_not_cover_change_files_written_after_its_oldest_load_file():
    state = table(LastFullLoadDate="2024-03-01 00:00:00")
    decision = planned(state, **{"LOAD00000001.parquet": 60, "LOAD00000002.parquet": 90, CHANGE_1: 0, CHANGE_2: 70})
    assert decision.kind is DecisionKind.BOTH
    assert decision.new_watermark == CHANGE_2
    assert decision.files == 3


@pytest.mark.parametrize(("seconds", "kind"), [(0.9, DecisionKind.NOTHING_NEW), (1, DecisionKind.FULL_LOAD)])
def test_the_last_full_load_is_compared_by_the_second(seconds: float, kind: DecisionKind):
    assert planned(table(LastFullLoadDate="2024-03-05 10:00:00"), **{"LOAD00000001.csv": seconds}).kind is kind


def test_a_late_load_file_makes_all_load_files_due_again():
    state = table(LastFullLoadDate="2024-03-05 10:00:00")
    decision = planned(state, **{"LOAD00000001.csv": 0, "LOAD00000002.csv": 300})
    assert decision.kind is DecisionKind.FULL_LOAD
    assert decision.files == 2


def test_only_change_files_after_the_watermark_count():
    state = table(
        LastFullLoadDate="2024-03-05 10:00:00",
        LastIncrementalFile=f"raw/{PREFIX}{CHANGE_2}",
        LastSeen=seen("2024-03-05T10:00:03Z"),
    )
    files = {"LOAD00000001.parquet": 0, CHANGE_1: 1, CHANGE_2: 2}
    assert planned(state, **files).kind is DecisionKind.NOTHING_NEW
    decision = planned(state, **files, **{CHANGE_3: 3})
    assert decision.kind is DecisionKind.INCREMENTAL
    assert (decision.watermark, decision.new_watermark, decision.files) == (CHANGE_2, CHANGE_3, 1)


def test_date_folders_of_any_pattern_do_not_affect_the_order():
    state = table(LastFullLoadDate="2024-03-05 10:00:00", LastIncrementalFile=f"raw/{PREFIX}05032024/{CHANGE_1}")
    decision = planned(state, **{f"05032024/{CHANGE_1}": 1, f"04032024/{CHANGE_3}": 3, f"06032024/{CHANGE_2}": 2})
    assert decision.new_watermark == f"04032024/{CHANGE_3}"
    assert decision.files == 2


def test_an_inactive_table_has_no_work():
    decision = planned(table(ActiveFlag="false"), **{"LOAD00000001.parquet": 0})
    assert decision.kind is DecisionKind.INACTIVE
    assert not decision.work


@pytest.mark.parametrize("sentinel", [f"raw/{PREFIX}0.parquet", "null", ""])
def test_the_sentinels_of_the_watermark_mean_that_nothing_was_applied(sentinel: str):
    assert planned(table(LastIncrementalFile=sentinel), **{CHANGE_1: 1}).kind is DecisionKind.INCREMENTAL


def test_absent_attributes_count_as_their_sentinels():
    state = TableState({"path": f"raw/{PREFIX}", "ActiveFlag": "TRUE"})
    assert planned(state, **{"LOAD00000001.parquet": 0, CHANGE_1: 1}).kind is DecisionKind.BOTH


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("LastFullLoadDate", "yesterday"),
        ("LastIncrementalFile", "other/place.parquet"),
        ("LastIncrementalFile", "raw/shop/orders/20240305-096500000.parquet"),
    ],
)
def test_an_invalid_attribute_is_named_with_a_remedy(attribute: str, value: str):
    with pytest.raises(ConfigurationError, match=attribute) as caught:
        planned(table(**{attribute: value}), **{"LOAD00000001.csv": 0, CHANGE_1: 1})
    assert caught.value.remedy


def test_reasons_name_the_files():
    assert planned(table()).reason == "there are no raw files"
    assert "1 LOAD file " in planned(table(), **{"LOAD00000001.csv": 0}).reason
    assert "2 change files" in planned(table(), **{CHANGE_1: 0, CHANGE_2: 0}).reason


def test_a_decision_can_be_written_as_json():
    decision = planned(table(), **{"LOAD00000001.csv": 0.5, CHANGE_1: 2})
    assert decision.to_json() == {
        "kind": "full load and incremental",
        "reason": decision.reason,
        "to_do": "",
        "watermark": "",
        "new_watermark": CHANGE_1,
        "full_load_utc": "2024-03-05 10:00:00",
        "files": 2,
        "bytes": 20,
        "oldest_utc": "2024-03-05T10:00:00Z",
        "left": 0,
        "too_late": 0,
        "findings": [],
    }


LISTED = {"LastSeen": seen("2024-03-05T10:00:30Z")}
NOTHING_TO_DELETE = {"LastRetiredSinceUtc": "", "LastRepeatedSinceUtc": ""}
AFTER_2 = {"LastIncrementalFile": f"raw/{PREFIX}{CHANGE_2}", "LastChangeId": "1", **NOTHING_TO_DELETE}


@pytest.mark.parametrize(("seconds", "kind"), [(29, DecisionKind.NOTHING_NEW), (30, DecisionKind.RESCAN)])
def test_without_the_lake_a_new_file_before_the_watermark_needs_a_look(seconds: float, kind: DecisionKind):
    decision = planned(table(**AFTER_2, **LISTED), **{CHANGE_1: seconds, CHANGE_2: 1})
    assert decision.kind is kind
    assert decision.work is (kind is DecisionKind.RESCAN)
    assert not decision.incremental
    assert (decision.files, decision.new_watermark) == (0, CHANGE_2)


def test_without_the_lake_and_a_last_listing_every_file_of_the_window_needs_a_look():
    assert planned(table(**AFTER_2), **{CHANGE_1: 0}).kind is DecisionKind.RESCAN


@pytest.mark.parametrize("hours", ["72", "240"])
def test_a_new_file_before_the_window_needs_a_look_too_so_that_it_is_reported(hours: str):
    decision = planned(table(LateWindowHours=hours, **AFTER_2, **LISTED), **{"20240301-000000000.csv": 40})
    assert decision.kind is DecisionKind.RESCAN


@pytest.mark.parametrize(("seconds", "kind"), [(30, DecisionKind.NOTHING_NEW), (31, DecisionKind.RESCAN)])
def test_the_last_applied_file_needs_a_look_once_it_is_written_again(seconds: float, kind: DecisionKind):
    assert planned(table(**AFTER_2, **LISTED), **{CHANGE_2: seconds}).kind is kind


def test_certain_work_takes_precedence_over_a_look():
    decision = planned(table(**AFTER_2, **LISTED), **{CHANGE_1: 40, CHANGE_3: 41})
    assert decision.kind is DecisionKind.INCREMENTAL
    assert "late" not in decision.reason
    assert decision.files == 1


def lake(*applied: str, **fields: object) -> Snapshot:
    listing = [ListedObject(PREFIX + name, 10, T0) for name in applied]
    snapshot = Snapshot(change=1, schema=SCHEMA, **fields)  # type: ignore[arg-type]  # any field of a snapshot
    return mark_applied(snapshot, raw_files(listing, PREFIX).changes, 72)


def test_the_lake_distinguishes_a_late_file_from_one_delivered_again():
    state = table(**AFTER_2, **LISTED)
    again = planned(state, lake(CHANGE_1, CHANGE_2), **{CHANGE_1: 40, CHANGE_2: 41})
    assert again.kind is DecisionKind.NOTHING_NEW
    late = planned(state, lake(CHANGE_2), **{CHANGE_1: 2, CHANGE_2: 2})
    assert late.kind is DecisionKind.INCREMENTAL
    assert late.reason == f"1 change file arrived late: {CHANGE_1}"
    assert (late.watermark, late.new_watermark, late.files, late.bytes) == (CHANGE_2, CHANGE_2, 1, 10)


def test_late_files_and_new_files_are_applied_together():
    decision = planned(table(**AFTER_2), lake(CHANGE_2), **{CHANGE_1: 0, CHANGE_2: 0, CHANGE_3: 0})
    assert (decision.new_watermark, decision.files) == (CHANGE_3, 2)
    assert decision.reason == f"1 change file after {CHANGE_2}; 1 change file arrived late: {CHANGE_1}"


def test_the_lakes_watermark_counts_and_not_the_items():
    decision = planned(table(), lake(CHANGE_1, CHANGE_2), **{CHANGE_1: 0, CHANGE_2: 0})
    assert decision.kind is DecisionKind.NOTHING_NEW


def test_before_the_first_change_the_item_determines_where_the_changes_begin():
    decision = planned(table(**AFTER_2), Snapshot(), **{CHANGE_1: 40, CHANGE_3: 40})
    assert (decision.watermark, decision.new_watermark, decision.files) == (CHANGE_2, CHANGE_3, 1)


def test_a_file_that_the_full_load_covers_is_not_late():
    decision = planned(table(), lake(CHANGE_3, floor=CHANGE_2), **{CHANGE_1: 40, CHANGE_3: 0})
    assert decision.kind is DecisionKind.NOTHING_NEW


def test_a_reload_applies_the_changes_written_since_it_began_again():
    decision = planned(
        table(), lake(CHANGE_1, CHANGE_2, CHANGE_3), **{"LOAD00000001.csv": 50, CHANGE_1: 1, CHANGE_2: 50, CHANGE_3: 60}
    )
    assert decision.kind is DecisionKind.BOTH
    assert (decision.files, decision.new_watermark) == (3, CHANGE_3)
    assert f"2 change files after {CHANGE_1}" in decision.reason


def test_files_that_arrive_too_late_are_counted_and_named_but_not_applied():
    old = [f"202403010000{n:02d}000.csv".replace("0301", "0301-") for n in range(4)]
    decision = planned(table(**AFTER_2, **LISTED), lake(CHANGE_2), **dict.fromkeys(old, 40), **{CHANGE_2: 0})
    assert not decision.work
    assert decision.too_late == 4
    (finding,) = decision.findings
    assert finding.startswith(f"4 change files ({', '.join(old[:3])}, ...) too late, so not applied. Reload")


LEASED = {"LeaseHolder": "run-7", "LeaseExpiresUtc": "2024-03-05T11:00:01Z"}


def test_a_leased_table_with_work_is_busy_and_names_the_run():
    decision = planned(table(**LEASED), **{CHANGE_1: 1})
    assert decision.kind is DecisionKind.BUSY
    assert decision.reason == "leased by run-7 until 2024-03-05 11:00:01 UTC; 1 change file after the full load"
    assert not decision.work
    assert (decision.files, decision.oldest_utc) == (1, T0 + timedelta(seconds=1))


def test_an_expired_lease_or_the_lease_of_a_table_without_work_does_not_make_it_busy():
    for expired in ("2024-03-05T11:00:00Z", "2024-03-05T11:00:00"):  # an operator may have written it without a zone
        over = {**LEASED, "LeaseExpiresUtc": expired}
        assert planned(table(**over), **{CHANGE_1: 1}).kind is DecisionKind.INCREMENTAL
    assert planned(table(**LEASED)).kind is DecisionKind.NOTHING_NEW


def test_the_holder_of_the_lease_finds_its_table_not_busy():
    assert planned(table(**LEASED), lake(CHANGE_1), **{CHANGE_2: 1}).kind is DecisionKind.INCREMENTAL


def test_the_action_needed_for_an_inactive_table_depends_on_its_key():
    without = planned(table(ActiveFlag="false")).to_do
    assert without == (
        "set its key (cdclake tables set shop.orders --primary-key ...), "
        "then turn it on (cdclake tables activate shop.orders)"
    )
    assert planned(table(ActiveFlag="false", PrimaryKey="id")).to_do == (
        "turn it on (cdclake tables activate shop.orders)"
    )
    assert planned(table(), **{CHANGE_1: 1}).to_do == ""


def test_a_waiting_table_reports_its_lag():
    decision = planned(table(FullLoadQuietMinutes="600"), **{"LOAD00000001.csv": 5, "LOAD00000002.csv": 9})
    assert decision.kind is DecisionKind.WAITING
    assert (decision.left, decision.oldest_utc) == (2, T0 + timedelta(seconds=5))


def test_a_key_changed_by_hand_is_refused_before_a_run_unless_the_table_is_loaded_again():
    keys = {"LastKeys": '["id", "", ""]', "LastFullLoadDate": "2024-03-05 10:00:00"}
    changed = table(PrimaryKey="id", PartitionKey="day", LastChangeId="1", **keys)
    with pytest.raises(ConfigurationError, match=r"created with PartitionKey ''.*or reload the table"):
        planned(changed, **{CHANGE_1: 1})
    assert planned(table(PrimaryKey="id", LastChangeId="1", **keys), **{CHANGE_1: 1}).incremental
    assert planned(changed.with_attributes(LastFullLoadDate="1900-01-01 00:00:00"), **{"LOAD00000001.csv": 1}).full_load


def test_a_type_changed_by_hand_is_refused_before_a_run_unless_the_table_is_loaded_again():
    lake = Snapshot(change=1, schema=SCHEMA, primary_key=("id",))
    state = table(PrimaryKey="id", Schema="id string", LastChangeId="1", LastFullLoadDate="2024-03-05 10:00:00")
    with pytest.raises(ConfigurationError, match="declares id as string, and in the lake table it is bigint"):
        planned(state, lake, **{CHANGE_1: 1})
    again = state.with_attributes(LastFullLoadDate="1900-01-01 00:00:00")
    assert planned(again, lake, **{"LOAD00000001.csv": 1, CHANGE_1: 1}).full_load
