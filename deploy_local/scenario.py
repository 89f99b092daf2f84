"""Runs the deployment on a sample shop: raw files go in, schedule and file events start runs, lake rows come out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.control.catalog.plan import ICEBERG_SUFFIX, table_name
from cdclake.control.run.small_loads import MOST_RAW_BYTES
from cdclake.errors import IntegrityError, JobRunError
from cdclake.model.iceberg.table import Readers
from cdclake.model.layout import LakeLayout
from cdclake.model.names import (
    FUNCTION_SMALL_CHANGES,
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    RunState,
)
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_cli.dms.names import ChangeFileTimes, change_path, table_folder
from cdclake_devkit.local.jobs import JobRunState
from cdclake_devkit.shop.checksum import read_lake
from cdclake_devkit.shop.data import TABLES
from cdclake_devkit.shop.lake_tables import attributes_of, compare_with_source
from cdclake_devkit.shop.sample_shop import MIN_ORDERS, SampleShop
from deploy_local.iceberg import read_iceberg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from cdclake_cli.dms.names import DmsFile
    from cdclake_infra.settings import Settings
    from deploy_local.deployment import Deployment

JOBS = (JOB_CONTROLLER, JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
NO_QUIET_TIME = {Attribute.FULL_LOAD_QUIET_MINUTES: "0"}
"""The full load is complete, so there is no need to wait for further files."""
OUTSIDE_KEY = "elsewhere/stranger/LOAD00000001.parquet"
"""Key of a file that looks like a table's, but lies outside the raw prefix."""
BROKEN, FAILURE_ALARM = "product", "cdclake-TableFailed"
TRIES = 3
"""Of an asynchronous request whose function fails."""
UNREADABLE = b"not a Parquet file".ljust(MOST_RAW_BYTES + 1)
EQUAL = "Lake and catalog equal the source"
READERS = {"productorder": Readers.ICEBERG, "product": Readers.BOTH}
"""What readers open; a folder for other tables."""


class Patience(NamedTuple):
    """How long to wait for what happens by itself.

    Attributes:
        event_seconds: For an event.
        job_seconds: For runs of jobs.
        poll_seconds: Between two looks.
    """

    event_seconds: float = 120
    job_seconds: float = 480
    poll_seconds: float = 0.5


