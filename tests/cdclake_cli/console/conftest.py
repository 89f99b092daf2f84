"""Fixtures: a console on a lake in memory, and browsers with access to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdclake_cli
from cdclake.control.status import LATE_AFTER_MINUTES
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake.model.table.attributes import Attribute
from cdclake_cli.config.column_checks import Checks
from cdclake_cli.console.app import create_app
from cdclake_cli.console.context import Console
from cdclake_cli.console.security import FORM_FIELD, Secrets
from cdclake_devkit.memory import ManualClock, MemoryState, MemoryStore
from tests.cdclake_cli.console.lake import SCHEMA, MemoryLake, fill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager

    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState

PORT = 5001
ORIGIN = f"http://127.0.0.1:{PORT}"


def expected_error(error: Exception) -> CdclakeError | None:
    return error if isinstance(error, CdclakeError) else None


def memory_checks(lake: MemoryLake) -> Callable[[Collection[TableState]], AbstractContextManager[Checks]]:
    """Checks with the lake tables, and with raw files that have the columns of the lake's."""

    def lake_table(state: TableState) -> Snapshot:
        return lake.log(state.name).snapshot(state.last_change)

    def columns(state: TableState, changed: Collection[str], *_: object) -> None:
        unknown = set(state.settings.primary_key) - {column.name for column in SCHEMA}
        if unknown and Attribute.PRIMARY_KEY in changed:
            message = f"The raw files have no column {unknown.pop()}"
            raise ConfigurationError(message)

    return lambda _: nullcontext(Checks(lake_table, columns))


@dataclass
class Browser:
    """Sends requests like a browser that knows the console's address."""

    client: FlaskClient
    secrets: Secrets

    def enter(self) -> TestResponse:
        return self.client.get(f"/enter/{self.secrets.address}", base_url=ORIGIN)

    def get(self, path: str) -> TestResponse:
        return self.client.get(path, base_url=ORIGIN, buffered=True)

    def post(self, path: str, **fields: str) -> TestResponse:
        """Send a form of the console."""
        form = {FORM_FIELD: self.secrets.form, **fields}
        return self.client.post(path, base_url=ORIGIN, headers={"Origin": ORIGIN}, data=form)

    def text(self, path: str, status: int = 200) -> str:
        """The text of a page without tags, in one line."""
        response = self.get(path)
        assert response.status_code == status, response.text
        return plain_text(response)


def plain_text(response: TestResponse) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", response.text.replace("<wbr>", "")).split())


@pytest.fixture(scope="session")
def filled() -> MemoryLake:
    """Five tables in different states, which no test changes."""
    clock = ManualClock()
    lake = MemoryLake(MemoryStore(clock), MemoryStore(clock), MemoryState(), clock)
    fill(lake.states, lake.raw, lake.log, clock())
    return lake


@pytest.fixture
def lake(filled: MemoryLake, clock: ManualClock) -> MemoryLake:
    """The same for one test."""
    return MemoryLake(_copy(filled.store, clock), _copy(filled.raw, clock), MemoryState(filled.states.all()), clock)


def _copy(store: MemoryStore, clock: ManualClock) -> MemoryStore:
    copy = MemoryStore(clock)
    for entry in store.list(""):
        copy.put(entry.key, store.get(entry.key) or b"")
    return copy


def new_browser(console: Console) -> Browser:
    """A browser that has not entered yet, on a new process of the console."""
    secrets = Secrets()
    return Browser(create_app(console, secrets, PORT).test_client(), secrets)


@pytest.fixture
def console(lake: MemoryLake) -> Console:
    """A console that allows changes."""
    return Console(
        lake,
        "in memory",
        lake.clock,
        expected_error,
        LATE_AFTER_MINUTES,
        memory_checks(lake),
        allow_changes=True,
        made_by="grace",
        keep_seconds=0,
        patience_seconds=60,
    )


@pytest.fixture
def browser(console: Console) -> Browser:
    """A browser with access to the console."""
    return browser_of(console)


def browser_of(console: Console, **fields: Any) -> Browser:
    """A browser with access to the console, of which some fields differ."""
    browser = new_browser(replace(console, **fields))
    assert browser.enter().status_code == 303
    return browser


@pytest.fixture
def reader(console: Console) -> Browser:
    """A browser with access to a read-only console."""
    return browser_of(console, allow_changes=False)


@contextmanager
def console_process(environment: Mapping[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `cdclake console` in its own process; yields it and the address that it prints."""
    command = [sys.executable, "-c", "from cdclake_cli.main import main; main()", "console", *arguments]
    code = str(Path(cdclake_cli.__file__).parents[1])  # the code that is tested, wherever another is installed
    path = os.pathsep.join([code, environment.get("PYTHONPATH", "")])
    variables = {**environment, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
