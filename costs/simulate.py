"""Lets the deployed code live through some hours of one table, and records what AWS bills.

Controller, functions, ProcessTable and Spark runs work in this process, on the embedded AWS. Each burst of changes is
one file: rows are inserted at the end, most updates are there, too, and a few are anywhere. Data files are small
(`SMALL`): what counts is how many requests a change takes; `costs.stored` counts bytes. But the function that loads
small changes is billed by time. So there data files have the size that `costs.stored` finds (`USUAL`), and requests
wait.
"""

from __future__ import annotations

import io
import logging
import os
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple
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
from costs.function import InProcessFunction
from costs.meter import GET, PUT, Meter
from costs.recording import REQUEST_SECONDS, FunctionWork, Recording
from on_raw_file.handler import Dependencies, FunctionForProcessTable, handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from cdclake.ports import JobRunner
    from cdclake_devkit.memory import Work

RAW, LAKE, DATABASE, REGION = "cdclake-raw", "cdclake-lake", "cdclake", "us-east-1"
PREFIX, PATH = "shop/orders/", f"{RAW}/shop/orders/"
INSERTS, RECENT_UPDATES, OLD_UPDATES = 60, 36, 4
"""Rows of a burst."""
HOURS = 4
"""Moto needs more memory with each request."""
SETTLING_BURSTS = 3
"""Before the function is measured."""
_SECOND = timedelta(seconds=1)
_LAKE_ARGUMENTS = {
    Argument.OUT_BUCKET: LAKE,
    Argument.CATALOG_DATABASE: DATABASE,
    Argument.TABLE_METRICS: Sentinel.INACTIVE,
}
ENVIRONMENT = {name.upper(): value for name, value in _LAKE_ARGUMENTS.items()}
"""The function's."""
_READS, _WRITES = ("GetItem", "Query", "Scan"), ("PutItem", "UpdateItem", "DeleteItem")


class Size(NamedTuple):
    """The size of a table.

    Attributes:
        files: Number of data files after the full load. Rows of the last one are recent.
        file_bytes: Their size.
        row_bytes: Size of a row in a data file, about.
    """

    files: int
    file_bytes: int
    row_bytes: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.files * (self.file_bytes // self.row_bytes)


SMALL = Size(128, 1 << 15, 25)
"""Old rows of a burst are hardly ever in one file, as in a table that changes have cut into small files."""
USUAL = Size(64, 4 << 20, 512)


def simulate(bursts: int, *, looks: int = 1, by_file: bool = False, hours: int = HOURS) -> Recording:
    """Some hours of one table.

    Args:
        bursts: Bursts of changes per hour; 0: the table is idle.
        looks: Controller runs per hour.
        by_file: Whether each file starts a run; otherwise only the Controller does.
    """
    with pipeline(SMALL) as jobs:
        return jobs.hours(hours, bursts, looks, by_file=by_file)


def simulate_function(bursts: int, *, hours: int = HOURS, size: Size = USUAL) -> tuple[Recording, list[FunctionWork]]:
    """Some hours of one table for which each file calls the function that loads small changes.

    Returns:
        The hours, and what each change took the function.
    """
    with pipeline(size, REQUEST_SECONDS) as jobs:
        jobs.load()
        function = jobs.use_function()
        jobs.settle(SETTLING_BURSTS)
        recording = jobs.hours(hours, bursts, 1, by_file=True)
        return recording, function.works


@contextmanager
def pipeline(size: Size, request_seconds: float = 0.0) -> Iterator[Pipeline]:
    """The jobs, on an embedded AWS.

    Args:
        request_seconds: How long each request waits while it is counted.
    """
    meters: list[Meter] = []

    def metered(app: Any) -> Meter:  # noqa: ANN401 - a WSGI application
        meters.append(Meter(app, PREFIX, request_seconds))
        return meters[0]

    with http_server(0, metered) as endpoint, patch.dict(os.environ, child_environment(os.environ, endpoint, REGION)):
        try:
            yield Pipeline(meters[0], size)
        finally:
            moto_api_backend.reset()


@contextmanager
def jobs_log() -> Iterator[io.StringIO]:
    """The lines that this process logs meanwhile, configured as a job configures them."""
    root = logging.getLogger()
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, logs.CHATTY))}
    handlers, root.handlers = root.handlers, []
    written = io.StringIO()
    logs.configure(stream=written)
    try:
        with redirect_stderr(written), redirect_stdout(written):  # the function configures its log again in each call
            yield written
    finally:
        root.handlers = handlers
        for logger, level in levels.items():
            logger.setLevel(level)


