"""The pages of tables, changes and bad rows, and their error pages."""

from __future__ import annotations

import errno
import gc
import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from flask import url_for

from cdclake.control.plan.open_findings import OpenFindings
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.errors import explain
from cdclake_devkit.memory import ManualClock, MemoryState, MemoryStore
from tests.cdclake_cli.console.conftest import ORIGIN, Browser, browser_of, plain_text
from tests.cdclake_cli.console.lake import LONG, WRONG, GrowingTable, MemoryLake

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake_cli.console.context import Console

STORE_PATH = "cdclake-raw/shop/store/"


def table_names(html: str) -> list[str]:
    """The tables of a list, in order."""
    return re.findall(r'<tbody role="rowgroup" id="([^"]*)"', html)


def test_tables_that_need_action_come_first_in_the_list(browser: Browser) -> None:
    page = browser.get("/").text
    assert table_names(page) == ["shop.store", "shop.vouchers", str(LONG), "shop.orders", "shop.product"]
    text = browser.text("/")
    assert "5 tables, action needed for 2" in text
    assert "shop.store failed 0 s – 120 1 full load 2024-03-05 10:02:11 UTC" in text  # noqa: RUF001 - the page's dash
    assert WRONG in text.replace("&#39;", "'")
    assert "shop.vouchers new" in text
    assert "not registered" in text
    assert "shop.orders up to date 0 s 42 s, p95 3 min 5 s 333,078 22 incremental" in text


@pytest.mark.filterwarnings("always:unclosed file:ResourceWarning")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_file_that_is_not_sent_is_closed(browser: Browser, recwarn: pytest.WarningsRecorder, method: str) -> None:
    known = browser.get("/static/icon.svg")
    headers = {"If-None-Match": known.headers["ETag"]} if method == "GET" else {}
    known.close()
    response = browser.client.open("/static/icon.svg", method=method, base_url=ORIGIN, headers=headers)
    assert response.status_code == (304 if method == "GET" else 200)
    del response
    gc.collect()
    assert not [one for one in recwarn if issubclass(one.category, ResourceWarning)]


def test_a_finding_makes_a_table_incomplete_and_is_shown_once(browser: Browser, lake: MemoryLake) -> None:
    lake.states.record_run("cdclake-raw/shop/orders/", {"LastFindings": str(OpenFindings(22, quarantined_rows=3))})
    for page in ("/?health=incomplete", "/tables/shop.orders"):
        text = browser.text(page)
        assert "shop.orders incomplete" in text
        assert text.count("quarantined rows that the table lacks: 3.") == 1


def test_the_list_is_filtered_by_name_and_health(browser: Browser) -> None:
    assert table_names(browser.get("/?q=ORDER").text) == [str(LONG), "shop.orders"]
    assert table_names(browser.get("/?health=failed").text) == ["shop.store"]
    assert table_names(browser.get("/?q=orders&health=failed").text) == []
    assert "No table matches" in browser.text("/?q=nothing")


def test_a_long_list_is_split_into_pages(console: Console) -> None:
    browser = browser_of(console, tables_per_page=2)
    pages = [browser.get(f"/?from={start}").text for start in (0, 2, 4)]
    assert [len(table_names(page)) for page in pages] == [2, 2, 1]
    assert "3 to 4 of 5" in browser.text("/?from=2")
    assert 'rel="next" href="/?from=4"' in pages[1]
    assert 'rel="prev" href="/"' in pages[1]
    for start in (5, 999):  # an address from when there were more tables
        assert "5 to 5 of 5" in browser.text(f"/?from={start}")
    assert "No table matches" in browser.text("/?q=nothing&from=999")


def test_turning_a_table_off_and_on_changes_nothing_else(browser: Browser, lake: MemoryLake) -> None:
    path = "cdclake-raw/shop/orders/"
    before = lake.states.get(path)
    assert before is not None
    response = browser.post("/tables/shop.orders/active", active="false", back="list")
    assert (response.status_code, response.headers["Location"]) == (303, "/#shop.orders")
    off = lake.states.get(path)
    assert off is not None
    assert off.item == {**before.item, "ActiveFlag": "false"}
    assert "shop.orders inactive" in browser.text("/")
    response = browser.post("/tables/shop.orders/active", active="true")
    assert response.headers["Location"] == "/tables/shop.orders"
    assert lake.states.get(path) == before


def test_a_table_with_invalid_settings_is_not_turned_on(browser: Browser, lake: MemoryLake) -> None:
    path = "cdclake-raw/shop/product/"
    lake.states.set_attributes(path, {"MaxQuarantinedRows": "many"})
    response = browser.post("/tables/shop.product/active", active="true")
    assert response.status_code == 400
    assert "Set it to a whole number, 0 or more" in plain_text(response)
    state = lake.states.get(path)
    assert state is not None
    assert not state.active


