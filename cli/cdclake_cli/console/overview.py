"""What the console knows of all tables, so that a page of thousands of tables costs what it shows.

* The items of all tables are scanned every few seconds while somebody looks: one request for some hundred tables.
* The raw files of all tables are listed as `cdclake status` does it: one request or two for each, so seldom. In
  between, those of a table are listed when its item has changed.
* What a page shows of its own tables, it reads itself (`live`): their items, raw files and newest changes.

No log of a table is read for the others. A thread does the first two. A page waits for it only a moment, and says how
old its figures are. The thread gives way to pages, which share a processor with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Condition, Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, cast

from flask import current_app

from cdclake.concurrency import in_parallel
from cdclake.control import controller
from cdclake.control.plan.planned_table import Action
from cdclake.control.status import CONCURRENT_READS, table_status, table_statuses
from cdclake.model.change.delay import RecentDelays
from cdclake.model.names import Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from flask import Flask

    from cdclake.control.controller import PlanInputs
    from cdclake.control.plan.planned_table import PlannedTable
    from cdclake.control.status import TableStatus
    from cdclake.model.raw.files import ListedObject
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectReader
    from cdclake_cli.console.context import Console

_KEY = "cdclake-overview"
SCAN_RESTS = 10
"""A scan of the items is followed by a rest of so many times its own length, and at least of `Console.keep_seconds`."""
LISTING_RESTS = 20
"""The same of a listing of all raw files: 10,000 requests for 10,000 tables, which cost five cents."""


LONGEST_WAY_SECONDS = 1
"""How long a step of the thread waits for pages; each is made in less."""


class Row(NamedTuple):
    """A table as far as it is known.

    Attributes:
        name: Its name.
        state: Its item; None if it is not registered.
        status: Its status; None while its raw files have not been listed. Without its newest change, except of `live`.
        delays: Delays of its changes of the last day.
    """

    name: str
    state: TableState | None
    status: TableStatus | None
    delays: RecentDelays = RecentDelays()

    @property
    def path(self) -> str:
        """The key of its item."""
        return self.status.path if self.status else self.state.path if self.state else ""

    def attribute(self, name: str) -> str:
        """The value of an attribute; empty if it is not set."""
        value = self.state.item.get(name) if self.state else None
        return "" if value in (None, Sentinel.NONE, Sentinel.NEVER_LOADED) else str(value)


@dataclass(frozen=True)
class Known:
    """All tables, as they were a moment ago.

    Attributes:
        rows: The tables by path, in the order of their paths.
        scanned_utc: When the items were read.
        listed_utc: When the raw files of all tables were listed; None: not yet.
        errors: One line for each raw folder that could not be listed.
        findings: Raw files that are in no table's folder.
    """

    rows: Mapping[str, Row]
    scanned_utc: datetime
    listed_utc: datetime | None = None
    errors: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @cached_property
    def delays(self) -> RecentDelays:
        """The delays of all tables' changes of the last day, under numbers of their own."""
        every = (delay for row in self.rows.values() for delay in row.delays.by_change.values())
        return RecentDelays(dict(enumerate(every)))


