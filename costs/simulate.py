"""Lets the deployed code live through some hours of one table, and records what AWS bills.

Controller, ProcessTable and Spark runs work in this process, on the embedded AWS. Each burst of changes is one file:
rows are inserted at the end, most updates are there, too, and a few are anywhere. Data files are small (`FILE_BYTES`):
what counts is how many requests a change takes; `costs.stored` counts bytes.
"""

from __future__ import annotations

import io
import logging
import os
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend
from moto.s3.models import s3_backends

from cdclake import logs
from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.jobs.arguments import to_argv
from cdclake.control.run.process_table import process_tables
from cdclake.control.run.run_arguments import RunArguments
from cdclake.control.run.trigger import trigger_table
from cdclake.lake.operations.job import run_spark_job
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_PROCESS_TABLE, STATE_TABLE, Argument, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.ports import JobRun, JobState
from cdclake.run_ports import open_ports
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.web import http_server
from cdclake_devkit.memory import MemoryJobs
from costs.meter import GET, PUT, Meter
from costs.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake_devkit.memory import Work

RAW, LAKE, DATABASE, REGION = "cdclake-raw", "cdclake-lake", "cdclake", "us-east-1"
PREFIX, PATH = "shop/orders/", f"{RAW}/shop/orders/"
FILES, FILE_BYTES = 128, 1 << 15
"""Old rows of a burst are hardly ever in one file, as in a table that changes have cut into small files."""
INSERTS, RECENT_UPDATES, OLD_UPDATES = 60, 36, 4
"""Rows of a burst."""
RECENT = 1 / FILES
"""Share of the rows that are recent."""
HOURS = 4
"""Moto needs more memory with each request."""
ROWS_PER_FILE = FILE_BYTES // 25
_SECOND = timedelta(seconds=1)
_LAKE_ARGUMENTS = {
    Argument.OUT_BUCKET: LAKE,
    Argument.CATALOG_DATABASE: DATABASE,
    Argument.TABLE_METRICS: Sentinel.INACTIVE,
}
_READS, _WRITES = ("GetItem", "Query", "Scan"), ("PutItem", "UpdateItem", "DeleteItem")


def simulate(bursts: int, *, looks: int = 1, by_file: bool = False, hours: int = HOURS) -> Recording:
    """Some hours of one table.

    Args:
        bursts: Bursts of changes per hour; 0: the table is idle.
        looks: Controller runs per hour.
        by_file: Whether each file starts a run; otherwise only the Controller does.
    """
    meters: list[Meter] = []

    def metered(app: Any) -> Meter:  # noqa: ANN401 - a WSGI application
        meters.append(Meter(app, PREFIX))
        return meters[0]

    with http_server(0, metered) as endpoint, patch.dict(os.environ, child_environment(os.environ, endpoint, REGION)):
        try:
            return _Pipeline(meters[0]).hours(hours, bursts, looks, by_file=by_file)
        finally:
            moto_api_backend.reset()


@contextmanager
def _jobs_log() -> Iterator[io.StringIO]:
    """The lines that this process logs meanwhile, configured as a job configures them."""
    root = logging.getLogger()
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, logs.CHATTY))}
    handlers, root.handlers = root.handlers, []
    written = io.StringIO()
    logs.configure(stream=written)
    try:
        yield written
    finally:
        root.handlers = handlers
        for logger, level in levels.items():
            logger.setLevel(level)


def _now() -> datetime:
    return datetime.now(timezone.utc)