@pytest.mark.parametrize("active", ["", "yes", "True"])
def test_an_invalid_value_of_active_is_refused(browser: Browser, active: str) -> None:
    assert browser.post("/tables/shop.orders/active", active=active).status_code == 400


def test_the_page_of_a_table_shows_its_attributes_changes_and_charts(browser: Browser) -> None:
    text = browser.text("/tables/shop.orders")
    assert "Primary key id Partition key –" in text  # noqa: RUF001 - the dash of the page
    assert "22 2024-03-06 07:02:11 UTC incremental current 3,270 2,540 650 80 0 333,078 2 / 1 6.8 s 3 min 5 s" in text
    assert "Delay, last day 42 s, p95 3 min 5 s" in text
    assert "direct ada: prices of last week, as agreed with sales" in text
    page = browser.get("/tables/shop.orders").text
    assert page.count('class="chart"') == 4
    assert page.count("<small>logarithmic scale</small>") == 1
    assert "Change 9, incremental, 2024-03-05 18:02:11 UTC: 310 inserted, 180 updated, 22 deleted" in page


def test_older_changes_are_on_further_pages(console: Console) -> None:
    browser = browser_of(console, changes_per_page=10)
    assert 'rel="next" href="/tables/shop.orders?through=12"' in browser.get("/tables/shop.orders").text
    assert "3 to 12 of 22" in browser.text("/tables/shop.orders?through=12")
    last = browser.get("/tables/shop.orders?through=2").text
    assert 'rel="next"' not in last
    assert 'rel="prev" href="/tables/shop.orders"' in last


def test_tables_without_changes_and_unregistered_tables_have_pages(browser: Browser, lake: MemoryLake) -> None:
    assert "The table has no changes yet" in browser.text("/tables/shop.product")
    assert "cdclake tables set shop.vouchers" in browser.text("/tables/shop.vouchers")
    GrowingTable(lake.log(TableName("old", "left"))).load(10)
    text = browser.text("/tables/old.left")
    assert "not registered" in text
    assert "Undo change" not in text
    assert "Roll back …" not in text


def test_the_page_of_a_change_shows_its_books_phases_and_files(browser: Browser) -> None:
    assert "Delay 3 min 5 s" in browser.text("/tables/shop.orders/changes/22")
    text = browser.text("/tables/shop.orders/changes/9")
    assert "Delay" not in text
    assert "read insert 322 read update 180 read delete 22 read unknown 3 derived 0 total 527" in text
    assert "applied 512 superseded 12 ignored 0 quarantined 3 suppressed 0 total 527 ✓ balanced" in text
    assert "rows before 312,010 replaced 0 restored 0 inserted 310 deleted -22 erased 0 total 312,298" in text
    assert text.count("✓ balanced") == 3
    assert "rewrite 2.0 s" in text
    assert "publish 0.4 s" in text
    assert "Data files added 2 000000000009-00001.parquet 000000000009-00002.parquet" in text
    direct = browser.text("/tables/shop.orders/changes/15")
    assert "Made by ada Reason prices of last week" in direct
    assert "Raw files read" not in direct


def test_a_long_list_of_files_is_cut_and_names_the_command_for_the_rest(console: Console) -> None:
    text = browser_of(console, max_files_listed=1).text("/tables/shop.orders/changes/9")
    assert "and 1 more: cdclake changes show shop.orders 9 lists all of them" in text
    assert "000000000009-00002.parquet" not in text


def test_bad_rows_are_escaped_and_counted_from_1(browser: Browser) -> None:
    response = browser.get("/tables/shop.orders/quarantine")
    assert "&lt;script&gt;document.title = &#39;owned&#39;&lt;/script&gt;" in response.text
    assert "<script>document" not in response.text
    text = plain_text(response)
    assert "20240305-180233117.csv 42 The operation of a change row is not I, U or D Op X id 80412" in text
    assert "price null" in text
    assert "U,80471,&#34;Ada &lt;ada@example.com&gt;&#34;" in text
    assert "1 to 3 of 3 of change 9" in text
    assert "cdclake quarantine list shop.orders lists those that the table still lacks" in text


