"""Simulates an installation with many tables, whose runs may be killed at any call.

DMS writes files. Events, the Lambda function, the Controller and the runs of all jobs are concurrent, in threads. The
code of the Spark jobs runs with the engine in this process. To the `FolderInstallation` it adds threads and kills.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.concurrency import CALLS_AT_ONCE
from cdclake.errors import CdclakeError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.position import position
from cdclake.ports import JobRun, JobState
from cdclake_devkit.memory import ManualClock, MemoryJobs, Work
from cdclake_devkit.oracle import ChangeRow, LakeRow, merge
from on_raw_file.handler import Dependencies, handle
from tests.builders import LAKE, RAW, FolderInstallation, ended
from tests.cdclake.lake.table import by_key, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cdclake.model.change.record import ChangeRecord
    from cdclake_devkit.memory import JobScript

PREFIX = "dms/"
KEY = ("id",)
COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int64())])


class KilledError(BaseException):
    """The process was killed; nothing may catch this."""


class CallBudget:
    """A number of calls after which a run is killed."""

    def __init__(self, calls: int) -> None:
        self._left = calls
        self._lock = Lock()

    def spend(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise KilledError


class KillablePort:
    """Passes calls on until the budget is spent."""

    calls_at_once = CALLS_AT_ONCE

    def __init__(self, port: object, budget: CallBudget) -> None:
        self._port, self._life = port, budget

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._life.spend()
            return getattr(self._port, name)(*arguments, **named)

        return call


@dataclass
class SourceTable:
    """A table of the source database, whose files DMS writes."""

    path: str
    folder: Path
    loads: list[dict[str, Any]] = field(default_factory=list)
    changes: list[ChangeRow] = field(default_factory=list)

    def expected(self) -> list[LakeRow]:
        return merge(KEY, self.loads, self.changes)


class _Jobs(MemoryJobs):
    """Runs that begin their work at once.

    Args:
        run_job: See `MemoryJobs`.
        begin: Called after each start.
    """

    def __init__(self, run_job: JobScript, begin: Callable[[], None]) -> None:
        super().__init__(run_job)
        self._begin = begin

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        run_id = super().start(job, arguments)
        self._begin()
        return run_id


class Fleet(FolderInstallation):
    """The installation and its tables.

    Attributes:
        kills_runs: Whether runs are killed at random, and some events of their end are lost.
        counts: Counts kills, packs and lost events.
    """

    clock: ManualClock

    def __init__(self, root: Path, tables: int, seed: int) -> None:
        super().__init__(root, PREFIX, ManualClock())
        self.jobs = _Jobs(self.run_job, lambda: self._start(self.run_spark))
        self.random = random.Random(seed)
        self.kills_runs = True
        self.counts: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(6)
        self._futures: list[Future[object]] = []
        self._lock = Lock()
        self.tables = [
            SourceTable(f"{RAW}/{PREFIX}shop/t{number:02d}/", root / RAW / PREFIX / "shop" / f"t{number:02d}")
            for number in range(tables)
        ]

    # --- DMS ---

    def write_load(self, table: SourceTable, rows: int = 8) -> str:
        table.loads = [{"id": number, "n": self.random.randrange(1000)} for number in range(rows)]
        return self._write(table, "LOAD00000001.parquet", pa.Table.from_pylist(table.loads, COLUMNS))

    def write_changes(self, table: SourceTable, name: str) -> str:
        rows = [
            (self.random.choice("IUUD"), {"id": self.random.randrange(20), "n": self.random.randrange(1000)})
            for _ in range(self.random.randint(1, 5))
        ]
        table.changes += [ChangeRow(position(name, place), op, row) for place, (op, row) in enumerate(rows)]
        schema = pa.schema([("Op", pa.string()), *COLUMNS])
        return self._write(table, name, pa.Table.from_pylist([{"Op": op, **row} for op, row in rows], schema))

    def _write(self, table: SourceTable, name: str, rows: pa.Table) -> str:
        table.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.root / f"{uuid4().hex}.parquet"
        pq.write_table(rows, temporary)
        moment = self.clock().timestamp()
        os.utime(temporary, (moment, moment))
        temporary.rename(table.folder / name)
        return f"{table.path.partition('/')[2]}{name}"

    # --- triggers ---

    def event(self, keys: list[str]) -> None:
        """S3 sends the event of new files to the function."""
        moment = self.clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        records = [
            {
                "eventName": "ObjectCreated:Put",
                "eventTime": moment,
                "s3": {"bucket": {"name": RAW}, "object": {"key": key}},
            }
            for key in keys
        ]
        self._send({"Records": records})

    def after_failed_run(self, job: str, run_id: str) -> None:
        """EventBridge sends Glue's event to the function, unless it is lost."""
        with self._lock:
            is_lost = self.kills_runs and self.random.random() < 0.2
        self.counts["events lost"] += is_lost
        if not is_lost:
            detail = {"jobName": job, "jobRunId": run_id, "state": "FAILED"}
            self._send({"source": "aws.glue", "detail": detail})

    def _send(self, event: Mapping[str, object]) -> None:
        """Send an event to the function."""
        dependencies = Dependencies(self.states, self.jobs, PREFIX)
        self._start(lambda: handle(event, dependencies, self.clock()))

    def run_hourly(self) -> None:
        """The workflow starts the Controller."""
        self._start(self.run_controller)

    def wait_until_idle(self) -> None:
        """Wait until nothing runs. Raises unexpected errors of runs."""
        while True:
            with self._lock:
                futures, self._futures = self._futures, []
            if not futures:
                return
            wait(futures)
            for future in futures:
                error = future.exception()
                if isinstance(error, KilledError):
                    self.counts["ProcessTable killed"] += 1
                elif error and not isinstance(error, CdclakeError):
                    raise error

    def close(self) -> None:
        self._pool.shutdown()

    def _start(self, work: Callable[[], object]) -> None:
        with self._lock:
            self._futures.append(self._pool.submit(work))

    # --- jobs ---

    def run_job(self, job: str, arguments: Mapping[str, str]) -> JobRun | Work:
        with self._lock:
            may_die = self.kills_runs and self.random.random() < 0.2
            # ProcessTable makes fewer calls than a Spark job.
            budget = CallBudget(self.random.randint(1, 40 if job == JOB_PROCESS_TABLE else 200) if may_die else 10**9)
        through = partial(KillablePort, budget=budget)
        if job == JOB_PROCESS_TABLE:
            self.counts["packs"] += Argument.PATHS in arguments
            self._start(lambda: self.process(arguments, uuid4().hex, through))
            return JobRun("", JobState.ACTIVE)

        def work(run_id: str) -> JobRun:
            try:
                return self.run_spark_job(job, arguments, run_id, through)
            except KilledError:
                self.counts["Spark job killed"] += 1
                return ended("The driver was killed")

        return work

    # --- results ---

    def lake_folder(self, table: SourceTable) -> Path:
        return self.root / LAKE / "shop" / table.folder.name

    def rows(self, table: SourceTable) -> list[LakeRow]:
        folder = self.lake_folder(table)
        files = sorted(folder.glob("*.parquet"))
        return by_key([row for file in files for row in rows_of(file.name, pq.read_table(file), COLUMNS)], KEY)

    def change_records(self, table: SourceTable) -> list[ChangeRecord]:
        log = self.log(table.path)
        return list(log.newest_first(log.head()))

    def advance_clock(self, minutes: int = 20) -> None:
        self.clock.now += timedelta(minutes=minutes)
