"""Lists the runs of ProcessTable and of the Spark jobs in Glue's job history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.adapters.glue import job_run
from cdclake.control.jobs.arguments import parse_item, parse_paths
from cdclake.model.names import (
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    Argument,
)
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobRun, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from mypy_boto3_glue import GlueClient
    from mypy_boto3_glue.type_defs import JobRunTypeDef

_JOBS = (JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)


class StartedRun(NamedTuple):
    """A run that works on tables, or has worked on them.

    Attributes:
        job: The job's name, without the deployment's prefix.
        run: The run when it was listed.
    """

    job: str
    run: JobRun

    @property
    def paths(self) -> list[str]:
        """Paths of its tables; none if an operator started it without a lease."""
        if paths := self.run.arguments.get(Argument.PATHS):
            return parse_paths(paths)
        item = self.run.arguments.get(Argument.ITEM)
        return [parse_item(item)[Attribute.PATH]] if item and self.job == JOB_PROCESS_TABLE else []

    @property
    def holders(self) -> set[str]:
        """Who holds the leases of its tables: the run, or, until it has begun, the one that started it."""
        return {self.run.run_id, self.run.arguments.get(Argument.LEASE_HOLDER, self.run.run_id)}

    @property
    def active(self) -> bool:
        """Whether the run had not ended."""
        return self.run.state is JobState.ACTIVE


class GlueJobHistory:
    """`JobHistory` from Glue's job runs.

    Args:
        client: Glue client.
        name_prefix: What precedes each job's name in this deployment.
    """

    def __init__(self, client: GlueClient, name_prefix: str = "") -> None:
        self._client = client
        self._name_prefix = name_prefix
        self._started: dict[str, datetime] = {}  # when each Controller run was started

    def since(self, controller_run_id: str) -> list[StartedRun]:
        """Runs that worked at any time since a Controller run started; newest first."""
        if controller_run_id not in self._started:
            name = f"{self._name_prefix}{JOB_CONTROLLER}"
            controller = self._client.get_job_run(JobName=name, RunId=controller_run_id)["JobRun"]
            self._started[controller_run_id] = controller["StartedOn"]
        moment = self._started[controller_run_id]
        found = [
            (run["StartedOn"], StartedRun(job, job_run(job, run))) for job in _JOBS for run in self._runs(job, moment)
        ]
        return [run for _, run in sorted(found, key=lambda one: one[0], reverse=True)]

    def _runs(self, job: str, moment: datetime) -> Iterator[JobRunTypeDef]:
        """Runs that have not ended, or ended after a moment. Glue lists months of runs, newest first: stop early."""
        for page in self._client.get_paginator("get_job_runs").paginate(JobName=f"{self._name_prefix}{job}"):
            recent = [run for run in page["JobRuns"] if run.get("CompletedOn", moment) >= moment]
            if not recent:
                return
            yield from recent
