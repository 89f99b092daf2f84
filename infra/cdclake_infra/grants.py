"""What the jobs and the functions may do: exact actions on exact things.

The calls are those of `cdclake.adapters` and of pyarrow's S3 file system. A pattern that ends in a star needs a reason,
which stands beside it and is what cdk-nag is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aws_cdk import Acknowledgment, Aws, Stack, Validations
from aws_cdk import aws_iam as iam

from cdclake_infra.places import bucket_arn, regional_arn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from constructs import Construct

    from cdclake_infra.places import Places


@dataclass(frozen=True)
class Grant:
    """One statement of a policy.

    Attributes:
        sid: Names it.
        actions: Exact actions; no stars.
        resources: ARNs; a star stands at the end of one only.
        stars: Why there are stars; empty if there are none.
        conditions: Conditions, as IAM writes them.
    """

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    stars: str = ""
    conditions: Mapping[str, Mapping[str, str | list[str]]] = field(default_factory=dict)


def role(scope: Construct, name: str, *, service: str, grants: Iterable[Grant]) -> iam.IRole:
    """A role that holds just these grants; what a construct would add to it by itself is dropped.

    Args:
        scope: Where it belongs.
        name: Its name in the construct tree.
        service: Who takes it on, e.g. `glue.amazonaws.com`.
        grants: What it may do.
    """
    grants = list(grants)
    statements = [
        iam.PolicyStatement(
            sid=grant.sid, actions=list(grant.actions), resources=list(grant.resources), conditions=grant.conditions
        )
        for grant in grants
    ]
    made = iam.Role(
        scope,
        name,
        assumed_by=iam.ServicePrincipal(service),
        inline_policies={"Grants": iam.PolicyDocument(statements=statements)},
    )
    for grant in grants:
        for resource in grant.resources:
            if "*" in resource:
                _acknowledge_stars(made, resource, grant.stars)
    return made.without_policy_updates()


def read_code(*arns: str) -> Grant:
    """Read script and library."""
    return Grant("ReadCode", ("s3:GetObject",), arns)


def list_raw(places: Places) -> Grant:
    """List the raw files."""
    only = {"StringLike": {"s3:prefix": f"{places.raw_prefix}*"}} if places.raw_prefix else {}
    return Grant("ListRaw", ("s3:ListBucket",), (bucket_arn(places.raw_bucket),), conditions=only)


def read_raw(places: Places) -> Grant:
    """Read the raw files."""
    pattern = f"{bucket_arn(places.raw_bucket)}/{places.raw_prefix}*"
    return Grant("ReadRaw", ("s3:GetObject",), (pattern,), "raw files come and go; their names are DMS's")


def list_lake(places: Places) -> Grant:
    """List the lake.

    Without a condition on the prefix: who may not list a bucket is told of a missing object that it is forbidden, and
    S3 knows no prefix when it is asked for an object.
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    """
    return Grant("ListLake", ("s3:ListBucket", "s3:ListBucketVersions"), (bucket_arn(places.lake_bucket),))


def write_lake(places: Places) -> Grant:
    """Write data files and change log, take files out of sight, bring them back, and clean up."""
    actions = (
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:DeleteObjectVersion",
        "s3:AbortMultipartUpload",
    )
    pattern = f"{bucket_arn(places.lake_bucket)}/{places.lake_prefix}*"
    return Grant("WriteLake", actions, (pattern,), "files of the lake get new names with every change")


def use_key(places: Places) -> list[Grant]:
    """Have S3 encrypt and decrypt with the key of the buckets; none if there is no such key.

    A job reads what it uploads in parts before S3 puts them together, so who writes must be able to decrypt.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html#mpuAndPermissions
    """
    if not places.kms_key_arn:
        return []
    only = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.{Aws.URL_SUFFIX}"}}
    return [Grant("UseKey", ("kms:Decrypt", "kms:GenerateDataKey"), (places.kms_key_arn,), conditions=only)]


def use_state(places: Places, *actions: str) -> Grant:
    """Use the state table, e.g. by `GetItem`."""
    return Grant(
        "UseState",
        tuple(f"dynamodb:{action}" for action in actions),
        (regional_arn("dynamodb", f"table/{places.state_table}"),),
    )


def keep_catalog(places: Places) -> Grant:
    """Keep the tables of the lake's database in the Glue Data Catalog.

    Glue asks for the catalog and the database of a table as well.
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
    database = places.catalog_database
    resources = ("catalog", f"database/{database}", f"table/{database}/*")
    arns = tuple(regional_arn("glue", resource) for resource in resources)
    return Grant("KeepCatalog", actions, arns, "which tables there are is told by the sources")


def start_jobs(*jobs: str) -> Grant:
    """Start runs of jobs."""
    return Grant("StartJobs", ("glue:StartJobRun",), tuple(regional_arn("glue", f"job/{job}") for job in jobs))


def read_task_statistics() -> Grant:
    """Ask DMS tasks how far they are."""
    return Grant(
        "ReadTasks",
        ("dms:DescribeTableStatistics",),
        (regional_arn("dms", "task:*"),),
        "which tasks there are is told by the tables, one by one",
    )


def follow_jobs(*jobs: str) -> Grant:
    """See how runs of jobs stand, and stop them."""
    actions = ("glue:GetJobRun", "glue:BatchStopJobRun")
    return Grant("FollowJobs", actions, tuple(regional_arn("glue", f"job/{job}") for job in jobs))


def write_job_logs(groups: str) -> Grant:
    """Write a job's logs.

    Args:
        groups: What the names of Glue's log groups for this kind of job begin with.
    """
    return Grant(
        "WriteLogs",
        ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
        (regional_arn("logs", f"log-group:{groups}*"),),
        "Glue names the log groups, and makes a log stream for each run",
    )


def put_metrics(namespace: str) -> Grant:
    """Send metrics of one namespace."""
    return Grant(
        "PutMetrics",
        ("cloudwatch:PutMetricData",),
        ("*",),
        "the action knows no resources; a condition leaves it one namespace only",
        {"StringEquals": {"cloudwatch:namespace": namespace}},
    )


def _acknowledge_stars(made: iam.Role, resource: str, reason: str) -> None:
    finding = f"AwsSolutions-IAM5[Resource::{_as_cdk_nag_writes(Stack.of(made).resolve(resource))}]"
    Validations.of(made).acknowledge(Acknowledgment(id=finding, reason=reason))


def _as_cdk_nag_writes(resolved: Any) -> str:  # noqa: ANN401 - CloudFormation's JSON
    """A resolved value as text: references in angle brackets."""
    if isinstance(resolved, str):
        return resolved
    if "Ref" in resolved:
        return f"<{resolved['Ref']}>"
    delimiter, parts = resolved["Fn::Join"]
    return str(delimiter).join(map(_as_cdk_nag_writes, parts))
