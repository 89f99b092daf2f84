"""Deploys cdclake to the embedded AWS, as the infrastructure code does to a real account."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from moto.core.models import DEFAULT_ACCOUNT_ID

import cdclake
from cdclake.adapters.dynamodb import create_state_table
from cdclake.errors import ConfigurationError
from cdclake.model.names import (
    FUNCTION_SMALL_CHANGES,
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    STATE_TABLE,
    Argument,
)
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.local.roles import ON_RAW_FILE, SMALL_CHANGES, Place, policies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake_devkit.local.server import EmbeddedAws

NEW_TABLE = json.dumps({Attribute.FULL_LOAD_QUIET_MINUTES: "0"})
"""Callers upload a full load completely before they start a run, so no quiet time is needed."""
_FAILED_RUNS = "cdclake-failed-runs"
_PYTHON_SHELL = {"Name": "pythonshell", "PythonVersion": "3.9"}
_SPARK = {"Name": "glueetl", "PythonVersion": "3"}


@dataclass(frozen=True)
class LocalDeployment:
    """Names of the deployed resources.

    Attributes:
        raw_bucket: Bucket that DMS writes to.
        lake_bucket: Bucket of the lake; versioned.
        assets_bucket: Bucket of the jobs' scripts.
        state_table: DynamoDB table.
        raw_prefix: Key prefix of the schema folders in the raw bucket; ends with a slash, or is empty.
        lake_prefix: Key prefix of the schema folders in the lake bucket; ends with a slash, or is empty.
        on_raw_file: Lambda function that is notified of new raw files.
        catalog_database: Database of the Glue Data Catalog.
        small_changes: Whether raw files start the function of small changes. It has the libraries of this Python, as
            the deployed ones are for another processor.
    """

    raw_bucket: str = "cdclake-raw"
    lake_bucket: str = "cdclake-lake"
    assets_bucket: str = "cdclake-assets"
    state_table: str = STATE_TABLE
    raw_prefix: str = ""
    lake_prefix: str = ""
    on_raw_file: str = "cdclake-on-raw-file"
    catalog_database: str = "cdclake"
    small_changes: bool = False


DEFAULT_DEPLOYMENT = LocalDeployment()


class _Size(NamedTuple):
    memory_mb: int
    timeout_seconds: int


_ON_RAW_FILE, _SMALL_CHANGES = _Size(256, 60), _Size(1769, 300)


@dataclass(frozen=True)
class _Job:
    script: str
    command: Mapping[str, str]
    concurrent_runs: int
    arguments: Mapping[str, str]


def deploy(aws: EmbeddedAws, deployment: LocalDeployment = DEFAULT_DEPLOYMENT) -> None:
    """Create the buckets, state table, catalog database, jobs, Lambda functions, and what sends events to them.

    Raises:
        ConfigurationError: The scripts are not next to the package.
    """
    glue_jobs, lambdas = (checkout() / name for name in ("glue_jobs", "lambdas"))
    on_raw_file, small_changes = (lambdas / name for name in (ON_RAW_FILE, SMALL_CHANGES))
    jobs = _jobs(deployment)
    handlers = (folder / "handler.py" for folder in (on_raw_file, small_changes))
    _require([*(glue_jobs / job.script for job in jobs.values()), *handlers])
    _create_buckets(aws, deployment)
    create_state_table(aws.client("dynamodb"), deployment.state_table)
    aws.client("glue").create_database(DatabaseInput={"Name": deployment.catalog_database})
    roles = _create_roles(aws, deployment)
    for name, job in jobs.items():
        _create_job(aws, deployment, roles[name], name, job, glue_jobs / job.script)
    if deployment.small_changes:
        arguments = {**_lake(deployment), **_catalog(deployment)}
        variables = {name.upper(): value for name, value in arguments.items()}
        _create_function(aws, FUNCTION_SMALL_CHANGES, roles[SMALL_CHANGES], small_changes, _SMALL_CHANGES, variables)
    variables = {"RAW_PREFIX": deployment.raw_prefix, "STATE_TABLE": deployment.state_table, "NEW_TABLE": NEW_TABLE}
    if deployment.small_changes:
        variables["SMALL_CHANGES_FUNCTION"] = FUNCTION_SMALL_CHANGES
    function = _create_function(aws, deployment.on_raw_file, roles[ON_RAW_FILE], on_raw_file, _ON_RAW_FILE, variables)
    _notify_of_raw_files(aws, deployment, function)
    _notify_of_failed_runs(aws, function)


def checkout() -> Path:
    """The checkout of cdclake, or the copy of what is needed of it in the package that its `setup.py` builds."""
    copy = Path(__file__).resolve().parents[1] / "checkout"
    return copy if copy.is_dir() else Path(cdclake.__file__).resolve().parents[2]


def _require(files: list[Path]) -> None:
    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        raise ConfigurationError(
            "Files of cdclake's jobs are missing: " + ", ".join(missing),
            remedy="In a checkout of cdclake, run `make demo`, or `uvx --from . cdclake demo`",
        )


def _jobs(deployment: LocalDeployment) -> dict[str, _Job]:
    lake, catalog = _lake(deployment), _catalog(deployment)
    raw = {
        Argument.BUCKET: deployment.raw_bucket,
        Argument.PREFIX: deployment.raw_prefix,
        Argument.NEW_TABLE: NEW_TABLE,
    }
    return {
        JOB_CONTROLLER: _Job("controller.py", _PYTHON_SHELL, 1, {**raw, **lake}),
        JOB_PROCESS_TABLE: _Job("process_table.py", _PYTHON_SHELL, 100, {**lake, **catalog}),
        JOB_LOAD_INITIAL: _Job("load_initial.py", _SPARK, 50, {}),
        JOB_LOAD_INCREMENTAL: _Job("load_incremental.py", _SPARK, 50, {}),
    }


def _lake(deployment: LocalDeployment) -> dict[str, str]:
    return {
        Argument.OUT_BUCKET: deployment.lake_bucket,
        Argument.OUT_PREFIX: deployment.lake_prefix,
        Argument.STATE_TABLE: deployment.state_table,
    }


def _catalog(deployment: LocalDeployment) -> dict[str, str]:
    return {Argument.CATALOG_DATABASE: deployment.catalog_database}


def _create_buckets(aws: EmbeddedAws, deployment: LocalDeployment) -> None:
    s3 = aws.client("s3")
    # S3 rejects us-east-1 as a location constraint.
    location: dict[str, Any] = {"CreateBucketConfiguration": {"LocationConstraint": aws.region}}
    for bucket in (deployment.raw_bucket, deployment.lake_bucket, deployment.assets_bucket):
        s3.create_bucket(Bucket=bucket, **({} if aws.region == "us-east-1" else location))
    s3.put_bucket_versioning(Bucket=deployment.lake_bucket, VersioningConfiguration={"Status": "Enabled"})


def _create_roles(aws: EmbeddedAws, deployment: LocalDeployment) -> dict[str, str]:
    """Create a role for each job and function, with the policies of the stacks; returns their ARNs."""
    granted = policies(place_of(deployment, aws.region), small_changes=deployment.small_changes)
    iam = aws.client("iam")
    return {name: create_role(iam, f"cdclake-{name}", statements) for name, statements in granted.items()}


def place_of(deployment: LocalDeployment, region: str) -> Place:
    """What the policies of a deployment name."""
    return Place(
        account=DEFAULT_ACCOUNT_ID,
        region=region,
        raw_bucket=deployment.raw_bucket,
        raw_prefix=deployment.raw_prefix,
        lake_bucket=deployment.lake_bucket,
        lake_prefix=deployment.lake_prefix,
        state_table=deployment.state_table,
        catalog_database=deployment.catalog_database,
    )


def create_role(iam: Any, name: str, statements: Sequence[Mapping[str, Any]]) -> str:  # noqa: ANN401  no types
    """Create a role that Glue and Lambda may assume; returns its ARN.

    Args:
        iam: Client of the embedded AWS.
        statements: What its policy states.
    """
    trusted = {"Service": ["glue.amazonaws.com", "lambda.amazonaws.com"]}
    trust = [{"Effect": "Allow", "Principal": trusted, "Action": "sts:AssumeRole"}]
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(trust))["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="Grants", PolicyDocument=_policy(statements))
    return arn


def _policy(statements: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _create_job(aws: EmbeddedAws, deployment: LocalDeployment, role: str, name: str, job: _Job, script: Path) -> None:
    key = f"scripts/{job.script}"
    aws.client("s3").put_object(Bucket=deployment.assets_bucket, Key=key, Body=script.read_bytes())
    aws.client("glue").create_job(
        Name=name,
        Role=role,
        Command={**job.command, "ScriptLocation": f"s3://{deployment.assets_bucket}/{key}"},
        DefaultArguments={f"--{name}": value for name, value in job.arguments.items()},
        ExecutionProperty={"MaxConcurrentRuns": job.concurrent_runs},
        **({"GlueVersion": "5.1"} if job.command is _SPARK else {"MaxCapacity": 0.0625}),
    )


def _create_function(
    aws: EmbeddedAws, name: str, role: str, folder: Path, size: _Size, variables: Mapping[str, str]
) -> str:
    """Create a function; returns its ARN."""
    function = aws.client("lambda").create_function(
        FunctionName=name,
        Role=role,
        Runtime="python3.11",
        Handler="handler.handler",
        Timeout=size.timeout_seconds,
        MemorySize=size.memory_mb,
        Code={"ZipFile": zipped(folder)},
        Environment={"Variables": variables},
    )
    return str(function["FunctionArn"])


def _notify_of_raw_files(aws: EmbeddedAws, deployment: LocalDeployment, function: str) -> None:
    notification: dict[str, Any] = {"LambdaFunctionArn": function, "Events": ["s3:ObjectCreated:*"]}
    if deployment.raw_prefix:
        notification["Filter"] = {"Key": {"FilterRules": [{"Name": "prefix", "Value": deployment.raw_prefix}]}}
    aws.client("s3").put_bucket_notification_configuration(
        Bucket=deployment.raw_bucket, NotificationConfiguration={"LambdaFunctionConfigurations": [notification]}
    )


def _notify_of_failed_runs(aws: EmbeddedAws, function: str) -> None:
    detail = {"jobName": [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL], "state": ["FAILED", "TIMEOUT", "STOPPED"]}
    pattern = {"source": ["aws.glue"], "detail-type": ["Glue Job State Change"], "detail": detail}
    events = aws.client("events")
    events.put_rule(Name=_FAILED_RUNS, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=_FAILED_RUNS, Targets=[{"Id": "function", "Arn": function}])


def zipped(folder: Path) -> bytes:
    """A folder's Python files as a zip archive for Lambda."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.rglob("*.py")):
            archive.write(path, path.relative_to(folder))
    return content.getvalue()