def _now() -> datetime:
    return datetime.now(timezone.utc)


class Pipeline:
    """The jobs, on an embedded AWS that counts requests.

    Args:
        meter: Counts them.
        size: The table's size.

    Attributes:
        function: Loads small changes; None: Spark loads all.
    """

    def __init__(self, meter: Meter, size: Size) -> None:
        self.meter, self._size, self._runs, self._rows = meter, size, 0, 0
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
        self.function: InProcessFunction | None = None
        self._log = ChangeLog(open_store(LAKE), LakeLayout(LAKE, "", TableName("shop", "orders")))

    def use_function(self) -> InProcessFunction:
        """Let the function load small changes from now on."""
        self.function = InProcessFunction(self.meter, ENVIRONMENT)
        return self.function

    def settle(self, bursts: int) -> None:
        """Apply some bursts, and count nothing."""
        with self.meter.paused(), jobs_log():
            for _ in range(bursts):
                self.notify(self.burst())

    def hours(self, hours: int, bursts: int, looks: int, *, by_file: bool) -> Recording:
        """Hours after the full load, see `simulate`."""
        if not self._rows:
            self.load()
        before, runs = self._log.head(), self._runs
        with jobs_log() as lines:
            for look in range(hours * looks):
                for _ in range((look + 1) * bursts // looks - look * bursts // looks):
                    with self.meter.paused():
                        name = self.burst()
                    if by_file:
                        self.notify(name)
                self._run_controller()
        billed = self.meter.billed
        with self.meter.paused():
            records = list(self._log.records(before + 1, self._log.head()))
            item = self._states.get(PATH)
        assert item is not None
        reads, writes = (sum(billed[f"dynamodb {name}"] for name in names) for names in (_READS, _WRITES))
        return Recording(
            hours=hours,
            changes=len(records),
            runs=self._runs - runs + (len(self.function.works) if self.function else 0),
            s3_puts=billed[PUT],
            s3_gets=billed[GET],
            state_writes=writes,
            state_reads=reads,
            catalog_requests=sum(count for name, count in billed.items() if name.startswith("glue ")),
            metric_requests=sum(count for name, count in billed.items() if name.startswith("cloudwatch ")),
            item_bytes=sum(len(name) + len(value.encode()) for name, value in item.item.items()),
            log_bytes=len(lines.getvalue().encode()),
        )

    def notify(self, name: str) -> None:
        """Bring S3's event of a new raw file to the function of raw files, and let all runs end."""
        jobs: JobRunner = self._jobs
        if self.function:
            jobs = FunctionForProcessTable(self.function.client, "cdclake-small-changes", jobs)
        created = {"bucket": {"name": RAW}, "object": {"key": f"{PREFIX}{name}"}}
        record = {"eventName": "ObjectCreated:Put", "eventTime": f"{_now():%Y-%m-%dT%H:%M:%S.%fZ}", "s3": created}
        _, errors = handle({"Records": [record]}, Dependencies(self._states, jobs, ""), _now())
        assert not errors, errors
        if self.function:
            self.function.run_waiting()
        self._jobs.run_waiting()

    def load(self) -> None:
        """The table's full load."""
        with self.meter.paused():
            self._put("LOAD00000001.parquet", self._table(np.arange(self._size.rows)))
            self._rows = self._size.rows
            self._run_controller()
            settings = {
                Attribute.PRIMARY_KEY: "id",
                Attribute.ACTIVE_FLAG: Sentinel.ACTIVE,
                Attribute.TARGET_FILE_BYTES: str(self._size.file_bytes // 2),  # files may have twice as much
                Attribute.FULL_LOAD_QUIET_MINUTES: "0",
            }
            self._states.set_attributes(PATH, settings)
            self._run_controller()
            self._states.set_attributes(PATH, {Attribute.TARGET_FILE_BYTES: str(self._size.file_bytes)})

    def burst(self) -> str:
        """DMS writes a change file. Returns its name."""
        new = np.arange(self._rows, self._rows + INSERTS)
        self._rows += INSERTS
        recent = self._rng.integers(int(self._rows * (1 - 1 / self._size.files)), self._rows, RECENT_UPDATES)
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
        return name

    def _table(self, ids: NDArray[np.int64]) -> pa.Table:
        """Of rows with random texts."""
        digits = max(8, self._size.row_bytes // 2 - 4)
        offsets = np.arange(len(ids) + 1, dtype=np.int32) * (2 * digits)
        texts = self._rng.bytes(digits * len(ids)).hex().encode()
        content = pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(texts))
        return pa.table({"id": ids, "content": content})

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
