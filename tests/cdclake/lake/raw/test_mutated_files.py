"""Damaged files by the thousand: each ends in a clear error or in the right rows, and none ends the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests import CODE_PATH, ROOT
from tests.cdclake.lake.raw.mutated_files import ABORT_AT, mutation, read_through_product, seeds
from tests.conftest import COUNTS
from tests.examples import THOROUGH_SECONDS
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = {Tier.QUICK: 0, Tier.TEST: 600, Tier.ALL: 1_000, Tier.THOROUGH: 200_000}[TIER]
PER_PROCESS = 500
PROCESS_SECONDS = 300
"""On an idle machine it takes 5."""


class Result(NamedTuple):
    """What came of a damaged file.

    Attributes:
        wrong: What should not have been; empty if all is well.
    """

    number: int
    kind: str
    outcome: str
    wrong: str


def results(first: int, count: int, salt: str) -> Iterator[Result]:
    """Read damaged files in child processes. One that ends a process is a result, and the next process goes on."""
    end = first + count
    while first < end:
        lines, why = _in_child(first, min(PER_PROCESS, end - first), salt)
        for line in lines:
            if "end" in line:
                yield Result(line["end"], line["kind"], line["outcome"], line["wrong"])
        (last,) = (value for name, value in lines[-1].items() if name in ("begin", "end"))
        if "begin" in lines[-1]:
            yield Result(last, mutation(last, salt)[0].name.split()[0], "process ended", why)
        first = last + 1


def _in_child(first: int, count: int, salt: str) -> tuple[list[dict[str, Any]], str]:
    """The lines of a child process, at least one, and why it ended."""
    command = [sys.executable, "-m", "tests.cdclake.lake.raw.mutated_files", str(first), str(count), salt]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([CODE_PATH, str(ROOT)])}
    try:
        child = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=PROCESS_SECONDS, check=False
        )
        output, why = child.stdout, f"exit {child.returncode}: {child.stderr.decode()[-500:]}"
    except subprocess.TimeoutExpired as error:
        output, why = error.stdout or b"", f"still busy after {PROCESS_SECONDS} seconds"
    lines = [json.loads(line) for line in output.splitlines()]
    assert lines, why
    return lines, why


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_the_files_are_read_and_loaded_before_they_are_damaged(seed):
    assert read_through_product(seed, seed.content, loads=True) == ("read" if seed.name[:4] == "lake" else "loaded")


@pytest.mark.slow
@pytest.mark.timeout(THOROUGH_SECONDS)
def test_damaged_files_end_in_a_clear_error_or_in_the_right_rows(request: pytest.FixtureRequest):
    counts: Counter[str] = Counter()
    wrong = []
    for result in results(0, FILES, "cdclake"):
        counts[f"{result.kind}: {result.outcome}"] += 1
        if result.wrong:
            wrong.append(f"{result.number} {mutation(result.number, 'cdclake')[0].name}: {result.wrong}")
    request.node.user_properties.append((COUNTS, dict(sorted(counts.items()))))
    assert not wrong, "\n".join([f"{len(wrong)} of {FILES}", *wrong[:20]])
    assert sum(counts.values()) == FILES
    assert all(
        counts[f"{kind}: {outcome}"] for kind in ("parquet", "csv", "gzip", "lake") for outcome in ("refused", "read")
    )


@pytest.mark.slow
def test_a_file_that_ends_the_process_is_named_and_the_next_ones_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ABORT_AT, "2")
    found = list(results(0, 4, "cdclake"))
    assert [result.number for result in found] == [0, 1, 2, 3]
    assert [bool(result.wrong) for result in found] == [False, False, True, False]
    assert "exit -6" in found[2].wrong
