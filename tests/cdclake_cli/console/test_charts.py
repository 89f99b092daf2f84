"""The geometry of charts: bars stay in their slots, and very small and very large values stay readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.report import LogEntry
from cdclake.model.change.books import Books
from cdclake_cli.console.charts import HEIGHT, MIN_SLOTS, SLOT_WIDTH, axis_top, change_charts, shares
from cdclake_cli.console.text import breakable, bytes_text, seconds_text
from tests.builders import change_record


@pytest.mark.parametrize(
    ("values", "top"),
    [([], 1), ([0, 0], 1), ([7], 7), ([3, 5, 4], 5), ([10, 39], 39), ([10, 41], 10 / 0.92), ([0, 9, 1000], 9 / 0.92)],
)
def test_axis_ends_at_the_greatest_value_unless_it_is_an_outlier(values: list[float], top: float) -> None:
    assert axis_top(values) == pytest.approx(top)


def entry(number: int, counts: tuple[int, int, int]) -> LogEntry:
    inserted, updated, deleted = counts
    record = change_record(
        number,
        books=Books(inserted=inserted, updated=updated, deleted=deleted, rows_after=inserted),
        retired=("a",) * (deleted % 7),
        restored=("b",) * (updated % 5),
        seconds={"read": updated / 1000},
    )
    return LogEntry(record, current=False, undone=number % 2 == 0, retained=True, delay=None)


COUNTS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**3))


@given(st.lists(COUNTS, min_size=1, max_size=40))
def test_every_bar_is_in_its_slot_and_every_stack_on_the_axis(changes: list[tuple[int, int, int]]) -> None:
    entries = [entry(number, counts) for number, counts in enumerate(changes, 1)]
    for chart in change_charts(entries):
        assert chart.width == SLOT_WIDTH * max(MIN_SLOTS, len(changes))
        for slot in chart.slots:
            lower = float(HEIGHT)
            for bar in slot.bars:
                assert slot.x < bar.x < bar.x + bar.width < slot.x + SLOT_WIDTH
                assert bar.y + bar.height == pytest.approx(lower, abs=0.02)
                assert bar.height > 0
                lower = bar.y
            assert lower >= -0.02


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
