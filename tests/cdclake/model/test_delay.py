"""The delay of changes, and the delays that a table's item keeps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.model.change.delay import MAX_KEPT, Delay, RecentDelays, written_utc
from cdclake.model.raw.files import ListedObject, RawFile, parse_raw_file
from tests.builders import change_record

NOW = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
MADE: dict[str, Any] = {
    "created_utc": NOW.isoformat(),
    "oldest_written_utc": "2024-03-05T09:57:00Z",
    "newest_written_utc": "2024-03-05T09:59:30Z",
}


def file_of(minute: int) -> RawFile:
    modified = NOW + timedelta(minutes=minute)
    found = parse_raw_file(ListedObject(f"shop/orders/20240305-{minute:09d}.csv", 1, modified), "shop/orders/")
    assert found
    return found


def delays(seconds: list[int], minutes_apart: int = 1, first: int = 1) -> dict[int, Delay]:
    """Delays of consecutive changes, the last of which is visible now."""
    newest = len(seconds) - 1
    return {
        first + i: Delay(NOW - timedelta(minutes=minutes_apart * (newest - i)), one, 0) for i, one in enumerate(seconds)
    }


def test_the_delay_ends_when_the_change_is_visible_and_begins_with_its_oldest_file():
    delay = Delay.of(change_record(**MADE), NOW + timedelta(seconds=12.6))
    assert delay
    assert (delay.seconds, delay.newest_seconds) == (193, 43)


@pytest.mark.parametrize(
    ("made", "visible_utc"),
    [
        ({"created_utc": NOW.isoformat()}, NOW),
        (MADE, None),
        (MADE, NOW + timedelta(days=1, seconds=1)),  # the mark of a lake that was copied
    ],
)
def test_a_delay_that_nobody_knows_is_none(made: dict[str, Any], visible_utc: datetime | None):
    assert Delay.of(change_record(**made), visible_utc) is None


def test_a_clock_behind_s3_makes_no_negative_delay():
    delay = Delay.of(change_record(**MADE), NOW - timedelta(hours=1))
    assert delay
    assert delay.seconds == 0


def test_files_that_the_table_contained_before_do_not_count():
    files = [file_of(minute) for minute in (3, 9, 1, 5)]
    assert written_utc(files, NOW + timedelta(minutes=3)) == ("2024-03-05T10:03:00Z", "2024-03-05T10:09:00Z")
    assert written_utc(files, NOW + timedelta(minutes=10)) == ("", "")
    assert written_utc(files, None) == ("", "")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=MAX_KEPT))
def test_the_percentiles_are_delays_that_so_many_changes_did_not_exceed(seconds: list[int]):
    item = {"LastDelays": str(RecentDelays().with_changes(delays(seconds), NOW))}
    kept = RecentDelays.of(item, NOW)
    for percent in (50, 95):
        found = kept.percentile(percent)
        assert found in seconds
        wanted = len(seconds) * percent / 100
        assert sum(one <= found for one in seconds) >= wanted > sum(one < found for one in seconds)


def test_delays_of_more_than_a_day_ago_are_forgotten():
    kept = RecentDelays().with_changes(delays([7, 70], minutes_apart=60), NOW)
    item = {"LastDelays": str(kept)}
    assert RecentDelays.of(item, NOW + timedelta(hours=22)).percentile(50) == 7
    assert RecentDelays.of(item, NOW + timedelta(hours=23)).percentile(50) == 70
    assert RecentDelays.of(item, NOW + timedelta(hours=24)).percentile(50) is None
    assert str(kept.with_changes({}, NOW + timedelta(hours=24))) == "[]"


def test_of_a_change_a_minute_a_spread_of_the_day_is_kept():
    kept = RecentDelays()
    for change, delay in delays(list(range(1440)), first=5000).items():
        kept = kept.with_changes({change: delay}, delay.visible_utc)
        assert len(kept.by_change) <= MAX_KEPT
    assert len(str(kept)) < 2500
    assert kept.percentile(50) == pytest.approx(720, abs=80)
    assert kept.percentile(95) == pytest.approx(1368, abs=80)


@pytest.mark.parametrize("text", ["", "null", "[1]", "{}", "[[1, 2]]", '[["a", 1, 2]]', "[[1, 2, null]]"])
def test_a_text_that_is_none_holds_no_delays(text: str):
    assert RecentDelays.of({"LastDelays": text}, NOW) == RecentDelays()
