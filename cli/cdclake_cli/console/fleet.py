"""The page of all tables together: what needs action, what waits, what failed, and what a day brings and costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Blueprint, render_template

from cdclake.concurrency import in_parallel
from cdclake.control.status import CONCURRENT_READS
from cdclake.errors import CdclakeError
from cdclake.model.change.delay import DAY
from cdclake.model.names import RunState
from cdclake.model.times import iso_utc
from cdclake_cli.console.context import current_console
from cdclake_cli.console.overview import current_overview
from cdclake_cli.console.paging import Window, whole_number
from cdclake_cli.console.table_list import ACTION, Selection, health_counts
from cdclake_cli.printing.cost import change_cents
from cdclake_cli.printing.lake_facts import lake_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.delay import RecentDelays
    from cdclake_cli.console.context import Lake
    from cdclake_cli.console.overview import Row

MOST_LISTED = 5
"""Tables in a short list; a link leads to all of them."""
MOST_CHANGES = 30
"""Newest changes of a table that its day is added up from: more than a run each hour makes."""

pages = Blueprint("fleet", __name__)


class Shortened(NamedTuple):
    """The first tables of a list, and how many there are."""

    rows: list[Row]
    total: int


@dataclass(frozen=True)
class Summary:
    """All tables together.

    Attributes:
        action: Those that need action.
        waiting: Those with due raw files, the longest lag first.
        files: Number of due raw files.
        failed: Those whose last run failed in the last day, the newest first.
        slow: Those with the greatest p95 of the last day's delays.
        delays: The delays of all changes of the last day.
    """

    action: Shortened
    waiting: Shortened
    files: int
    failed: Shortened
    slow: Shortened
    delays: RecentDelays

    @classmethod
    def of(cls, rows: Iterable[Row], delays: RecentDelays, now: datetime) -> Summary:
        """Sum up tables. Pure."""
        known = [(row, row.status) for row in rows if row.status]
        since = iso_utc(now - DAY)
        waiting = [(row, status.lag_seconds or 0) for row, status in known if status.lag_files]
        failed = [
            (row, status.run_utc)
            for row, status in known
            if status.run_state == RunState.FAILED and status.run_utc >= since
        ]
        slow = [(row, status.delay_p95_seconds) for row, status in known if status.delay_p95_seconds is not None]
        return cls(
            _first([(row, 0) for row, status in known if status.needs_action]),
            _first(waiting),
            sum(status.lag_files or 0 for _, status in known),
            _first(failed),
            _first(slow),
            delays,
        )


def _first(valued: Sequence[tuple[Row, Any]]) -> Shortened:
    """The tables with the greatest values; of equal ones the first."""
    return Shortened([row for row, _ in nlargest(MOST_LISTED, valued, key=itemgetter(1))], len(valued))


@dataclass(frozen=True)
class Day:
    """What a table holds, and what the last day's changes did.

    Attributes:
        rows: Rows of the table.
        bytes: Size of its data files, and of those of its history.
        changes: Number of changes.
        applied: Change rows that they applied.
        written: Bytes of the data files that they wrote.
        cents: The least that computing them cost.
        complete: Whether these are all changes of the day.
    """

    rows: int
    bytes: int
    changes: int
    applied: int
    written: int
    cents: float
    complete: bool

    @classmethod
    def read(cls, log: ChangeLog, head: int, now: datetime) -> Day:
        """Read the newest changes of a table, and its newest snapshot.

        Raises:
            IntegrityError: One is missing.
        """
        records = log.records(max(1, head - MOST_CHANGES + 1), head)
        since = (now - DAY).isoformat()
        of_day = [record for record in records if record.created_utc > since]
        facts = lake_facts(log.snapshot(head), None)
        return cls(
            facts["rows"],
            facts["bytes"] + facts["history_bytes"],
            len(of_day),
            sum(record.books.applied for record in of_day),
            sum(record.bytes_added for record in of_day),
            sum(change_cents(record.place, sum(record.seconds.values())) for record in of_day),
            len(of_day) < len(records) or len(records) == head,
        )


@pages.get("/fleet")
def fleet() -> str:
    """All tables together; `from` is the first table whose day is shown."""
    console, overview = current_console(), current_overview()
    known, now = overview.known(), console.clock()
    rows = known.rows.values()
    busiest = sorted((row for row in rows if row.state), key=lambda row: (-len(row.delays.by_change), row.path))
    window = Window.at(len(busiest), console.days_per_page, whole_number("from", 0))
    shown = overview.live(busiest[window.slice])
    return render_template(
        "fleet.html",
        known=known,
        counts=health_counts(rows),
        summary=Summary.of(rows, known.delays, now),
        window=window,
        days=list(zip(shown, in_parallel(partial(_day, console.lake, now), shown, CONCURRENT_READS), strict=True)),
        selection=Selection(),
        ACTION=ACTION,
    )


def _day(lake: Lake, now: datetime, row: Row) -> Day | None:
    """The day of a table; None if it has no change, or its log cannot be read, which its status tells."""
    if not (row.state and row.state.last_change):
        return None
    try:
        return Day.read(lake.log(row.state.name), row.state.last_change, now)
    except CdclakeError:
        return None
