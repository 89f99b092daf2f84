"""Permissions of the jobs and functions: exact actions on exact resources.

They cover the calls of `cdclake.adapters` and of pyarrow's S3 file system. Each wildcard has a reason, which also
acknowledges cdk-nag's finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aws_cdk import Acknowledgment, Aws, Stack, Validations
from aws_cdk import aws_iam as iam

from cdclake_infra.resource_names import bucket_arn, regional_arn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from constructs import Construct

    from cdclake_infra.resource_names import ResourceNames

_ONLY_BY_S3 = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.{Aws.URL_SUFFIX}"}}


@dataclass(frozen=True)
class Grant:
    """A statement of a policy.

    Attributes:
        sid: Statement id.
        actions: Actions, without wildcards.
        resources: ARNs, with a wildcard only at the end.
        wildcard_reason: Why there is a wildcard; empty if there is none.
        conditions: IAM conditions.
    """

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    wildcard_reason: str = ""
    conditions: Mapping[str, Mapping[str, str | list[str]]] = field(default_factory=dict)


def role(scope: Construct, name: str, *, service: str, grants: Iterable[Grant]) -> iam.IRole:
    """Create a role with exactly these grants; grants that other constructs would add are dropped.

    The service may assume it on behalf of this account alone. Glue and Lambda do not document that they state the
    account, so the condition applies if they do.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html

    Args:
        name: Construct id.
        service: The service that assumes the role, e.g. `glue.amazonaws.com`.
    """
    grants = list(grants)
    statements = [
        iam.PolicyStatement(
            sid=grant.sid, actions=list(grant.actions), resources=list(grant.resources), conditions=grant.conditions
        )
        for grant in grants
    ]
    created = iam.Role(
        scope,
        name,
        assumed_by=iam.ServicePrincipal(
            service, conditions={"StringEqualsIfExists": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        ),
        inline_policies={"Grants": iam.PolicyDocument(statements=statements)},
    )
    for grant in grants:
        for resource in grant.resources:
            if "*" in resource:
                _acknowledge_wildcard(created, resource, grant.wildcard_reason)
    return created.without_policy_updates()


def read_code(*arns: str, kms_key_arn: str) -> list[Grant]:
    """Read the script, the package and the libraries.

    Args:
        kms_key_arn: Key of the bucket that the CDK uploads them to; empty for S3's own.
    """
    read = Grant("ReadCode", ("s3:GetObject",), arns)
    return (
        [read, Grant("DecryptCode", ("kms:Decrypt",), (kms_key_arn,), conditions=_ONLY_BY_S3)]
        if kms_key_arn
        else [read]
    )


def list_raw(names: ResourceNames) -> Grant:
    """List the raw files."""
    only = {"StringLike": {"s3:prefix": f"{names.raw_prefix}*"}} if names.raw_prefix else {}
    return Grant("ListRaw", ("s3:ListBucket",), (bucket_arn(names.raw_bucket),), conditions=only)


def read_raw(names: ResourceNames) -> Grant:
    """Read the raw files."""
    pattern = f"{bucket_arn(names.raw_bucket)}/{names.raw_prefix}*"
    return Grant("ReadRaw", ("s3:GetObject",), (pattern,), "DMS chooses the names of raw files")


def list_lake(names: ResourceNames) -> Grant:
    """List the lake.

    A condition on the prefix would turn 404 into 403: S3 reports a missing object only to callers that may list the
    bucket, and a GetObject request has no prefix. https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    """
    return Grant("ListLake", ("s3:ListBucket", "s3:ListBucketVersions"), (bucket_arn(names.lake_bucket),))


def write_lake(names: ResourceNames) -> Grant:
    """Write data files and the change log, retire and restore files, and clean up."""
    actions = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload")
    pattern = f"{bucket_arn(names.lake_bucket)}/{names.lake_prefix}*"
    return Grant("WriteLake", actions, (pattern,), "every change creates files with new names")


def use_key(names: ResourceNames) -> list[Grant]:
    """Let S3 encrypt and decrypt with the buckets' key; empty without such a key.

    Multipart uploads need permission to decrypt as well.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html#mpuAndPermissions
    """
    if not names.kms_key_arn:
        return []
    return [Grant("UseKey", ("kms:Decrypt", "kms:GenerateDataKey"), (names.kms_key_arn,), conditions=_ONLY_BY_S3)]


def use_state(names: ResourceNames, *actions: str) -> Grant:
    """Call actions such as `GetItem` on the state table."""
    return Grant(
        "UseState",
        tuple(f"dynamodb:{action}" for action in actions),
        (regional_arn("dynamodb", f"table/{names.state_table}"),),
    )


def maintain_catalog(names: ResourceNames) -> Grant:
    """Maintain the lake's tables in the Glue Data Catalog.

    A call on a table also needs permission on its catalog and database.
    https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html
    """
    actions = (
        "glue:GetDatabase",
        "glue:GetTable",
        "glue:CreateTable",
        "glue:UpdateTable",
        "glue:DeleteTable",
        "glue:GetPartitions",
        "glue:BatchCreatePartition",
        "glue:BatchUpdatePartition",
        "glue:BatchDeletePartition",
    )
    database = names.catalog_database
    resources = ("catalog", f"database/{database}", f"table/{database}/*")
    arns = tuple(regional_arn("glue", resource) for resource in resources)
    return Grant("KeepCatalog", actions, arns, "the source databases determine the table names")


def start_jobs(names: ResourceNames, *jobs: str) -> Grant:
    """Start runs of jobs."""
    return Grant("StartJobs", ("glue:StartJobRun",), _job_arns(names, jobs))


def read_task_statistics() -> Grant:
    """Read the progress of DMS tasks."""
    return Grant(
        "ReadTasks",
        ("dms:DescribeTableStatistics",),
        (regional_arn("dms", "task:*"),),
        "each table's settings name its DMS task",
    )


def follow_jobs(names: ResourceNames, *jobs: str) -> Grant:
    """Read the status of job runs, and stop them."""
    return Grant("FollowJobs", ("glue:GetJobRun", "glue:BatchStopJobRun"), _job_arns(names, jobs))


def write_job_logs(groups: str) -> Grant:
    """Write a job's logs.

    Args:
        groups: Prefix of Glue's log group names for this kind of job.
    """
    return Grant(
        "WriteLogs",
        ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
        (regional_arn("logs", f"log-group:{groups}*"),),
        "Glue chooses the log group names and creates a log stream per run",
    )


def put_metrics(namespace: str) -> Grant:
    """Send metrics of one namespace."""
    return Grant(
        "PutMetrics",
        ("cloudwatch:PutMetricData",),
        ("*",),
        "the action does not support resources; a condition restricts it to one namespace",
        {"StringEquals": {"cloudwatch:namespace": namespace}},
    )


def _job_arns(names: ResourceNames, jobs: Iterable[str]) -> tuple[str, ...]:
    return tuple(regional_arn("glue", f"job/{names.prefix}{job}") for job in jobs)


def _acknowledge_wildcard(created: iam.Role, resource: str, reason: str) -> None:
    finding = f"AwsSolutions-IAM5[Resource::{_nag_text(Stack.of(created).resolve(resource))}]"
    Validations.of(created).acknowledge(Acknowledgment(id=finding, reason=reason))


def _nag_text(resolved: Any) -> str:  # noqa: ANN401 - CloudFormation's JSON
    """A resolved value as cdk-nag writes it: references in angle brackets."""
    if isinstance(resolved, str):
        return resolved
    if "Ref" in resolved:
        return f"<{resolved['Ref']}>"
    delimiter, parts = resolved["Fn::Join"]
    return str(delimiter).join(map(_nag_text, parts))