class _Pipeline:
    """The jobs, on an embedded AWS that counts requests."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._runs, self._rows = meter, 0, 0
        self._rng = np.random.default_rng(11)
        self._file_utc = _now() - timedelta(days=2)
        self._s3: Any = client("s3")
        with meter.paused():
            for bucket in (RAW, LAKE):
                self._s3.create_bucket(Bucket=bucket)
            self._s3.put_bucket_versioning(Bucket=LAKE, VersioningConfiguration={"Status": "Enabled"})
            create_state_table(client("dynamodb"), STATE_TABLE)
            client("glue").create_database(DatabaseInput={"Name": DATABASE})
        self._states = DynamoState(client("dynamodb"), STATE_TABLE)
        self._jobs = MemoryJobs(self._run_job)
        self._log = ChangeLog(open_store(LAKE), LakeLayout(LAKE, "", TableName("shop", "orders")))

    def hours(self, hours: int, bursts: int, looks: int, *, by_file: bool) -> Recording:
        """The hours after the full load, see `simulate`."""
        with self._meter.paused():
            self._load()
        before, runs = self._log.head(), self._runs
        with _jobs_log() as lines:
            for look in range(hours * looks):
                for _ in range((look + 1) * bursts // looks - look * bursts // looks):
                    with self._meter.paused():
                        self._burst()
                    if by_file:
                        trigger_table(self._states, self._jobs, PATH, _now())
                        self._jobs.run_waiting()
                self._run_controller()
        billed = self._meter.requests.copy()
        with self._meter.paused():
            records = list(self._log.records(before + 1, self._log.head()))
            item = self._states.get(PATH)
        assert item is not None
        reads, writes = (sum(billed[f"dynamodb {name}"] for name in names) for names in (_READS, _WRITES))
        return Recording(
            hours=hours,
            changes=len(records),
            runs=self._runs - runs,
            s3_puts=billed[PUT],
            s3_gets=billed[GET],
            state_writes=writes,
            state_reads=reads,
            catalog_requests=sum(count for name, count in billed.items() if name.startswith("glue ")),
            item_bytes=sum(len(name) + len(value.encode()) for name, value in item.item.items()),
            log_bytes=len(lines.getvalue().encode()),
        )

    def _load(self) -> None:
        """The table's full load, of about `FILES` data files."""
        rows = FILES * ROWS_PER_FILE
        self._put("LOAD00000001.parquet", self._table(np.arange(rows)))
        self._rows = rows
        self._run_controller()
        settings = {
            Attribute.PRIMARY_KEY: "id",
            Attribute.ACTIVE_FLAG: Sentinel.ACTIVE,
            Attribute.TARGET_FILE_BYTES: str(FILE_BYTES),
            Attribute.FULL_LOAD_QUIET_MINUTES: "0",
        }
        self._states.set_attributes(PATH, settings)
        self._run_controller()

    def _burst(self) -> None:
        """DMS writes a change file."""
        new = np.arange(self._rows, self._rows + INSERTS)
        self._rows += INSERTS
        recent = self._rng.integers(int(self._rows * (1 - RECENT)), self._rows, RECENT_UPDATES)
        updated = np.unique(np.concatenate([recent, self._rng.integers(0, self._rows, OLD_UPDATES)]))
        changed = self._table(np.concatenate([new, updated]))
        operations = pa.array(["I"] * len(new) + ["U"] * len(updated))
        self._file_utc += timedelta(seconds=61)
        name = f"{self._file_utc:%Y%m%d-%H%M%S}000.parquet"
        self._put(name, changed.add_column(0, "Op", operations))
        # Bursts are a second apart. Of two in one, the Controller would look again whether the first came late.
        stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(RAW, PREFIX + name)
        assert stored
        stored.last_modified -= _SECOND

    def _table(self, ids: np.ndarray[Any, Any]) -> pa.Table:
        return pa.table({"id": ids, "content": self._rng.bytes(8 * len(ids)).hex(" ", 8).split(" ")})

    def _put(self, name: str, rows: pa.Table) -> None:
        sink = io.BytesIO()
        pq.write_table(rows, sink)
        self._s3.put_object(Bucket=RAW, Key=PREFIX + name, Body=sink.getvalue())

    def _run_controller(self) -> None:
        inputs = PlanInputs(open_store(RAW), self._states, RAW, "")
        summary = execute(plan(inputs, _now()), self._states, self._jobs, _now)
        assert not summary.errors
        self._jobs.run_waiting()

    def _run_job(self, job: str, arguments: Mapping[str, str]) -> JobRun | Work:
        """Run ProcessTable to its end; a Spark run begins later."""
        if job != JOB_PROCESS_TABLE:
            return lambda run_id: self._run_spark(job, arguments, run_id)
        self._runs += 1
        parsed = RunArguments.parse(to_argv({**_LAKE_ARGUMENTS, **arguments}))
        ports, further = replace(open_ports(parsed), jobs=self._jobs), parsed.passed_on()
        report = process_tables(parsed.paths, LAKE, "", f"run-{self._runs}", ports, further, lambda _: None).to_json()
        assert not report["error"], report
        return JobRun("", JobState.SUCCEEDED)

    @staticmethod
    def _run_spark(job: str, arguments: Mapping[str, str], run_id: str) -> JobRun:
        argv = [*to_argv(arguments), f"--{Argument.JOB_RUN_ID}", run_id]
        report = run_spark_job(job, argv, InProcessBackend)
        assert not report["error"], report
        return JobRun("", JobState.SUCCEEDED)
