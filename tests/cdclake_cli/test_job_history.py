"""The runs of ProcessTable and of the Spark jobs are found in Glue's job history, with few requests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber

from cdclake.control.jobs.arguments import paths_json
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE
from cdclake.ports import JobState
from cdclake_cli.aws.job_history import GlueJobHistory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_glue import GlueClient

STARTED = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
PATHS = ["raw/shop/orders/", "raw/shop/items/"]


@pytest.fixture
def client() -> GlueClient:
    return boto3.client("glue", "eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")


@pytest.fixture
def glue(client: GlueClient) -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def run(run_id: str, minute: int, state: str = "RUNNING", ended: int | None = None, **arguments: str) -> dict[str, Any]:
    """A run of Glue's list that started some minutes after the Controller's, and perhaps ended."""
    times = {"StartedOn": STARTED + timedelta(minutes=minute)}
    if ended is not None:
        times["CompletedOn"] = STARTED + timedelta(minutes=ended)
    given = {f"--{name}": value for name, value in arguments.items()}
    return {"Id": run_id, "JobRunState": state, "Arguments": given, **times}


def add_controller(glue: Stubber) -> None:
    expected = {"JobName": "test-DMSCDC_Controller", "RunId": "c1"}
    glue.add_response("get_job_run", {"JobRun": run("c1", 0, "SUCCEEDED", 1)}, expected)


def add_lists(glue: Stubber, **runs: list[list[dict[str, Any]] | None]) -> None:
    """Let Glue list the runs of each job, in pages; a page that is None must not be read."""
    for job in (JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
        pages = runs.get(job, [[]])
        for number, page in enumerate(pages):
            more = {"NextToken": f"{job}-{number + 1}"} if number + 1 < len(pages) else {}
            token = {"NextToken": f"{job}-{number}"} if number else {}
            if page is None:
                continue
            glue.add_response("get_job_runs", {"JobRuns": page, **more}, {"JobName": f"test-{job}", **token})


def test_the_runs_of_the_three_jobs_are_listed_newest_first(client: GlueClient, glue: Stubber) -> None:
    both, item = paths_json(PATHS), '{"path": {"S": "raw/shop/orders/"}}'
    add_controller(glue)
    add_lists(
        glue,
        DMSCDC_ProcessTable=[[run("p2", 9, item=item), run("p1", 1, "SUCCEEDED", 2, paths=both)]],
        DMSCDC_LoadInitial=[[run("s2", 5, folder="orders/", item=item)]],
        DMSCDC_LoadIncremental=[[run("s1", 2, "TIMEOUT", 8, paths=both, lease_holder="run-p1")]],
    )
    runs = GlueJobHistory(client, "test-").since("c1")
    assert [(one.job, one.run.run_id, one.run.state, one.paths) for one in runs] == [
        (JOB_PROCESS_TABLE, "p2", JobState.ACTIVE, PATHS[:1]),
        (JOB_LOAD_INITIAL, "s2", JobState.ACTIVE, []),
        (JOB_LOAD_INCREMENTAL, "s1", JobState.FAILED, PATHS),
        (JOB_PROCESS_TABLE, "p1", JobState.SUCCEEDED, PATHS),
    ]
    assert [one.holders for one in runs] == [{"p2"}, {"s2"}, {"s1", "run-p1"}, {"p1"}]


def test_runs_that_ended_before_the_controller_started_are_left_out_and_older_pages_are_not_read(
    client: GlueClient, glue: Stubber
) -> None:
    old = [run("s0", -9, "SUCCEEDED", -5, paths=paths_json(PATHS))]
    add_controller(glue)
    new = [run("s2", -1, "SUCCEEDED", 1), run("s1", -3), *old]
    add_lists(glue, DMSCDC_LoadIncremental=[new, old])
    runs = GlueJobHistory(client, "test-").since("c1")
    assert [one.run.run_id for one in runs] == ["s2", "s1"]


def test_glue_is_asked_about_the_controller_once(client: GlueClient, glue: Stubber) -> None:
    add_controller(glue)
    add_lists(glue)
    add_lists(glue)
    history = GlueJobHistory(client, "test-")
    assert history.since("c1") == history.since("c1") == []
