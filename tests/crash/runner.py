"""Makes one run in this process: of the table, of a job, or an operator's command, with their real code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from cdclake.commit.log import ChangeLog
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.run.bring_up_to_date import Host, bring_up_to_date
from cdclake.control.run.process_table import process_tables
from cdclake.errors import JobRunError
from cdclake.lake.operations.direct.apply import DirectChange, DirectResult, change_directly
from cdclake.lake.operations.direct.input_tables import input_keys
from cdclake.lake.operations.erase.erase import Erasure, ErasureResult, erase
from cdclake.lake.operations.erase.progress import Progress
from cdclake.lake.operations.job import load_planned
from cdclake.lake.operations.load import load_incremental, load_initial
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_filter import RowKeys
from cdclake.model.layout import LakeLayout
from cdclake.model.table.settings import TableSettings
from cdclake.ports import Ports
from cdclake_devkit.memory import MemoryMetrics
from tests.builders import SPARK
from tests.cdclake.lake.table import NAME, RAW_PREFIX
from tests.crash.connectors import LAKE, RAW, Connector
from tests.crash.faults import Injector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cdclake.adapters.aws import ServerClock
    from cdclake.commit.clean_up import CleanUpPlan
    from cdclake.control.run.planned_round import DueLoad
    from cdclake.control.run.report import TableReport
    from cdclake.model.change.record import ChangeRecord
    from cdclake.ports import Clock, JobRun, ObjectStore

PATH = f"{RAW}/{RAW_PREFIX}"
LAYOUT = LakeLayout(LAKE, "", NAME)
FOREVER = timedelta(days=36500)
SPARK_RUN = "-spark"
"""Ends the id of the Spark run that ProcessTable started."""


@dataclass(frozen=True)
class _FaultyLocation(TableLocation):
    """A location whose object store has injected faults."""

    faulty_store: ObjectStore

    def store(self) -> ObjectStore:
        return self.faulty_store


@dataclass(frozen=True)
class RunSpec:
    """The specification of a run; picklable.

    Attributes:
        connector: Connects it to its stores.
        run_id: Its id.
        now: The time, which does not advance during the run.
        item: The table's item, which contains the settings of a job.
        fencing_token: Fencing token of a job that is started directly.
    """

    connector: Connector
    run_id: str
    now: datetime
    item: Mapping[str, str]
    fencing_token: int


class _SparkJob:
    """Takes the Spark run that ProcessTable starts. It knows no earlier runs.

    Attributes:
        run_id: The run's id.
        started: Name of its job; empty if it was not started.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id, self.started = run_id, ""

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        assert not self.started, arguments
        self.started = job
        return self.run_id

    def get(self, job: str, run_id: str) -> JobRun:
        raise JobRunError("The job run does not exist", job=job, run=run_id)


