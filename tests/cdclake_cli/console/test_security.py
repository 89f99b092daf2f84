"""Only the browser with the address gets in, and only the console's own forms change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake_cli.console.security import FORM_FIELD, MAX_FORM_BYTES, Secrets
from cdclake_cli.console.server import serve
from tests.cdclake_cli.console.conftest import ORIGIN, PORT, Browser, new_browser
from tests.cdclake_cli.console.lake import ORDERS, MemoryLake

if TYPE_CHECKING:
    from cdclake_cli.console.context import Console

PAGES = [
    "/",
    "/fleet",
    "/tables/shop.orders",
    "/tables/shop.orders/changes/9",
    "/tables/shop.orders/quarantine",
    "/tables/shop.orders/files",
    "/tables/shop.orders/rollback",
    "/tables/shop.orders/settings",
    "/tables/shop.orders/settings/change?RetentionDays=7",
]
ACTIONS = [f"/tables/shop.orders/{action}" for action in ("active", "rollback", "reapply", "settings/change")]


def is_untouched(lake: MemoryLake) -> bool:
    item = lake.states.get("cdclake-raw/shop/orders/")
    return lake.log(ORDERS).head() == 22 and item is not None and item.active


@pytest.mark.parametrize("page", [*PAGES, "/nowhere"])
def test_without_the_cookie_no_page_shows_anything_of_the_lake(console: Console, page: str) -> None:
    response = new_browser(console).get(page)
    assert response.status_code == 401
    assert "Open the address that cdclake console printed" in response.text
    assert not [word for word in ("shop", "cdclake-lake", "cdclake-raw", "in memory") if word in response.text]


def test_a_wrong_secret_in_the_address_sets_no_cookie(console: Console) -> None:
    browser = new_browser(console)
    response = browser.client.get(f"/enter/{browser.secrets.cookie}", base_url=ORIGIN)
    assert response.status_code == 401
    assert "Set-Cookie" not in response.headers
    assert browser.get("/").status_code == 401


def test_the_address_sets_a_strict_cookie_and_redirects_to_an_address_without_the_secret(console: Console) -> None:
    browser = new_browser(console)
    response = browser.enter()
    assert (response.status_code, response.headers["Location"]) == (303, "/")
    cookie = response.headers["Set-Cookie"]
    assert cookie == f"cdclake-console-{PORT}={browser.secrets.cookie}; HttpOnly; Path=/; SameSite=Strict"
    assert browser.secrets.address not in cookie
    assert browser.get("/").status_code == 200


def test_a_cookie_of_an_earlier_process_is_refused(console: Console, browser: Browser) -> None:
    later = new_browser(console)
    later.client.set_cookie(f"cdclake-console-{PORT}", browser.secrets.cookie, domain="127.0.0.1")
    assert later.get("/").status_code == 401


@pytest.mark.parametrize("host", ["attacker.example", f"attacker.example:{PORT}", "127.0.0.1", "127.0.0.1:80", ""])
@pytest.mark.parametrize("page", ["/", "/static/console.css", "/enter/x"])
def test_other_host_names_are_refused_to_prevent_dns_rebinding(browser: Browser, host: str, page: str) -> None:
    response = browser.client.get(page, base_url=ORIGIN, headers={"Host": host})
    assert response.status_code == 403
    assert "shop" not in response.text


def test_localhost_is_accepted_as_host(browser: Browser) -> None:
    origin = f"http://localhost:{PORT}"
    assert browser.client.get(f"/enter/{browser.secrets.address}", base_url=origin).status_code == 303
    assert browser.client.get("/", base_url=origin).status_code == 200
    form = {FORM_FIELD: browser.secrets.form, "active": "false"}
    response = browser.client.post(ACTIONS[0], base_url=origin, headers={"Origin": origin}, data=form)
    assert response.status_code == 303


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("origin", [None, "null", "https://attacker.example", f"http://localhost:{PORT}", ORIGIN[:-1]])
def test_a_form_of_another_site_changes_nothing(
    browser: Browser, lake: MemoryLake, action: str, origin: str | None
) -> None:
    headers = {"Origin": origin} if origin else {}
    form = {FORM_FIELD: browser.secrets.form, "active": "false"}
    assert browser.client.post(action, base_url=ORIGIN, headers=headers, data=form).status_code == 403
    assert is_untouched(lake)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("secret", [None, "", "guessed"])
def test_a_form_without_its_secret_changes_nothing(
    browser: Browser, lake: MemoryLake, action: str, secret: str | None
) -> None:
    form = {"active": "false"} | ({} if secret is None else {FORM_FIELD: secret})
    response = browser.client.post(action, base_url=ORIGIN, headers={"Origin": ORIGIN}, data=form)
    assert response.status_code == 403
    assert is_untouched(lake)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_without_the_cookie_changes_nothing(console: Console, lake: MemoryLake, action: str) -> None:
    assert new_browser(console).post(action, active="false").status_code == 401
    assert is_untouched(lake)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_read_only_console_changes_nothing(reader: Browser, lake: MemoryLake, action: str) -> None:
    response = reader.post(action, active="false", confirmed="x")
    assert response.status_code == 403
    assert "--allow-changes" in response.text
    assert is_untouched(lake)


@pytest.mark.parametrize("page", PAGES)
def test_a_read_only_console_has_no_forms_for_changes(reader: Browser, page: str) -> None:
    assert '<form method="post"' not in reader.get(page).text


@pytest.mark.parametrize("page", [*PAGES, "/nowhere", "/static/console.css", "/tables/shop.nope"])
def test_every_response_forbids_caching_framing_and_other_scripts(browser: Browser, page: str) -> None:
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
def test_pages_have_no_inline_scripts_and_styles(browser: Browser, page: str) -> None:
    text = browser.get(page).text
    assert text.count("<script") == 1
    assert '<script src="/static/console.js" defer></script>' in text
    assert "<style" not in text
    assert " style=" not in text
    assert "onclick" not in text
    assert "http://" not in text.replace(ORIGIN, "")
    assert "https://" not in text


def test_a_form_that_is_too_large_is_refused(browser: Browser, lake: MemoryLake) -> None:
    response = browser.post("/tables/shop.orders/active", active="false", reason="x" * MAX_FORM_BYTES)
    assert response.status_code == 413
    assert is_untouched(lake)


def test_secrets_are_long_and_different_in_every_process() -> None:
    texts = [text for secrets in (Secrets(), Secrets()) for text in (secrets.address, secrets.cookie, secrets.form)]
    assert len(set(texts)) == 6
    assert min(map(len, texts)) >= 43


def test_the_server_listens_only_on_the_loopback_address(console: Console) -> None:
    with serve(console) as address:
        assert address.startswith("http://127.0.0.1:")
