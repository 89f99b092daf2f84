"""Measures how long each tier takes: `python -m tests.seconds quick test --runs 3`, on an otherwise idle machine.

`seconds.json` keeps the last measurement, and README, CONTRIBUTING and the Makefile may promise no less.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from tests import ROOT

KEPT = Path(__file__).with_name("seconds.json")
TARGETS = ("quick", "test", "test-all")


def measure(target: str, runs: int) -> dict[str, Any]:
    """The seconds of some runs of a target, which must succeed, and the number of tests that passed in each."""
    seconds, passed = [], 0
    for run in range(1, runs + 1):
        started = time.monotonic()
        done = subprocess.run(["make", target], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        seconds.append(round(time.monotonic() - started, 1))
        if done.returncode:
            message = f"make {target} failed:\n{done.stdout[-5_000:]}"
            raise SystemExit(message)
        passed = max(int(count) for count in re.findall(r"(\d+) passed", done.stdout))
        print(f"make {target}, run {run} of {runs}: {seconds[-1]:.0f} s, {passed:,} tests", flush=True)
    return {"seconds": seconds, "median": statistics.median(seconds), "tests": passed}


def main() -> None:
    """Measure targets and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for target in options.targets:
        kept[target] = measure(target, options.runs)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
