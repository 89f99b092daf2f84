"""Filters, sorts and pages the list of tables. Pure, but for the addresses of its links."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from flask import abort, request, url_for

from cdclake.control.status import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cdclake_cli.console.overview import Row

ATTENTION = "attention"
"""The order by default: tables that need action first."""
ACTION = "action"
"""Stands for every health that needs action."""
_ORDER = {health: place for place, health in enumerate(Health)}
_KEYS: Mapping[str, Callable[[Row], Any]] = {
    ATTENTION: lambda row: not (row.status and row.status.needs_action),
    "table": lambda row: row.name.lower(),
    "health": lambda row: row.status and _ORDER[row.status.health],
    "lag": lambda row: row.status and row.status.lag_seconds,
    "delay": lambda row: row.status and row.status.delay_p95_seconds,
    "run": lambda row: (row.status and row.status.run_utc) or None,
}
"""What rows are sorted by; those without a value come last, in both directions."""
SORTS = {
    ATTENTION: "action needed first",
    "table": "name",
    "-table": "name, Z first",
    "health": "health",
    "-lag": "longest lag",
    "lag": "shortest lag",
    "-delay": "longest delay",
    "delay": "shortest delay",
    "-run": "newest run",
    "run": "oldest run",
}
"""The orders that a list offers, and their names."""


@dataclass(frozen=True)
class Selection:
    """Which tables to show, as the address says.

    Attributes:
        q: Text in the name.
        health: Value of a `Health`, or `ACTION`; empty for all.
        sort: One of `SORTS`, or with the opposite sign.
        start: Index of the first.
    """

    q: str = ""
    health: str = ""
    sort: str = ATTENTION
    start: int = 0

    @classmethod
    def of_request(cls, start: int) -> Selection:
        """Read the parameters `q`, `health` and `sort`.

        Raises:
            HTTPException: 400: there is no such order.
        """
        sort = request.args.get("sort") or ATTENTION
        if sort.removeprefix("-") not in _KEYS:
            abort(400, f"'sort' must be one of {', '.join(SORTS)}.")
        return cls(request.args.get("q", "").strip(), request.args.get("health", ""), sort, start)

    def address(self, start: int = 0, **changes: str) -> str:
        """The address of a list that differs in this, and begins at the first table if nothing else is said."""
        one = replace(self, start=start, **changes)
        sort = "" if one.sort == ATTENTION else one.sort
        query = {"q": one.q, "health": one.health, "sort": sort, "from": one.start}
        return url_for("tables.index", **{name: value for name, value in query.items() if value})  # type: ignore[arg-type]

    def header(self, key: str) -> str:
        """The address that sorts by a column; if the list is sorted by it, the other way round."""
        first = key if key in ("table", "health") else f"-{key}"
        return self.address(sort=_opposite(self.sort) if self.sort.removeprefix("-") == key else first)

    def direction(self, key: str) -> str:
        """`ascending` or `descending`, for `aria-sort`; empty if the list is not sorted by this column."""
        if self.sort.removeprefix("-") != key:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"

    def named(self, rows: Iterable[Row]) -> list[Row]:
        """The tables with the text in their names."""
        text = self.q.lower()
        return [row for row in rows if text in row.name.lower()]

    def chosen(self, named: Iterable[Row]) -> list[Row]:
        """Those of the tables that have the health, in order. Equal ones stay in the order in which they are given."""
        key = _KEYS[self.sort.removeprefix("-")]
        valued = [(key(row), row) for row in named if self._has_health(row)]
        known = [(value, row) for value, row in valued if value is not None]
        known.sort(key=itemgetter(0), reverse=self.sort.startswith("-"))
        return [row for _, row in known] + [row for value, row in valued if value is None]

    def _has_health(self, row: Row) -> bool:
        if not self.health:
            return True
        if row.status is None:
            return False
        return row.status.needs_action if self.health == ACTION else row.status.health.value == self.health


def health_counts(rows: Iterable[Row]) -> list[tuple[Health, int]]:
    """How many tables have each health, in the order of `Health`."""
    counts = Counter(row.status.health for row in rows if row.status)
    return [(health, counts[health]) for health in Health if counts[health]]


def _opposite(sort: str) -> str:
    return sort[1:] if sort.startswith("-") else f"-{sort}"
