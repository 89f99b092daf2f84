"""Makes the deployment work: raw files of a sample shop go in, by the clock and by the file, and lake rows come out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.devkit.dms.names import ChangeFileTimes, change_path, table_folder
from cdclake.devkit.local.jobs import RunState
from cdclake.devkit.shop.data import TABLES
from cdclake.devkit.shop.lake import prove, settings_of
from cdclake.devkit.shop.source import MIN_ORDERS, Shop
from cdclake.errors import IntegrityError, JobRunError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import (
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    Attribute,
)
from cdclake.model.names import RunState as LastRun
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cdclake.devkit.dms.names import DmsFile
    from deploy_local.deployed import Deployed

JOBS = (JOB_CONTROLLER, JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
NO_QUIET_TIME = {Attribute.FULL_LOAD_QUIET_MINUTES: "0"}
"""The full load was put there as a whole; nobody needs to wait until DMS has been quiet for a while."""
STRANGER = "elsewhere/stranger/LOAD00000001.parquet"
"""A file that lies where a table's would, but outside the raw prefix."""
BROKEN, FAILURE_ALARM = "product", "cdclake-TableFailed"
EQUAL = "Lake and catalog are as the source is"
_EVENT_SECONDS, _JOB_SECONDS = 120, 480
_POLL_SECONDS = 0.5


