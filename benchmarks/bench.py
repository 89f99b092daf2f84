"""Runs contestants, each in a process of its own and on a fresh copy of its table, and checks what they made."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.contestants.contestant import ENTRIES
from benchmarks.contestants.folders import copy_tree
from benchmarks.process_tree import Finished, run
from benchmarks.rows import KEY, PARTITION, schema
from benchmarks.table_reader import table_checksum
from benchmarks.task import APPLY, BUILD, LOAD, Outcome, Task
from benchmarks.workloads import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.workloads import Table, Workload

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_SECONDS = 900
_LINES_OF_LOG = 25


@dataclass(frozen=True)
class Measurement:
    """One run of one contestant.

    Attributes:
        seconds: From change files that lie there to the visible result; None if the run failed.
        start_up_s: From the start of the process to a warm session.
        peak_rss_mb: Most memory of all its processes together, in units of 10**6 bytes.
        right: Whether the table was what it must be.
        detail: What the contestant told.
    """

    workload: str
    contestant: str
    seconds: float | None
    start_up_s: float
    peak_rss_mb: int
    right: bool
    detail: dict[str, Any]


class Bench:
    """Runs contestants.

    Args:
        cache: Folder for all that is kept and all that is made.
        say: Takes lines of progress.
    """

    def __init__(self, cache: Path, say: Callable[[str], None]) -> None:
        self._cache, self._say = cache.resolve(), say
        self._logs = self._cache / "logs"
        self._product = _product_digest()
        self._logs.mkdir(parents=True, exist_ok=True)

    def measure(self, runs: Sequence[tuple[Workload, str]], rounds: int) -> list[Measurement]:
        """Measure each run in each round, beginning each round with another."""
        for workload, name in runs:
            self._prepare(workload, name)
        measured = []
        for turn in range(rounds):
            first = turn % len(runs)
            for workload, name in (*runs[first:], *runs[:first]):
                one = self._measure(workload, name, turn + 1)
                self._say(f"{workload.name:<16}{name:<13}{turn + 1}/{rounds}  {_line(one)}")
                measured.append(one)
        return measured

    def _measure(self, workload: Workload, name: str, turn: int) -> Measurement:
        task, expected = self._task(workload, name)
        work = Path(task.work)
        shutil.rmtree(work, ignore_errors=True)
        if workload.change is None:
            work.mkdir(parents=True)
        else:
            copy_tree(self._starting_table(workload.table, name), work)
        outcome, finished = self._run(task, f"{workload.name}-{name}-{turn}")
        if outcome is None:
            return Measurement(workload.name, name, None, 0.0, 0, right=False, detail={})
        found = table_checksum(outcome.files, schema(uuid_keys=workload.table.uuid_keys))
        shutil.rmtree(work)
        if found != expected:
            self._say(f"{name} made {found}, and it must be {expected}")
        return Measurement(
            workload.name,
            name,
            outcome.ended - outcome.ready,
            outcome.ready - finished.started,
            finished.peak_rss_bytes(outcome.ended) // 1_000_000,
            found == expected,
            outcome.detail,
        )

    def _task(self, workload: Workload, name: str) -> tuple[Task, Any]:
        """The task, and the checksum that its result must have."""
        load = data.full_load(self._cache, workload.table)
        task = self._building_task(workload.table, name)
        if workload.change is None:
            return replace(task, action=LOAD), load.checksum
        changes = data.changes(self._cache, workload, workload.change)
        task = replace(task, action=APPLY, change_files=changes.files, touched=changes.touched)
        return task, load.checksum if ENTRIES[name].copies else changes.checksum

    def _building_task(self, table: Table, name: str) -> Task:
        return Task(
            contestant=name,
            action=BUILD,
            # Always the same folder, as Iceberg writes absolute paths into its tables.
            work=str(self._cache / "work" / ENTRIES[name].begins_from),
            load_files=data.full_load(self._cache, table).files,
            change_files=(),
            key=KEY,
            partition=PARTITION if table.partitioned else None,
            data_files=table.files,
        )

    def _prepare(self, workload: Workload, name: str) -> None:
        """Make what a run begins from, if it is not there yet."""
        data.full_load(self._cache, workload.table)
        if workload.change is None:
            return
        data.changes(self._cache, workload, workload.change)
        folder = self._starting_table(workload.table, name)
        if folder.exists():
            return
        self._say(f"making the starting table of {name}: {workload.table.rows:,} rows")
        for outdated in folder.parent.glob(f"{ENTRIES[name].begins_from}-*"):
            shutil.rmtree(outdated)
        builder = ENTRIES[name].begins_from
        task = self._building_task(workload.table, builder)
        work = Path(task.work)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        outcome, _ = self._run(task, f"build-{builder}")
        if outcome is None:
            message = f"the starting table of {name} could not be made; see {self._logs}"
            raise RuntimeError(message)
        folder.parent.mkdir(parents=True, exist_ok=True)
        work.rename(folder)

    def _starting_table(self, table: Table, name: str) -> Path:
        made_by = self._product if name == OURS else "1"
        layout = "by-region" if table.partitioned else "plain"
        return data.folder_of(self._cache, table) / f"tables-{layout}" / f"{ENTRIES[name].begins_from}-{made_by}"

    def _run(self, task: Task, log_name: str) -> tuple[Outcome | None, Finished]:
        """Run a task in a fresh process; what it printed is kept, and shown if it failed."""
        task_file, outcome_file = self._cache / "task.json", self._cache / "outcome.json"
        task.write(task_file)
        outcome_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "benchmarks.run_one", str(task_file), str(outcome_file)]
        paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'glue_jobs'}"}
        os.sync()  # what was written before is not to be paid for by this run
        log = self._logs / f"{log_name}.log"
        with log.open("w", encoding="utf-8") as output:
            finished = run(command, {**os.environ, **paths}, output, _TIMEOUT_SECONDS)
        if finished.code == 0:
            return Outcome.read(outcome_file), finished
        why = "took too long" if finished.code is None else f"ended with code {finished.code}"
        self._say(f"{task.contestant} {why}; the end of {log}:")
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES_OF_LOG:]:
            self._say(f"    {line}")
        return None, finished


def _product_digest() -> str:
    """Names the product's code: another code makes other tables."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "glue_jobs" / "cdclake").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _line(one: Measurement) -> str:
    if one.seconds is None:
        return "failed"
    detail = "" if one.right else "  WRONG RESULT"
    phases = one.detail.get("seconds", {})
    told = "  " + " ".join(f"{phase} {seconds:.2f}" for phase, seconds in phases.items()) if phases else ""
    return f"{one.seconds:8.2f} s  start-up {one.start_up_s:5.2f} s  {one.peak_rss_mb:6,} MB{detail}{told}"
