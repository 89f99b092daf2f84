"""Environments for the crash tests, and the summary table at their end."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.counts import IS_RECORDED, keep
from tests.crash.environments import Environment, FolderEnvironment, aws_environment
from tests.tiers import TIER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.crash.trials import Tally

    NewEnvironment = Callable[[str], AbstractContextManager[tuple[Environment, Path]]]
    """Creates an empty environment on a kind of store, and an empty folder."""

_MEMORY = Path("/dev/shm")
_PROPERTY = "crash tally"
JSON_PATH = "CDCLAKE_CRASH_JSON"
"""Environment variable: file for the summary table as JSON."""


@pytest.fixture(scope="session")
def new_environment() -> NewEnvironment:
    """See `NewEnvironment`."""

    @contextmanager
    def make(store: str) -> Iterator[tuple[Environment, Path]]:
        with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
            folder, files = Path(name), Path(name) / "files"
            files.mkdir()
            if store == "folder":
                yield FolderEnvironment(folder), files
                return
            with aws_environment(versioned=store == "versioned bucket") as environment:
                yield environment, files

    return make


@pytest.fixture
def record_tally(record_property: Callable[[str, object], None]) -> Callable[[Tally], None]:
    """Records the results of a test's trials for the summary table."""

    def keep(tally: Tally) -> None:
        record_property(_PROPERTY, {**asdict(tally), "survived": tally.survived})

    return keep


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the results of all trials."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    properties = [
        pair for report in reports if getattr(report, "when", "") == "call" for pair in report.user_properties
    ]
    tallies: list[dict[str, Any]] = [value for name, value in properties if name == _PROPERTY]
    if not tallies:
        return
    tallies.sort(key=lambda tally: (tally["store"], tally["scenario"]))
    line = "{:<25} {:<28} {:<19} {:>6} {:>6} {:>9} {:>8}"
    terminalreporter.section("crash tests: faults hit, and survived")
    terminalreporter.write_line(line.format("store", "run", "fault", "calls", "tried", "survived", "seconds"))
    for tally in tallies:
        values = (tally[name] for name in ("store", "scenario", "fault", "calls", "tried", "survived"))
        terminalreporter.write_line(line.format(*values, f"{tally['seconds']:.1f}"))
    tried, survived, seconds = (sum(tally[name] for tally in tallies) for name in ("tried", "survived", "seconds"))
    terminalreporter.write_line(line.format("all", "", "", "", tried, survived, f"{seconds:.1f}"))
    if IS_RECORDED and tried == survived:
        by_fault = Counter[str]()
        for tally in tallies:
            by_fault[f"fault: {tally['fault']}"] += tally["tried"]
        keep("tests/crash/test_every_call.py", TIER.name.lower(), {"faults": tried, **dict(sorted(by_fault.items()))})
    path = os.environ.get(JSON_PATH)
    if path:
        whole = {"tried": tried, "survived": survived, "seconds": seconds, "rows": tallies}
        Path(path).write_text(json.dumps(whole, indent=1) + "\n")
