"""Runs contestants, each in its own process on a fresh copy of its table, and checks the resulting tables."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import data
from benchmarks.contestants.contestant import ENTRIES
from benchmarks.contestants.folders import copy_tree, parquet_files
from benchmarks.process_tree import FinishedProcess, run
from benchmarks.rows import KEY, schema
from benchmarks.s3_server import S3Request, in_sequence, s3_server
from benchmarks.table_reader import files_per_key, table_checksum
from benchmarks.task import APPLY, BUILD, LOAD, Outcome, TableFiles, Task
from benchmarks.workloads import MEASURED_ONCE, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.checksum import Checksum
    from benchmarks.workloads import Table, Workload

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_SECONDS = 900
_BUILD_TIMEOUT_SECONDS = 3600
"""Thousands of small changes of an aged table take a third of a second each."""
_LOG_LINES = 25
_ALLOCATOR = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""pyarrow allocates alike in all contestants, as cdclake sets it."""


@dataclass(frozen=True)
class Measurement:
    """A run of a contestant.

    Attributes:
        workload: Name of the workload.
        contestant: Name of the contestant.
        seconds: From existing change files to the visible result; None if the run failed.
        start_up_s: From the start of the process to a warm session.
        peak_rss_mb: Peak memory of all its processes together, in units of 10**6 bytes.
        correct: Whether the resulting table is correct.
        detail: Details that the contestant reported.
    """

    workload: str
    contestant: str
    seconds: float | None
    start_up_s: float
    peak_rss_mb: int
    correct: bool
    detail: dict[str, Any]