@dataclass
class Overview:
    """Keeps what is known of all tables up to date.

    Attributes:
        console: The lake, and how long what is known is kept.
    """

    console: Console
    _known: Known | None = None
    _error: Exception | None = None
    _work: Thread | None = None
    _scan_at: float = 0.0
    _list_at: float = 0.0
    _lock: Lock = field(default_factory=Lock)
    _first: Event = field(default_factory=Event)
    _pages: int = 0
    _waiting: int = 0
    _way: Condition = field(default_factory=Condition)

    def attach(self, app: Flask) -> None:
        """Make this the overview of an application's pages."""
        app.extensions[_KEY] = self
        app.before_request(self._begin_page)
        app.teardown_request(self._end_page)

    def start(self) -> Thread | None:
        """Begin to read what is due; None if nothing is."""
        with self._lock:
            if self._work is None or not self._work.is_alive():
                if monotonic() < self._scan_at:
                    return None
                self._error = None
                self._work = Thread(target=self._refresh, name="overview", daemon=True)
                self._work.start()
            return self._work

    def known(self) -> Known:
        """All tables. Waits for a scan that is due, but not long; the first one must have ended.

        Raises:
            Exception: Of the scan or the listing, if it failed. The next call begins again.
        """
        work = self.start()
        if work:
            self._count(waiting=1)
            self._first.wait()
            work.join(self.console.patience_seconds)
            self._count(waiting=-1)
        if self._error:
            raise self._error
        assert self._known
        return self._known

    def expire(self) -> None:
        """Have the next page scan the items: something was changed."""
        self._scan_at = 0.0

    def live(self, rows: Sequence[Row]) -> list[Row]:
        """Read some tables now: items, raw files and newest changes. Those without an item stay as they are known."""
        inputs, now = self.console.lake.plan_inputs, self.console.clock()
        found = in_parallel(inputs.states.get, [row.path for row in rows], CONCURRENT_READS)
        states = [state for state in found if state]
        planned = controller.plan_tables(inputs, now, states)
        statuses = table_statuses(planned, self.console.lake.log, now, self.console.late_after_minutes)
        of_path = {status.path: status for status in statuses}
        read = {state.path: _row(state, of_path[state.path], now) for state in states}
        with self._lock:
            if self._known:
                self._known = replace(self._known, rows={**self._known.rows, **read})
        return [read.get(row.path, row) for row in rows]

    def _begin_page(self) -> None:
        self._count(pages=1)

    def _end_page(self, _: BaseException | None = None) -> None:
        self._count(pages=-1)

    def _count(self, pages: int = 0, waiting: int = 0) -> None:
        with self._way:
            self._pages += pages
            self._waiting += waiting
            self._way.notify_all()

    def _is_free(self) -> bool:
        """Whether every page that is being made waits for the thread."""
        return self._pages <= self._waiting

    def _give_way(self) -> None:
        """Let pages be made first."""
        if not self._is_free():
            with self._way:
                self._way.wait_for(self._is_free, LONGEST_WAY_SECONDS)

    def _refresh(self) -> None:
        try:
            self._scan()
            if monotonic() >= self._list_at:
                self._list()
        except Exception as error:  # noqa: BLE001 - the page that waits for this raises it
            self._error, self._scan_at = error, 0.0
        finally:
            self._first.set()

    def _scan(self) -> None:
        """Read all items. Tables whose item changed since their raw files were listed are listed again."""
        begin, now = monotonic(), self.console.clock()
        inputs = self._inputs()
        old, states = self._known or Known({}, now), {}
        for state in inputs.states.all(f"{inputs.bucket}/{inputs.prefix}"):
            states[state.path] = state
            self._give_way()
        changed = [
            state for path, state in sorted(states.items()) if path not in old.rows or old.rows[path].state != state
        ]
        rows = {path: row for path, row in old.rows.items() if row.state is None or path in states}
        if old.listed_utc:
            rows |= self._rows(controller.plan_tables(inputs, now, changed), now)
        else:
            rows |= {state.path: Row(str(state.name), state, None) for state in changed}
        self._known = replace(old, rows=dict(sorted(rows.items())), scanned_utc=now)
        self._scan_at = self._due(begin, SCAN_RESTS)
        self._first.set()

    def _list(self) -> None:
        """List all raw files, as `cdclake status` does."""
        begin, now = monotonic(), self.console.clock()
        plan = controller.plan(self._inputs(), now)
        self._known = Known(self._rows(plan.tables, now), now, now, plan.errors, plan.findings)
        self._list_at = self._due(begin, LISTING_RESTS)

    def _inputs(self) -> PlanInputs:
        """The inputs of a plan, whose raw files are listed while no page is being made."""
        inputs = self.console.lake.plan_inputs
        return replace(inputs, raw=_GivesWay(inputs.raw, self._give_way))

    def _due(self, begin: float, rests: int) -> float:
        """When work that began at a time is to be done again."""
        end, keep = monotonic(), self.console.keep_seconds
        return end + max(keep, rests * (end - begin)) if keep else end

    def _rows(self, planned: Iterable[PlannedTable], now: datetime) -> dict[str, Row]:
        rows = {}
        for one in planned:
            self._give_way()
            status = table_status(one, None, "", now, self.console.late_after_minutes)
            rows[one.state.path] = _row(None if one.action is Action.REGISTER else one.state, status, now)
        return rows


@dataclass(frozen=True)
class _GivesWay:
    """An `ObjectReader` that calls something before each listing."""

    raw: ObjectReader
    give_way: Callable[[], None]

    @property
    def calls_at_once(self) -> int:
        """How many calls at a time save time."""
        return self.raw.calls_at_once

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, by key, through all pages."""
        self.give_way()
        return self.raw.list(prefix, start_after)

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order."""
        self.give_way()
        return self.raw.list_level(prefix)


def _row(state: TableState | None, status: TableStatus, now: datetime) -> Row:
    return Row(status.table, state, status, RecentDelays.of(state.item, now) if state else RecentDelays())


def current_overview() -> Overview:
    """The overview of the current request's application."""
    return cast("Overview", current_app.extensions[_KEY])