class Runner:
    """Makes one run.

    Args:
        injector: Injects faults into its calls.

    Attributes:
        clock: That of the machine on which it runs.
    """

    def __init__(
        self,
        spec: RunSpec,
        injector: Injector | None = None,
        around_lake: Callable[[ObjectStore], ObjectStore] = lambda store: store,
    ) -> None:
        self._spec = spec
        ports = spec.connector.ports(injector or Injector())
        self._services = ports.lake, ports.states
        self._ports = replace(ports, lake=around_lake(ports.lake))
        self.clock: Clock = lambda: spec.now
        self.log = ChangeLog(self._ports.lake, LAYOUT)

    def load_initial(self) -> dict[str, Any]:
        """The job LoadInitial, started by hand."""
        return load_initial(self._table_run(), SPARK)

    def load_incremental(self, last_file: str, new_file: str) -> dict[str, Any]:
        """The job LoadIncremental, started by hand."""
        return load_incremental(self._table_run(), SPARK, last_file, new_file)

    def bring_up_to_date(self) -> TableReport:
        """A run that needs no job."""
        return self._bring_up_to_date(self._spec.run_id, Host(), _SparkJob(""))

    def process_table(self) -> TableReport:
        """The job ProcessTable, then the Spark run that it started, also if ProcessTable failed after that."""
        jobs = _SparkJob(f"{self._spec.run_id}{SPARK_RUN}")
        try:
            return process_tables([PATH], LAKE, "", self._spec.run_id, self._run_ports(jobs), {}, lambda _: None).only
        finally:
            if jobs.started:
                self._bring_up_to_date(jobs.run_id, Host(jobs.started, earlier=self._spec.run_id), jobs)

    def delete_directly(self, *ids: int) -> DirectResult:
        """An operator's direct delete by ids."""
        table = self._lake_table()
        change = DirectChange("D", lambda before: input_keys(ids, before.primary_key))
        return table.change(lambda token: change_directly(self._table_run(fencing_token=token), SPARK, change))

    def erase(self, *ids: int) -> ErasureResult:
        """An operator's erasure by ids."""
        table = self._lake_table()
        lake = self.log.snapshot(self.log.head())
        erasure = Erasure(
            location=_FaultyLocation(LAKE, LAYOUT, self._ports.lake_fs, self._ports.lake),
            log=self.log,
            keys=RowKeys.parse([str(number) for number in ids], lake.primary_key, lake.schema),
            raw=None,
            run_id=self._spec.run_id,
            reason="a request",
            made_by="the officer",
            clock=self._now,
            progress=Progress(),
        )
        return table.change(lambda token: erase(erasure, token, table.update_catalog))

    def rollback(self, to: int | None = None) -> ChangeRecord:
        """An operator's rollback."""
        return self._lake_table().rollback(to)

    def reapply(self) -> ChangeRecord:
        """An operator's reapply."""
        return self._lake_table().reapply()

    def repair(self) -> None:
        """An operator's repair."""
        self._lake_table().repair()

    def clean_up(self, retention: timedelta = FOREVER) -> CleanUpPlan:
        """An operator's clean-up."""
        return self._lake_table().clean_up(retention)

    def activate(self) -> None:
        """An operator turns the table on after a rollback."""
        self._ports.states.set_attributes(PATH, {"ActiveFlag": "true"})

    def _now(self) -> datetime:
        return self.clock()

    def hear_server(self, clock: ServerClock) -> None:
        """Take the time from the responses of AWS."""
        for port in self._services:
            clock.watch(cast("Any", port)._client)
        self.clock = clock

    def _lake_table(self) -> RegisteredTable:
        state = self._ports.states.get(PATH)
        assert state is not None
        catalog = self._ports.catalog
        open_catalog = (lambda _database: catalog) if catalog else None
        return RegisteredTable(self._ports.states, state, self.log, self._spec.run_id, self._now, open_catalog)

    def _table_run(self, **fields: Any) -> TableRun:
        """The run of this specification, with some fields set."""
        run = TableRun(
            raw=self._ports.raw,
            raw_fs=self._ports.raw_fs,
            raw_prefix=RAW_PREFIX,
            log=self.log,
            lake_fs=self._ports.lake_fs,
            settings=TableSettings.from_item(self._spec.item),
            run_id=self._spec.run_id,
            fencing_token=self._spec.fencing_token,
            clock=self._now,
        )
        return replace(run, **fields)

    def _bring_up_to_date(self, run_id: str, host: Host, jobs: _SparkJob) -> TableReport:
        def load(due: DueLoad) -> None:
            fields = {
                "log": due.changes,
                "settings": due.state.settings,
                "fencing_token": due.token,
                "note_file": due.note_file,
            }
            load_planned(self._table_run(run_id=run_id, **fields), due, SPARK)

        return bring_up_to_date([PATH], LAKE, "", run_id, self._run_ports(jobs), load, host).only

    def _run_ports(self, jobs: _SparkJob) -> Ports:
        return Ports(
            states=self._ports.states,
            jobs=self._ports.around_jobs(jobs),
            open_bucket={RAW: self._ports.raw, LAKE: self._ports.lake}.__getitem__,
            clock=self._now,
            metrics=MemoryMetrics(),
            catalog=self._ports.catalog,
        )
