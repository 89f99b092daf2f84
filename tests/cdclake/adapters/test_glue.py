"""What is particular to Glue: argument names, states, limits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import pytest
from botocore.config import Config
from mypy_boto3_glue.literals import JobRunStateType

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.glue import GlueJobs
from cdclake.errors import ConfigurationError, JobRunError, NoRoomError
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake.ports import JobRun, JobState
from tests.cdclake.adapters.network_faults import Faults

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient


def test_argument_names_get_dashes(glue: GlueClient) -> None:
    run_id = GlueJobs(glue).start(JOB_LOAD_INITIAL, {"bucket": "raw", "partitionKey": "null"})
    run = glue.get_job_run(JobName=JOB_LOAD_INITIAL, RunId=run_id)["JobRun"]
    assert run["Arguments"] == {"--bucket": "raw", "--partitionKey": "null"}


def test_too_many_runs_of_a_job_are_no_room(glue: GlueClient) -> None:
    jobs = GlueJobs(glue)
    for _ in range(3):
        jobs.start(JOB_LOAD_INITIAL, {})
    with pytest.raises(NoRoomError, match="maximum concurrency"):
        jobs.start(JOB_LOAD_INITIAL, {})


def test_a_full_account_is_no_room(glue: GlueClient) -> None:
    body = json.dumps({"__type": "ResourceNumberLimitExceededException", "Message": "no"}).encode()
    Faults(glue, "StartJobRun").respond(400, body)
    with pytest.raises(NoRoomError, match="quota"):
        GlueJobs(glue).start(JOB_LOAD_INITIAL, {})


def test_a_throttled_start_is_no_room(glue: GlueClient) -> None:
    without_retries = aws_clients.session().client("glue", config=Config(retries={"total_max_attempts": 1}))
    Faults(without_retries, "StartJobRun").respond(
        400, b'{"__type": "ThrottlingException", "Message": "Rate exceeded"}'
    )
    with pytest.raises(NoRoomError, match="fewer runs at a time"):
        GlueJobs(without_retries).start(JOB_LOAD_INITIAL, {})


def test_a_missing_job_is_an_error_that_says_what_to_do(glue: GlueClient) -> None:
    with pytest.raises(ConfigurationError, match="Deploy the job no_such_job"):
        GlueJobs(glue).start("no_such_job", {})


MEANINGS = {
    **dict.fromkeys(["STARTING", "RUNNING", "STOPPING", "WAITING"], JobState.ACTIVE),
    **dict.fromkeys(["FAILED", "TIMEOUT"], JobState.FAILED),
    **dict.fromkeys(["ERROR", "EXPIRED"], JobState.GIVEN_UP),
    "SUCCEEDED": JobState.SUCCEEDED,
    "STOPPED": JobState.STOPPED,
}


@pytest.mark.parametrize("word", sorted(get_args(JobRunStateType)))
def test_every_state_of_the_service_has_a_meaning(glue: GlueClient, word: str) -> None:
    run = {"JobRun": {"Id": "jr_1", "JobRunState": word, "ErrorMessage": "why"}}
    Faults(glue, "GetJobRun").respond(200, json.dumps(run).encode())
    assert GlueJobs(glue).get(JOB_LOAD_INITIAL, "jr_1") == JobRun("jr_1", MEANINGS[word], word, "why")


def test_an_unknown_state_is_neither_success_nor_failure(glue: GlueClient) -> None:
    Faults(glue, "GetJobRun").respond(200, b'{"JobRun": {"Id": "jr_1", "JobRunState": "DREAMING"}}')
    with pytest.raises(JobRunError, match="DREAMING"):
        GlueJobs(glue).get(JOB_LOAD_INITIAL, "jr_1")