class Scenario:
    """Plays the roles of DMS, the schedule and an operator.

    Args:
        settings: The settings of the deployment.
        patience: How long to wait.
    """

    def __init__(self, deployment: Deployment, settings: Settings, patience: Patience | None = None) -> None:
        self._deployment = deployment
        self._patience = patience or Patience()
        self._raw_prefix, self._lake_prefix = settings.raw_prefix, settings.lake_prefix
        self._host = FUNCTION_SMALL_CHANGES if settings.small_changes_on_lambda else JOB_LOAD_INCREMENTAL
        self._shop = SampleShop(_now, orders=MIN_ORDERS)
        self._times = ChangeFileTimes(_now)
        self._s3, self._glue = deployment.client("s3"), deployment.client("glue")
        self._state = DynamoState(deployment.client("dynamodb"), deployment.state_table)
        self._lake = S3Store(self._s3, deployment.lake_bucket)
        self._catalog = GlueCatalog(self._glue, deployment.catalog_database)
        self._may_fail = False

    def register(self) -> str:
        """A full load arrives: events of its files register its tables as inactive; other files register nothing."""
        self._s3.put_object(Bucket=self._deployment.raw_bucket, Key=OUTSIDE_KEY, Body=b"")
        self._upload(self._shop.full_load())
        paths = {self._path(table) for table in TABLES}
        self._wait(
            lambda: {state.path for state in self._state.all()} >= paths,
            "tables to register",
            self._patience.event_seconds,
        )
        self._wait(self._is_idle, "the events of the full load to be processed", self._patience.event_seconds)
        registered = {state.path: state.active for state in self._state.all()}
        if registered != dict.fromkeys(paths, False):
            message = f"Expected {', '.join(sorted(paths))}, all inactive, but the state table contains {registered}"
            raise IntegrityError(message, remedy="Compare the raw prefix of function and notification")
        return f"file events registered {len(paths)} tables as inactive; a file outside the prefix registered nothing"

    def load(self) -> str:
        """An operator activates the tables, and the scheduled job loads them."""
        for table in TABLES:
            readers = {Attribute.READERS: _readers(table).value}
            self._state.set_attributes(self._path(table), {**attributes_of(table), **NO_QUIET_TIME, **readers})
        job = self._deployment.scheduled_job()
        self._glue.start_job_run(JobName=job)
        self._wait(self._is_idle, f"{job} and its runs to end", self._patience.job_seconds)
        rows = self._compare("the full load")
        return f"{job} loaded {rows} rows; runs: {self._runs_text()}. {EQUAL}"

    def change(self) -> str:
        """Change files arrive: their events start the work, without the Controller, where the settings say."""
        before = len(self.runs(JOB_CONTROLLER))
        files = self._shop.round_one()
        self._upload(files)
        applied = {file.key.rpartition("/")[2] for file in files}

        def done() -> bool:
            last = {state.item.get(Attribute.LAST_INCREMENTAL_FILE, "") for state in self._state.all()}
            return {file.rpartition("/")[2] for file in last} == applied and self._is_idle()

        self._wait(done, "the change files to be applied", self._patience.job_seconds)
        if len(self.runs(JOB_CONTROLLER)) != before:
            raise IntegrityError("The Controller ran unexpectedly", remedy="Check its triggers")
        rows = self._compare("the changes")
        hosts = {log.record(log.head()).place.host for log in map(self._log, TABLES)}
        if hosts != {self._host}:
            message = f"The changes should be computed by {self._host}, but were by {', '.join(sorted(hosts))}"
            raise IntegrityError(message, remedy="See the log of the function of small changes")
        return f"{self._host} applied {len(files)} change files, without the Controller: {rows} rows. {EQUAL}"

    def fail(self) -> str:
        """An unreadable file arrives: the state table shows the error, and an alarm notifies the operator.

        It is too large for the function of small changes. The event of the failed Spark run reaches the function of raw
        files, which finds that the run has released its table.
        """
        mailbox = self._deployment.subscribe_to_alarms()
        alarm = f"{self._deployment.name_prefix}{FAILURE_ALARM}"
        name, path = self._shop.name_of(BROKEN), self._path(BROKEN)
        settings = TABLES[BROKEN].change_settings
        file = change_path(settings, self._times.next())
        key = f"{self._raw_prefix}{table_folder(settings, name)}{file}"
        self._may_fail = True
        self._s3.put_object(Bucket=self._deployment.raw_bucket, Key=key, Body=UNREADABLE)
        self._wait(
            lambda: self._last_error(path) != "" and self._is_idle(), f"{name} to fail", self._patience.job_seconds
        )
        if file not in self._last_error(path):
            message = f"The error of {name} should contain {file}, but is: {self._last_error(path)}"
            raise IntegrityError(message, remedy="See the log of LoadIncremental")
        (failed,) = [run["Id"] for run in self.runs(JOB_LOAD_INCREMENTAL) if run["JobRunState"] == "FAILED"]
        function = self._deployment.function
        self._wait(
            lambda: any(
                failed in line and "a Spark run ended" in line for line in self._deployment.function_log(function)
            ),
            "the event of the failed run",
            self._patience.event_seconds,
        )
        received: list[str] = []

        def alarm_received() -> bool:
            received.extend(self._deployment.received_alarms(mailbox))
            return alarm in received

        self._wait(alarm_received, f"{alarm} to go off", self._patience.event_seconds)
        return (
            f"{name} failed, and its error contains the file; the event of the failed run reached the function; "
            f"{alarm} went off and notified its topic"
        )

    def undeliverable(self) -> str:
        """An event that the function cannot process is tried three times, and ends in the dead-letter queue."""
        if failed := self._undelivered_text():
            raise IntegrityError(failed, remedy="Check the function's environment and role")
        broken = b'{"Records": [{"eventName": "ObjectCreated:Put"}]}'
        client, function = self._deployment.client("lambda"), self._deployment.function
        answer = client.invoke(FunctionName=function, InvocationType="Event", Payload=broken)
        self._wait(
            lambda: self._deployment.undelivered(function) == 1,
            "the invalid event in the queue",
            self._patience.event_seconds,
        )
        start = f"START RequestId: {answer['ResponseMetadata']['RequestId']}"
        tries = sum(start in line for line in self._deployment.function_log(function))
        if tries != TRIES:
            message = f"The request of the invalid event should be tried {TRIES} times, but was {tries} times"
            raise IntegrityError(message, remedy="Compare the request ids in the log of the function")
        return f"no event had failed; an invalid event was tried {TRIES} times as one request, and ended in the queue"

    def _upload(self, files: Iterable[DmsFile]) -> None:
        for file in files:
            self._s3.put_object(Bucket=self._deployment.raw_bucket, Key=self._raw_prefix + file.key, Body=file.data)

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for a condition.

        Raises:
            JobRunError: A run failed, or the time is over.
        """
        deadline = time.monotonic() + seconds
        while not self._no_run_failed() or not condition():
            if time.monotonic() > deadline:
                events = self._undelivered_text() or "no event failed"
                message = f"Timeout after {seconds:g} seconds, waiting for {what}; {events}"
                raise JobRunError(message, remedy=f"See the logs in {self._deployment.logs}")
            time.sleep(self._patience.poll_seconds)

    def _no_run_failed(self) -> bool:
        """Always true: otherwise it raises, unless a failure is expected.

        Raises:
            JobRunError: A run failed.
        """
        for run in self._all_runs():
            state = JobRunState(run["JobRunState"])
            if state.ended and state is not JobRunState.SUCCEEDED and not self._may_fail:
                message = f"{run['JobName']} ended {state.value}: {run.get('ErrorMessage', '')}"
                raise JobRunError(message, remedy="Check the job's arguments, code and role")
        return True

    def _undelivered_text(self) -> str:
        """The events that failed; empty if none did."""
        deployment = self._deployment
        small_changes = [deployment.small_changes] if self._host == FUNCTION_SMALL_CHANGES else []
        return "; ".join(
            f"{count} events of {function} failed: {deployment.function_error(function)}"
            for function in (deployment.function, *small_changes)
            if (count := deployment.undelivered(function))
        )

    def _is_idle(self) -> bool:
        """Whether nothing works on a table. The function receives events at once, and starts runs before it returns."""
        return all(JobRunState(run["JobRunState"]).ended for run in self._all_runs()) and not any(
            Attribute.LEASE_HOLDER in state.item for state in self._state.all()
        )

    def _all_runs(self) -> Iterator[dict[str, Any]]:
        for job in JOBS:
            yield from self.runs(job)

    def runs(self, job: str) -> list[dict[str, Any]]:
        """All runs of a job, as Glue describes them."""
        pages = self._glue.get_paginator("get_job_runs").paginate(JobName=f"{self._deployment.name_prefix}{job}")
        return [run for page in pages for run in page["JobRuns"]]

    def _runs_text(self) -> str:
        return ", ".join(f"{len(runs)} of {job.partition('_')[2]}" for job in JOBS if (runs := self.runs(job)))

    def _compare(self, step: str) -> int:
        """Compare every table with its source; returns the total number of rows.

        Raises:
            IntegrityError: A table differs.
        """
        rows = 0
        for table in TABLES:
            name = self._shop.name_of(table)
            state = self._state.get(self._path(table))
            if state is None or state.item.get(Attribute.LAST_RUN_STATE) != RunState.SUCCEEDED:
                message = f"After {step} the state of {name} does not show a successful run"
                raise IntegrityError(message, remedy=f"See the logs in {self._deployment.logs}")
            log = self._log(table)
            source = self._shop.expected(table)
            for found in self._found_rows(table, log.layout, source.schema):
                comparison = compare_with_source(found, source, log, self._catalog)
                if not comparison.equal:
                    differences = "; ".join(comparison.differences)
                    message = f"After {step} the lake table {name} differs from its source: {differences}"
                    raise IntegrityError(message, remedy=f"See the logs in {self._deployment.logs}")
            rows += source.num_rows
        return rows

    def _log(self, table: str) -> ChangeLog:
        layout = LakeLayout(self._deployment.lake_bucket, self._lake_prefix, self._shop.name_of(table))
        return ChangeLog(self._lake, layout)

    def _found_rows(self, table: str, layout: LakeLayout, columns: pa.Schema) -> Iterator[pa.Table]:
        """All rows that readers of the folder find, and those that readers of the Iceberg table find."""
        readers = _readers(table)
        if readers.list_folder:
            yield read_lake(self._lake, layout, columns)
        if readers.open_iceberg:
            yield read_iceberg(self._deployment, table_name(layout.name) + ICEBERG_SUFFIX * readers.list_folder)

    def _last_error(self, path: str) -> str:
        state = self._state.get(path)
        return state.item.get(Attribute.LAST_ERROR, "") if state else ""

    def _path(self, table: str) -> str:
        name = self._shop.name_of(table)
        return TableState.new(self._deployment.raw_bucket, f"{self._raw_prefix}{name.schema}/", f"{name.table}/").path


def _readers(table: str) -> Readers:
    return READERS.get(table, Readers.FOLDER)


def _now() -> datetime:
    return datetime.now(UTC)