class Scenario:
    """Works with what is deployed, as DMS, the schedule and a person do.

    Args:
        deployed: What is deployed.
        raw_prefix: Prefix of the schemas' folders in the raw bucket.
        lake_prefix: The same in the lake bucket.
    """

    def __init__(self, deployed: Deployed, raw_prefix: str, lake_prefix: str) -> None:
        self._deployed = deployed
        self._raw_prefix, self._lake_prefix = raw_prefix, lake_prefix
        self._shop = Shop(_now, orders=MIN_ORDERS)
        self._times = ChangeFileTimes(_now)
        self._s3, self._glue = deployed.client("s3"), deployed.client("glue")
        self._state = DynamoState(deployed.client("dynamodb"), deployed.state_table)
        self._lake = S3Store(self._s3, deployed.lake_bucket)
        self._catalog = GlueCatalog(self._glue, deployed.catalog_database)
        self._may_fail = False

    def register(self) -> str:
        """A full load arrives: the events of its files register its tables, inactive, and no file elsewhere does."""
        self._s3.put_object(Bucket=self._deployed.raw_bucket, Key=STRANGER, Body=b"")
        self._upload(self._shop.full_load())
        wanted = {self._path(table) for table in TABLES}
        self._wait(lambda: {state.path for state in self._state.all()} >= wanted, "tables to register", _EVENT_SECONDS)
        self._wait(self._quiet, "the events of the full load to be worked off", _EVENT_SECONDS)
        found = {state.path: state.active for state in self._state.all()}
        if found != dict.fromkeys(wanted, False):
            message = f"Registered should be {', '.join(sorted(wanted))}, all inactive, and the table holds {found}"
            raise IntegrityError(message, remedy="Compare the raw prefix of function and notification")
        return f"{len(wanted)} tables registered by the events of their files, inactive; a file elsewhere woke nobody"

    def load(self) -> str:
        """A person turns the tables on, and the schedule's job loads them."""
        for table in TABLES:
            self._state.set_attributes(self._path(table), {**settings_of(table), **NO_QUIET_TIME})
        job = self._deployed.scheduled_job()
        self._glue.start_job_run(JobName=job)
        self._wait(self._quiet, f"{job} and what it starts to end", _JOB_SECONDS)
        rows = self._prove("the full load")
        return f"{job}, which the schedule starts: {rows} rows; runs: {self._runs_text()}. {EQUAL}"

    def change(self) -> str:
        """Change files arrive: the events of each start the work for its table, without the Controller."""
        before = len(self._runs(JOB_CONTROLLER))
        files = self._shop.round_one()
        self._upload(files)
        applied = {file.key.rpartition("/")[2] for file in files}

        def done() -> bool:
            last = {state.item.get(Attribute.LAST_INCREMENTAL_FILE, "") for state in self._state.all()}
            return {file.rpartition("/")[2] for file in last} == applied and self._quiet()

        self._wait(done, "the change files to be applied", _JOB_SECONDS)
        if len(self._runs(JOB_CONTROLLER)) != before:
            raise IntegrityError("The Controller ran, which nobody started", remedy="Look for a trigger of its own")
        rows = self._prove("the changes")
        return f"the events of {len(files)} change files, without the Controller: {rows} rows. {EQUAL}"

    def fail(self) -> str:
        """A file that nobody can read arrives: its table fails and says why, an alarm goes off, somebody is told."""
        mailbox = self._deployed.listen_to_alarms()
        name, path = self._shop.name_of(BROKEN), self._path(BROKEN)
        settings = TABLES[BROKEN].change_settings
        file = change_path(settings, self._times.next())
        key = f"{self._raw_prefix}{table_folder(settings, name)}{file}"
        self._may_fail = True
        self._s3.put_object(Bucket=self._deployed.raw_bucket, Key=key, Body=b"this is no Parquet file")
        self._wait(lambda: self._last_error(path) != "" and self._quiet(), f"{name} to fail", _JOB_SECONDS)
        if file not in self._last_error(path):
            message = f"The item of {name} should name {file}, and says: {self._last_error(path)}"
            raise IntegrityError(message, remedy="Look at the log of LoadIncremental")
        told: list[str] = []

        def rang() -> bool:
            told.extend(self._deployed.alarms_heard(mailbox))
            return FAILURE_ALARM in told

        self._wait(rang, f"{FAILURE_ALARM} to go off", _EVENT_SECONDS)
        return f"{name} failed, and its item names the file; the alarm {FAILURE_ALARM} went off, and its topic told so"

    def undeliverable(self) -> str:
        """An event that the function cannot take ends in the queue of such events."""
        waiting = self._deployed.undelivered()
        if waiting:
            message = f"{waiting} events were not delivered: {self._deployed.function_error()}"
            raise IntegrityError(message, remedy="Look at the function's environment and role")
        broken = b'{"Records": [{"eventName": "ObjectCreated:Put"}]}'
        client = self._deployed.client("lambda")
        client.invoke(FunctionName=self._deployed.function, InvocationType="Event", Payload=broken)
        self._wait(lambda: self._deployed.undelivered() == 1, "the queue to get what cannot be taken", _EVENT_SECONDS)
        return "empty until now; an event that the function cannot take came there"

    def _upload(self, files: Iterable[DmsFile]) -> None:
        for file in files:
            self._s3.put_object(Bucket=self._deployed.raw_bucket, Key=self._raw_prefix + file.key, Body=file.data)

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until something is so; a run that failed, or an event that could not be taken, ends the waiting.

        Raises:
            JobRunError: A run failed, or it took too long.
        """
        deadline = time.monotonic() + seconds
        while not self._no_run_failed() or not condition():
            if time.monotonic() > deadline:
                message = f"Waited {seconds:g} seconds for {what}; {self._undelivered_text()}"
                raise JobRunError(message, remedy=f"See the logs in {self._deployed.logs}")
            time.sleep(_POLL_SECONDS)

    def _no_run_failed(self) -> bool:
        """True; a run may have failed if one is meant to.

        Raises:
            JobRunError: One failed.
        """
        for run in self._all_runs():
            state = RunState(run["JobRunState"])
            if state.ended and state is not RunState.SUCCEEDED and not self._may_fail:
                message = f"{run['JobName']} ended {state.value}: {run.get('ErrorMessage', '')}"
                raise JobRunError(message, remedy="Look at the job's arguments, code and role")
        return True

    def _undelivered_text(self) -> str:
        count = self._deployed.undelivered()
        return f"{count} events could not be taken: {self._deployed.function_error()}" if count else "no event failed"

    def _quiet(self) -> bool:
        """Whether no run is under way. Events reach the function at once, and it starts runs before it answers."""
        return all(RunState(run["JobRunState"]).ended for run in self._all_runs())

    def _all_runs(self) -> Iterator[dict[str, Any]]:
        for job in JOBS:
            yield from self._runs(job)

    def _runs(self, job: str) -> list[dict[str, Any]]:
        pages = self._glue.get_paginator("get_job_runs").paginate(JobName=job)
        return [run for page in pages for run in page["JobRuns"]]

    def _runs_text(self) -> str:
        return ", ".join(f"{len(runs)} of {job.partition('_')[2]}" for job in JOBS if (runs := self._runs(job)))

    def _prove(self, what: str) -> int:
        """Hold every table against its source; returns the rows of all.

        Raises:
            IntegrityError: One is not equal.
        """
        rows = 0
        for table in TABLES:
            name = self._shop.name_of(table)
            state = self._state.get(self._path(table))
            if state is None or state.item.get(Attribute.LAST_RUN_STATE) != LastRun.SUCCEEDED:
                message = f"After {what} the item of {name} does not say that its last run succeeded"
                raise IntegrityError(message, remedy=f"See the logs in {self._deployed.logs}")
            log = ChangeLog(self._lake, LakeLayout(self._deployed.lake_bucket, self._lake_prefix, name))
            proof = prove(log, self._lake, self._catalog, self._shop.expected(table))
            if not proof.equal:
                message = f"After {what} the lake table {name} is not as its source: {'; '.join(proof.differences)}"
                raise IntegrityError(message, remedy=f"See the logs in {self._deployed.logs}")
            rows += proof.rows
        return rows

    def _last_error(self, path: str) -> str:
        state = self._state.get(path)
        return state.item.get(Attribute.LAST_ERROR, "") if state else ""

    def _path(self, table: str) -> str:
        name = self._shop.name_of(table)
        return TableState.new(self._deployed.raw_bucket, f"{self._raw_prefix}{name.schema}/", f"{name.table}/").path


def _now() -> datetime:
    return datetime.now(UTC)
