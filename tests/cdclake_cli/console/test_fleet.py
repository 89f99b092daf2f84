"""The page of all tables together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.commit.log import ChangeLog
from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.control.status import table_status
from cdclake.model.change.delay import RecentDelays
from cdclake.model.change.place import Place
from cdclake.model.names import RunState
from cdclake.model.times import iso_utc
from cdclake_cli.console.fleet import MOST_CHANGES, MOST_LISTED, Day, Summary
from cdclake_cli.console.overview import Row
from cdclake_devkit.memory import MemoryStore
from tests.builders import LAYOUT, LakeBuilder
from tests.cdclake_cli.console.conftest import Browser, browser_of
from tests.cdclake_cli.console.lake import FIRST_CHANGE_UTC

if TYPE_CHECKING:
    from typing import Any

    from cdclake_cli.console.context import Console
    from tests.cdclake_cli.console.lake import MemoryLake

NOW = FIRST_CHANGE_UTC + timedelta(days=1)


def test_the_fleet_tells_what_needs_action_waits_and_failed(browser: Browser, lake: MemoryLake) -> None:
    lake.raw.put("shop/orders/20240305-090000000.csv", b"I,1\n")
    lake.states.record_run("cdclake-raw/shop/orders/", {"LastIncrementalFile": "cdclake-raw/shop/orders/0.parquet"})
    text = browser.text("/fleet")
    assert "5 tables. Items read 0 s ago, all raw files listed 0 s ago" in text
    assert "Action needed 2 tables Raw files waiting 1, the oldest for 0 s" in text
    assert "Delay of the last day, p95 3 min 5 s, median 42 s Delays known 3" in text
    assert "shop.vouchers new set its key" in text.replace("cdclake tables set", "set its key", 1)
    assert "Last run failed 1 shop.store 2024-03-05 10:00:00 UTC BadRowError" in text
    assert "Raw files waiting 1 shop.orders 1 file for 0 s" in text
    assert "Longest delays 1 shop.orders 42 s, p95 3 min 5 s" in text


def test_the_last_day_of_each_table_is_on_pages(console: Console, lake: MemoryLake) -> None:
    page = browser_of(console, days_per_page=2)
    assert "shop.orders 333,078" in page.text("/fleet")
    assert 'rel="next" href="/fleet?from=2"' in page.get("/fleet").text
    assert "3 to 4 of 4" in page.text("/fleet?from=2")


def test_a_day_adds_up_its_changes_and_what_they_cost_at_least() -> None:
    log = ChangeLog(MemoryStore(), LAYOUT)
    times = iter([NOW - timedelta(days=2), NOW - timedelta(hours=2), NOW - timedelta(hours=1)])
    builder = LakeBuilder(log, lambda: next(times), lambda _: b"x" * 10)
    for place in (Place("LoadInitial"), Place("SmallChanges", 1024), Place("LoadIncremental")):
        builder.change(1, (), rows=[7], place=place, seconds={"read": 30.0}, books={"applied": 7, "inserted": 7})
    day = Day.read(log, log.head(), NOW)
    assert (day.rows, day.bytes, day.changes, day.applied, day.written) == (21, 30, 2, 14, 20)
    assert day.cents == 100 * (0.0000002 + 0.0000133334 * 30) + 100 * 0.44 * 2 * 60 / 3600
    assert day.complete


def test_a_day_of_more_changes_than_are_read_says_so() -> None:
    log = ChangeLog(MemoryStore(), LAYOUT)
    builder = LakeBuilder(log, lambda: NOW)
    for _ in range(MOST_CHANGES + 1):
        builder.change(1, ())
    day = Day.read(log, log.head(), NOW)
    assert (day.changes, day.complete) == (MOST_CHANGES, False)


def test_short_lists_begin_with_the_worst_and_count_all(filled: MemoryLake) -> None:
    state = next(iter(filled.states.all()))
    status = table_status(PlannedTable(state, Action.NONE), None, "", NOW, 180)

    def row(number: int, **fields: Any) -> Row:
        return Row(f"a.{number}", state, replace(status, path=f"{number:03}", **fields))

    long_ago, now = iso_utc(NOW - timedelta(days=1, seconds=1)), iso_utc(NOW)
    rows = [row(n, lag_files=n % 3, lag_seconds=float(n), delay_p95_seconds=n or None) for n in range(40)]
    rows += [row(90, run_state=RunState.FAILED, run_utc=long_ago), row(91, run_state=RunState.FAILED, run_utc=now)]
    summary = Summary.of(rows, RecentDelays(), NOW)
    assert summary.action.total == 42
    assert [one.name for one in summary.waiting.rows][:3] == ["a.38", "a.37", "a.35"]
    assert (len(summary.waiting.rows), summary.waiting.total, summary.files) == (MOST_LISTED, 26, 39)
    assert [one.name for one in summary.failed.rows] == ["a.91"]
    assert summary.slow.rows[0].name == "a.39"
