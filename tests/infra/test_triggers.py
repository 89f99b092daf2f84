"""The triggers: the schedule, new raw files and failed Spark runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.model.names import JOB_CONTROLLER, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, STATE_TABLE
from tests.infra.stacks import ACCOUNT, CODE_BUCKET, TASK

if TYPE_CHECKING:
    from tests.infra.stacks import Stacks

HANDLER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import handler
variables = (handler.RAW_PREFIX, handler.STATE_TABLE, handler.NEW_TABLE, handler.SMALL_CHANGES_FUNCTION)
print(json.dumps([callable(handler.handler), *variables]))
"""


def function(deployed: Stacks) -> dict[str, Any]:
    properties: dict[str, Any] = deployed.one("AWS::Lambda::Function", FunctionName="cdclake-on-raw-file")["Properties"]
    return properties


def notification(deployed: Stacks) -> dict[str, Any]:
    properties: dict[str, Any] = deployed.one("Custom::S3BucketNotifications")["Properties"]
    return properties


@pytest.mark.deployment
@pytest.mark.parametrize(
    ("stacks", "schedule", "enabled"),
    [("default", "cron(0 * * * ? *)", True), ("tailored", "cron(30 2 * * ? *)", False)],
)
def test_a_workflow_starts_the_controller_on_a_schedule(
    request: pytest.FixtureRequest, stacks: str, schedule: str, enabled: bool
):
    deployed: Stacks = request.getfixturevalue(stacks)
    trigger = deployed.one("AWS::Glue::Trigger")["Properties"]
    (workflow,) = deployed.all("AWS::Glue::Workflow")
    assert trigger["WorkflowName"] == f"<{workflow}>"
    assert (trigger["Type"], trigger["Schedule"], trigger["StartOnCreation"]) == ("SCHEDULED", schedule, enabled)
    (job,) = (action["JobName"].strip("<>") for action in trigger["Actions"])
    assert deployed.all("AWS::Glue::Job")[job]["Properties"]["Name"] == JOB_CONTROLLER
    assert deployed.one("AWS::Glue::Workflow")["Properties"]["MaxConcurrentRuns"] == 1


def test_the_function_is_notified_of_raw_files_below_the_prefix(tailored: Stacks):
    configured = notification(tailored)
    assert configured["BucketName"] == "acme-raw"
    assert configured["Managed"] is False  # other notifications of the bucket stay
    (configuration,) = configured["NotificationConfiguration"]["LambdaFunctionConfigurations"]
    assert configuration["Events"] == ["s3:ObjectCreated:*"]
    assert configuration["Filter"] == {"Key": {"FilterRules": [{"Name": "prefix", "Value": "dms/erp/"}]}}
    logical_id = configuration["LambdaFunctionArn"].strip("<>").removesuffix(".Arn")
    assert tailored.all("AWS::Lambda::Function")[logical_id]["Properties"] == function(tailored)


def test_without_a_prefix_the_function_is_notified_of_every_raw_file(default: Stacks):
    (configuration,) = notification(default)["NotificationConfiguration"]["LambdaFunctionConfigurations"]
    assert "Filter" not in configuration


def test_without_start_by_file_the_bucket_sends_no_notifications(sample: Stacks):
    assert sample.all("Custom::S3BucketNotifications") == {}
    (permission,) = sample.all("AWS::Lambda::Permission").values()
    assert permission["Properties"]["Principal"] == "events.amazonaws.com"


def test_events_of_failed_spark_runs_reach_the_function(default: Stacks, sample: Stacks):
    for deployed in (default, sample):  # with and without start_by_file
        rule = deployed.one("AWS::Events::Rule", Name="cdclake-spark-run-failed")["Properties"]
        assert rule["State"] == "ENABLED"
        assert rule["EventPattern"] == {
            "source": ["aws.glue"],
            "detail-type": ["Glue Job State Change"],
            "detail": {
                "jobName": [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL],
                "state": ["FAILED", "TIMEOUT", "STOPPED"],
            },
        }
        (target,) = rule["Targets"]
        logical_id = target["Arn"].strip("<>").removesuffix(".Arn")
        assert deployed.all("AWS::Lambda::Function")[logical_id]["Properties"] == function(deployed)
        assert target["DeadLetterConfig"]["Arn"] == function(deployed)["DeadLetterConfig"]["TargetArn"]
        assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 3600}
        assert "InputTransformer" not in target  # the function reads the whole event


