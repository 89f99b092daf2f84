"""Damaged raw files by the thousand: each ends in a clear error or in the right rows, and none ends the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import ROOT
from tests.conftest import COUNTS
from tests.lake.raw.mutated_files import ABORT_AT, mutation, read_through_product, seeds
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = {Tier.QUICK: 0, Tier.TEST: 2_000, Tier.ALL: 6_000, Tier.THOROUGH: 200_000}[TIER]
PER_PROCESS = 500
SECONDS_PER_FILE = 60


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
        command = [
            sys.executable,
            "-m",
            "tests.lake.raw.mutated_files",
            str(first),
            str(min(PER_PROCESS, end - first)),
            salt,
        ]
        path = os.pathsep.join([str(ROOT / "glue_jobs"), str(ROOT)])
        limit = SECONDS_PER_FILE * PER_PROCESS / 20
        child = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=limit, check=False
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        for line in lines:
            if "end" in line:
                yield Result(line["end"], line["kind"], line["outcome"], line["wrong"])
        if not lines or "begin" in lines[-1]:
            assert lines, child.stderr.decode()
            first = lines[-1]["begin"]
            kind = mutation(first, salt)[0].name.split()[0]
            yield Result(first, kind, "process ended", f"exit {child.returncode}: {child.stderr.decode()[-500:]}")
        first = (lines[-1].get("end") or first) + 1 if "end" in lines[-1] else first + 1


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_the_files_are_read_and_loaded_before_they_are_damaged(seed):
    assert read_through_product(seed, seed.content, loads=True) == "loaded"


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
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
    assert all(counts[f"{kind}: {outcome}"] for kind in ("parquet", "csv", "gzip") for outcome in ("refused", "read"))


@pytest.mark.slow
def test_a_file_that_ends_the_process_is_named_and_the_next_ones_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ABORT_AT, "2")
    found = list(results(0, 4, "cdclake"))
    assert [result.number for result in found] == [0, 1, 2, 3]
    assert [bool(result.wrong) for result in found] == [False, False, True, False]
    assert "exit -6" in found[2].wrong
