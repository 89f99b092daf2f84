"""Checks the deployed resources through the services' APIs, never through the template.

Each check returns a summary, or raises an error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from cdclake.errors import IntegrityError
from cdclake.model.metrics import namespace
from cdclake.model.names import Argument
from cdclake.model.table.attributes import Attribute
from deploy_local.job_run import EXTRA_FILES, EXTRA_MODULES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from deploy_local.deployment import Deployment

_EXISTING: Mapping[str, tuple[str, str, str]] = {
    f"--{Argument.BUCKET}": ("s3", "head_bucket", "Bucket"),
    f"--{Argument.OUT_BUCKET}": ("s3", "head_bucket", "Bucket"),
    f"--{Argument.STATE_TABLE}": ("dynamodb", "describe_table", "TableName"),
    f"--{Argument.CATALOG_DATABASE}": ("glue", "get_database", "Name"),
}
"""Job arguments that name a resource, and the request that finds it: service, operation, parameter."""


def bucket(deployment: Deployment, name: str, *, versioned: bool) -> str:
    """A bucket is encrypted, private, refuses requests without TLS, and has the expected versioning."""
    s3 = deployment.client("s3")
    (rule,) = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    algorithm = rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
    blocked = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    _require(all(blocked.values()), f"{name} allows public access: {blocked}")
    (owner,) = s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]["Rules"]
    _require(owner["ObjectOwnership"] == "BucketOwnerEnforced", f"{name} allows ACLs: {owner}")
    status = s3.get_bucket_versioning(Bucket=name).get("Status", "never enabled")
    _require((status == "Enabled") == versioned, f"{name} should {'' if versioned else 'not '}keep versions: {status}")
    _refuses_plain_http(deployment, name)
    versions = "with versions" if versioned else "without versions"
    return f"encrypted ({algorithm}), private, {versions}; refuses requests without TLS"


def notification(deployment: Deployment, raw_prefix: str) -> str:
    """The raw bucket notifies only the function, of new objects below the raw prefix."""
    response = deployment.client("s3").get_bucket_notification_configuration(Bucket=deployment.raw_bucket)
    response.pop("ResponseMetadata")
    targets = response.get("LambdaFunctionConfigurations", [])
    arns = [target["LambdaFunctionArn"] for target in targets]
    function = _function(deployment, deployment.function)["FunctionArn"]
    only = set(response) == {"LambdaFunctionConfigurations"} and arns == [function]
    _require(only, f"the bucket notifies other targets: {response}")
    (target,) = targets
    rules = target.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    prefixes = [rule["Value"] for rule in rules if rule["Name"].lower() == "prefix"]
    _require(prefixes == [raw_prefix], f"notifications are for {prefixes}, but the raw prefix is {raw_prefix}")
    _require(target["Events"] == ["s3:ObjectCreated:*"], f"notifications are for {target['Events']}")
    return f"{deployment.function} is notified of new objects below {raw_prefix}"


def state_table(deployment: Deployment) -> str:
    """The state table has the expected key, is billed per request, and is protected."""
    table = deployment.client("dynamodb").describe_table(TableName=deployment.state_table)["Table"]
    _require(table["KeySchema"] == [{"AttributeName": Attribute.PATH, "KeyType": "HASH"}], f"{table['KeySchema']}")
    _require(table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST", "the table is not billed per request")
    _require(table["DeletionProtectionEnabled"] is True, "the table can be deleted")
    return f"{deployment.state_table}: billed per request, protected against deletion"


def job(deployment: Deployment, name: str) -> str:
    """A job's script, package, libraries and role exist, and every resource in its arguments."""
    definition = deployment.client("glue").get_job(JobName=name)["Job"]
    arguments = definition["DefaultArguments"]
    code = [arguments[argument] for argument in (EXTRA_FILES, EXTRA_MODULES) if argument in arguments]
    packed = ",".join(code).split(",")
    _require(len(packed) == 2, f"{name} should have its package and its libraries, but has {packed}")
    for location in [definition["Command"]["ScriptLocation"], *packed]:
        url = urlsplit(location)
        _find(deployment, "s3", "head_object", {"Bucket": url.netloc, "Key": url.path.lstrip("/")}, location)
    for argument, (service, request, parameter) in _EXISTING.items():
        if argument in arguments:
            _find(deployment, service, request, {parameter: arguments[argument]}, f"{argument} of {name}")
    _trusts(deployment, definition["Role"], "glue.amazonaws.com")
    names = ", ".join(location.rpartition("/")[2] for location in packed)
    return f"{definition['Command']['Name']}; script, {names}, role, and resources in the arguments exist"


