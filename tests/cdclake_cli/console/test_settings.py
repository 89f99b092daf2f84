"""Settings of a table: shown with their meaning; changed after the difference was shown, if it is still the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cdclake.model.table.attributes import Attribute
from cdclake_cli.console.settings import EDITABLE
from cdclake_cli.settings import SETTABLE
from tests.cdclake_cli.console.conftest import plain_text
from tests.cdclake_cli.console.lake import ORDERS

if TYPE_CHECKING:
    from tests.cdclake_cli.console.conftest import Browser
    from tests.cdclake_cli.console.lake import MemoryLake

PATH = "cdclake-raw/shop/orders/"
PAGE = "/tables/shop.orders/settings"
CHANGE = f"{PAGE}/change"


def item(lake: MemoryLake) -> dict[str, str]:
    state = lake.states.get(PATH)
    assert state is not None
    return dict(state.item)


def fingerprint_on(browser: Browser, page: str) -> str:
    (fingerprint,) = re.findall(r'name="confirmed" value="([0-9a-f]{64})"', browser.get(page).text)
    return str(fingerprint)


def test_the_page_of_a_table_shows_columns_types_and_storage(browser: Browser) -> None:
    text = browser.text("/tables/shop.orders")
    assert "Columns 2 Columns of the lake table Column Type Role id bigint key customer string" in text
    assert 'href="/tables/shop.orders/settings">Settings</a>' in browser.get("/tables/shop.orders").text
    assert re.search(r"Storage [\d.,]+ kB in \d+ files", text)


def test_columns_that_cannot_be_read_do_not_hide_the_rest(browser: Browser, lake: MemoryLake) -> None:
    log = lake.log(ORDERS)
    lake.store.delete([log.record(22).snapshot_key])
    text = browser.text("/tables/shop.orders")
    assert "The columns cannot be read: IntegrityError: An object of the change log of shop.orders is missing" in text
    assert "22 2024-03-06 07:02:11 UTC incremental" in text


def test_all_settings_have_a_field_with_a_name_a_default_and_their_meaning(browser: Browser) -> None:
    page = browser.get(PAGE).text
    assert re.findall(r'<label for="s-(\w+)">', page) == list(EDITABLE)
    assert set(re.findall(r' name="(\w+)"', page)) >= set(EDITABLE)
    assert set(SETTABLE) - set(EDITABLE) == {Attribute.ACTIVE_FLAG}
    assert "RetentionDays 30 How long earlier states of the lake table are kept" in browser.text(PAGE)
    assert '<input id="s-PrimaryKey" name="PrimaryKey" value="id" autocomplete="off">' in page


def test_a_read_only_console_shows_values_and_commands_instead_of_fields(reader: Browser) -> None:
    page = reader.get(PAGE).text
    assert "<form" not in page
    assert "<input" not in page
    assert "PrimaryKey id null Comma-separated key columns" in reader.text(PAGE)
    text = reader.text(f"{CHANGE}?RetentionDays=7&Schema=id int, name string")
    assert "cdclake tables set shop.orders --set 'Schema=id int, name string' --set RetentionDays=7" in text.replace(
        "&#39;", "'"
    )


def test_a_change_is_shown_with_its_effect_first_and_made_when_confirmed(browser: Browser, lake: MemoryLake) -> None:
    before = item(lake)
    page = f"{CHANGE}?RetentionDays=7&History=true&PrimaryKey=id&CsvNullValue="
    text = browser.text(page)
    assert "This is a plan. Nothing has been changed yet" in text
    assert "RetentionDays 30 (default) 7 from the next run on" in text
    assert "History false (default) true the next change works through the whole table" in text
    assert "PrimaryKey" not in text
    assert item(lake) == before
    response = browser.post(CHANGE, confirmed=fingerprint_on(browser, page), RetentionDays="7", History="true")
    assert (response.status_code, response.headers["Location"]) == (303, f"{PAGE}?done=yes")
    assert item(lake) == {**before, "RetentionDays": "7", "History": "true"}
    assert "Done: the settings are changed" in browser.text(f"{PAGE}?done=yes")


def test_a_change_is_refused_if_the_settings_changed_after_it_was_shown(browser: Browser, lake: MemoryLake) -> None:
    fingerprint = fingerprint_on(browser, f"{CHANGE}?RetentionDays=7")
    lake.states.set_attributes(PATH, {"RetentionDays": "14"})
    response = browser.post(CHANGE, confirmed=fingerprint, RetentionDays="7")
    assert response.status_code == 409
    assert "changed after the difference was shown. Nothing was done" in plain_text(response)
    assert item(lake)["RetentionDays"] == "14"


@pytest.mark.parametrize("fields", [{"RetentionDays": "8"}, {"RetentionDays": "7", "History": "true"}, {}])
def test_what_was_not_shown_is_not_changed(browser: Browser, lake: MemoryLake, fields: dict[str, str]) -> None:
    before = item(lake)
    fingerprint = fingerprint_on(browser, f"{CHANGE}?RetentionDays=7")
    assert browser.post(CHANGE, confirmed=fingerprint, **fields).status_code == 409
    assert item(lake) == before


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("RetentionDays=many", "Set it to a whole number"),
        ("PrimaryKey=customer", "PrimaryKey"),
        ("LastFullLoadDate=yesterday", "Write it as yyyy-mm-dd HH:MM:SS"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_confirmed(browser: Browser, query: str, words: str) -> None:
    assert words in browser.text(f"{CHANGE}?{query}", 400)


def test_columns_are_compared_with_the_raw_files(browser: Browser) -> None:
    page = "/tables/shop.product/settings/change?PrimaryKey="
    assert "The raw files have no column nope" in browser.text(f"{page}nope", 400)
    assert "PrimaryKey id id,customer from the first load on" in browser.text(f"{page}id,customer")


def test_attributes_of_the_jobs_cannot_be_changed(browser: Browser, lake: MemoryLake) -> None:
    before = item(lake)
    assert "Nothing would change" in browser.text(f"{CHANGE}?FencingToken=9&ActiveFlag=false&LastChangeId=1")
    assert item(lake) == before


def test_a_table_that_is_not_registered_has_no_settings(browser: Browser) -> None:
    assert "The table is not registered" in browser.text("/tables/shop.vouchers/settings", 404)
