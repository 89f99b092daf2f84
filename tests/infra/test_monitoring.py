"""Alarms, topic and dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

from costs.model import ALARMS

from cdclake.control.run.trigger import TriggerOutcome
from cdclake.model.metrics import Measure
from cdclake_infra.library import ON_RAW_FILE
from cdclake_infra.monitoring import OUTCOMES
from tests import ROOT
from tests.infra.stacks import ACCOUNT, REGION, Stacks

HANDBOOK = ROOT / "docs" / "operations.md"


def alarms(deployed: Stacks) -> dict[str, dict[str, Any]]:
    found = [alarm["Properties"] for alarm in deployed.all("AWS::CloudWatch::Alarm").values()]
    return {alarm["AlarmName"]: alarm for alarm in found}


def rule(alarm: dict[str, Any]) -> tuple[Any, ...]:
    names = ("MetricName", "Statistic", "Period", "EvaluationPeriods", "Threshold", "TreatMissingData")
    return tuple(alarm[name] for name in names)


def test_everything_that_needs_action_raises_an_alarm(default: Stacks):
    assert {name: rule(alarm) for name, alarm in alarms(default).items()} == {
        "cdclake-TableFailed": ("Failures", "Sum", 900, 1, 1, "notBreaching"),
        "cdclake-TableFrozen": ("FrozenTables", "Maximum", 3600, 1, 1, "notBreaching"),
        "cdclake-RowsPutAside": ("QuarantinedRows", "Sum", 900, 1, 1, "notBreaching"),
        "cdclake-FunctionErrors": ("Errors", "Sum", 900, 2, 1, "notBreaching"),
        "cdclake-TableLate": ("LagSeconds", "Maximum", 3600, 1, 10800, "notBreaching"),
        "cdclake-EventNotDelivered": ("ApproximateNumberOfMessagesVisible", "Maximum", 300, 1, 1, "notBreaching"),
        "cdclake-ControllerSilent": ("Tables", "SampleCount", 3600, 3, 1, "breaching"),
    }
    assert "MaxDelayMinutes" in alarms(default)["cdclake-TableFailed"]["AlarmDescription"]
    silent = alarms(default).pop("cdclake-ControllerSilent")
    assert silent["ComparisonOperator"] == "LessThanThreshold"


def test_the_cost_estimate_counts_the_alarms_and_dashboards(default: Stacks):
    assert len(alarms(default)) == ALARMS
    assert len(default.all("AWS::CloudWatch::Dashboard")) == 1


def test_the_handbook_explains_every_alarm(default: Stacks, tailored: Stacks):
    _, _, section = HANDBOOK.read_text(encoding="utf-8").partition("## When an alarm goes off\n")
    lines = [
        line.strip("|").split(" | ") for line in section.partition("\n## ")[0].splitlines() if "| `cdclake-" in line
    ]
    assert sorted(line[0].strip(" `") for line in lines) == sorted({**alarms(default), **alarms(tailored)})
    assert all(len(line) == 4 and all(map(str.strip, line)) for line in lines)


def test_alarms_use_the_metrics_over_all_tables_and_of_the_function_and_queue(default: Stacks):
    (queue,) = default.all("AWS::SQS::Queue")
    (function,) = [
        logical_id
        for logical_id, found in default.all("AWS::Lambda::Function").items()
        if found["Properties"].get("FunctionName") == "cdclake-on-raw-file"
    ]
    own = {
        "cdclake-EventNotDelivered": {"Name": "QueueName", "Value": f"<{queue}.QueueName>"},
        "cdclake-FunctionErrors": {"Name": "FunctionName", "Value": f"<{function}>"},
    }
    for name, alarm in alarms(default).items():
        if name in own:
            assert alarm["Dimensions"] == [own[name]]
        else:
            assert alarm["Namespace"] == "cdclake"
            assert "Dimensions" not in alarm


def test_disabled_alarms_are_left_out(default: Stacks, tailored: Stacks):
    # lag_alarm_minutes 0, and a disabled schedule
    assert set(alarms(default)) - set(alarms(tailored)) == {"cdclake-TableLate", "cdclake-ControllerSilent"}


def test_an_alarm_tells_of_calls_that_the_function_of_small_changes_did_not_end(default: Stacks, tailored: Stacks):
    name = "cdclake-SmallChangeNotDelivered"
    assert set(alarms(tailored)) - set(alarms(default)) == {name}
    alarm = alarms(tailored)[name]
    assert rule(alarm) == ("ApproximateNumberOfMessagesVisible", "Maximum", 300, 1, 1, "notBreaching")
    function = tailored.one("AWS::Lambda::Function", FunctionName="cdclake-small-changes")["Properties"]
    queue = function["DeadLetterConfig"]["TargetArn"].removesuffix(".Arn>")
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": f"{queue}.QueueName>"}]


def test_alarms_notify_a_topic_that_allows_cloudwatch_and_requires_tls(default: Stacks):
    ((topic_id, topic),) = default.all("AWS::SNS::Topic").items()
    assert topic["Properties"] == {"TopicName": "cdclake-alarms"}
    assert all(alarm["AlarmActions"] == [f"<{topic_id}>"] for alarm in alarms(default).values())
    deny, allow = default.one("AWS::SNS::TopicPolicy")["Properties"]["PolicyDocument"]["Statement"]
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert (allow["Effect"], allow["Principal"]) == ("Allow", {"Service": "cloudwatch.amazonaws.com"})
    assert allow["Condition"] == {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnLike": {"aws:SourceArn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:cdclake-*"},
    }


def test_the_dashboard_shows_every_metric_of_the_jobs_and_of_the_function(default: Stacks):
    body = json.loads(default.one("AWS::CloudWatch::Dashboard")["Properties"]["DashboardBody"])
    shown = {
        metric[1] for widget in body["widgets"] for metric in widget["properties"]["metrics"] if metric[0] == "cdclake"
    }
    assert shown == {measure.title for measure in Measure if measure is not Measure.TABLES} | set(OUTCOMES)


def test_the_dashboard_shows_all_outcomes_of_the_function():
    written = re.findall(r'outcome = "(\w+)"|FAILED = "(\w+)"', (ON_RAW_FILE / "handler.py").read_text())
    outcomes = {name for names in written for name in names if name} | {outcome.value for outcome in TriggerOutcome}
    assert {name.capitalize() for name in outcomes} == set(OUTCOMES)