class Bench:
    """Runs contestants.

    Args:
        cache: Folder for cached test data, tables and logs.
        progress: Called with lines of progress.
    """

    def __init__(self, cache: Path, progress: Callable[[str], None]) -> None:
        self._cache, self._progress = cache.resolve(), progress
        self._logs = self._cache / "logs"
        self._product = product_digest()
        self._logs.mkdir(parents=True, exist_ok=True)

    def measure(self, runs: Sequence[tuple[Workload, str]], rounds: int) -> list[Measurement]:
        """Measure each run in each round, but some in the first only; each round starts with another run."""
        for workload, name in runs:
            self._prepare(workload, name)
        measured = []
        for number in range(rounds):
            first = number % len(runs)
            for workload, name in (*runs[first:], *runs[:first]):
                if number and name in MEASURED_ONCE:
                    continue
                measurement = self._measure(workload, name, number + 1)
                self._progress(f"{workload.name:<16}{name:<13}{number + 1}/{rounds}  {_line(measurement)}")
                measured.append(measurement)
        return measured

    def _measure(self, workload: Workload, name: str, number: int) -> Measurement:
        task, expected = self._task(workload, name)
        work = Path(task.work)
        shutil.rmtree(work, ignore_errors=True)
        if workload.change is None:
            work.mkdir(parents=True)
        else:
            copy_tree(self._starting_table(workload.table, name), work)
        outcome, finished, requests = self._run(task, f"{workload.name}-{name}-{number}")
        if outcome is None:
            return Measurement(workload.name, name, None, 0.0, 0, correct=False, detail={})
        columns = schema(workload.table.source)
        actual = [table_checksum(outcome.files, columns)]
        if workload.table.history:
            actual.append(table_checksum(TableFiles(outcome.files.versions), columns))
        shutil.rmtree(work)
        if actual != expected:
            self._progress(f"{name}: the table has {actual}, but should have {expected}")
        return Measurement(
            workload.name,
            name,
            outcome.ended - outcome.ready,
            outcome.ready - finished.started,
            finished.peak_rss_bytes(outcome.ended) // 1_000_000,
            actual == expected,
            {**outcome.detail, **_request_counts(outcome, requests), **self._files_per_key(workload, name)},
        )

    def _task(self, workload: Workload, name: str) -> tuple[Task, list[Checksum]]:
        """The task, and the expected checksum of its result, then of its history."""
        load = data.full_load(self._cache, workload.table)
        task = self._building_task(workload.table, name)
        if workload.change is None:
            return replace(task, action=LOAD), [load.checksum]
        changes = data.changes(self._cache, workload, workload.change)
        task = replace(task, action=APPLY, change_files=changes.files, touched=changes.touched)
        if ENTRIES[name].copies:
            return task, [load.checksum]
        return task, [changes.checksum, changes.versions] if workload.table.history else [changes.checksum]

    def _files_per_key(self, workload: Workload, name: str) -> dict[str, float]:
        """The mean number of data files whose key range contains a changed key, in tables with a past."""
        change = workload.change
        if change is None or not workload.table.past:
            return {}
        files = parquet_files(self._starting_table(workload.table, name))
        keys = np.concatenate([change.updated, change.deleted])
        return {"files_per_key": round(files_per_key(files, KEY, keys), 3)}

    def _building_task(self, table: Table, name: str) -> Task:
        return Task(
            contestant=name,
            action=BUILD,
            # Always the same folder, because Iceberg tables contain absolute paths.
            work=str(self._cache / "work" / ENTRIES[name].table_of),
            load_files=data.full_load(self._cache, table).files,
            change_files=(),
            key=table.source.key,
            partition=table.partition,
            partition_values=len(table.partition_values),
            data_files=table.data_files,
            past_files=data.past_files(self._cache, table) if table.aged else (),
            history=table.history,
            on_s3=table.on_s3,
            readers=table.readers,
        )

    def _prepare(self, workload: Workload, name: str) -> None:
        """Create the data and the starting table of a run, if they do not exist."""
        data.full_load(self._cache, workload.table)
        if workload.change is None:
            return
        data.changes(self._cache, workload, workload.change)
        folder = self._starting_table(workload.table, name)
        if folder.exists():
            return
        self._progress(f"creating the starting table of {name}: {workload.table.rows:,} rows")
        builder = ENTRIES[name].table_of
        for outdated in folder.parent.glob(f"{builder}-*"):
            shutil.rmtree(outdated)
        task = self._building_task(workload.table, builder)
        work = Path(task.work)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        outcome, *_ = self._run(task, f"build-{builder}")
        if outcome is None:
            message = f"the starting table of {name} could not be created; see {self._logs}"
            raise RuntimeError(message)
        folder.parent.mkdir(parents=True, exist_ok=True)
        work.rename(folder)

    def _starting_table(self, table: Table, name: str) -> Path:
        version = self._product if name == OURS else "1"
        layout = table.partition or "plain"
        layout += "-history" * table.history + "-s3" * table.on_s3
        layout += f"-{table.readers}" if table.readers != "folder" else ""
        return data.folder_of(self._cache, table) / f"tables-{layout}" / f"{ENTRIES[name].table_of}-{version}"

    def _run(self, task: Task, log_name: str) -> tuple[Outcome | None, FinishedProcess, list[S3Request]]:
        """Run a task in a new process; its output is logged, and shown if the process fails.

        Returns:
            The outcome, unless the process failed; the process; its requests to S3.
        """
        task_file, outcome_file = self._cache / "task.json", self._cache / "outcome.json"
        task.write(task_file)
        outcome_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "benchmarks.run_one", str(task_file), str(outcome_file)]
        path = os.pathsep.join(str(ROOT / name) for name in (".", "glue_jobs", "cli", "devkit"))
        variables = {"PYTHONPATH": path, **_ALLOCATOR}
        os.sync()  # earlier writes must not slow down this run
        log = self._logs / f"{log_name}.log"
        requests: list[S3Request] = []
        with ExitStack() as stack:
            environment = {**os.environ, **variables}
            if task.on_s3:
                server = stack.enter_context(s3_server(Path(task.work) / "s3", log.with_suffix(".s3.log")))
                environment, requests = {**environment, **server.environment}, server.requests
            output = stack.enter_context(log.open("w", encoding="utf-8"))
            timeout = _BUILD_TIMEOUT_SECONDS if task.action == BUILD else _TIMEOUT_SECONDS
            finished = run(command, environment, output, timeout)
        if finished.code == 0:
            return Outcome.read(outcome_file), finished, requests
        reason = "took too long" if finished.code is None else f"ended with code {finished.code}"
        self._progress(f"{task.contestant} {reason}; the end of {log}:")
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]:
            self._progress(f"    {line}")
        return None, finished, requests


def product_digest() -> str:
    """A digest of the product's code: other code may write other tables."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "glue_jobs" / "cdclake").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _request_counts(outcome: Outcome, requests: Sequence[S3Request]) -> dict[str, Any]:
    """The number of requests in the timed part, in all, in sequence and by method; nothing if there are none."""
    timed = [request for request in requests if outcome.ready <= request.at <= outcome.ended]
    methods = Counter(request.method for request in timed)
    if not methods:
        return {}
    by_method = dict(sorted(methods.items()))
    return {"requests": methods.total(), "requests_in_sequence": in_sequence(timed), "requests_by_method": by_method}


def _line(run: Measurement) -> str:
    if run.seconds is None:
        return "failed"
    verdict = "" if run.correct else "  WRONG RESULT"
    phases = run.detail.get("seconds", {})
    detail = "  " + " ".join(f"{phase} {seconds:.2f}" for phase, seconds in phases.items()) if phases else ""
    return f"{run.seconds:8.2f} s  start-up {run.start_up_s:5.2f} s  {run.peak_rss_mb:6,} MB{verdict}{detail}"
