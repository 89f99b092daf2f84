"""The list of thousands of tables: its order and filters, and that a page reads only the tables that it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.control.status import Health, table_status
from cdclake.errors import ConfigurationError
from cdclake.model.table.state import TableState
from cdclake_cli.console.overview import Overview, Row
from cdclake_cli.console.table_list import ACTION, SORTS, Selection
from cdclake_devkit.memory import MemoryState
from tests.cdclake_cli.console.conftest import Browser, browser_of
from tests.cdclake_cli.console.fleet import FAILED, Fleet, Raw, fleet, name_of
from tests.cdclake_cli.console.test_pages import STORE_PATH, table_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.control.status import TableStatus
    from cdclake_cli.console.context import Console
    from tests.cdclake_cli.console.lake import MemoryLake

TABLES = 120


@pytest.fixture(scope="session")
def large(filled: MemoryLake) -> Fleet:
    return fleet(filled, TABLES)


@pytest.fixture
def operator(console: Console, large: Fleet) -> Browser:
    """A browser on a fleet that is listed once."""
    return browser_of(console, lake=large, clock=large.clock, keep_seconds=3600)


def health_of(overview: Overview, path: str) -> Health | None:
    status = overview.known().rows[path].status
    return status.health if status else None


def overview_of(browser: Browser) -> Overview:
    found = browser.client.application.extensions["cdclake-overview"]
    assert isinstance(found, Overview)
    return found


@pytest.fixture(scope="session")
def some(filled: MemoryLake) -> TableStatus:
    """A status, to vary."""
    state = next(iter(filled.states.all()))
    return table_status(PlannedTable(state, Action.NONE), None, "", filled.clock(), 180)


def test_a_page_reads_items_raw_files_and_logs_of_the_shown_tables_only(operator: Browser, large: Fleet) -> None:
    operator.get("/")
    for page, shown in (("/", 50), ("/?q=_07&sort=-lag", 3), ("/?health=failed", 2), ("/?from=100", 20)):
        large.store.requests.clear()
        large.raw.requests.clear()
        assert len(table_names(operator.get(page).text)) == shown
        assert sum(large.store.requests.values()) <= shown
        assert sum(large.raw.requests.values()) <= shown


def test_filters_order_and_page_are_in_the_address(operator: Browser) -> None:
    page = operator.get("/?q=orders&sort=-delay&health=up to date").text
    assert 'aria-sort="descending"><a href="/?q=orders&amp;health=up+to+date&amp;sort=delay">Delay</a>' in page
    assert page.count("aria-sort") == 1
    assert '<a href="/?q=orders&amp;health=up+to+date&amp;sort=table">Table</a>' in page
    assert 'rel="next" href="/?q=orders&amp;health=up+to+date&amp;sort=-delay&amp;from=50"' in page
    assert '<option value="-delay" selected>longest delay</option>' in page
    assert '<input type="hidden" name="health" value="up to date">' in page
    delays = [int(text) for text in re.findall(r">(\d+) s, p95", operator.get("/?q=orders&sort=delay").text)]
    assert delays
    assert delays == sorted(delays)


def test_the_tables_that_need_action_are_one_filter(operator: Browser) -> None:
    failed = {str(name_of(number)) for number in range(TABLES) if number % FAILED == 1}
    found = set(table_names(operator.get(f"/?health={ACTION}").text))
    assert failed < found
    assert "action needed <b>3</b>" in operator.get("/").text


def test_an_unknown_order_is_refused(operator: Browser) -> None:
    assert "'sort' must be one of" in operator.text("/?sort=size", 400).replace("&#39;", "'")


NUMBERS = st.none() | st.integers(0, 5)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(Health)), max_size=12), st.sampled_from(sorted(SORTS)))
def test_every_order_has_all_tables_and_those_without_a_value_last(
    some: TableStatus, figures: list[tuple[int | None, int | None, Health]], sort: str
) -> None:
    made = [
        Row(f"a.{n}", None, replace(some, path=f"{n:02}", lag_seconds=lag, delay_p95_seconds=delay, health=health))
        for n, (lag, delay, health) in enumerate(figures)
    ]
    made.append(Row("a.unlisted", TableState({"path": "99"}), None))
    chosen = Selection(sort=sort).chosen(made)
    assert sorted(row.name for row in chosen) == sorted(row.name for row in made)
    values = {"-lag": "lag_seconds", "lag": "lag_seconds", "delay": "delay_p95_seconds", "-delay": "delay_p95_seconds"}
    if sort in values:
        known = [getattr(row.status, values[sort], None) for row in chosen]
        present = [value for value in known if value is not None]
        assert known == sorted(present, reverse=sort.startswith("-")) + [None] * (len(known) - len(present))


def test_before_the_first_listing_a_page_shows_what_its_own_tables_are(console: Console, large: Fleet) -> None:
    held = Event()

    class Held(Raw):
        """Lists the folders of the fleet only when it is let."""

        def list_level(self, prefix: str) -> Iterator[str]:
            held.wait()
            return super().list_level(prefix)

    slow = Held(large.clock)
    slow.folders = large.raw.folders
    browser = browser_of(
        console, lake=replace(large, raw=slow), clock=large.clock, keep_seconds=3600, patience_seconds=0
    )
    text = browser.text("/")
    assert "The raw files of all tables are being listed" in text
    assert f"{TABLES} tables" in text
    assert f"{name_of(0)} up to date" in text
    work = overview_of(browser).start()
    held.set()
    if work:
        work.join()
    assert "all raw files listed 0 s ago" in browser.text("/")


def test_the_thread_gives_way_to_pages_that_do_not_wait_for_it(console: Console, large: Fleet) -> None:
    overview, steps = Overview(console), list[str]()

    def list_files() -> None:
        overview._give_way()
        steps.append("listed")

    thread = Thread(target=list_files)
    overview._begin_page()
    thread.start()
    steps.append("page")
    overview._end_page()
    thread.join()
    assert steps == ["page", "listed"]


def test_items_that_change_are_planned_again_and_no_others(console: Console, filled: MemoryLake) -> None:
    large = fleet(filled, 60)
    overview = Overview(replace(console, lake=large, clock=large.clock, keep_seconds=3600))
    path = large.installation.new_state(name_of(0)).path
    overview.known()
    large.states.record_run(path, {"LastRunState": "FAILED", "LastError": "BadRowError: x"})
    assert health_of(overview, path) is Health.UP_TO_DATE
    large.raw.requests.clear()
    overview.expire()
    assert health_of(overview, path) is Health.FAILED
    assert large.raw.requests == {"list": 1}
    assert large.store.requests == {}


def test_a_form_lets_the_next_list_read_the_items(console: Console, lake: MemoryLake) -> None:
    browser = browser_of(console, keep_seconds=3600)
    assert "inactive <b>1</b>" in browser.get("/").text
    browser.post("/tables/shop.orders/active", active="false", back="list")
    assert "inactive <b>2</b>" in browser.get("/").text


def test_an_error_is_shown_and_the_next_page_tries_again(console: Console, lake: MemoryLake) -> None:
    class Fails(MemoryState):
        left = 1

        def all(self, path_prefix: str = ""):
            if self.left:
                self.left -= 1
                raise ConfigurationError("No right to scan")
            return lake.states.all(path_prefix)

        def get(self, path: str):
            return lake.states.get(path)

    browser = browser_of(console, lake=replace(lake, states=Fails()), keep_seconds=3600)
    assert "No right to scan" in browser.text("/", 400)
    assert "shop.orders up to date" in browser.text("/")


def test_a_table_that_is_gone_leaves_the_list(console: Console, lake: MemoryLake) -> None:
    overview = Overview(replace(console, lake=lake))
    assert STORE_PATH in overview.known().rows
    del lake.states._items[STORE_PATH]
    lake.raw.delete([entry.key for entry in lake.raw.list("shop/store/")])
    assert STORE_PATH not in overview.known().rows
