"""Computes the geometry of charts: horizontal places in percent of the page's width, vertical ones in pixels.

A bar stands where its change was made in time, and is as high as its value, whatever the others are. If values differ a
hundredfold, the scale is logarithmic, and the chart says so. A long time without changes is drawn shorter, as a break.
Series stand side by side, as parts of a stack would have no length on a logarithmic scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

from cdclake_cli.console.text import count_text, seconds_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cdclake.commit.report import LogEntry

TOP, BOTTOM, TOTAL_HEIGHT = 18, 128, 148
"""Upper and lower edge of the bars, and the height with the labels of the time axis."""
HEIGHT = BOTTOM - TOP
LEFT, RIGHT = 2.0, 98.0
"""Places of the first and the last change."""
_NARROWEST, _WIDEST = 0.5, 3.0
"""Width of the bar of one series at least, and of all series of a change at most."""
_OF_GAP = 0.8
_LEAST_HEIGHT = 1.0
"""Keeps small values visible."""
LOG_FACTOR = 100
_BELOW_LEAST = 2
"""A logarithmic scale begins at the least value divided by this, so that its bar is visible."""
_MOST_TICKS, _MOST_TIMES = 4, 3
_NICE = (1, 2, 5, 10)
_MILLION = 10**6
_LEAST_STEP = 0.1
"""No text shows smaller differences of seconds."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TIME_STEPS = (
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365, 3650)),
)
_BREAK, _BREAK_SHOWN, _MOST_BREAKS = 5.0, 0.4, 5
"""Width of a break, the part of it that is drawn, and how many an axis has."""
_BREAK_FACTOR = 20
"""Gaps this many times as long as a typical one would leave no room for the others."""
_LEAST_DISTANCE = 25.0
"""Of labels after breaks."""
_EDGE = 8.0
"""Labels this near to the edge begin or end at their place."""


class Tick(NamedTuple):
    """A label of an axis. `anchor` is where the text is, seen from its place."""

    place: float
    text: str
    anchor: str = "start"


@dataclass(frozen=True)
class Bar:
    """A rectangle. Its `series` determines the color."""

    series: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Slot:
    """The bars of one change, one for each series with a value.

    Attributes:
        change: Number of the change.
        x: Left edge.
        width: Of all its bars.
        title: Its figures as text.
        undone: Whether a rollback undid the change.
    """

    change: int
    x: float
    width: float
    title: str
    bars: tuple[Bar, ...]
    undone: bool


@dataclass(frozen=True)
class Chart:
    """A bar chart of changes along the time.

    Attributes:
        name: Its title.
        series: Names of the series, from left to right.
        slots: The bars, the highest first: where bars overlap, the lower ones are in front.
        values: Labels of the value axis.
        times: Labels of the time axis.
        breaks: Times without changes that the time axis leaves out.
        logarithmic: Whether each line is ten times the one below, or a power of that.
        text: What the chart shows, for those who do not see it.
    """

    name: str
    series: tuple[str, ...]
    slots: tuple[Slot, ...]
    values: tuple[Tick, ...]
    times: tuple[Tick, ...]
    breaks: tuple[Break, ...]
    logarithmic: bool
    text: str


def change_charts(entries: Sequence[LogEntry]) -> list[Chart]:
    """Chart a list of changes: rows changed, rows of the table, data files, seconds."""
    return [
        _chart("Rows changed", entries, count_text, _rows_changed),
        _chart("Rows of the table", entries, count_text, lambda entry: {"rows": entry.record.books.rows_after}),
        _chart("Data files", entries, count_text, _files),
        _chart("Seconds", entries, seconds_text, lambda entry: {"seconds": sum(entry.record.seconds.values(), 0.0)}),
    ]