def schedule(deployment: Deployment) -> str:
    """The trigger is active, and its workflow and its job exist."""
    trigger = deployment.trigger()
    workflow = trigger.get("WorkflowName", "")
    _find(deployment, "glue", "get_workflow", {"Name": workflow}, "the trigger's workflow")
    started = deployment.scheduled_job()
    _find(deployment, "glue", "get_job", {"JobName": started}, "the trigger's job")
    _require(trigger["Type"] == "SCHEDULED" and trigger["State"] == "ACTIVATED", f"the trigger is {trigger['State']}")
    return f"workflow {workflow} starts {started} on {trigger['Schedule']}"


def function(deployment: Deployment, name: str, callers: Collection[str]) -> str:
    """A function's role, log, queue and environment's resources exist, and only these services may call it."""
    configuration = _function(deployment, name)
    _require("DeadLetterConfig" in configuration, f"{name} has no dead-letter queue")
    variables = configuration["Environment"]["Variables"]
    for argument, (service, request, parameter) in _EXISTING.items():
        variable = argument.removeprefix("--").upper()
        if variable in variables:
            _find(deployment, service, request, {parameter: variables[variable]}, f"{variable} of {name}")
    _require("STATE_TABLE" in variables, f"STATE_TABLE is missing: {sorted(variables)}")
    if called := variables.get("SMALL_CHANGES_FUNCTION"):
        _function(deployment, called)
    _trusts(deployment, configuration["Role"], "lambda.amazonaws.com")
    _may_send(deployment, configuration["Role"], configuration["DeadLetterConfig"]["TargetArn"])
    may_call = _callers(deployment, name)
    _require(may_call == sorted(callers), f"{may_call} may call {name}")
    group = configuration["LoggingConfig"]["LogGroup"]
    groups = deployment.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    days = [found.get("retentionInDays") for found in groups if found["logGroupName"] == group]
    _require(days != [] and None not in days, f"the log group {group} has a retention of {days} days")
    kind = f"{configuration['Runtime']}, {configuration['Architectures'][0]}"
    return f"{name}: {kind}; role, log, dead-letter queue, and resources in the environment exist"


def _callers(deployment: Deployment, name: str) -> list[str]:
    """The services that may call a function."""
    client = deployment.client("lambda")
    try:
        policy = json.loads(client.get_policy(FunctionName=name)["Policy"])
    except client.exceptions.ResourceNotFoundException:  # it has no policy
        return []
    return sorted(statement["Principal"].get("Service") for statement in policy["Statement"])


def rule(deployment: Deployment) -> str:
    """One rule sends the function events, and the jobs that it names exist."""
    events, arn = deployment.client("events"), _function(deployment, deployment.function)["FunctionArn"]
    names = events.list_rule_names_by_target(TargetArn=arn)["RuleNames"]
    _require(len(names) == 1, f"the function should be the target of one rule, but is of {names}")
    (name,) = names
    found = events.describe_rule(Name=name)
    _require(found["State"] == "ENABLED", f"the rule {name} is {found['State']}")
    detail = json.loads(found["EventPattern"])["detail"]
    for job in detail["jobName"]:
        _find(deployment, "glue", "get_job", {"JobName": job}, f"a job of the rule {name}")
    return f"{name}: the function gets the events of runs that end as {', '.join(detail['state'])}"


