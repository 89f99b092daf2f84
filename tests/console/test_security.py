"""Nobody is let in but the browser that was given the address, and nothing is done but what our own forms ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.console.security import FORM_FIELD, MOST_FORM_BYTES, Secrets
from cdclake.console.server import serve
from tests.console.conftest import ORIGIN, PORT, Browser, browser_on
from tests.console.lake import ORDERS, MemoryLake

if TYPE_CHECKING:
    from cdclake.console.context import Console

PAGES = [
    "/",
    "/tables/shop.orders",
    "/tables/shop.orders/changes/9",
    "/tables/shop.orders/quarantine",
    "/tables/shop.orders/rollback",
]
DEEDS = ["/tables/shop.orders/active", "/tables/shop.orders/rollback", "/tables/shop.orders/reapply"]


def is_untouched(lake: MemoryLake) -> bool:
    item = lake.states.get("cdclake-raw/shop/orders/")
    return lake.log(ORDERS).head() == 22 and item is not None and item.active


@pytest.mark.parametrize("page", [*PAGES, "/nowhere"])
def test_without_the_cookie_nothing_is_shown_and_no_place_is_named(about: Console, page: str) -> None:
    answer = browser_on(about).get(page)
    assert answer.status_code == 401
    assert "Open the address that cdclake console printed" in answer.text
    assert not [word for word in ("shop", "cdclake-lake", "cdclake-raw", "in memory") if word in answer.text]


def test_a_wrong_secret_in_the_address_gives_no_cookie(about: Console) -> None:
    browser = browser_on(about)
    answer = browser.client.get(f"/enter/{browser.secrets.cookie}", base_url=ORIGIN)
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers
    assert browser.get("/").status_code == 401


def test_the_address_gives_a_cookie_for_this_browser_alone_and_leaves_the_secret_behind(about: Console) -> None:
    browser = browser_on(about)
    answer = browser.enter()
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert cookie == f"cdclake-console-{PORT}={browser.secrets.cookie}; HttpOnly; Path=/; SameSite=Strict"
    assert browser.secrets.address not in cookie
    assert browser.get("/").status_code == 200


def test_a_cookie_of_an_earlier_start_is_worth_nothing(about: Console, browser: Browser) -> None:
    later = browser_on(about)
    later.client.set_cookie(f"cdclake-console-{PORT}", browser.secrets.cookie, domain="127.0.0.1")
    assert later.get("/").status_code == 401


@pytest.mark.parametrize("host", ["attacker.example", f"attacker.example:{PORT}", "127.0.0.1", "127.0.0.1:80", ""])
@pytest.mark.parametrize("page", ["/", "/static/console.css", "/enter/x"])
def test_another_host_name_is_refused_so_no_name_can_be_made_to_lead_here(
    browser: Browser, host: str, page: str
) -> None:
    answer = browser.client.get(page, base_url=ORIGIN, headers={"Host": host})
    assert answer.status_code == 403
    assert "shop" not in answer.text


def test_localhost_is_this_machine_too(browser: Browser) -> None:
    origin = f"http://localhost:{PORT}"
    assert browser.client.get(f"/enter/{browser.secrets.address}", base_url=origin).status_code == 303
    assert browser.client.get("/", base_url=origin).status_code == 200
    form = {FORM_FIELD: browser.secrets.form, "active": "false"}
    done = browser.client.post(DEEDS[0], base_url=origin, headers={"Origin": origin}, data=form)
    assert done.status_code == 303


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("origin", [None, "null", "https://attacker.example", f"http://localhost:{PORT}", ORIGIN[:-1]])
def test_a_form_of_another_site_does_nothing(browser: Browser, lake: MemoryLake, deed: str, origin: str | None) -> None:
    headers = {"Origin": origin} if origin else {}
    form = {FORM_FIELD: browser.secrets.form, "active": "false"}
    answer = browser.client.post(deed, base_url=ORIGIN, headers=headers, data=form)
    assert answer.status_code == 403
    assert is_untouched(lake)


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("secret", [None, "", "guessed"])
def test_a_form_without_its_secret_does_nothing(
    browser: Browser, lake: MemoryLake, deed: str, secret: str | None
) -> None:
    form = {"active": "false"} | ({} if secret is None else {FORM_FIELD: secret})
    answer = browser.client.post(deed, base_url=ORIGIN, headers={"Origin": ORIGIN}, data=form)
    assert answer.status_code == 403
    assert is_untouched(lake)


@pytest.mark.parametrize("deed", DEEDS)
def test_a_form_without_the_cookie_does_nothing(about: Console, lake: MemoryLake, deed: str) -> None:
    assert browser_on(about).post(deed, active="false").status_code == 401
    assert is_untouched(lake)


@pytest.mark.parametrize("deed", DEEDS)
def test_a_read_only_console_does_nothing(reader: Browser, lake: MemoryLake, deed: str) -> None:
    answer = reader.post(deed, active="false", agreed="x")
    assert answer.status_code == 403
    assert "--allow-changes" in answer.text
    assert is_untouched(lake)


@pytest.mark.parametrize("page", PAGES)
def test_a_read_only_console_has_no_form_that_changes_anything(reader: Browser, page: str) -> None:
    assert '<form method="post"' not in reader.get(page).text


@pytest.mark.parametrize("page", [*PAGES, "/nowhere", "/static/console.css", "/tables/shop.nope"])
def test_every_answer_tells_the_browser_to_keep_nothing_frame_nothing_and_run_nothing_else(
    browser: Browser, page: str
) -> None:
    headers = browser.get(page).headers
    policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "img-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("page", PAGES)
def test_pages_hold_no_script_and_no_style_of_their_own(browser: Browser, page: str) -> None:
    text = browser.get(page).text
    assert text.count("<script") == 1
    assert '<script src="/static/console.js" defer></script>' in text
    assert "<style" not in text
    assert " style=" not in text
    assert "onclick" not in text
    assert "http://" not in text.replace(ORIGIN, "")
    assert "https://" not in text


def test_a_form_too_large_is_not_read(browser: Browser, lake: MemoryLake) -> None:
    answer = browser.post("/tables/shop.orders/active", active="false", reason="x" * MOST_FORM_BYTES)
    assert answer.status_code == 413
    assert is_untouched(lake)


def test_secrets_are_long_and_made_up_anew() -> None:
    made = [text for secrets in (Secrets(), Secrets()) for text in (secrets.address, secrets.cookie, secrets.form)]
    assert len(set(made)) == 6
    assert min(map(len, made)) >= 43


def test_the_server_listens_on_this_machine_alone(about: Console) -> None:
    with serve(about) as address:
        assert address.startswith("http://127.0.0.1:")