class Scale(NamedTuple):
    """A value axis.

    Attributes:
        low: Value of the lower edge: 0 of a linear scale.
        high: Value of the upper edge.
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Scale:
        """The scale of some values above 0."""
        least, most = min(values, default=1.0), max(values, default=1.0)
        return cls(least / _BELOW_LEAST if most >= LOG_FACTOR * least else 0.0, float(most))

    @property
    def logarithmic(self) -> bool:
        """Whether equal distances are equal factors."""
        return self.low > 0

    def height(self, value: float) -> float:
        """The height of a value above 0, in pixels."""
        if self.logarithmic:
            return HEIGHT * math.log(value / self.low) / math.log(self.high / self.low)
        return HEIGHT * value / self.high

    def ticks(self, least_step: float) -> list[float]:
        """Some round values on the scale."""
        if not self.logarithmic:
            step = max(_nice(self.high / _MOST_TICKS), least_step)
            return [step * n for n in range(1, int(self.high / step + 1e-9) + 1)]
        first, last = math.ceil(math.log10(max(self.low, least_step)) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        stride = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
        return [10.0**power for power in range(last, first - 1, -stride)][::-1]


def _nice(least: float) -> float:
    """The least of 1, 2, 5, 10, 20, ... that is not below a value."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((n * power for n in _NICE if n * power >= least * (1 - 1e-9)), 10 * power)


class Break(NamedTuple):
    """A time without changes that is drawn shorter than it was."""

    x: float
    width: float
    title: str


class Times(NamedTuple):
    """A time axis: times with changes, in proportion, and breaks between them."""

    parts: tuple[tuple[datetime, datetime], ...]

    @classmethod
    def of(cls, times: Sequence[datetime]) -> Times:
        """The axis of some times. It has breaks where gaps are far longer than most."""
        ordered = sorted(times)
        gaps = [(later - earlier, later) for earlier, later in pairwise(ordered) if later > earlier]
        if not gaps:
            return cls(((ordered[0] - timedelta(minutes=30), ordered[0] + timedelta(minutes=30)),))
        longest = sorted(gaps, reverse=True)[:_MOST_BREAKS]
        begins = {later for gap, later in longest if gap > _BREAK_FACTOR * median_low(gap for gap, _ in gaps)}
        parts = [(ordered[0], ordered[0])]
        for time in ordered:
            if time in begins and time > parts[-1][1]:
                parts.append((time, time))
            parts[-1] = (parts[-1][0], time)
        return cls(tuple(parts))

    def place(self, time: datetime) -> float:
        """The place of a time within a part, in percent."""
        number = next(n for n, (_, last) in enumerate(self.parts) if time <= last)
        return self._begin(number) + self._percent(time - self.parts[number][0])

    def breaks(self) -> list[Break]:
        """The times that are left out."""
        return [
            Break(
                round(self.place(last) + _BREAK * (1 - _BREAK_SHOWN) / 2, 2),
                round(_BREAK * _BREAK_SHOWN, 2),
                f"{seconds_text((first - last).total_seconds())} without changes",
            )
            for (_, last), (first, _) in pairwise(self.parts)
        ]

    def ticks(self) -> list[Tick]:
        """Round times, each with what differs from the one before. After a break, the time at which it goes on."""
        (first, last), *more = self.parts
        if more:
            begins = [first for first, _ in self.parts]
            shown = begins[:1]
            for time in begins[1:]:
                if self.place(time) - self.place(shown[-1]) >= _LEAST_DISTANCE:
                    shown.append(time)
            return self._labels(shown, 1)
        span = (last - first).total_seconds()
        step = next((one for one in _TIME_STEPS if span / one <= _MOST_TIMES), span)
        begin = math.ceil(first.timestamp() / step) * step
        times = [datetime.fromtimestamp(begin + n * step, timezone.utc) for n in range(_MOST_TIMES + 1)]
        return self._labels([time for time in times if time <= last], step)

    def _labels(self, times: Sequence[datetime], step: float) -> list[Tick]:
        return [
            Tick(round(self.place(time), 2), _time_label(time, before, step), _anchor(self.place(time)))
            for before, time in zip([None, *times], times, strict=False)
        ]

    def _begin(self, number: int) -> float:
        before = sum((last - first for first, last in self.parts[:number]), timedelta())
        return LEFT + _BREAK * number + self._percent(before)

    def _percent(self, time: timedelta) -> float:
        total = sum((last - first for first, last in self.parts), timedelta())
        return (RIGHT - LEFT - _BREAK * (len(self.parts) - 1)) * (time / total)


def _time_label(time: datetime, before: datetime | None, step: float) -> str:
    """A time, without what the label before it tells."""
    date, clock = f"{time.day} {time:%b}", f"{time:%H:%M}"
    if step >= _DAY:
        return date if before and before.year == time.year else f"{date} {time.year}"
    if before and before.date() == time.date():
        return clock
    return date if clock == "00:00" else f"{date} {clock}"


