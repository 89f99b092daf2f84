"""`cdclake console` as a process: what it prints and serves, and how it ends."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from contextlib import closing
from functools import partial
from http.cookiejar import CookieJar

import pytest

from cdclake_cli.aws.services import connect
from cdclake_cli.config.column_checks import column_checks
from cdclake_cli.console.context import Console
from cdclake_cli.errors import explain
from cdclake_cli.loopback import listen
from cdclake_cli.target import Target
from tests.cdclake_cli.console.conftest import console_process, new_browser

SECONDS_TO_END = 20


@pytest.mark.slow
def test_it_prints_its_address_serves_pages_and_ends_at_the_first_signal() -> None:
    with closing(listen(0, "a test")) as taken:
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with console_process(environment, "--endpoint-url", nowhere) as (process, address):
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with pytest.raises(urllib.error.HTTPError) as answer:  # admitted, then redirected to the tables
            opener.open(address, timeout=SECONDS_TO_END)
        text = answer.value.read().decode()
        answer.value.close()
        assert answer.value.code == 502
        assert "The AWS endpoint does not respond" in text
        assert "start the embedded AWS: cdclake local serve" in text
        assert "Read-only" in text
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_TO_END) == 0


@pytest.mark.parametrize("letters", [300, 1100, 3000])
def test_a_name_that_is_too_long_for_aws_is_that_of_no_table(state, letters) -> None:
    services = connect(Target())
    checks = partial(column_checks, Target(), services, unchecked=False)
    browser = new_browser(Console(services, "AWS", services.clock, explain, 180, checks))
    browser.enter()
    services.raw.put("shop/store/LOAD00000001.csv", b"1\n")
    pages = ("", "/changes/1", "/quarantine", "/rollback", "/reapply", "/settings")
    answers = {page: browser.get(f"/tables/shop.{'x' * letters}{page}").status_code for page in pages}
    assert answers == dict.fromkeys(pages, 404)


def test_a_port_in_use_is_a_clear_error(cdclake) -> None:
    with closing(listen(0, "a test")) as taken:
        port = taken.getsockname()[1]
        error = cdclake.refused("console", "--endpoint-url", "http://127.0.0.1:1", "--port", str(port))
    assert f"The console cannot listen on port {port}" in error
    assert "choose another one with --port" in error