def test_bad_rows_are_split_by_page_and_change(console: Console) -> None:
    browser = browser_of(console, rows_per_page=2)
    page = "/tables/shop.orders/quarantine?change=9"
    assert 'rel="next" href="/tables/shop.orders/quarantine?change=9&amp;from=2"' in browser.get(page).text
    assert "3 to 3 of 3" in browser.text(f"{page}&from=2")
    assert "Change 9 has no more bad rows" in browser.text(f"{page}&from=4")
    assert "Change 8 has no bad rows" in browser.text("/tables/shop.orders/quarantine?change=8")
    assert "No change of this table has bad rows" in browser.text("/tables/shop.store/quarantine")


def test_the_page_of_raw_files_shows_their_fates(console: Console, lake: MemoryLake) -> None:
    browser = browser_of(console, rows_per_page=2)
    lake.raw.put("shop/orders/20990305-180233117.csv", b"I,1\n")
    lake.raw.put("shop/orders/a\u202eb.csv", b"I,1\n")
    text = browser.text("/tables/shop.orders/files")
    assert "1 to 2 of 3" in text
    assert r"a\u202eb.csv unread" in text
    assert "20990305-180233117.csv waiting" in text
    assert "is stamped more than a day later than it was written" in text
    assert "LOAD00000001.csv loaded" in browser.text("/tables/shop.orders/files?from=2")
    assert "1 to 1 of 1" in browser.text("/tables/shop.orders/files?fate=unread")
    assert "No raw file has this fate" in browser.text("/tables/shop.orders/files?fate=nope")
    assert 'href="/tables/shop.orders/files"' in browser.get("/tables/shop.orders").text


def test_only_the_page_of_bad_rows_shows_row_content(browser: Browser) -> None:
    pages = ["/", "/tables/shop.orders", "/tables/shop.orders/changes/9", "/tables/shop.orders/rollback"]
    assert not [page for page in pages if "80412" in browser.get(page).text]


@pytest.mark.parametrize(
    ("page", "status", "words"),
    [
        ("/tables/shop.nope", 404, "The table does not exist"),
        ("/tables/nodot", 400, "is not a table name"),
        ("/tables/shop.orders/changes/23", 404, "has no change 23 What to do: Choose a change from 1 to 22"),
        ("/tables/shop.orders/changes/0", 404, "has no change 0"),
        ("/tables/shop.product/changes/1", 404, "Wait for its first change"),
        ("/tables/shop.orders/quarantine?change=99", 404, "has no change 99"),
        ("/tables/shop.nope/files", 404, "shop.nope"),
        ("/tables/shop.orders?through=-1", 400, "must be a whole number"),
        ("/tables/shop.orders/changes/9/nothing", 404, "Not found"),
    ],
)
def test_error_pages_say_what_to_do(browser: Browser, page: str, status: int, words: str) -> None:
    assert words in browser.text(page, status).replace("&#39;", "'")


def add(lake: MemoryLake, name: TableName) -> None:
    """Register a table that has a raw file."""
    lake.raw.put(f"{name.schema}/{name.table}/LOAD00000001.csv", b"id\n1\n")
    lake.states.register(lake.installation.new_state(name))


def test_table_names_are_escaped_everywhere(browser: Browser, lake: MemoryLake) -> None:
    name = TableName("shop", "<b>&\"'100%?#")
    add(lake, name)
    page = browser.get("/").text
    assert '<b>&"' not in page
    (link,) = re.findall(r'href="(/tables/shop\.%3Cb[^"]*)"', page)
    assert "The table has no changes yet" in browser.text(link.replace("&amp;", "&").replace("&#39;", "'"))


ALIKE = (TableName("a.b", "c"), TableName("a", "b.c"), TableName("a%2Eb", "c"))


@pytest.fixture
def alike(lake: MemoryLake) -> list[str]:
    """The paths of tables whose names differ only in where the schema ends, or after unescaping."""
    for rows, name in enumerate(ALIKE, 101):
        add(lake, name)
        GrowingTable(lake.log(name)).load(rows, files=1)
    return [lake.installation.new_state(name).path for name in ALIKE]


def test_each_link_leads_to_its_own_table(browser: Browser, lake: MemoryLake, alike: list[str]) -> None:
    rows_of_list = re.findall(r'<th role="rowheader"[^>]*><a href="([^"]*)">(.*?)</a>', browser.get("/").text)
    links = {name.replace("<wbr>", ""): link for link, name in rows_of_list}
    for rows, name in enumerate(ALIKE, 101):
        link = links[str(name)]
        for page in (link, f"{link}/changes/1", f"{link}/quarantine", f"{link}/files", f"{link}/rollback"):
            assert str(name) in browser.text(page)
        assert f" {rows} " in browser.text(f"{link}/changes/1")


