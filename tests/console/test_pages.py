"""What the pages about tables, changes and bad rows show, and what is said where something is wrong."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.memory import ManualClock, MemoryState, MemoryStore
from cdclake.console import changes, tables
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake.model.table import TableName
from tests.console.conftest import Browser, browser_on, plain
from tests.console.lake import LONG, WRONG, GrowingTable, MemoryLake

if TYPE_CHECKING:
    from cdclake.console.context import Console

STORE_PATH = "cdclake-raw/shop/store/"


def names(text: str) -> list[str]:
    """The tables of a list, in its order."""
    return re.findall(r'<tbody role="rowgroup" id="([^"]*)"', text)


def test_the_list_has_those_first_that_need_a_person_and_says_how_all_stand(browser: Browser) -> None:
    page = browser.get("/").text
    assert names(page) == ["shop.store", "shop.vouchers", str(LONG), "shop.orders", "shop.product"]
    text = browser.text("/")
    assert "5 in all, 2 need a person" in text
    assert "shop.store failed 0 s 120 1 full load 2024-03-05 10:02:11" in text
    assert WRONG in text.replace("&#39;", "'")
    assert "shop.vouchers new" in text
    assert "not registered" in text
    assert "shop.orders up to date 0 s 333,078 22 incremental" in text


def test_the_list_is_limited_by_name_and_by_how_tables_stand(browser: Browser) -> None:
    assert names(browser.get("/?q=ORDER").text) == [str(LONG), "shop.orders"]
    assert names(browser.get("/?standing=failed").text) == ["shop.store"]
    assert names(browser.get("/?q=orders&standing=failed").text) == []
    assert "No table is like that" in browser.text("/?q=nothing")


def test_a_long_list_comes_in_pages(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES_A_PAGE", 2)
    pages = [browser.get(f"/?from={start}").text for start in (0, 2, 4)]
    assert [len(names(page)) for page in pages] == [2, 2, 1]
    assert "3 to 4 of 5" in plain(browser.get("/?from=2"))
    assert 'rel="next" href="/?from=4"' in pages[1]
    assert 'rel="prev" href="/?from=0"' in pages[1]


def test_a_table_is_turned_off_and_on_and_nothing_else_of_it_changes(browser: Browser, lake: MemoryLake) -> None:
    path = "cdclake-raw/shop/orders/"
    before = lake.states.get(path)
    assert before is not None
    answer = browser.post("/tables/shop.orders/active", active="false", back="list")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/#shop.orders")
    off = lake.states.get(path)
    assert off is not None
    assert off.item == {**before.item, "ActiveFlag": "false"}
    assert "shop.orders inactive" in browser.text("/")
    answer = browser.post("/tables/shop.orders/active", active="true")
    assert answer.headers["Location"] == "/tables/shop.orders"
    assert lake.states.get(path) == before


def test_a_table_whose_settings_the_jobs_cannot_read_is_not_turned_on(browser: Browser, lake: MemoryLake) -> None:
    path = "cdclake-raw/shop/product/"
    lake.states.set_attributes(path, {"MaxQuarantinedRows": "many"})
    answer = browser.post("/tables/shop.product/active", active="true")
    assert answer.status_code == 400
    assert "Set it to a whole number, 0 or more" in plain(answer)
    state = lake.states.get(path)
    assert state is not None
    assert not state.active


@pytest.mark.parametrize("active", ["", "yes", "True"])
def test_what_is_neither_on_nor_off_changes_nothing(browser: Browser, active: str) -> None:
    assert browser.post("/tables/shop.orders/active", active=active).status_code == 400


def test_the_page_of_a_table_has_its_facts_its_changes_and_their_charts(browser: Browser) -> None:
    text = browser.text("/tables/shop.orders")
    assert "Primary key id Partition key –" in text  # noqa: RUF001 - the dash of the page
    assert "22 2024-03-06 07:02:11 incremental shown now 3,270 2,540 650 80 0 333,078 2 / 1" in text
    assert "direct ada: prices of last week, as agreed with sales" in text
    page = browser.get("/tables/shop.orders").text
    assert [len(re.findall(f'class="{kind}"', page)) for kind in ("chart", "gap")] == [4, 1]
    assert "Change 9, incremental, 2024-03-05T18:02:11: 310 inserted, 180 updated, 22 deleted" in page


def test_older_changes_are_a_page_further_back(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHANGES_A_PAGE", 10)
    first = browser.get("/tables/shop.orders").text
    assert 'rel="next" href="/tables/shop.orders?through=12"' in first
    assert "3 to 12 of 22" in browser.text("/tables/shop.orders?through=12")
    last = browser.get("/tables/shop.orders?through=2").text
    assert 'rel="next"' not in last
    assert 'rel="prev" href="/tables/shop.orders"' in last


def test_a_table_without_changes_and_one_that_is_not_registered_have_pages_that_say_so(
    browser: Browser, lake: MemoryLake
) -> None:
    assert "The table has no changes yet" in browser.text("/tables/shop.product")
    assert "cdclake tables set shop.vouchers" in browser.text("/tables/shop.vouchers")
    GrowingTable(lake.log(TableName("old", "left"))).load(10)
    text = browser.text("/tables/old.left")
    assert "not registered" in text
    assert "Undo change" not in text
    assert "Go back …" not in text


def test_a_change_shows_its_books_its_phases_and_its_files(browser: Browser) -> None:
    text = browser.text("/tables/shop.orders/changes/9")
    assert "read insert 322 read update 180 read delete 22 read unknown 3 derived 0 together 527" in text
    assert "applied 512 superseded 12 ignored 0 quarantined 3 together 527 ✓ balances" in text
    assert "rows before 312,010 replaced 0 restored 0 inserted 310 deleted -22 erased 0 together 312,298" in text
    assert text.count("✓ balances") == 3
    assert "rewrite 2.0 s" in text
    assert "publish 0.4 s" in text
    assert "Data files added 2 000000000009-00001.parquet 000000000009-00002.parquet" in text
    by_hand = browser.text("/tables/shop.orders/changes/15")
    assert "Made by ada Reason prices of last week" in by_hand
    assert "Raw files read" not in by_hand


def test_a_list_of_very_many_files_is_cut_and_says_where_all_are(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_FILES_LISTED", 1)
    text = browser.text("/tables/shop.orders/changes/9")
    assert "and 1 more: cdclake changes show shop.orders 9 lists all" in text
    assert "000000000009-00002.parquet" not in text


def test_bad_rows_are_shown_as_they_came_and_run_nothing(browser: Browser) -> None:
    answer = browser.get("/tables/shop.orders/quarantine")
    assert "&lt;script&gt;document.title = &#39;owned&#39;&lt;/script&gt;" in answer.text
    assert "<script>document" not in answer.text
    text = plain(answer)
    assert "20240305-180233117.csv 41 The operation of a change row is not I, U or D Op X id 80412" in text
    assert "price null" in text
    assert "U,80471,&#34;Ada &lt;ada@example.com&gt;&#34;" in text
    assert "1 to 3 of 3 of change 9" in text
    assert "cdclake quarantine list shop.orders tells which of them the table still lacks" in text


def test_bad_rows_come_in_pages_and_by_change(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "ROWS_A_PAGE", 2)
    page = "/tables/shop.orders/quarantine?change=9"
    assert 'rel="next" href="/tables/shop.orders/quarantine?change=9&amp;from=2"' in browser.get(page).text
    assert "3 to 3 of 3" in browser.text(f"{page}&from=2")
    assert "Change 8 put no rows aside" in browser.text("/tables/shop.orders/quarantine?change=8")
    assert "No change of this table has put rows aside" in browser.text("/tables/shop.store/quarantine")


def test_rows_are_shown_on_the_page_of_bad_rows_alone(browser: Browser) -> None:
    pages = ["/", "/tables/shop.orders", "/tables/shop.orders/changes/9", "/tables/shop.orders/rollback"]
    assert not [page for page in pages if "80412" in browser.get(page).text]


@pytest.mark.parametrize(
    ("page", "status", "words"),
    [
        ("/tables/shop.nope", 404, "There is no such table"),
        ("/tables/nodot", 400, "is not a table name"),
        ("/tables/shop.orders/changes/23", 404, "has no change 23 What to do: Its newest is 22"),
        ("/tables/shop.orders/changes/0", 404, "has no change 0"),
        ("/tables/shop.product/changes/1", 404, "It has none yet"),
        ("/tables/shop.orders/quarantine?change=99", 404, "has no change 99"),
        ("/tables/shop.orders?through=-1", 400, "must be a whole number"),
        ("/tables/shop.orders/changes/9/nothing", 404, "Not found"),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(browser: Browser, page: str, status: int, words: str) -> None:
    assert words in browser.text(page, status).replace("&#39;", "'")


def test_names_of_tables_are_text_wherever_they_stand(browser: Browser, lake: MemoryLake) -> None:
    name = TableName("shop", "<b>&\"'100%?#")
    lake.raw.put(f"{name.schema}/{name.table}/LOAD00000001.csv", b"id\n1\n")
    lake.states.register(lake.installation.new_state(name))
    page = browser.get("/").text
    assert '<b>&"' not in page
    (link,) = re.findall(r'href="(/tables/shop\.%3Cb[^"]*)"', page)
    assert "The table has no changes yet" in browser.text(link.replace("&amp;", "&").replace("&#39;", "'"))


def test_where_aws_cannot_be_reached_the_page_says_so_and_what_to_do(about: Console, lake: MemoryLake) -> None:
    class GoneError(Exception):
        """What a library raises."""

    class Gone(MemoryState):
        def all(self, path_prefix: str = ""):
            raise GoneError

    def explain(error: Exception) -> CdclakeError | None:
        assert isinstance(error, GoneError)
        return ConfigurationError("Nothing answers", remedy="Start it", endpoint="http://127.0.0.1:1")

    browser = browser_on(replace(about, lake=replace(lake, states=Gone()), explain=explain))
    browser.enter()
    text = browser.text("/", 502)
    assert "AWS cannot be used as it is Nothing answers What to do: Start it. endpoint http://127.0.0.1:1" in text


def test_a_failure_of_the_console_itself_shows_no_traceback_and_is_logged(
    about: Console, lake: MemoryLake, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryState):
        def all(self, path_prefix: str = ""):
            raise ZeroDivisionError("a secret thing")

    browser = browser_on(replace(about, lake=replace(lake, states=Broken())))
    browser.enter()
    with caplog.at_level(logging.ERROR):
        text = browser.text("/", 500)
    assert "The console itself failed" in text
    assert "secret thing" not in text
    assert "ZeroDivisionError" in caplog.text


def test_before_dms_has_written_anything_the_list_says_what_to_check(about: Console, clock: ManualClock) -> None:
    empty = MemoryLake(MemoryStore(clock), MemoryStore(clock), MemoryState(), clock)
    browser = browser_on(replace(about, lake=empty))
    browser.enter()
    assert "The raw location is empty What to do: Check that the source database has data" in browser.text("/", 400)


def test_a_folder_that_cannot_be_looked_at_is_told_beside_the_tables(about: Console, lake: MemoryLake) -> None:
    class OneClosed(MemoryStore):
        def list_folders(self, prefix: str):
            if prefix == "shop/":
                raise ConfigurationError("No right to list")
            return lake.raw.list_folders(prefix)

    browser = browser_on(replace(about, lake=replace(lake, raw=OneClosed())))
    browser.enter()
    text = browser.text("/")
    assert "A folder of the raw bucket could not be looked at" in text
    assert "shop.orders" in text


def test_what_the_lake_lacks_is_the_trouble_of_its_table_alone(browser: Browser, lake: MemoryLake) -> None:
    lake.states.record_run(STORE_PATH, {"LastChangeId": "9"})
    text = browser.text("/")
    assert "shop.store broken" in text
    assert "shop.orders up to date" in text
