"""Lists the ProcessTable runs in Glue's job history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.arguments import parse_item, parse_paths
from cdclake.model.names import JOB_CONTROLLER, JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from mypy_boto3_glue import GlueClient
    from mypy_boto3_glue.type_defs import JobRunTypeDef


class StartedRun(NamedTuple):
    """A table's path and the id of its ProcessTable run. A run of several tables appears once per table."""

    path: str
    run_id: str


class GlueJobHistory:
    """`JobHistory` from Glue's job runs.

    Args:
        client: Glue client.
        name_prefix: What precedes each job's name in this deployment.
    """

    def __init__(self, client: GlueClient, name_prefix: str = "") -> None:
        self._client = client
        self._controller, self._process_table = f"{name_prefix}{JOB_CONTROLLER}", f"{name_prefix}{JOB_PROCESS_TABLE}"

    def since(self, controller_run_id: str) -> list[StartedRun]:
        """Runs that started since a Controller run started, or are still active; newest first."""
        controller = self._client.get_job_run(JobName=self._controller, RunId=controller_run_id)["JobRun"]
        runs = sorted(self._runs(controller["StartedOn"]), key=lambda run: run["StartedOn"], reverse=True)
        return [StartedRun(path, run["Id"]) for run in runs for path in _paths(run.get("Arguments", {}))]

    def _runs(self, moment: datetime) -> Iterator[JobRunTypeDef]:
        """Runs that started after a moment, or have not ended. Glue lists months of runs, newest first: stop early."""
        for page in self._client.get_paginator("get_job_runs").paginate(JobName=self._process_table):
            recent = [run for run in page["JobRuns"] if run["StartedOn"] >= moment or "CompletedOn" not in run]
            if not recent:
                return
            yield from recent


def _paths(arguments: Mapping[str, str]) -> list[str]:
    """Paths of the tables that a run works on; none if it was started with other arguments."""
    if paths := arguments.get(f"--{Argument.PATHS}"):
        return parse_paths(paths)
    item = arguments.get(f"--{Argument.ITEM}")
    return [parse_item(item)[Attribute.PATH]] if item else []