@pytest.mark.parametrize("number", range(len(ALIKE)))
def test_a_switch_turns_its_own_table_on(browser: Browser, lake: MemoryLake, alike: list[str], number: int) -> None:
    with browser.client.application.test_request_context():
        address = url_for("tables.activate", name=ALIKE[number])
    response = browser.post(address, active="true")
    assert response.status_code == 303
    assert str(ALIKE[number]) in browser.text(response.headers["Location"])
    assert [state.active for state in map(lake.states.get, alike) if state] == [one == number for one in range(3)]


def test_an_ambiguous_name_is_refused_with_the_exact_ones(browser: Browser, alike: list[str]) -> None:
    text = browser.text("/tables/a.b.c", 400)
    assert "can be the name of 2 tables" in text.replace("&#39;", "'")
    assert "a/b.c or a.b/c" in text
    assert browser.post("/tables/a.b.c/active", active="true").status_code == 400


def test_a_name_hides_nothing_on_a_page(browser: Browser, lake: MemoryLake) -> None:
    name = TableName("shop", "a\u202eb\x1b\u200b")
    add(lake, name)
    GrowingTable(lake.log(name)).load(120, files=1)
    with browser.client.application.test_request_context():
        pages = [url_for("tables.index"), url_for("tables.table", name=name)]
        pages += [url_for("changes.change", name=name, number=1), url_for("undo.plan_rollback", name=name)]
    for page in pages:
        shown = browser.get(page).text
        assert r"a\u202eb\x1b\u200b" in shown.replace("<wbr>", "")
        assert [char for char in shown if not char.isprintable() and char != "\n"] == []


@pytest.mark.parametrize("page", ["", "/changes/1", "/quarantine", "/files", "/rollback", "/reapply"])
@pytest.mark.parametrize("part", ["x" * 300, "x" * 3000, "ä" * 700])
def test_a_name_that_is_too_long_is_that_of_no_table(browser: Browser, page: str, part: str) -> None:
    assert browser.get(f"/tables/shop.{part}{page}").status_code == 404


def failing(console: Console, lake: MemoryLake, error: Exception, **fields: Any) -> Browser:
    """A browser with access to a console whose state table fails."""

    class Failing(MemoryState):
        def all(self, path_prefix: str = ""):
            raise error

    return browser_of(console, lake=replace(lake, states=Failing()), **fields)


def test_an_aws_error_has_a_page_with_its_remedy(console: Console, lake: MemoryLake) -> None:
    class LibraryError(Exception):
        pass

    def explain(error: Exception) -> CdclakeError | None:
        assert isinstance(error, LibraryError)
        return ConfigurationError("Nothing responds", remedy="Start it", endpoint="http://127.0.0.1:1")

    text = failing(console, lake, LibraryError(), explain=explain).text("/", 502)
    assert "AWS error Nothing responds What to do: Start it. endpoint http://127.0.0.1:1" in text


def test_a_full_disk_is_named(console: Console, lake: MemoryLake, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "file"))
    text = failing(console, lake, full, explain=explain).text("/", 507)
    assert "A disk is full: No space left on device" in text
    assert f"on the disk of {tmp_path}" in text


def test_an_unexpected_error_is_logged_and_its_page_shows_no_traceback(
    console: Console, lake: MemoryLake, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        text = failing(console, lake, ZeroDivisionError("a secret thing")).text("/", 500)
    assert "The console itself failed" in text
    assert "secret thing" not in text
    assert "ZeroDivisionError" in caplog.text


def test_an_empty_raw_bucket_is_an_error_that_says_what_to_check(console: Console, clock: ManualClock) -> None:
    empty = MemoryLake(MemoryStore(clock), MemoryStore(clock), MemoryState(), clock)
    browser = browser_of(console, lake=empty)
    assert "The raw location is empty What to do: Check that the source database has data" in browser.text("/", 400)


def test_a_folder_that_cannot_be_listed_is_reported_above_the_tables(console: Console, lake: MemoryLake) -> None:
    class OneForbidden(MemoryStore):
        def list_level(self, prefix: str):
            if prefix == "shop/":
                raise ConfigurationError("No right to list")
            return lake.raw.list_level(prefix)

    text = browser_of(console, lake=replace(lake, raw=OneForbidden())).text("/")
    assert "A folder of the raw bucket could not be listed" in text
    assert "shop.orders" in text


def test_a_missing_change_breaks_only_its_own_table(browser: Browser, lake: MemoryLake) -> None:
    lake.states.record_run(STORE_PATH, {"LastChangeId": "9"})
    text = browser.text("/")
    assert "shop.store broken" in text
    assert "shop.orders up to date" in text
