"""Looks at what is deployed through the services' own APIs, never at the template.

Each check says what it found right, or raises what is wrong.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from cdclake.errors import IntegrityError
from cdclake.model.metrics import NAMESPACE
from cdclake.model.names import Argument, Attribute
from deploy_local.job_run import EXTRA_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deploy_local.deployed import Deployed

_EXISTING: Mapping[str, tuple[str, str, str]] = {
    f"--{Argument.BUCKET}": ("s3", "head_bucket", "Bucket"),
    f"--{Argument.OUT_BUCKET}": ("s3", "head_bucket", "Bucket"),
    f"--{Argument.STATE_TABLE}": ("dynamodb", "describe_table", "TableName"),
    f"--{Argument.CATALOG_DATABASE}": ("glue", "get_database", "Name"),
}
"""Arguments of jobs that name something, and how to ask for it: service, request, parameter."""


def bucket(deployed: Deployed, name: str, *, versioned: bool) -> str:
    """A bucket is encrypted, private, refuses requests without TLS, and keeps versions or not."""
    s3 = deployed.client("s3")
    (rule,) = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    algorithm = rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
    blocked = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    _require(all(blocked.values()), f"{name} is not closed to the public: {blocked}")
    (owner,) = s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]["Rules"]
    _require(owner["ObjectOwnership"] == "BucketOwnerEnforced", f"{name} takes ACLs: {owner}")
    status = s3.get_bucket_versioning(Bucket=name).get("Status", "never enabled")
    _require((status == "Enabled") == versioned, f"{name} should {'' if versioned else 'not '}keep versions: {status}")
    _refuses_plain_http(deployed, name)
    versions = "with versions" if versioned else "without versions"
    return f"encrypted ({algorithm}), private, {versions}; refused a request without TLS"


def notification(deployed: Deployed, raw_prefix: str) -> str:
    """The raw bucket tells the function, and nobody else, of new objects below the raw prefix."""
    found = deployed.client("s3").get_bucket_notification_configuration(Bucket=deployed.raw_bucket)
    found.pop("ResponseMetadata")
    told = found.get("LambdaFunctionConfigurations", [])
    _require(set(found) == {"LambdaFunctionConfigurations"} and len(told) == 1, f"it tells others as well: {found}")
    _require(told[0]["LambdaFunctionArn"] == _function(deployed)["FunctionArn"], f"it tells another function: {told}")
    rules = told[0].get("Filter", {}).get("Key", {}).get("FilterRules", [])
    prefixes = [rule["Value"] for rule in rules if rule["Name"].lower() == "prefix"]
    _require(prefixes == [raw_prefix], f"it tells of {prefixes}, and raw files lie below {raw_prefix}")
    _require(told[0]["Events"] == ["s3:ObjectCreated:*"], f"it tells of {told[0]['Events']}")
    return f"new objects below {raw_prefix} are told to {deployed.function}"


def state_table(deployed: Deployed) -> str:
    """The state table has the key that the code uses, is billed by request, and is protected."""
    table = deployed.client("dynamodb").describe_table(TableName=deployed.state_table)["Table"]
    _require(table["KeySchema"] == [{"AttributeName": Attribute.PATH, "KeyType": "HASH"}], f"{table['KeySchema']}")
    _require(table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST", "it is not billed by request")
    _require(table["DeletionProtectionEnabled"] is True, "it can be deleted")
    return f"{deployed.state_table}: by request, protected against deletion"


def job(deployed: Deployed, name: str) -> str:
    """A job's script, libraries and role are there, and all that its arguments name."""
    found = deployed.client("glue").get_job(JobName=name)["Job"]
    arguments = found["DefaultArguments"]
    locations = [found["Command"]["ScriptLocation"], *filter(None, arguments.get(EXTRA_FILES, "").split(","))]
    _require(len(locations) > 1, f"{name} has no library")
    for location in locations:
        url = urlsplit(location)
        _there(deployed, "s3", "head_object", {"Bucket": url.netloc, "Key": url.path.lstrip("/")}, location)
    for argument, (service, request, parameter) in _EXISTING.items():
        if argument in arguments:
            _there(deployed, service, request, {parameter: arguments[argument]}, f"{argument} of {name}")
    _trusts(deployed, found["Role"], "glue.amazonaws.com")
    library = locations[1].rpartition("/")[2]
    return f"{found['Command']['Name']}; its script, {library}, its role, and what its arguments name are there"


def schedule(deployed: Deployed) -> str:
    """The trigger belongs to a workflow that is there, is on, and starts a job that is there."""
    trigger = deployed.trigger()
    workflow = trigger.get("WorkflowName", "")
    _there(deployed, "glue", "get_workflow", {"Name": workflow}, "the trigger's workflow")
    started = deployed.scheduled_job()
    _there(deployed, "glue", "get_job", {"JobName": started}, "the trigger's job")
    _require(trigger["Type"] == "SCHEDULED" and trigger["State"] == "ACTIVATED", f"the trigger is {trigger['State']}")
    return f"workflow {workflow} starts {started} by {trigger['Schedule']}"


