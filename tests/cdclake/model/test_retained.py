"""Which changes stay retained: fewer, the older they are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import ConfigurationError, IntegrityError
from cdclake.model.retained import Retained, can_be_thinned, changes_to_keep
from tests.examples import examples

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MONTH = 30 * DAY
START = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)

minutes = st.one_of(st.integers(0, 30), st.integers(0, 24 * 60), st.integers(0, 12 * 24 * 60))
gaps = st.lists(minutes, min_size=1, max_size=60)
days = st.integers(0, 40)
some = st.sets(st.integers(1, 60), max_size=3)


def times_of(gaps: list[int]) -> dict[int, datetime]:
    moment, times = START, {}
    for number, minutes in enumerate(gaps, 1):
        moment += timedelta(minutes=minutes)
        times[number] = moment
    return times


def day_of(moment: datetime) -> str:
    return f"{moment:%Y%m%d}"


def quarter_of(moment: datetime) -> str:
    return f"{day_of(moment)}-{moment.hour // 6}"


def test_a_state_each_ten_minutes_is_kept_for_a_day_then_each_six_hours_then_daily() -> None:
    times = {number: START + number * timedelta(minutes=10) for number in range(1, 40 * 144)}
    now = times[max(times)]
    retained = changes_to_keep(times, now, MONTH, DAY)
    kept = [times[number] for number in retained.up_to(max(times))]
    assert [moment for moment in kept if moment >= now - DAY] == [one for one in times.values() if one >= now - DAY]
    week = [moment for moment in kept if now - 7 * DAY < moment < now - DAY]
    assert len(week) == 6 * 4
    assert {(moment.hour, moment.minute) for moment in week} == {(5, 50), (11, 50), (17, 50), (23, 50)}
    month = [moment for moment in kept if moment < now - 7 * DAY - DAY / 4]
    assert {(moment.hour, moment.minute) for moment in month} == {(23, 50)}
    assert len({day_of(moment) for moment in month}) == len(month) == 24
    assert month[0] <= now - MONTH < month[1]  # the newest at the begin of the retention time


@examples(thorough=5000, ci=500, test=200)
@given(gaps, days, days, some, st.lists(st.integers(0, 20 * 24), max_size=6))
def test_what_is_kept_only_shrinks_as_time_goes_on(
    gaps: list[int], retention: int, every: int, wanted: set[int], hours: list[int]
) -> None:
    times = times_of(gaps)
    now = START
    before: Retained | None = None
    for number_of_hours in [*hours, 50 * 24]:
        now += number_of_hours * HOUR
        known = {number: moment for number, moment in times.items() if moment <= now}
        if not known:
            continue
        head = max(known)
        retained = changes_to_keep(known, now, retention * DAY, every * DAY, wanted)
        assert head in retained
        if before:
            assert set(retained.up_to(head)) <= set(before.up_to(head))
            # It also follows from what was retained until now.
            left = {number: known[number] for number in before.up_to(head)}
            again = before & changes_to_keep(left, now, retention * DAY, every * DAY, wanted)
            assert again.up_to(head) == retained.up_to(head)
        before = retained


@examples(thorough=5000, ci=500, test=200)
@given(gaps, days, days, some, st.integers(0, 60 * 24))
def test_what_is_kept_follows_the_rules(
    gaps: list[int], retention: int, every: int, wanted: set[int], hours: int
) -> None:
    times = times_of(gaps)
    head = max(times)
    now = times[head] + hours * HOUR
    retained = changes_to_keep(times, now, retention * DAY, every * DAY, wanted)
    kept = set(retained.up_to(head))

    def newest_at(moment: datetime) -> int:
        return max((number for number in times if times[number] <= moment), default=1)

    oldest = newest_at(now - retention * DAY)
    late = set(range(newest_at(now - min(every, retention) * DAY), head + 1))
    assert late <= kept
    assert {number for number in wanted if oldest <= number <= head} <= kept
    if every >= retention:
        assert kept == set(range(oldest, head + 1))
        return
    newest_of_day = {day_of(times[number]): number for number in times}.values()
    newest_of_quarter = {quarter_of(times[number]): number for number in times}.values()
    assert set(newest_of_day) <= set(newest_of_quarter)
    horizon = now - retention * DAY
    assert {number for number in newest_of_day if times[number] > horizon} <= kept
    week = max(horizon, now - 7 * DAY)
    assert {number for number in newest_of_quarter if times[number] > week} <= kept
    others = kept - late - wanted
    assert others <= set(newest_of_quarter)
    assert sum(times[number] <= horizon for number in kept - late) <= 1 + len(wanted)
    assert len([number for number in others if times[number] <= week]) <= retention + 2
    assert len(others) <= min(retention, 7) * 4 + retention + 4


@given(st.sets(st.integers(1, 20)), st.integers(0, 20), st.sets(st.integers(1, 20)), st.integers(0, 20))
def test_both_retain_what_each_retains(kept: set[int], through: int, others: set[int], beyond: int) -> None:
    one = Retained(through, tuple(sorted(number for number in kept if number <= through)))
    other = Retained(beyond, tuple(sorted(number for number in others if number <= beyond)))
    both = one & other
    for number in range(1, 25):
        assert (number in both) == (number in one and number in other)
    assert [number for number in range(1, 25) if number in both] == both.up_to(24)
    assert both.first == next(number for number in range(1, 25) if number in both)
    assert Retained.from_bytes(both.to_bytes(), "retained.json") == both


def test_the_nearest_retained_changes() -> None:
    retained = Retained(9, (3, 7))
    assert [retained.nearest(number) for number in (1, 4, 8, 9)] == [(None, 3), (3, 7), (7, 10), (7, 10)]
    assert str(retained) == "change 3 or 7, or to change 10 or a later one"
    assert str(Retained(9)) == "change 10 or a later one"


def test_a_damaged_object_or_one_of_a_later_version_is_refused() -> None:
    assert Retained.from_bytes(None, "retained.json") == Retained()
    with pytest.raises(IntegrityError, match=r"retained\.json"):
        Retained.from_bytes(b"6", "retained.json")
    with pytest.raises(ConfigurationError, match="newer version"):
        Retained.from_bytes(b'{"format": 9}', "retained.json")


def test_states_of_the_same_six_hours_can_be_thinned() -> None:
    assert can_be_thinned(START, START + HOUR)
    assert not can_be_thinned(START + HOUR, START + 2 * HOUR)
