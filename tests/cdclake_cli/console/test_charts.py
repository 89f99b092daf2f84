"""The geometry of charts: bars are as high as their values, and stand where their changes were made in time."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.report import LogEntry
from cdclake.model.change.books import Books
from cdclake_cli.console.charts import BOTTOM, HEIGHT, TOP, change_charts, shares
from cdclake_cli.console.text import breakable, bytes_text, seconds_text
from tests.builders import FIRST_CHANGE_UTC, change_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_cli.console.charts import Chart


def entry(number: int, counts: tuple[int, int, int], seconds: float = 1.0, minutes: int = 0) -> LogEntry:
    inserted, updated, deleted = counts
    record = change_record(
        number,
        created_utc=(FIRST_CHANGE_UTC + timedelta(minutes=minutes)).isoformat(),
        books=Books(inserted=inserted, updated=updated, deleted=deleted, rows_after=inserted),
        retired=("a",) * (deleted % 7),
        restored=("b",) * (updated % 5),
        seconds={"read": seconds},
    )
    return LogEntry(record, current=False, undone=number % 2 == 0, retained=True, delay=None)


def chart_of(name: str, entries: Sequence[LogEntry]) -> Chart:
    return next(chart for chart in change_charts(entries) if chart.name == name)


def heights(chart: Chart) -> dict[int, float]:
    return {slot.change: slot.bars[0].height for slot in chart.slots if slot.bars}


COUNTS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**3))
CHANGES = st.lists(
    st.tuples(COUNTS, st.integers(0, 10**8).map(lambda ms: ms / 1000), st.integers(0, 10**6)), min_size=1, max_size=40
)


@given(CHANGES)
def test_every_bar_is_as_high_as_its_value_and_stands_where_its_change_was_made(
    changes: list[tuple[tuple[int, int, int], float, int]],
) -> None:
    minutes = sorted(minute for _, _, minute in changes)
    entries = [entry(n, counts, seconds, minutes[n - 1]) for n, (counts, seconds, _) in enumerate(changes, 1)]
    for chart in change_charts(entries):
        slots = sorted(chart.slots, key=lambda slot: slot.change)
        assert [slot.x for slot in slots] == sorted(slot.x for slot in slots)
        for slot in slots:
            assert -0.01 <= slot.x <= slot.x + slot.width <= 100.01
            for bar in slot.bars:
                assert slot.x - 0.01 <= bar.x <= bar.x + bar.width <= slot.x + slot.width + 0.01
                assert bar.y + bar.height == pytest.approx(BOTTOM, abs=0.02)
                assert 1 <= bar.height <= HEIGHT + 0.01
        assert all(0 <= tick.place <= 100 for tick in chart.times)
        assert all(TOP - 0.01 <= tick.place <= BOTTOM for tick in chart.values)
        assert len({tick.text for tick in chart.values}) == len(chart.values)


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=20))
def test_greater_values_never_have_lower_bars(rows: list[int]) -> None:
    chart = chart_of("Rows of the table", [entry(n, (count, 0, 0)) for n, count in enumerate(rows, 1)])
    height, least = heights(chart), min(rows)
    for one, other in pairwise(sorted(range(1, len(rows) + 1), key=lambda n: rows[n - 1])):
        assert height[one] <= height[other]
    assert chart.logarithmic == (max(rows) >= 100 * least)
    if not chart.logarithmic:
        for n, count in enumerate(rows, 1):
            assert height[n] == pytest.approx(HEIGHT * count / max(rows), abs=0.01)


def test_no_bar_is_cut_to_the_height_of_its_neighbor() -> None:
    chart = chart_of(
        "Seconds", [entry(1, (1, 0, 0), 0.2), entry(2, (1, 0, 0), 16.9, 60), entry(3, (1, 0, 0), 0.2, 120)]
    )
    height = heights(chart)
    assert height[2] == HEIGHT
    assert height[1] == pytest.approx(HEIGHT * 0.2 / 16.9, abs=0.01)
    assert not chart.logarithmic
    assert [tick.text for tick in chart.values] == ["5.0 s", "10.0 s", "15.0 s"]


def test_values_that_differ_a_hundredfold_have_a_logarithmic_scale_that_says_so() -> None:
    entries = [entry(1, (300_000, 0, 0)), entry(2, (900, 260, 40), minutes=60)]
    chart = chart_of("Rows changed", entries)
    assert chart.logarithmic
    assert chart.text == (
        "Rows changed of changes 1 to 2, 2024-03-05 10:00:00 UTC to 2024-03-05 11:00:00 UTC: 40 to 300,000,"
        " on a logarithmic scale. The list of changes below has every value"
    )
    assert [tick.text for tick in chart.values] == ["100", "1,000", "10,000", "100,000"]
    large = chart_of("Rows of the table", [entry(1, (1_204_331_077, 0, 0)), entry(2, (3, 0, 0), minutes=60)])
    assert [tick.text for tick in large.values] == ["1,000", "1 M", "1,000 M"]
    (line, *_) = [BOTTOM - tick.place for tick in chart.values]
    assert line == pytest.approx(HEIGHT * math.log(100 / 20) / math.log(300_000 / 20), abs=0.01)


def test_bars_stand_in_time_and_not_one_after_the_other() -> None:
    chart = chart_of("Seconds", [entry(n, (1, 0, 0), minutes=at) for n, at in ((1, 0), (2, 60), (3, 600))])
    middles = {slot.change: slot.x + slot.width / 2 for slot in chart.slots}
    assert middles == {1: pytest.approx(2), 2: pytest.approx(11.6), 3: pytest.approx(98)}
    assert [(tick.text, tick.anchor) for tick in chart.times] == [
        ("5 Mar 12:00", "middle"),
        ("18:00", "middle"),
    ]


def test_a_long_time_without_changes_is_a_break_that_is_drawn() -> None:
    at = [0, 60, 120, 180, 600_000, 600_060, 600_120]
    chart = chart_of("Seconds", [entry(n, (1, 0, 0), minutes=minute) for n, minute in enumerate(at, 1)])
    middles = {slot.change: slot.x + slot.width / 2 for slot in chart.slots}
    hour = (96 - 5) / 5
    assert [middles[n] for n in range(1, 8)] == pytest.approx(
        [2, 2 + hour, 2 + 2 * hour, 2 + 3 * hour, 7 + 3 * hour, 7 + 4 * hour, 98]
    )
    (gap,) = chart.breaks
    assert gap.title == "416 d 13 h without changes"
    assert middles[4] < gap.x < gap.x + gap.width < middles[5]
    assert [tick.text for tick in chart.times] == ["5 Mar 10:00", "26 Apr 02:00"]


@pytest.mark.parametrize(
    ("minutes", "labels"),
    [
        (0, ["5 Mar 09:30", "10:00", "10:30"]),
        (3, ["5 Mar 10:00", "10:01", "10:02", "10:03"]),
        (24 * 60, ["5 Mar 12:00", "6 Mar"]),
        (10 * 24 * 60, ["7 Mar 2024", "14 Mar"]),
        (900 * 24 * 60, ["18 Dec 2024", "18 Dec 2025"]),
    ],
)
def test_labels_of_the_time_axis_tell_what_the_one_before_does_not(minutes: int, labels: list[str]) -> None:
    entries = [entry(1, (1, 0, 0)), entry(2, (1, 0, 0), minutes=minutes)]
    assert [tick.text for tick in chart_of("Seconds", entries).times] == labels


def test_shares_fill_the_whole_width() -> None:
    parts = shares({"read": 1.0, "rewrite": 2.5, "publish": 0.5})
    assert [(part.name, part.start, part.width) for part in parts] == [
        ("read", 0.0, 25.0),
        ("rewrite", 25.0, 62.5),
        ("publish", 87.5, 12.5),
    ]
    assert [part.width for part in shares({"read": 0.0})] == [0.0]
    assert shares({}) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h"),
        (90000, "1 d 1 h"),
        (86400 * 400, "400 d"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (12_345_678, "12.3 MB"), (10**15, "1,000.0 TB")],
)
def test_sizes_have_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_breakable_names_are_escaped() -> None:
    assert breakable("a_b.<c>/d") == "a_<wbr>b.<wbr>&lt;c&gt;/<wbr>d"