def alarms(deployment: Deployment, functions: Collection[str]) -> str:
    """Each alarm notifies an existing topic, and its queue and function exist."""
    topics = {topic["TopicArn"] for topic in deployment.client("sns").list_topics()["Topics"]}
    queues = {("QueueName", deployment.undelivered_queue(name).rpartition("/")[2]) for name in functions}
    existing = queues | {("FunctionName", name) for name in functions}
    deployed = _alarms(deployment)
    for alarm in deployed:
        name = alarm["AlarmName"]
        _require(bool(alarm["AlarmActions"]), f"{name} has no action")
        _require(set(alarm["AlarmActions"]) <= topics, f"{name} notifies {alarm['AlarmActions']}, which does not exist")
        dimensions = {(dimension["Name"], dimension["Value"]) for dimension in alarm["Dimensions"]}
        _require(dimensions <= existing, f"{name} watches {dimensions}, but {existing} exist")
    return f"{len(deployed)} alarms, all notify {topics.pop()}"


def metrics(deployment: Deployment) -> str:
    """The jobs have published every metric that an alarm watches, with the same namespace and dimensions."""
    own = namespace(deployment.name_prefix)
    pages = deployment.client("cloudwatch").get_paginator("list_metrics").paginate(Namespace=own)
    published = {_metric(metric["MetricName"], metric["Dimensions"]) for page in pages for metric in page["Metrics"]}
    watched = {
        _metric(alarm["MetricName"], alarm["Dimensions"]): alarm["AlarmName"]
        for alarm in _alarms(deployment)
        if alarm["Namespace"] == own
    }
    missing = [alarm for metric, alarm in watched.items() if metric not in published]
    _require(not missing, f"no job has published the metrics of {', '.join(missing)}")
    not_ok = [
        f"{alarm['AlarmName']} is {alarm['StateValue']}"
        for alarm in _alarms(deployment)
        if alarm["Namespace"] == own and alarm["StateValue"] != "OK"
    ]
    _require(not not_ok, f"no run failed, but {'; '.join(not_ok)}")
    return f"the jobs published {len(published)} metrics; {len(watched)} alarms have their metric and are OK"


def _function(deployment: Deployment, name: str) -> dict[str, Any]:
    response: dict[str, Any] = deployment.client("lambda").get_function_configuration(FunctionName=name)
    return response


def _alarms(deployment: Deployment) -> list[dict[str, Any]]:
    pages = deployment.client("cloudwatch").get_paginator("describe_alarms").paginate()
    return [alarm for page in pages for alarm in page["MetricAlarms"]]


def _metric(name: str, dimensions: list[Mapping[str, str]]) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset((dimension["Name"], dimension["Value"]) for dimension in dimensions)


def _refuses_plain_http(deployment: Deployment, name: str) -> None:
    """Send a request with a proxy header for plain HTTP, which ministack trusts."""
    client = deployment.new_client("s3")
    client.meta.events.register("before-sign.s3", _mark_as_plain_http)
    _require(not _allowed(lambda: client.head_bucket(Bucket=name)), f"{name} accepts requests without TLS")


def _mark_as_plain_http(request: Any, **_: object) -> None:  # noqa: ANN401  botocore's type
    request.headers["X-Forwarded-Proto"] = "http"


def _allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 403:
            raise
        return False
    return True


def _find(deployment: Deployment, service: str, operation: str, parameters: Mapping[str, str], name: str) -> None:
    try:
        getattr(deployment.client(service), operation)(**parameters)
    except ClientError as error:
        message = f"{name} does not exist ({', '.join(parameters.values())}): {error}"
        raise IntegrityError(message) from error


def _trusts(deployment: Deployment, role: str, service: str) -> None:
    name = role.rpartition("/")[2]
    policy = deployment.client("iam").get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    trusted = [statement["Principal"].get("Service") for statement in policy["Statement"]]
    _require(trusted == [service], f"{trusted} may assume the role {name}, which is for {service}")


def _may_send(deployment: Deployment, role: str, queue: str) -> None:
    """Ask IAM whether the function's role may send. Lambda uses the role; ministack sends without any role."""
    simulated = {"PolicySourceArn": role, "ActionNames": ["sqs:SendMessage"], "ResourceArns": [queue]}
    (result,) = deployment.client("iam").simulate_principal_policy(**simulated)["EvaluationResults"]
    _require(result["EvalDecision"] == "allowed", f"the role {role} may not send to the dead-letter queue {queue}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise IntegrityError(message)
