"""Runs one task of a contestant: `python -m benchmarks.run_one task.json outcome.json`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.contestants.contestant import contestant
from benchmarks.task import APPLY, BUILD, Outcome, TableFiles, Task


def main() -> None:
    """Start the contestant, execute the task, and write the outcome."""
    task = Task.read(Path(sys.argv[1]))
    engine = contestant(task)
    engine.start()
    ready = time.monotonic()
    if task.action == BUILD:
        engine.build()
        outcome = Outcome(ready, time.monotonic(), TableFiles(()))
    else:
        detail = engine.apply() if task.action == APPLY else engine.load()
        ended = time.monotonic()
        outcome = Outcome(ready, ended, engine.files(), detail)
    outcome.write(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