def function(deployed: Deployed) -> str:
    """The function's role, log and queue are there, what its environment names is there, and S3 may call it."""
    found = _function(deployed)
    _require("DeadLetterConfig" in found, "it names no dead-letter queue")
    variables = found["Environment"]["Variables"]
    table, job_name = variables.get("STATE_TABLE", ""), variables.get("PROCESS_TABLE_JOB", "")
    _require(bool(table and job_name), f"its environment lacks STATE_TABLE or PROCESS_TABLE_JOB: {sorted(variables)}")
    _there(deployed, "dynamodb", "describe_table", {"TableName": table}, "STATE_TABLE of the function")
    _there(deployed, "glue", "get_job", {"JobName": job_name}, "PROCESS_TABLE_JOB of the function")
    _trusts(deployed, found["Role"], "lambda.amazonaws.com")
    _may_send(deployed, found["Role"], found["DeadLetterConfig"]["TargetArn"])
    policy = json.loads(deployed.client("lambda").get_policy(FunctionName=deployed.function)["Policy"])
    callers = [statement["Principal"].get("Service") for statement in policy["Statement"]]
    _require(callers == ["s3.amazonaws.com"], f"{callers} may call the function")
    group = found["LoggingConfig"]["LogGroup"]
    groups = deployed.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    days = [one.get("retentionInDays") for one in groups if one["logGroupName"] == group]
    _require(days != [] and None not in days, f"the log group {group} keeps lines for {days} days")
    return f"{deployed.function}: {found['Runtime']}; its role, log, dead-letter queue, state table and job are there"


def alarms(deployed: Deployed) -> str:
    """Each alarm speaks to a topic that is there, and watches a queue and a function that are."""
    topics = {topic["TopicArn"] for topic in deployed.client("sns").list_topics()["Topics"]}
    queue = deployed.undelivered_queue.rpartition("/")[2]
    there = {"QueueName": queue, "FunctionName": deployed.function}
    found = _alarms(deployed)
    for alarm in found:
        name = alarm["AlarmName"]
        _require(bool(alarm["AlarmActions"]), f"{name} speaks to nobody")
        _require(set(alarm["AlarmActions"]) <= topics, f"{name} speaks to {alarm['AlarmActions']}, not there")
        dimensions = {one["Name"]: one["Value"] for one in alarm["Dimensions"]}
        _require(dimensions.items() <= there.items(), f"{name} watches {dimensions}, and there are {there}")
    return f"{len(found)} alarms, all to {topics.pop()}"


def measured(deployed: Deployed) -> str:
    """What alarms and dashboard look at has been measured by the jobs: names, dimensions and namespace are the same."""
    pages = deployed.client("cloudwatch").get_paginator("list_metrics").paginate(Namespace=NAMESPACE)
    measured_now = {_metric(one["MetricName"], one["Dimensions"]) for page in pages for one in page["Metrics"]}
    wanted = {
        _metric(alarm["MetricName"], alarm["Dimensions"]): alarm["AlarmName"]
        for alarm in _alarms(deployed)
        if alarm["Namespace"] == NAMESPACE
    }
    missing = [alarm for metric, alarm in wanted.items() if metric not in measured_now]
    _require(not missing, f"nobody measures what is watched by {', '.join(missing)}")
    silent = [
        f"{alarm['AlarmName']} is {alarm['StateValue']}"
        for alarm in _alarms(deployed)
        if alarm["Namespace"] == NAMESPACE and alarm["StateValue"] != "OK"
    ]
    _require(not silent, f"all went well, and {'; '.join(silent)}")
    return f"the jobs measured {len(measured_now)} metrics; {len(wanted)} alarms have what they watch, and are OK"


def _function(deployed: Deployed) -> dict[str, Any]:
    found: dict[str, Any] = deployed.client("lambda").get_function_configuration(FunctionName=deployed.function)
    return found


def _alarms(deployed: Deployed) -> list[dict[str, Any]]:
    pages = deployed.client("cloudwatch").get_paginator("describe_alarms").paginate()
    return [alarm for page in pages for alarm in page["MetricAlarms"]]


def _metric(name: str, dimensions: list[Mapping[str, str]]) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset((one["Name"], one["Value"]) for one in dimensions)


def _refuses_plain_http(deployed: Deployed, name: str) -> None:
    """Ask as somebody does whose TLS ended at a proxy before: ministack takes its word for plain HTTP."""
    client = deployed.new_client("s3")
    client.meta.events.register("before-sign.s3", _as_plain_http)
    _require(not _allowed(lambda: client.head_bucket(Bucket=name)), f"{name} takes requests without TLS")


def _as_plain_http(request: Any, **_: object) -> None:  # noqa: ANN401  botocore's own
    request.headers["X-Forwarded-Proto"] = "http"


def _allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 403:
            raise
        return False
    return True


def _there(deployed: Deployed, service: str, request: str, parameters: Mapping[str, str], what: str) -> None:
    try:
        getattr(deployed.client(service), request)(**parameters)
    except ClientError as error:
        message = f"{what} is not there ({', '.join(parameters.values())}): {error}"
        raise IntegrityError(message) from error


def _trusts(deployed: Deployed, role: str, service: str) -> None:
    name = role.rpartition("/")[2]
    policy = deployed.client("iam").get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    trusted = [statement["Principal"].get("Service") for statement in policy["Statement"]]
    _require(trusted == [service], f"{trusted} may take on the role {name}, and it is for {service}")


def _may_send(deployed: Deployed, role: str, queue: str) -> None:
    """Ask IAM: Lambda sends with the function's role, and ministack's sends with none."""
    asked = {"PolicySourceArn": role, "ActionNames": ["sqs:SendMessage"], "ResourceArns": [queue]}
    (result,) = deployed.client("iam").simulate_principal_policy(**asked)["EvaluationResults"]
    _require(result["EvalDecision"] == "allowed", f"the role {role} may not send to the dead-letter queue {queue}")


def _require(condition: bool, wrong: str) -> None:
    if not condition:
        raise IntegrityError(wrong)
