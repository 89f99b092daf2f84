"""The geometry of charts, in units of a view box that is stretched to the width there is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.console.text import count_text, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cdclake.commit.report import LogEntry

HEIGHT = 100
SLOT_WIDTH = 10
_GAP = 2.5
LEAST_SLOTS = 24
"""Few changes stay narrow bars, and do not become blocks."""
_LEAST_HEIGHT = 1.5
"""Of what is not nothing, so that it can be seen."""
_FAR_ABOVE = 4
"""A bar so many times as high as nearly all others is cut, as it would make them invisible."""
_NEARLY_ALL = 0.9
_CUT_AT = 0.92


@dataclass(frozen=True)
class Bar:
    """A rectangle; `series` says which colour."""

    series: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Slot:
    """What a chart shows of one change.

    Attributes:
        change: Its number.
        x: Where its slot begins.
        title: All of it in words.
        bars: From the bottom up.
        cut: Whether the bar is higher than shown.
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
    """Bars of changes beside each other, in the order of their numbers.

    Attributes:
        name: What it shows.
        series: Names of what is stacked, from the bottom up.
        slots: A bar each.
        width: Of the view box.
        top: What the upper edge stands for, in words.
        cut: Whether a bar is cut.
    """

    name: str
    series: tuple[str, ...]
    slots: tuple[Slot, ...]
    width: float
    top: str
    cut: bool


def change_charts(entries: Sequence[LogEntry]) -> list[Chart]:
    """The charts of a list of changes: rows changed, rows of the table, data files, seconds."""
    return [
        _chart("Rows changed", entries, count_text, _rows_changed),
        _chart("Rows of the table", entries, count_text, lambda entry: {"rows": entry.record.books.rows_after}),
        _chart("Data files", entries, count_text, _files),
        _chart("Seconds", entries, seconds_text, lambda entry: {"seconds": sum(entry.record.seconds.values(), 0.0)}),
    ]


def axis_top(values: Iterable[float]) -> float:
    """What the upper edge stands for: the greatest value, or less if that is far above nearly all others."""
    known = sorted(value for value in values if value > 0)
    if not known:
        return 1.0
    typical = known[int((len(known) - 1) * _NEARLY_ALL)]
    usual = [value for value in known if value <= typical * _FAR_ABOVE]
    return float(usual[-1] / _CUT_AT if len(usual) < len(known) else known[-1])


def _rows_changed(entry: LogEntry) -> dict[str, float]:
    books = entry.record.books
    return {"inserted": books.inserted, "updated": books.updated, "deleted": books.deleted + books.erased}


def _files(entry: LogEntry) -> dict[str, float]:
    record = entry.record
    return {"added": len(record.added), "restored": len(record.restored), "retired": len(record.retired)}


def _chart(
    name: str,
    entries: Sequence[LogEntry],
    in_words: Callable[..., str],
    values: Callable[[LogEntry], Mapping[str, float]],
) -> Chart:
    counted = [values(entry) for entry in entries]
    top = axis_top(sum(counts.values()) for counts in counted)
    slots = tuple(
        _slot(place, entry, counts, top, in_words)
        for place, (entry, counts) in enumerate(zip(entries, counted, strict=True))
    )
    series = tuple(counted[0]) if counted else ()
    width = SLOT_WIDTH * max(LEAST_SLOTS, len(slots))
    cut = any(slot.cut for slot in slots)
    return Chart(name, series, slots, width, in_words(int(top) if in_words is not seconds_text else top), cut)


def _slot(place: int, entry: LogEntry, counts: Mapping[str, float], top: float, in_words: Callable[..., str]) -> Slot:
    x, total = float(place * SLOT_WIDTH), sum(counts.values())
    bars, y = [], float(HEIGHT)
    for series, height in _heights(counts, HEIGHT / max(top, total)).items():
        y -= height
        bars.append(Bar(series, x + _GAP / 2, round(y, 2), SLOT_WIDTH - _GAP, round(height, 2)))
    said = ", ".join(f"{in_words(value)} {series}" for series, value in counts.items())
    kind = entry.record.kind
    note = ", undone" if entry.undone else ""
    title = f"Change {entry.record.change}, {kind.value}{note}, {entry.record.created_utc[:19]}: {said}"
    return Slot(entry.record.change, x, title, tuple(bars), total > top, entry.undone)


def _heights(counts: Mapping[str, float], scale: float) -> dict[str, float]:
    """Heights of what is not nothing; what small ones get to be seen at all, the highest gives if there is no room."""
    heights = {series: max(value * scale, _LEAST_HEIGHT) for series, value in counts.items() if value}
    over = sum(heights.values()) - HEIGHT
    if over > 0:
        highest = max(heights, key=heights.__getitem__)
        heights[highest] -= over
    return heights


@dataclass(frozen=True)
class Share:
    """A part of a whole, in percent from the left."""

    name: str
    seconds: float
    start: float
    width: float


def shares(seconds: Mapping[str, float]) -> list[Share]:
    """Phases as parts of their sum, in order."""
    whole = sum(seconds.values())
    parts, start = [], 0.0
    for name, part in seconds.items():
        width = 100 * part / whole if whole else 0.0
        parts.append(Share(name, part, round(start, 3), round(width, 3)))
        start += width
    return parts