def _anchor(place: float) -> str:
    if place < _EDGE:
        return "start"
    return "end" if place > 100 - _EDGE else "middle"


def _rows_changed(entry: LogEntry) -> dict[str, float]:
    books = entry.record.books
    return {"inserted": books.inserted, "updated": books.updated, "deleted": books.deleted + books.erased}


def _files(entry: LogEntry) -> dict[str, float]:
    record = entry.record
    return {"added": len(record.added), "restored": len(record.restored), "retired": len(record.retired)}


def _chart(
    name: str,
    entries: Sequence[LogEntry],
    to_text: Callable[..., str],
    values: Callable[[LogEntry], Mapping[str, float]],
) -> Chart:
    figures = [values(entry) for entry in entries]
    positive = [value for one in figures for value in one.values() if value > 0]
    times = [datetime.fromisoformat(entry.record.created_utc) for entry in entries]
    scale, span = Scale.of(positive), Times.of(times)
    series = tuple(figures[0])
    places = [span.place(time) for time in times]
    width = _slot_width(places, len(series))
    slots = [
        _slot(place - width / 2, width, entry, one, scale, to_text)
        for place, entry, one in zip(places, entries, figures, strict=True)
    ]
    is_count = to_text is count_text
    ticks = [
        Tick(round(BOTTOM - scale.height(one), 2), _short_count(round(one)) if is_count else to_text(one))
        for one in scale.ticks(1 if is_count else _LEAST_STEP)
    ]
    return Chart(
        name,
        series,
        tuple(sorted(slots, key=lambda slot: -max((bar.height for bar in slot.bars), default=0.0))),
        tuple(ticks if positive else ()),
        tuple(span.ticks()),
        tuple(span.breaks()),
        scale.logarithmic,
        _text(name, entries, positive, scale, to_text),
    )


def _short_count(count: int) -> str:
    """A round number, without the zeros of millions: `20 M`."""
    return f"{count / _MILLION:,g} M" if count >= _MILLION else count_text(count)


def _text(
    name: str, entries: Sequence[LogEntry], positive: Sequence[float], scale: Scale, to_text: Callable[..., str]
) -> str:
    first, last = entries[0].record, entries[-1].record
    changes = f"{name} of changes {first.change} to {last.change}, {time_text(first.created_utc)} to"
    values = f"{to_text(min(positive))} to {to_text(max(positive))}" if positive else "all 0"
    kind = ", on a logarithmic scale" if scale.logarithmic else ""
    return f"{changes} {time_text(last.created_utc)}: {values}{kind}. The list of changes below has every value"


def _slot_width(places: Sequence[float], series: int) -> float:
    """As wide as three quarters of the gaps allow, within bounds."""
    gaps = sorted(later - earlier for earlier, later in pairwise(places) if later > earlier) or [_WIDEST]
    return max(min(_OF_GAP * gaps[len(gaps) // 4], _WIDEST), _NARROWEST * series)


def _slot(
    x: float, width: float, entry: LogEntry, figures: Mapping[str, float], scale: Scale, to_text: Callable[..., str]
) -> Slot:
    bars, part = [], width / len(figures)
    for number, (series, value) in enumerate(figures.items()):
        if value > 0:
            height = round(max(scale.height(value), _LEAST_HEIGHT), 2)
            bars.append(Bar(series, round(x + number * part, 3), round(BOTTOM - height, 2), round(part, 3), height))
    shown = ", ".join(f"{to_text(value)} {series}" for series, value in figures.items())
    record, note = entry.record, ", undone" if entry.undone else ""
    title = f"Change {record.change}, {record.kind.value}{note}, {time_text(record.created_utc)}: {shown}"
    return Slot(record.change, round(x, 3), round(width, 3), title, tuple(bars), entry.undone)


@dataclass(frozen=True)
class Share:
    """A part of a whole. `start` and `width` are percentages, from the left."""

    name: str
    seconds: float
    start: float
    width: float


def shares(seconds: Mapping[str, float]) -> list[Share]:
    """Phases as shares of their sum, in order."""
    total = sum(seconds.values())
    parts, start = [], 0.0
    for name, part in seconds.items():
        width = 100 * part / total if total else 0.0
        parts.append(Share(name, part, round(start, 3), round(width, 3)))
        start += width
    return parts