def test_the_rule_names_the_jobs_of_its_deployment(everything: tuple[Stacks, Stacks]):
    rule = everything[1].one("AWS::Events::Rule", Name="acme-cdclake-spark-run-failed")["Properties"]
    names = {found["Properties"]["Name"] for found in everything[1].all("AWS::Glue::Job").values()}
    assert set(rule["EventPattern"]["detail"]["jobName"]) < names


def test_only_the_raw_bucket_and_the_rule_of_this_account_may_call_the_function(tailored: Stacks):
    found = [permission["Properties"] for permission in tailored.all("AWS::Lambda::Permission").values()]
    callers = {permission["Principal"]: permission for permission in found}
    assert len(found) == len(callers)
    assert {permission["Action"] for permission in found} == {"lambda:InvokeFunction"}
    bucket, rule = callers.pop("s3.amazonaws.com"), callers.pop("events.amazonaws.com")
    assert (bucket["SourceAccount"], bucket["SourceArn"]) == (ACCOUNT, "arn:aws:s3:::acme-raw")
    (rule_id,) = tailored.all("AWS::Events::Rule")
    assert rule["SourceArn"] == f"<{rule_id}.Arn>"
    assert callers == {}


def test_notifications_are_set_once_the_bucket_may_call(default: Stacks):
    (permission,) = [
        logical_id
        for logical_id, found in default.all("AWS::Lambda::Permission").items()
        if found["Properties"]["Principal"] == "s3.amazonaws.com"
    ]
    assert permission in default.one("Custom::S3BucketNotifications")["DependsOn"]


def test_the_functions_environment_has_its_settings(tailored: Stacks):
    folder = tailored.uploaded(function(tailored)["Code"]["S3Key"])
    command = [sys.executable, "-I", "-c", HANDLER, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    is_callable, raw_prefix, state_table, new_table, small_changes = json.loads(done.stdout)
    assert is_callable
    assert function(tailored)["Handler"] == "handler.handler"
    assert function(tailored)["Environment"]["Variables"] == {
        raw_prefix: "dms/erp/",
        state_table: STATE_TABLE,
        new_table: json.dumps({"DmsTask": TASK}),
        small_changes: "cdclake-small-changes",
    }


def test_the_functions_code_is_uploaded(default: Stacks):
    assert function(default)["Code"]["S3Bucket"] == CODE_BUCKET
    assert (default.uploaded(function(default)["Code"]["S3Key"]) / "handler.py").is_file()


def test_events_that_fail_are_kept_for_two_weeks_encrypted(default: Stacks):
    queue_id, queue = next(iter(default.all("AWS::SQS::Queue").items()))
    assert function(default)["DeadLetterConfig"] == {"TargetArn": f"<{queue_id}.Arn>"}
    assert queue["Properties"] == {"MessageRetentionPeriod": 14 * 24 * 3600, "SqsManagedSseEnabled": True}
    deny, allow = default.one("AWS::SQS::QueuePolicy")["Properties"]["PolicyDocument"]["Statement"]
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    (rule_id,) = default.all("AWS::Events::Rule")
    assert (allow["Effect"], allow["Action"]) == ("Allow", "sqs:SendMessage")
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Condition"] == {"ArnEquals": {"aws:SourceArn": f"<{rule_id}.Arn>"}}


def test_the_functions_log_is_kept_for_a_month(default: Stacks):
    log_id, log = next(iter(default.all("AWS::Logs::LogGroup").items()))
    assert log["Properties"] == {"LogGroupName": "/aws/lambda/cdclake-on-raw-file", "RetentionInDays": 30}
    assert function(default)["LoggingConfig"] == {"LogGroup": f"<{log_id}>"}
