"""Computes the geometry of charts, in units of an SVG view box that stretches to the page's width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake_cli.console.text import count_text, seconds_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cdclake.commit.report import LogEntry

HEIGHT = 100
SLOT_WIDTH = 10
_GAP = 2.5
MIN_SLOTS = 24
"""Keeps the bars narrow if there are few changes."""
_MIN_HEIGHT = 1.5
"""Keeps small values visible."""
_OUTLIER_FACTOR = 4
"""A bar is cut if it is this many times as high as a typical one, because it would make the others invisible."""
_TYPICAL_QUANTILE = 0.9
_CUT_AT = 0.92


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
    """The stacked bar of one change.

    Attributes:
        change: Number of the change.
        x: Left edge.
        title: Its figures as text.
        bars: Its parts, from the bottom up.
        cut: Whether its value exceeds the chart's height.
        undone: Whether a rollback undid the change.
    """

    change: int
    x: float
    title: str
    bars: tuple[Bar, ...]
    cut: bool
    undone: bool


@dataclass(frozen=True)
class Chart:
    """A bar chart with one bar per change, in the order of their numbers.

    Attributes:
        name: Its title.
        series: Names of the stacked series, from the bottom up.
        slots: The bars.
        width: Width of the view box.
        top: Value of the upper edge, as text.
        cut: Whether any bar is cut.
    """

    name: str
    series: tuple[str, ...]
    slots: tuple[Slot, ...]
    width: float
    top: str
    cut: bool


def change_charts(entries: Sequence[LogEntry]) -> list[Chart]:
    """Chart a list of changes: rows changed, rows of the table, data files, seconds."""
    return [
        _chart("Rows changed", entries, count_text, _rows_changed),
        _chart("Rows of the table", entries, count_text, lambda entry: {"rows": entry.record.books.rows_after}),
        _chart("Data files", entries, count_text, _files),
        _chart("Seconds", entries, seconds_text, lambda entry: {"seconds": sum(entry.record.seconds.values(), 0.0)}),
    ]


def axis_top(values: Iterable[float]) -> float:
    """Value of the upper edge: the greatest value, or less if that is an outlier."""
    positive = sorted(value for value in values if value > 0)
    if not positive:
        return 1.0
    typical = positive[int((len(positive) - 1) * _TYPICAL_QUANTILE)]
    usual = [value for value in positive if value <= typical * _OUTLIER_FACTOR]
    return float(usual[-1] / _CUT_AT if len(usual) < len(positive) else positive[-1])


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
    values_by_entry = [values(entry) for entry in entries]
    top = axis_top(sum(counts.values()) for counts in values_by_entry)
    slots = tuple(
        _slot(index, entry, counts, top, to_text)
        for index, (entry, counts) in enumerate(zip(entries, values_by_entry, strict=True))
    )
    series = tuple(values_by_entry[0]) if values_by_entry else ()
    width = SLOT_WIDTH * max(MIN_SLOTS, len(slots))
    cut = any(slot.cut for slot in slots)
    return Chart(name, series, slots, width, to_text(int(top) if to_text is not seconds_text else top), cut)


def _slot(index: int, entry: LogEntry, counts: Mapping[str, float], top: float, to_text: Callable[..., str]) -> Slot:
    x, total = float(index * SLOT_WIDTH), sum(counts.values())
    bars, y = [], float(HEIGHT)
    for series, height in _heights(counts, HEIGHT / max(top, total)).items():
        y -= height
        bars.append(Bar(series, x + _GAP / 2, round(y, 2), SLOT_WIDTH - _GAP, round(height, 2)))
    figures = ", ".join(f"{to_text(value)} {series}" for series, value in counts.items())
    kind = entry.record.kind
    note = ", undone" if entry.undone else ""
    title = f"Change {entry.record.change}, {kind.value}{note}, {time_text(entry.record.created_utc)}: {figures}"
    return Slot(entry.record.change, x, title, tuple(bars), total > top, entry.undone)


def _heights(counts: Mapping[str, float], scale: float) -> dict[str, float]:
    """Heights of the values above 0. Small values get a visible height, if necessary at the cost of the highest."""
    heights = {series: max(value * scale, _MIN_HEIGHT) for series, value in counts.items() if value}
    excess = sum(heights.values()) - HEIGHT
    if excess > 0:
        highest = max(heights, key=heights.__getitem__)
        heights[highest] -= excess
    return heights


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
