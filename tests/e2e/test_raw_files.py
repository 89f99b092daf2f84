"""Raw files of all names and fates: each is applied once, or reported with a remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cdclake.control.admin.change_settings import change_settings
from cdclake.control.plan.planned_table import Action
from cdclake.control.status import Health
from cdclake.errors import ConfigurationError
from tests.e2e.orders import PATH, Orders, after, change_name

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def test_change_files_in_date_folders_without_leading_zeros_are_applied_by_time_among_dms_files(orders: Orders):
    orders.put("2024/3/5/20240305_101500.csv", "U,1,second\n")
    orders.put("20240305-101400000.csv", "U,1,first\nI,3,three\n")
    orders.put("2024/3/5/20240305_101600.csv", "D,3,three\n")
    orders.run()
    assert orders.rows() == {1: "second", 2: "two"}
    assert orders.attribute("LastIncrementalFile").endswith("orders/2024/3/5/20240305_101600.csv")
    orders.put("2024/3/10/20240310_090000.csv", "U,2,newest\n", after(days=5))
    orders.run()
    assert orders.rows() == {1: "second", 2: "newest"}


FUTURE = "20340305-101500000.csv"


def test_a_change_file_stamped_in_the_future_stops_its_table_and_costs_no_later_file(orders: Orders):
    orders.run()
    orders.put(FUTURE, "I,9,future\n")
    orders.put(change_name(after(minutes=70)), "U,1,real\n")
    status = orders.run()
    assert status.health is Health.BROKEN
    assert FUTURE in status.to_do
    assert "Rename it" in status.to_do
    assert orders.rows() == {1: "one", 2: "two"}
    orders.remove(FUTURE)
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real", 2: "two"}


def test_a_row_that_turns_out_bad_late_counts_once_among_all_rows(orders: Orders):
    orders.put("LOAD00000001.csv", "1,one\n2,two\n2,zwei\nx,three\n")
    orders.set(MaxQuarantinedRows="1")
    assert "the first of 2 bad rows of 4;" in orders.run().error


@pytest.mark.parametrize("ignored", [True, False])
def test_a_table_recovers_when_the_file_that_stopped_it_is_gone_and_nothing_is_due(orders: Orders, ignored: bool):
    orders.run()
    empty = change_name(after(minutes=70))
    orders.put(empty, "")
    status = orders.run()
    assert status.health is Health.FAILED
    assert "IgnoreFiles" in status.to_do
    if ignored:
        orders.set(IgnoreFiles=empty)
    else:
        orders.put(empty, "U,1,real\n", after(minutes=71))
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "one" if ignored else "real", 2: "two"}
    assert orders.plan().action is not Action.START


def test_a_reload_does_not_cover_a_change_file_stamped_in_the_future(orders: Orders):
    orders.run()
    orders.put(FUTURE, "I,9,future\n")
    orders.clock.advance(60)
    orders.put("LOAD00000001.csv", "1,reloaded\n")
    assert orders.run().health is Health.BROKEN
    orders.remove(FUTURE)
    orders.put(change_name(after(minutes=130)), "U,1,real\n")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real"}


@pytest.mark.parametrize("hours", [14, 24])
def test_a_change_file_may_be_named_in_a_time_zone_ahead_of_utc(orders: Orders, hours: int):
    orders.put(change_name(after(hours=hours)), "U,1,local time\n")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "local time", 2: "two"}


def test_a_lake_that_applied_a_file_stamped_in_the_future_stops_until_that_change_is_undone(orders: Orders):
    orders.put(FUTURE, "I,9,future\n", after(days=3652))
    orders.run()
    assert orders.rows() == {1: "one", 2: "two", 9: "future"}
    orders.put(change_name(after(minutes=70)), "U,1,real\n")
    status = orders.run()
    assert status.health is Health.BROKEN
    assert "cdclake rollback shop.orders" in status.to_do
    orders.remove(FUTURE)
    orders.rollback(to=1)
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real", 2: "two"}


def test_a_lake_that_applied_a_file_stamped_in_the_future_can_be_loaded_again(orders: Orders):
    orders.put(FUTURE, "I,9,future\n", after(days=3652))
    orders.run()
    orders.remove(FUTURE)
    orders.put(change_name(after(minutes=70)), "U,1,real\n")
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    accepted = re.search(r"set 'AcceptLostChanges=(\d+)'", orders.run().to_do)
    assert accepted
    orders.set(AcceptLostChanges=accepted[1])
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real", 2: "two"}


def test_a_data_file_with_another_name_is_a_finding_until_the_operator_accepts_it(orders: Orders):
    orders.run()
    for marker in ("_SUCCESS", "_temporary/0/part-0.csv", "2024_$folder$", "2024/.part-0.csv.crc"):
        orders.put(marker, "x")
    orders.put("empty", "")
    assert orders.run().findings == ()
    orders.put("2024/3/5/part-00000.snappy.parquet", "rows")
    orders.put("20240305-1015.csv", "U,1,unread\n")
    for _ in range(2):
        (finding,) = orders.run().findings
        assert "2 files (2024/3/5/part-00000.snappy.parquet, 20240305-1015.csv) not read" in finding
        assert "cdclake tables set shop.orders --set 'IgnoreFiles=" in finding
        assert orders.plan().action is Action.NONE
    orders.set(IgnoreFiles="*.snappy.parquet, 2024????-1015.csv")
    assert orders.run().findings == ()
    assert orders.attribute("LastLeftOut") == ""


def test_a_due_file_that_the_operator_leaves_out_is_neither_applied_nor_missed(orders: Orders):
    orders.run()
    broken, good = change_name(after(minutes=70)), change_name(after(minutes=80))
    orders.put(broken, '"unclosed')
    assert orders.run().health is Health.FAILED
    orders.put(good, "U,1,good\n")
    orders.set(IgnoreFiles=broken)
    status = orders.run()
    assert (status.health, status.findings) == (Health.UP_TO_DATE, ())
    assert "1 raw file left out by IgnoreFiles" in status.reason
    assert orders.rows() == {1: "good", 2: "two"}


def test_a_file_that_comes_too_late_is_a_finding_until_it_is_accepted_or_a_reload_contains_it(orders: Orders):
    newest, old = change_name(after(days=4)), change_name(after(hours=1))
    orders.clock.advance(4 * 86_400)
    orders.put(newest, "U,1,newest\n")
    orders.run()
    orders.put(old, "U,2,too late\n")
    for _ in range(3):
        (finding,) = orders.run().findings
        assert f"1 change file ({old}) too late, so not applied" in finding
    orders.put(change_name(orders.clock()), "I,3,three\n")
    assert len(orders.run().findings) == 1
    orders.set(IgnoreFiles=old)
    assert orders.run().findings == ()
    orders.set(IgnoreFiles="null")
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    assert orders.run().findings == ()
    assert orders.rows() == {1: "newest", 2: "too late", 3: "three"}


def test_a_file_that_appears_in_the_time_of_a_reload_is_a_finding(orders: Orders):
    missed = change_name(after(minutes=10))
    orders.put(change_name(after(minutes=20)), "U,1,changed\n")
    orders.run()
    orders.put("LOAD00000001.csv", "1,reloaded\n2,two\n")
    assert orders.run().findings == ()
    orders.put(missed, "U,1,missed\nI,3,three\n")
    for _ in range(2):
        (finding,) = orders.run().findings
        assert f"1 change file ({missed}) too late, so not applied" in finding
    assert orders.rows() == {1: "reloaded", 2: "two"}
    orders.by_hand().acknowledge()
    assert orders.run().findings == ()


def test_a_reload_of_copied_files_applies_the_changes_since_the_load_again(orders: Orders):
    name = change_name(after(minutes=10))
    orders.put(name, "U,1,changed\n")
    orders.run()
    orders.clock.advance(3600)
    for copied in (name, "LOAD00000001.csv"):  # in the order of their keys, as a copy of a bucket
        orders.touch(copied)
        orders.clock.advance(5)
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    assert orders.run().findings == ()
    assert orders.rows() == {1: "changed", 2: "two"}
    orders.remove(name)
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    status = orders.run()
    assert status.health is Health.FAILED
    assert "A reload would take the table back in time" in status.error
    assert orders.rows() == {1: "changed", 2: "two"}


def test_a_change_file_overwritten_after_it_was_applied_is_a_finding_and_not_applied_again(orders: Orders):
    name = change_name(after(minutes=10))
    orders.put(name, "U,1,first\n")
    orders.run()
    orders.put(name, "U,1,other\n")
    for _ in range(2):
        (finding,) = orders.run().findings
        assert f"1 change file ({name}) overwritten since applied" in finding
    assert orders.rows() == {1: "first", 2: "two"}
    orders.put(name, "U,1,first\n")
    assert orders.run().findings == ()


def test_an_overwritten_file_stays_a_finding_after_it_has_left_the_late_window(orders: Orders):
    name = change_name(after(minutes=10))
    orders.put(name, "U,1,first\n")
    orders.run()
    orders.put(name, "U,1,other\n")
    orders.run()
    orders.clock.advance(4 * 86_400)
    newest = change_name(orders.clock())
    orders.put(newest, "I,3,three\n")
    orders.run()
    assert orders.snapshot.horizon > name
    (finding,) = orders.run().findings
    assert "overwritten" in finding


def test_change_files_copied_onto_themselves_are_the_same_files(orders: Orders):
    names = [change_name(after(minutes=minute)) for minute in (10, 20)]
    for name in names:
        orders.put(name, "D,1,one\n")
    orders.run()
    for name in names:
        orders.touch(name, after(hours=2))
    status = orders.run(minutes=120)
    assert (status.health, status.findings) == (Health.UP_TO_DATE, ())
    assert orders.snapshot.change == 2


LOADS = [f"LOAD0000000{number}.csv" for number in range(1, 4)]


@pytest.fixture
def loaded(orders: Orders) -> Orders:
    """Loaded from three files, with one change applied."""
    orders.put(LOADS[1], "3,three\n")
    orders.put(LOADS[2], "4,four\n")
    orders.put(change_name(after(minutes=10)), "U,1,changed\n")
    orders.run()
    assert orders.rows() == {1: "changed", 2: "two", 3: "three", 4: "four"}
    return orders


def test_load_files_copied_onto_themselves_are_not_loaded_again(loaded: Orders):
    for name in LOADS:
        loaded.touch(name)
    status = loaded.run()
    assert (status.health, loaded.snapshot.change) == (Health.UP_TO_DATE, 2)
    assert loaded.plan().action is Action.NONE


def test_a_load_file_that_appears_late_with_an_earlier_time_is_loaded(loaded: Orders):
    loaded.put("LOAD00000004.csv", "5,five\n", after(minutes=-30))
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.rows() == {1: "changed", 2: "two", 3: "three", 4: "four", 5: "five"}


def test_a_late_load_file_is_refused_without_applied_changes_until_an_operator_accepts_that(loaded: Orders):
    loaded.remove(change_name(after(minutes=10)))
    loaded.put("LOAD00000004.csv", "5,five\n", after(seconds=-1))
    assert "change files that were applied since are gone" in loaded.run().error
    states, change = loaded.installation.states, str(loaded.snapshot.change)
    for accepted, refused in ((change + "0", "refused no reload"), ("true", "AcceptLostChanges is 'true'")):
        with pytest.raises(ConfigurationError, match=refused):
            change_settings(states, loaded.installation.state(PATH), {"AcceptLostChanges": accepted})
    change_settings(states, loaded.installation.state(PATH), {"AcceptLostChanges": change})
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.rows() == {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}


def test_a_reload_that_overwrites_the_load_files_one_by_one_waits_until_it_is_complete(loaded: Orders):
    loaded.set(FullLoadQuietMinutes="10")
    for name, content in zip(LOADS, ("1,new\n", "3,new\n", "4,four\n"), strict=True):
        assert loaded.snapshot.full_load_utc == "2024-03-05 10:00:00"
        loaded.put(name, content)
        status = loaded.run(minutes=4)
        assert (status.health, status.needs_action) == (Health.WAITING, False)
    assert loaded.run(minutes=10).health is Health.UP_TO_DATE
    assert loaded.rows() == {1: "new", 3: "new", 4: "four"}


def test_a_reload_of_fewer_files_stops_until_the_older_files_are_gone(loaded: Orders):
    loaded.put(LOADS[0], "1,new\n")
    loaded.put(LOADS[1], "3,new\n")
    status = loaded.run()
    assert (status.health, status.needs_action) == (Health.WAITING, True)
    assert (
        f"mixed: 2 files ({LOADS[0]}, {LOADS[1]}) written again since the last full load, 1 file ({LOADS[2]}) not"
        in (status.reason)
    )
    assert "delete the files of the older full load" in status.to_do
    assert loaded.rows()[4] == "four"
    loaded.remove(LOADS[2])
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.rows() == {1: "new", 3: "new"}


def test_mixed_load_files_are_loaded_as_they_are_if_the_operator_resets_the_date(loaded: Orders):
    loaded.put(LOADS[0], "1,new\n")
    assert loaded.run().health is Health.WAITING
    loaded.set(LastFullLoadDate="1900-01-01 00:00:00")
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.rows() == {1: "changed", 3: "three", 4: "four"}


def test_a_load_file_in_two_formats_belongs_to_two_full_loads(orders: Orders):
    orders.put("LOAD00000001.csv.gz", "")
    status = orders.run()
    assert (status.health, status.needs_action) == (Health.WAITING, True)
    assert "mixed: LOAD00000001.csv and LOAD00000001.csv.gz" in status.reason


def test_files_of_unknown_identity_are_learned_without_loading_them_again(loaded: Orders):
    loaded.forget_identities()
    assert loaded.run().health is Health.UP_TO_DATE
    loaded.put(change_name(after(hours=2)), "U,2,changed\n")
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.snapshot.change == 3
    assert loaded.snapshot.ledger.recent[change_name(after(minutes=10))].identity
    for name in LOADS:
        loaded.touch(name)
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.snapshot.change == 3
    loaded.put(LOADS[0], "1,new\n")
    assert loaded.run().health is Health.UP_TO_DATE
    assert loaded.rows() == {1: "new", 3: "three", 4: "four"}


FIRST, SECOND = change_name(after(minutes=10)), change_name(after(minutes=20))


@pytest.mark.parametrize("watermark", [FIRST, change_name(after(days=1)), "0.parquet"])
def test_a_watermark_set_by_hand_is_refused_for_a_table_that_is_not_loaded_again(orders: Orders, watermark: str):
    orders.put(FIRST, "U,1,first\n")
    orders.put(SECOND, "U,1,second\n")
    orders.run()
    orders.set(LastIncrementalFile=PATH + watermark)
    orders.put(change_name(after(hours=2)), "U,2,later\n", after(hours=2))
    for _ in range(2):
        status = orders.run()
        assert status.health is Health.BROKEN
        assert f"LastIncrementalFile was set to {PATH}{watermark}, but the lake table contains" in status.to_do
        assert f"--set 'LastIncrementalFile={PATH}{SECOND}'" in status.to_do
        assert orders.attribute("LastIncrementalFile") == PATH + watermark
    assert orders.rows() == {1: "second", 2: "two"}
    orders.set(LastIncrementalFile=PATH + SECOND)
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "second", 2: "later"}


def test_a_watermark_set_by_hand_survives_an_operation_on_the_table(orders: Orders):
    orders.put(FIRST, "U,1,first\n")
    orders.put(SECOND, "U,1,second\n")
    orders.run()
    orders.set(LastIncrementalFile=PATH + "0.parquet", LastFullLoadDate="2024-03-05 10:30:00")
    orders.rollback(to=1)
    assert orders.attribute("LastIncrementalFile") == PATH + "0.parquet"
    assert orders.attribute("LastFullLoadDate") == "2024-03-05 10:30:00"
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "second", 2: "two"}


def test_a_reload_begins_after_the_watermark_that_was_set_with_it(orders: Orders):
    orders.put(FIRST, "U,1,first\n", after(minutes=-5))
    orders.put(SECOND, "U,2,second\n", after(minutes=-4))
    orders.run()
    orders.set(LastFullLoadDate="1900-01-01 00:00:00", LastIncrementalFile=PATH + FIRST)
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "one", 2: "second"}
    assert orders.snapshot.floor == FIRST


@pytest.mark.parametrize("first_load", [True, False])
def test_a_load_that_would_lose_the_changes_up_to_a_watermark_set_by_hand_is_refused(orders: Orders, first_load: bool):
    orders.put(FIRST, "U,1,first\n", after(minutes=5))
    orders.put(SECOND, "U,1,second\n", after(minutes=5))
    if not first_load:
        orders.run()
    orders.set(LastFullLoadDate="1900-01-01 00:00:00", LastIncrementalFile=PATH + FIRST)
    status = orders.run()
    assert status.health is Health.BROKEN
    assert f"files up to there were written after it: 1 file ({FIRST})" in status.to_do
    orders.set(LastIncrementalFile=PATH + "0.parquet")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "second", 2: "two"}


def test_a_date_set_forward_skips_the_full_loads_up_to_it_whatever_happens_to_the_table(orders: Orders):
    orders.run()
    orders.put("LOAD00000001.csv", "1,skipped\n", after(hours=2))
    orders.set(LastFullLoadDate="2024-03-05 12:00:00")
    for number in (1, 2):
        orders.put(change_name(after(hours=2, minutes=number)), f"I,{number + 2},new\n", after(hours=2))
        assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "one", 2: "two", 3: "new", 4: "new"}
    assert orders.attribute("LastFullLoadDate") == "2024-03-05 12:00:00"
    orders.put("LOAD00000001.csv", "1,loaded\n")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows()[1] == "loaded"
