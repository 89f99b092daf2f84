"""`cdclake run` exits with the kind of its tables' errors, which pass from job to job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.model.names import JOB_CONTROLLER
from cdclake.ports import JobRun, JobState
from cdclake_cli.aws.job_history import StartedRun
from cdclake_cli.pipeline import Pipeline, PipelineOutcome
from cdclake_cli.target import Target
from cdclake_devkit.memory import MemoryJobs, MemoryState
from tests.builders import LAKE, RAW
from tests.e2e.orders import PATH, Orders, after, change_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cdclake.commit.log import ChangeLog
    from cdclake.model.table.name import TableName

CHANGE = change_name(after(hours=1))


class Services:
    """What the command uses: jobs that work on folders in this process."""

    def __init__(self, orders: Orders) -> None:
        self._installation = orders.installation
        self.jobs = MemoryJobs(self._run)
        self._before = len(orders.installation.jobs.started)

    @property
    def state(self) -> MemoryState:
        return self._installation.states

    @property
    def job_history(self) -> Services:
        return self

    def since(self, controller_run_id: str) -> list[StartedRun]:
        jobs = self._installation.jobs
        new = jobs.started[self._before :]
        return [StartedRun(one.job, jobs.get(one.job, one.run_id)) for one in reversed(new)]

    def log(self, _name: TableName) -> ChangeLog:
        return self._installation.log(PATH)

    def _run(self, job: str, _arguments: Mapping[str, str]) -> JobRun:
        assert job == JOB_CONTROLLER
        self._installation.run_controller()
        return JobRun("", JobState.SUCCEEDED, "SUCCEEDED")


def run(orders: Orders) -> PipelineOutcome:
    orders.clock.advance(3600)
    outcome = Pipeline(Services(orders), Target(raw_bucket=RAW, lake_bucket=LAKE), sleep=lambda _: None).run()
    return outcome.with_plan(orders.installation.plan()) if outcome.succeeded else outcome


@pytest.mark.parametrize(
    ("settings", "change", "exit_code"),
    [
        ({"PrimaryKey": "nosuch"}, "", 2),
        ({"PartitionKey": "nosuch"}, "", 2),
        ({"LateWindowHours": "some"}, "", 2),
        ({"DeleteMode": "gone"}, "", 2),
        ({}, 'I,3,"three\n', 3),
        ({}, "X,3,three\n", 3),
        ({}, "I,three,three\n", 3),
    ],
    ids=str,
)
def test_the_exit_status_of_a_run_is_that_of_its_tables_error(
    tmp_path: Path, settings: dict[str, str], change: str, exit_code: int
):
    orders = Orders(tmp_path)
    orders.set(ActiveFlag="true", **settings)
    if change:
        orders.put(CHANGE, change)
    outcome = run(orders)
    assert outcome.failed
    assert outcome.error().exit_code == exit_code, outcome.error()


def test_a_file_that_another_program_put_into_the_lake_exits_with_5(tmp_path: Path):
    orders = Orders(tmp_path)
    orders.run()
    (orders.installation.root / LAKE / "shop" / "orders" / "part-0.parquet").write_bytes(b"x")
    orders.put(CHANGE, "I,3,three\n", after(hours=1))
    assert run(orders).error().exit_code == 5


def test_pending_files_that_vanished_exit_with_5(tmp_path: Path):
    orders = Orders(tmp_path)
    orders.run()
    orders.put(CHANGE, "X,3,three\n", after(hours=1))
    assert run(orders).error().exit_code == 3
    orders.remove(CHANGE)
    assert run(orders).error().exit_code == 5


def test_a_file_at_which_spark_runs_die_exits_with_3(tmp_path: Path):
    orders = Orders(tmp_path)
    orders.run()
    orders.put(CHANGE, "I,3,three\n", after(hours=1))
    orders.installation.deadly.add(f"shop/orders/{CHANGE}")
    assert run(orders).error().exit_code == 3
