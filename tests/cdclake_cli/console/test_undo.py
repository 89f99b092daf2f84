"""Rollback and reapply: the console shows the plan, carries out only the confirmed plan, and reports the result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cdclake_cli.console.conftest import Browser, plain_text
from tests.cdclake_cli.console.lake import ORDERS, GrowingTable, MemoryLake

if TYPE_CHECKING:
    from cdclake_devkit.memory import ManualClock

PATH = "cdclake-raw/shop/orders/"
ROLLBACK, REAPPLY = "/tables/shop.orders/rollback", "/tables/shop.orders/reapply"


def fingerprint_on(browser: Browser, page: str) -> str:
    """The fingerprint of the plan in a page's form."""
    (fingerprint,) = re.findall(r'name="confirmed" value="([0-9a-f]{64})"', browser.get(page).text)
    return str(fingerprint)


def visible(lake: MemoryLake) -> dict[str, bytes | None]:
    return {entry.key: lake.store.get(entry.key) for entry in lake.store.list("shop/orders/")}


def test_showing_a_plan_changes_nothing(browser: Browser, lake: MemoryLake) -> None:
    before = visible(lake), lake.states.get(PATH)
    text = browser.text(f"{ROLLBACK}?to=19")
    assert "Roll shop.orders back to change 19 This is a plan. Nothing has been changed yet" in text
    assert "Rows 333,078 328,038" in text
    assert "Last change file 20240306-070211117.csv 20240306-040211117.csv" in text
    assert "Active yes no" in text
    assert "Changes to undo 3" in text
    assert (visible(lake), lake.states.get(PATH)) == before


def test_a_confirmed_rollback_restores_the_same_files_and_records_author_and_reason(
    browser: Browser, lake: MemoryLake
) -> None:
    before = visible(lake)
    GrowingTable(lake.log(ORDERS)).change(5, 5, 5)
    response = browser.post(ROLLBACK, confirmed=fingerprint_on(browser, ROLLBACK), reason=" wrong prices ")
    assert (response.status_code, response.headers["Location"]) == (303, "/tables/shop.orders?done=24")
    assert visible(lake) == before
    record = lake.log(ORDERS).record(24)
    assert (record.content_change, record.reason, record.made_by) == (22, "wrong prices", "grace")
    state = lake.states.get(PATH)
    assert state is not None
    assert not state.active
    text = browser.text("/tables/shop.orders?done=24")
    assert "Done, as change 24: the table is as it was after change 22, with 333,078 rows" in text
    assert "The table is turned off" in text
    assert "Reapply change 23" in text
    assert "rollback to 22 grace: wrong prices" in text


def test_reapplying_brings_back_the_undone_changes_one_by_one(browser: Browser, lake: MemoryLake) -> None:
    before = visible(lake)
    assert browser.post(f"{ROLLBACK}?to=20", confirmed=fingerprint_on(browser, f"{ROLLBACK}?to=20")).status_code == 303
    assert "Reapply change 21 of shop.orders" in browser.text(REAPPLY)
    for change in (24, 25):
        response = browser.post(REAPPLY, confirmed=fingerprint_on(browser, REAPPLY))
        assert response.headers["Location"] == f"/tables/shop.orders?done={change}"
    assert visible(lake) == before
    assert "no change to reapply" in browser.text(REAPPLY, 400)


def test_a_plan_is_refused_if_the_table_changed_after_it_was_shown(browser: Browser, lake: MemoryLake) -> None:
    fingerprint = fingerprint_on(browser, ROLLBACK)
    GrowingTable(lake.log(ORDERS)).change(5, 5, 5)
    before = visible(lake)
    response = browser.post(ROLLBACK, confirmed=fingerprint)
    assert response.status_code == 409
    assert "changed after the plan was shown. Nothing was done" in plain_text(response)
    assert visible(lake) == before
    assert lake.log(ORDERS).head() == 23


@pytest.mark.parametrize("other", ["", "0" * 64])
def test_a_plan_that_was_never_shown_is_refused(browser: Browser, lake: MemoryLake, other: str) -> None:
    assert browser.post(ROLLBACK, confirmed=other).status_code == 409
    assert lake.log(ORDERS).head() == 22


def test_the_plan_of_another_change_is_refused(browser: Browser, lake: MemoryLake) -> None:
    assert browser.post(f"{ROLLBACK}?to=3", confirmed=fingerprint_on(browser, f"{ROLLBACK}?to=4")).status_code == 409
    assert lake.log(ORDERS).head() == 22


def test_while_a_run_works_on_the_table_a_rollback_is_refused(
    browser: Browser, lake: MemoryLake, clock: ManualClock
) -> None:
    lake.states.acquire_lease(PATH, "jr_at_work", clock(), 600)
    assert "A run is working on the table" in browser.text(ROLLBACK)
    response = browser.post(ROLLBACK, confirmed=fingerprint_on(browser, ROLLBACK))
    assert response.status_code == 409
    assert "jr_at_work" in plain_text(response)
    assert lake.log(ORDERS).head() == 22


def test_a_read_only_console_shows_the_plan_and_the_command_for_it(reader: Browser) -> None:
    assert "cdclake rollback shop.orders --to 3" in reader.text(f"{ROLLBACK}?to=3")
    assert "cdclake rollback shop.orders" in reader.text(ROLLBACK)
    assert "<button" not in reader.get(ROLLBACK).text


@pytest.mark.parametrize(
    ("page", "status", "words"),
    [
        ("/tables/shop.product/rollback", 400, "has no change to undo"),
        ("/tables/shop.vouchers/rollback", 404, "The table is not registered"),
        (f"{ROLLBACK}?to=22", 400, "no change 22 to roll back to"),
        (f"{ROLLBACK}?to=x", 400, "must be a whole number"),
        (REAPPLY, 400, "no change to reapply"),
    ],
)
def test_errors_name_what_cannot_be_undone_and_why(browser: Browser, page: str, status: int, words: str) -> None:
    assert words in browser.text(page, status)


def test_a_reason_that_is_too_long_is_refused(browser: Browser, lake: MemoryLake) -> None:
    assert browser.post(ROLLBACK, confirmed=fingerprint_on(browser, ROLLBACK), reason="x" * 1001).status_code == 400
    assert lake.log(ORDERS).head() == 22
