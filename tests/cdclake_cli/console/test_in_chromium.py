"""An operator's session with the console in Chromium, on the embedded AWS, with laptop and phone screens.

With `CDCLAKE_SCREENSHOTS=1`, takes the screenshots for the documents.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.control.admin.installation import Installation
from cdclake.control.status import LATE_AFTER_MINUTES
from cdclake.model.table.name import TableName
from cdclake_cli.console.charts import HEIGHT
from cdclake_cli.console.context import Console
from cdclake_cli.console.server import serve
from cdclake_devkit.local.server import EmbeddedAws
from cdclake_devkit.memory import ManualClock, MemoryState, MemoryStore
from tests import ROOT
from tests.cdclake_cli.console.conftest import console_process, expected_error, memory_checks
from tests.cdclake_cli.console.fleet import fleet, name_of
from tests.cdclake_cli.console.lake import LONG, ORDERS, GrowingTable, MemoryLake, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

IMAGES = ROOT / "docs" / "images"
TAKE_SCREENSHOTS = os.environ.get("CDCLAKE_SCREENSHOTS") == "1"
SCREENSHOTS = {
    "tables-laptop",
    "table-laptop",
    "change-laptop",
    "bad-rows-laptop",
    "rollback-laptop",
    "tables-phone",
    "rollback-phone",
    "charts-night",
    "fleet-laptop",
    "fleet-phone",
    "settings-change-laptop",
}
CONTROLS = "a, button, select, textarea, input:not([type=hidden])"
WITHOUT_NAME = """all => all
    .filter(one => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
    .map(one => one.outerHTML)"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ABORTED = "net::ERR_ABORTED"
TIMEOUT_MILLISECONDS = 15_000
PATH = "cdclake-raw/shop/orders/"
TABLES, LOADS, LISTED_SECONDS = 10_000, 3, 240
MOST_MILLISECONDS, LIGHT_MILLISECONDS = 500, 40
"""Of any page, where a page without a list takes no longer than the second; on a busy machine longer, as that one."""
UNEVEN, SECONDS = TableName("uneven", "durations"), (0.2, 16.9, 0.2)


class Screen(NamedTuple):
    name: str
    width: int
    height: int
    scheme: str = "light"


LAPTOP, PHONE, DARK = Screen("laptop", 1440, 900), Screen("phone", 360, 780), Screen("night", 1440, 900, "dark")


class Lake(NamedTuple):
    """The lake behind the console."""

    aws: EmbeddedAws
    store: S3Store
    states: DynamoState

    def log(self, name: TableName) -> ChangeLog:
        return ChangeLog(self.store, Installation().layout(name))

    def visible(self) -> dict[str, bytes | None]:
        """The files that readers of the table see, by key."""
        return {entry.key: self.store.get(entry.key) for entry in self.store.list("shop/orders/")}

    def is_active(self) -> bool:
        state = self.states.get(PATH)
        return state is not None and state.active


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        reason = "Chromium is not installed: apt-get install chromium"
        if os.environ.get("CDCLAKE_NEEDS_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # Tests run as root in containers, where Chromium's sandbox does not start. It opens only the console's pages.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Tables in different states, on an embedded AWS."""
    with EmbeddedAws(data_dir=tmp_path_factory.mktemp("aws")) as aws:
        s3, dynamodb = aws.client("s3"), aws.client("dynamodb")
        installation = Installation()
        for bucket in (installation.raw_bucket, installation.lake_bucket):
            s3.create_bucket(Bucket=bucket)
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        create_state_table(dynamodb, installation.state_table)
        lake = Lake(aws, S3Store(s3, installation.lake_bucket), DynamoState(dynamodb, installation.state_table))
        memory = MemoryStore()  # all requests of so many changes would take ten seconds

        def log(name: TableName) -> ChangeLog:
            return ChangeLog(memory, installation.layout(name))

        fill(lake.states, S3Store(s3, installation.raw_bucket), log, datetime.now(timezone.utc))
        for entry in memory.list(""):
            lake.store.put(entry.key, memory.get(entry.key) or b"")
        yield lake


@pytest.fixture(scope="module")
def writable(lake: Lake) -> Iterator[str]:
    """Address of a console that allows changes."""
    with console_process(lake.aws.environment(), "--allow-changes") as (_, address):
        yield address


@pytest.fixture(scope="module")
def read_only(lake: Lake) -> Iterator[str]:
    """Address of a read-only console."""
    with console_process(lake.aws.environment()) as (_, address):
        yield address


@pytest.fixture(scope="module")
def fleet_console() -> Iterator[str]:
    """Address of a console with 10,000 tables in memory, and one whose changes took 0.2 and 16.9 seconds."""
    clock = ManualClock()
    templates = MemoryLake(MemoryStore(clock), MemoryStore(clock), MemoryState(), clock)
    fill(templates.states, templates.raw, templates.log, clock())
    table = GrowingTable(templates.log(UNEVEN))
    table.load(1000)
    for seconds in SECONDS:
        table.change(5, 5, 5, seconds=seconds)
    lake = fleet(templates, TABLES)
    lake.states.register(lake.installation.new_state(UNEVEN))
    console = Console(
        lake, "in memory", lake.clock, expected_error, LATE_AFTER_MINUTES, memory_checks(lake), allow_changes=True
    )
    with serve(console) as address:
        yield address


def warmed(page: Page) -> str:
    """Wait until all raw files are listed. Returns the address of the console."""
    deadline = time.monotonic() + LISTED_SECONDS
    while page.get_by_text("The raw files of all tables are being listed").count():
        assert time.monotonic() < deadline
        page.wait_for_timeout(1000)
        page.reload()
    return page.url


def load_milliseconds(page: Page, address: str) -> float:
    """How long a page takes until all of it is there and laid out: the best of some loads."""
    taken = []
    for _ in range(LOADS):
        page.goto(address, wait_until="load")
        taken.append(float(page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")))
    return min(taken)


@contextmanager
def page_on(browser: Browser, screen: Screen, address: str) -> Iterator[Page]:
    """Open the console. Checks at the end that the browser had no errors and sent no requests to other hosts."""
    errors: list[str] = []
    failed: list[tuple[str, str | None]] = []
    hosts: set[str] = set()
    context = browser.new_context(
        viewport={"width": screen.width, "height": screen.height},
        color_scheme="dark" if screen.scheme == "dark" else "light",
        has_touch=screen is PHONE,
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: failed.append((request.url, request.failure)))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(address)
        yield page
    finally:
        context.close()
    assert errors == []
    # Whoever leaves a page before its script has arrived aborts that request.
    assert [request for request in failed if request[1] != _ABORTED] == []
    assert hosts == {urlsplit(address).netloc}


def check_page(page: Page, name: str, screen: Screen) -> None:
    """Check what holds for every page, and take a screenshot if enabled."""
    page.wait_for_load_state("load")  # on a busy machine, elements are found before the style sheet is there
    assert page.evaluate("document.documentElement.scrollWidth") == screen.width, "the page is wider than the screen"
    assert page.locator("h1").count() == 1
    assert page.locator(CONTROLS).evaluate_all(WITHOUT_NAME) == []
    screenshot = f"{name}-{screen.name}"
    if TAKE_SCREENSHOTS and screenshot in SCREENSHOTS:
        IMAGES.mkdir(exist_ok=True)
        page.screenshot(path=IMAGES / f"console-{screenshot}.png")


@pytest.mark.parametrize("screen", [LAPTOP, PHONE], ids=lambda screen: screen.name)
def test_an_operator_turns_a_table_off_and_on_undoes_a_change_and_reapplies_it(
    browser: Browser, lake: Lake, writable: str, screen: Screen
) -> None:
    before, head = lake.visible(), lake.log(ORDERS).head()
    with page_on(browser, screen, writable) as page:
        assert urlsplit(page.url).path == "/"
        expect(page.get_by_text("action needed for 2")).to_be_visible()
        check_page(page, "tables", screen)

        switch = page.get_by_role("switch", name="shop.orders active")
        switch.click()
        expect(switch).to_have_attribute("aria-checked", "false")
        assert not lake.is_active()
        switch.click()
        expect(switch).to_have_attribute("aria-checked", "true")
        assert lake.is_active()

        page.get_by_role("link", name="shop.orders", exact=True).click()
        expect(page.locator("h1")).to_have_text("shop.orders")
        expect(page.locator("figure.chart")).to_have_count(4)
        check_page(page, "table", screen)

        page.get_by_role("row").get_by_role("link", name="9", exact=True).click()
        expect(page.get_by_text("✓ balanced")).to_have_count(3)
        check_page(page, "change", screen)

        page.get_by_role("link", name="Show the 3 quarantined rows").click()
        expect(page.get_by_text("<script>document.title = 'owned'</script>")).to_be_visible()
        assert page.title() == "Bad rows of shop.orders · cdclake console"
        check_page(page, "bad-rows", screen)

        page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="shop.orders").click()
        page.get_by_role("link", name=re.compile(r"Undo change \d+")).click()
        expect(page.get_by_text("Nothing has been changed yet")).to_be_visible()
        check_page(page, "rollback", screen)
        assert lake.log(ORDERS).head() == head
        page.get_by_label("Reason").fill("prices were wrong")
        page.get_by_role("button", name="Roll back").click()
        expect(page.get_by_role("status")).to_contain_text(f"Done, as change {head + 1}")
        check_page(page, "rolled-back", screen)
        assert lake.visible() != before
        assert not lake.is_active()
        assert lake.log(ORDERS).record(head + 1).reason == "prices were wrong"

        page.get_by_role("link", name=re.compile(r"Reapply change \d+")).click()
        page.get_by_role("button", name="Reapply").click()
        expect(page.get_by_role("status")).to_contain_text(f"Done, as change {head + 2}")
        assert lake.visible() == before
        page.get_by_role("switch", name="shop.orders active").click()
        expect(page.get_by_role("switch", name="shop.orders active")).to_have_attribute("aria-checked", "true")
        assert lake.is_active()


def test_the_keyboard_skips_the_header_and_reaches_every_control(browser: Browser, writable: str) -> None:
    with page_on(browser, LAPTOP, writable) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Name contains")).to_be_focused()
        page.keyboard.type("orders")
        page.keyboard.press("Enter")
        expect(page.get_by_text("shop.store")).to_have_count(0)
        switch = page.get_by_role("switch", name="shop.orders active")
        switch.focus()
        page.keyboard.press("Space")
        expect(switch).to_have_attribute("aria-checked", "false")
        page.get_by_role("switch", name="shop.orders active").press("Enter")
        expect(switch).to_have_attribute("aria-checked", "true")


def test_a_double_click_sends_a_form_once(browser: Browser, lake: Lake, writable: str) -> None:
    head = lake.log(ORDERS).head()
    with page_on(browser, LAPTOP, writable) as page:
        page.goto(f"{page.url}tables/shop.orders/rollback")
        page.get_by_role("button", name="Roll back").dblclick()
        expect(page.get_by_role("status")).to_contain_text(f"Done, as change {head + 1}")
        page.goto(f"{page.url.partition('?')[0]}/reapply")
        page.get_by_role("button", name="Reapply").click()
        expect(page.get_by_role("status")).to_contain_text(f"Done, as change {head + 2}")
        page.get_by_role("switch").click()
        expect(page.get_by_role("switch")).to_have_attribute("aria-checked", "true")


def test_the_bars_of_a_chart_link_to_their_changes(browser: Browser, read_only: str) -> None:
    with page_on(browser, LAPTOP, read_only) as page:
        page.goto(f"{page.url}tables/shop.orders")
        page.locator("figure.chart").first.locator("a.slot[data-change='9']").click()
        expect(page.locator("h1")).to_have_text("Change 9")


@pytest.mark.parametrize("screen", [PHONE, DARK], ids=lambda screen: screen.name)
def test_a_read_only_console_has_all_pages_without_controls(browser: Browser, read_only: str, screen: Screen) -> None:
    with page_on(browser, screen, read_only) as page:
        expect(page.get_by_text("Read-only", exact=True)).to_be_visible()
        start = page.url
        for path, name in (
            ("", "list"),
            ("tables/shop.orders", "charts"),
            (f"tables/{LONG}", "long-name"),
            (f"tables/{LONG}/changes/2", "long-name-change"),
            ("tables/shop.orders/rollback?to=3", "plan"),
            ("tables/shop.product", "empty"),
        ):
            page.goto(start + path)
            expect(page.get_by_role("button", name=re.compile("Roll|Reapply"))).to_have_count(0)
            expect(page.get_by_role("switch")).to_have_count(0)
            check_page(page, name, screen)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(20, 24, 27)") == (screen is DARK)


FLEET_PAGES = (
    ("", "fleet-tables"),
    ("?q=orders&sort=-lag&health=late", "fleet-filtered"),
    ("?sort=-delay&from=5000", "fleet-page"),
    ("fleet", "fleet"),
    ("fleet?from=4000", "fleet-days"),
    (f"tables/{name_of(3)}", "fleet-table"),
    (f"tables/{name_of(3)}/files", "fleet-files"),
    (f"tables/{name_of(3)}/settings", "settings"),
    (f"tables/{name_of(3)}/settings/change?RetentionDays=7&History=true", "settings-change"),
)


def test_every_page_of_ten_thousand_tables_is_there_in_half_a_second(browser: Browser, fleet_console: str) -> None:
    with page_on(browser, LAPTOP, fleet_console) as page:
        start = warmed(page)
        light = load_milliseconds(page, f"{start}tables/{name_of(3)}/files")
        taken = {path: load_milliseconds(page, start + path) for path, _ in FLEET_PAGES}
    print(round(light), {path: round(milliseconds) for path, milliseconds in taken.items()})
    most = MOST_MILLISECONDS * max(1, light / LIGHT_MILLISECONDS)
    assert {path: one for path, one in taken.items() if one >= most} == {}


@pytest.mark.parametrize("screen", [LAPTOP, PHONE, DARK], ids=lambda screen: screen.name)
def test_every_page_of_a_fleet_fits_the_screen_and_names_its_controls(
    browser: Browser, fleet_console: str, screen: Screen
) -> None:
    with page_on(browser, screen, fleet_console) as page:
        start = warmed(page)
        for path, name in FLEET_PAGES:
            page.goto(start + path)
            check_page(page, name, screen)
            page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
            check_page(page, f"{name}-open", screen)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(20, 24, 27)") == (screen is DARK)


def test_columns_sort_by_keyboard_and_tell_a_screen_reader_how(browser: Browser, fleet_console: str) -> None:
    with page_on(browser, LAPTOP, fleet_console) as page:
        warmed(page)
        header = page.get_by_role("columnheader", name="Lag")
        link = header.get_by_role("link", name="Lag", exact=True)
        page.get_by_role("columnheader", name="Health").get_by_role("link").focus()
        page.keyboard.press("Tab")
        expect(link).to_be_focused()
        page.keyboard.press("Enter")
        expect(header).to_have_attribute("aria-sort", "descending")
        assert "sort=-lag" in page.url
        expect(page.get_by_role("rowheader").first).to_contain_text("orders_")
        header.get_by_role("link").press("Enter")
        expect(header).to_have_attribute("aria-sort", "ascending")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Next").press("Enter")
        expect(page.get_by_text("51 to 100 of 10,001")).to_be_visible()
        expect(header).to_have_attribute("aria-sort", "ascending")
        page.get_by_label("Sort by").select_option(label="name")
        page.get_by_label("Name contains").fill("_07.")
        page.keyboard.press("Enter")
        expect(page.get_by_text("1 to 50 of 250")).to_be_visible()
        page.go_back()
        expect(page.get_by_text("51 to 100 of 10,001")).to_be_visible()


@pytest.mark.parametrize("screen", [LAPTOP, PHONE, DARK], ids=lambda screen: screen.name)
def test_bars_are_as_high_as_their_values_and_stand_in_time(
    browser: Browser, fleet_console: str, screen: Screen
) -> None:
    with page_on(browser, screen, fleet_console) as page:
        page.goto(f"{page.url}tables/{UNEVEN}")
        chart = page.get_by_role("img", name=re.compile(r"^Seconds of changes 1 to 4, .*: 0\.2 s to 22\.1 s, on a log"))
        boxes = {}
        for change in (2, 3, 4):
            bar = chart.locator(f"a[data-change='{change}'] rect.s-seconds")
            boxes[change] = bar.bounding_box()
        low, high, again = (boxes[change] for change in (2, 3, 4))
        assert low and high and again
        scale = math.log(22.1 / 0.1)
        assert high["height"] / low["height"] == pytest.approx(math.log(16.9 / 0.1) / math.log(0.2 / 0.1), rel=0.05)
        assert high["height"] == pytest.approx(HEIGHT * math.log(16.9 / 0.1) / scale, abs=1)
        assert low["height"] == pytest.approx(again["height"], abs=0.5)
        labels = page.locator("svg.scale").last.bounding_box()
        assert labels
        assert low["x"] >= labels["x"] + labels["width"], "a bar covers a label"
        assert high["x"] - low["x"] == pytest.approx(again["x"] - high["x"], abs=1.5)  # an hour each
        page.goto(f"{page.url}?through=4")  # without the full load the scale is linear
        check_page(page, "uneven", screen)


def test_a_setting_is_changed_after_its_difference_was_shown(browser: Browser, lake: Lake, writable: str) -> None:
    with page_on(browser, LAPTOP, writable) as page:
        page.goto(f"{page.url}tables/shop.product")
        page.get_by_role("link", name="Settings").click()
        check_page(page, "product-settings", LAPTOP)
        page.get_by_label("PrimaryKey").fill("ID")  # compared with the raw file
        page.get_by_label("RetentionDays").fill("7")
        page.get_by_label("History", exact=True).select_option("true")
        page.get_by_role("button", name="Show what would change").click()
        expect(page.get_by_role("row", name="RetentionDays 30 (default) 7 from the first load on")).to_be_visible()
        check_page(page, "product-change", LAPTOP)
        page.get_by_role("button", name="Change settings").click()
        expect(page.get_by_role("status")).to_contain_text("Done")
        state = lake.states.get("cdclake-raw/shop/product/")
        assert state is not None
        assert (state.item["RetentionDays"], state.item["History"]) == ("7", "true")


def test_without_the_address_the_page_says_what_to_open(browser: Browser, read_only: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    response = page.goto(read_only.partition("/enter/")[0])
    assert response is not None
    assert response.status == 401
    expect(page.get_by_text("Open the address that cdclake console printed")).to_be_visible()
    context.close()
