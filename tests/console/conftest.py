"""The console over a lake in memory, and a browser that was let in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.memory import ManualClock, MemoryState, MemoryStore
from cdclake.console.app import create_app
from cdclake.console.context import Console
from cdclake.console.security import FORM_FIELD, Secrets
from cdclake.control.status import LATE_AFTER_MINUTES
from cdclake.errors import CdclakeError
from tests.console.lake import MemoryLake, fill

if TYPE_CHECKING:
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

PORT = 5001
ORIGIN = f"http://127.0.0.1:{PORT}"


def ours(error: Exception) -> CdclakeError | None:
    """Tells our own errors from those that nobody expected."""
    return error if isinstance(error, CdclakeError) else None


@dataclass
class Browser:
    """Asks as a browser does that was given the address."""

    client: FlaskClient
    secrets: Secrets

    def enter(self) -> TestResponse:
        return self.client.get(f"/enter/{self.secrets.address}", base_url=ORIGIN)

    def get(self, path: str) -> TestResponse:
        return self.client.get(path, base_url=ORIGIN, buffered=True)

    def post(self, path: str, **fields: str) -> TestResponse:
        """Send a form of ours."""
        form = {FORM_FIELD: self.secrets.form, **fields}
        return self.client.post(path, base_url=ORIGIN, headers={"Origin": ORIGIN}, data=form)

    def text(self, path: str, status: int = 200) -> str:
        """What a person reads on a page: its text without the tags, in one line."""
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        return plain(answer)


def plain(answer: TestResponse) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text.replace("<wbr>", "")).split())


@pytest.fixture
def lake(clock: ManualClock) -> MemoryLake:
    """Five tables in many a state."""
    lake = MemoryLake(MemoryStore(clock), MemoryStore(clock), MemoryState(), clock)
    fill(lake.states, lake.raw, lake.log, clock())
    return lake


def browser_on(about: Console) -> Browser:
    secrets = Secrets()
    return Browser(create_app(about, secrets, PORT).test_client(), secrets)


@pytest.fixture
def about(lake: MemoryLake) -> Console:
    """A console that may change things."""
    return Console(lake, "in memory", lake.clock, ours, LATE_AFTER_MINUTES, allow_changes=True, made_by="grace")


@pytest.fixture
def browser(about: Console) -> Browser:
    """A browser that was let in to it."""
    browser = browser_on(about)
    assert browser.enter().status_code == 303
    return browser


@pytest.fixture
def reader(about: Console) -> Browser:
    """A browser that was let in to a console that may change nothing."""
    reader = browser_on(replace(about, allow_changes=False))
    assert reader.enter().status_code == 303
    return reader
