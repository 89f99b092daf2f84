"""Events of Glue runs in the embedded AWS reach the functions that EventBridge's rules name."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from cdclake_devkit.local.job_events import job_event
from cdclake_devkit.local.jobs import JobKind, JobRunState, Run
from tests.builders import eventually
from tests.cdclake_devkit.local.workbench import WAIT_SECONDS, Workbench

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.aws

FAILS = "raise ValueError('bad')"
WAITS = "import time; time.sleep(1000)"
SAVE_EVENT = """
    import boto3, json, os, time, uuid
    s3 = boto3.client("s3")

    def handler(event, context):
        time.sleep(0.2)  # so that a wait that ends too early misses it
        key = f"{os.environ['AWS_LAMBDA_FUNCTION_NAME']}/{uuid.uuid4()}"
        s3.put_object(Bucket=os.environ["BUCKET"], Key=key, Body=json.dumps(event))
"""
ENDED = Run(
    job="load",
    run_id="jr_1",
    kind=JobKind.SPARK,
    role="role",
    script="s3://bucket/load.py",
    arguments={},
    started_utc=datetime(2024, 3, 5, 10, tzinfo=timezone.utc),
    completed_utc=datetime(2024, 3, 5, 10, 0, 7, 123, tzinfo=timezone.utc),
)


def pattern_of(job: str, *states: str) -> dict[str, Any]:
    detail: dict[str, Any] = {"jobName": [job], **({"state": list(states)} if states else {})}
    return {"source": ["aws.glue"], "detail-type": ["Glue Job State Change"], "detail": detail}


def watch(bench: Workbench, function_arn: str, pattern: Mapping[str, Any], **settings: str) -> None:
    """Create a rule whose target is a function."""
    events, name = bench.aws.client("events"), f"rule-{uuid4()}"
    events.put_rule(Name=name, EventPattern=json.dumps(pattern), **settings)
    events.put_targets(Rule=name, Targets=[{"Id": "function", "Arn": function_arn}])


def received(bench: Workbench, function: str) -> list[dict[str, Any]]:
    """The details of the events that a function got, after everything has ended."""
    bench.aws.wait_until_idle(WAIT_SECONDS)
    return [json.loads(bench.get(key))["detail"] for key in bench.keys(f"{function}/")]


def test_the_end_of_a_run_reaches_the_function_before_all_is_idle(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENT)
    job = bench.job(FAILS)
    watch(bench, arn, pattern_of(job))
    run_id = bench.start(job)
    assert received(bench, name) == [
        {
            "jobName": job,
            "severity": "ERROR",
            "state": "FAILED",
            "jobRunId": run_id,
            "message": f"JobName:{job} and JobRunId:{run_id} failed to execute with exception ValueError: bad",
        }
    ]


def test_a_rule_gets_only_the_states_of_its_pattern(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENT)
    good, bad, endless = bench.job(""), bench.job(FAILS), bench.job(WAITS)
    for job in (good, bad, endless):
        watch(bench, arn, pattern_of(job, "FAILED", "TIMEOUT", "STOPPED"))
    for job in (good, bad):
        bench.finished(job, bench.start(job))
    run_id = bench.start(endless)
    assert eventually(lambda: bench.state(endless, run_id) == "RUNNING")
    bench.glue.batch_stop_job_run(JobName=endless, JobRunIds=[run_id])
    assert sorted(detail["state"] for detail in received(bench, name)) == ["FAILED", "STOPPED"]


def test_a_run_that_is_stopped_in_the_queue_sends_its_event(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENT)
    busy, queued = bench.job(WAITS, ExecutionProperty={"MaxConcurrentRuns": 2}), bench.job("")
    watch(bench, arn, pattern_of(queued))
    running = [bench.start(busy) for _ in range(2)]
    run_id = bench.start(queued)
    assert bench.state(queued, run_id) == "WAITING"
    bench.glue.batch_stop_job_run(JobName=queued, JobRunIds=[run_id])
    bench.glue.batch_stop_job_run(JobName=busy, JobRunIds=running)
    assert [detail["state"] for detail in received(bench, name)] == ["STOPPED"]


def test_schedules_and_disabled_rules_get_no_event(bench: Workbench) -> None:
    name, arn = bench.function(SAVE_EVENT)
    job = bench.job("")
    watch(bench, arn, pattern_of(job), State="DISABLED")
    events = bench.aws.client("events")
    events.put_rule(Name="hourly", ScheduleExpression="rate(1 hour)")
    events.put_targets(Rule="hourly", Targets=[{"Id": "function", "Arn": arn}])
    bench.start(job)
    assert received(bench, name) == []


def test_an_event_for_a_deleted_function_is_logged(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    name, arn = bench.function(SAVE_EVENT)
    job = bench.job("")
    watch(bench, arn, pattern_of(job))
    bench.functions.delete_function(FunctionName=name)
    run_id = bench.start(job)
    bench.aws.wait_until_idle(WAIT_SECONDS)
    assert caplog.records[-1].getMessage() == (
        f"Event SUCCEEDED of run {run_id} of job {job}: dropped after 3 attempts: the function {arn} does not exist"
    )


@pytest.mark.parametrize(
    ("state", "severity", "message"),
    [
        (JobRunState.SUCCEEDED, "INFO", "Job run succeeded"),
        (JobRunState.TIMEOUT, "WARN", "Job run timed out"),
        (JobRunState.STOPPED, "INFO", "Job run stopped"),
    ],
)
def test_an_event_has_the_form_of_glues(state: JobRunState, severity: str, message: str) -> None:
    event = job_event(replace(ENDED, state=state), "eu-west-1")
    assert event == {
        "version": "0",
        "id": event["id"],
        "detail-type": "Glue Job State Change",
        "source": "aws.glue",
        "account": "123456789012",
        "time": "2024-03-05T10:00:07Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": {
            "jobName": "load",
            "severity": severity,
            "state": state.value,
            "jobRunId": "jr_1",
            "message": message,
        },
    }
