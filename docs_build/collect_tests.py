"""Collects tests and writes when each runs: `python -m docs_build.collect_tests <output> <path>...`.

A process of its own, because the tier that runs is read when the tests are imported. Under `thorough`, tests/crash
replaces its samples by all calls, so the tiers are those of `all`, including the tests that it leaves to `thorough`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]

Tiers = dict[str, dict[str, list[str]]]
"""By file and name of a test function, in their order, the tiers in which cases of it first run."""


def collect_tests(paths: Sequence[str]) -> Tiers:
    """The tests in files and folders, relative to the root."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "tests.json")
        # Settings of a pytest that calls this are not for the other one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        command = [sys.executable, "-m", "docs_build.collect_tests", str(output), *paths]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**environment, "CDCLAKE_TESTS": "all"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        found: Tiers = json.loads(output.read_text(encoding="utf-8"))
        return found


class _Collector:
    """Takes the tests that pytest found, also those that it will not run."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.items += items

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items += session.items


def main(output: str, *paths: str) -> int:
    """Collect tests, and write their tiers as JSON; returns pytest's exit status."""
    from tests.tiers import tier_of  # imports an embedded AWS, which only this process needs

    collector = _Collector()
    # No test runs, so no assertion needs to be rewritten.
    status = pytest.main(
        ["--collect-only", "-qq", "--assert=plain", "-p", "no:cacheprovider", *paths], plugins=[collector]
    )
    tiers: Tiers = {}
    for item in sorted(collector.items, key=lambda item: (item.location[:2], tier_of(item))):
        file, _, name = item.nodeid.partition("[")[0].partition("::")
        tier, found = tier_of(item).name.lower(), tiers.setdefault(file, {}).setdefault(name, [])
        if tier not in found:
            found.append(tier)
    Path(output).write_text(json.dumps(tiers), encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
