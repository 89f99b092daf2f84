"""An installation on local folders: Controller, ProcessTable and the Spark jobs' code, all in this process."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.memory import MemoryJobs, MemoryMetrics, MemoryState
from cdclake.adapters.stores import store
from cdclake.commit.log import ChangeLog
from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_item
from cdclake.control.jobs.entry import error_line
from cdclake.control.run.process_table import Ports, process_table
from cdclake.errors import CdclakeError
from cdclake.lake.operations.job import relative_file
from cdclake.lake.operations.load import load_incremental, load_initial
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.spark.in_process import InProcessSpark
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, Argument, Attribute, Sentinel
from cdclake.model.table import TableSettings
from cdclake.ports import JobRun, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cdclake.model.table import TableState
    from cdclake.ports import ObjectStore

RAW, LAKE = "raw", "lake"
SPARK = InProcessSpark()


class Installation:
    """An installation with one table.

    Args:
        root: Empty folder, in which `raw` and `lake` are created.
        path: The table's path: `raw/[<raw prefix>/]<schema>/<table>/`.
    """

    def __init__(self, root: Path, path: str) -> None:
        self._root, self.path = root, path
        for bucket in (RAW, LAKE):
            (root / bucket).mkdir()
        self._prefix = "".join(f"{part}/" for part in path.split("/")[1:-3])
        self._states, self._jobs, self._runs = MemoryState(), MemoryJobs(self._job), 0

    @property
    def raw(self) -> Path:
        """The raw bucket."""
        return self._root / RAW

    @property
    def lake(self) -> ObjectStore:
        """The lake bucket."""
        return store((self._root / LAKE).as_uri())

    def state(self) -> TableState:
        """The table's item."""
        state = self._states.get(self.path)
        assert state is not None
        return state

    def activate(self, attributes: Mapping[str, str]) -> None:
        """Set attributes and turn the table on, as an operator does."""
        self._states.set_attributes(self.path, {**attributes, Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})

    def run_hourly(self) -> None:
        """Run the Controller and everything that it starts."""
        inputs = PlanInputs(store((self._root / RAW).as_uri()), self._states, RAW, self._prefix)
        execute(plan(inputs, _now()), self._states, self._jobs, _now())

    def _job(self, job: str, arguments: Mapping[str, str]) -> JobRun:
        self._runs += 1
        try:
            if job == JOB_PROCESS_TABLE:
                process_table(
                    parse_item(arguments[Argument.ITEM])[Attribute.PATH], LAKE, "", self._run_id, self._outside
                )
            else:
                self._load(job, arguments)
        except CdclakeError as error:
            return JobRun("", JobState.FAILED, JobState.FAILED.value, error_line(error))
        return JobRun("", JobState.SUCCEEDED, JobState.SUCCEEDED.value)

    @property
    def _run_id(self) -> str:
        return f"run-{self._runs}"

    @property
    def _outside(self) -> Ports:
        return Ports(
            states=self._states,
            jobs=self._jobs,
            open_bucket=lambda bucket: store((self._root / bucket).as_uri()),
            clock=_now,
            sleep=lambda _: None,
            metrics=MemoryMetrics(),
        )

    def _load(self, job: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        raw, lake = ((self._root / bucket).as_uri() for bucket in (RAW, LAKE))
        run = TableRun(
            raw=store(raw),
            raw_fs=lake_filesystem(raw),
            raw_prefix=arguments[Argument.PREFIX],
            log=ChangeLog(
                store(lake), LakeLayout.from_arguments(arguments[Argument.OUT_PATH], arguments[Argument.FOLDER])
            ),
            lake_fs=lake_filesystem(lake),
            settings=TableSettings.from_item(parse_item(arguments[Argument.ITEM])),
            run_id=self._run_id,
            fencing_token=int(arguments[Argument.FENCING_TOKEN]),
            clock=_now,
        )
        if job == JOB_LOAD_INITIAL:
            return load_initial(run, SPARK, int(arguments[Argument.BASE_CHANGE]))
        names = (Argument.LAST_INCREMENTAL_FILE, Argument.NEW_INCREMENTAL_FILE)
        last, new = (relative_file(arguments[name], RAW, run.raw_prefix) for name in names)
        return load_incremental(run, SPARK, last, new, int(arguments[Argument.NEW_INCREMENTAL_FILES]))


def _now() -> datetime:
    return datetime.now(timezone.utc)
