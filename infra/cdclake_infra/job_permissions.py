"""What the jobs may do, as statements of their roles. Other roles share some of them.

They cover the calls of `cdclake.adapters` and of pyarrow's S3 file system. The jobs' network adds the statements that
it needs (`network.py`). A statement of another role alone is beside that role, as in `on_raw_file.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Aws

from cdclake.model.names import JOB_PROCESS_TABLE
from cdclake_infra.resource_names import SPARK_JOBS, bucket_arn, regional_arn
from cdclake_infra.roles import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake_infra.resource_names import ResourceNames

_ONLY_BY_S3 = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.{Aws.URL_SUFFIX}"}}


def read_code(*arns: str, kms_key_arn: str) -> list[Statement]:
    """Read the script, the package and the libraries.

    Args:
        kms_key_arn: Key of the bucket that the CDK uploads them to; empty for S3's own.
    """
    read = Statement("ReadCode", ("s3:GetObject",), arns)
    return (
        [read, Statement("DecryptCode", ("kms:Decrypt",), (kms_key_arn,), conditions=_ONLY_BY_S3)]
        if kms_key_arn
        else [read]
    )


def work_on_tables(names: ResourceNames) -> list[Statement]:
    """What a run does with tables under their leases, besides reading rows and starting other runs."""
    return [
        list_raw(names),
        list_lake(names),
        write_lake(names),
        *use_key(names),
        use_state(names, "GetItem", "UpdateItem"),
        read_task_statistics(),
        *([maintain_catalog(names)] if names.catalog_database else []),
    ]


def decide_for_tables(names: ResourceNames) -> list[Statement]:
    """What a run does that decides what is due for tables, and starts the Spark jobs that load it."""
    return [
        *work_on_tables(names),
        # A table with more work is passed on to a new run.
        start_jobs(names, *SPARK_JOBS, JOB_PROCESS_TABLE),
        follow_jobs(names, *SPARK_JOBS),
    ]


def list_raw(names: ResourceNames) -> Statement:
    """List the raw files."""
    only = {"StringLike": {"s3:prefix": f"{names.raw_prefix}*"}} if names.raw_prefix else {}
    return Statement("ListRaw", ("s3:ListBucket",), (bucket_arn(names.raw_bucket),), conditions=only)


def read_raw(names: ResourceNames) -> Statement:
    """Read the raw files."""
    pattern = f"{bucket_arn(names.raw_bucket)}/{names.raw_prefix}*"
    return Statement("ReadRaw", ("s3:GetObject",), (pattern,), "DMS chooses the names of raw files")


def read_hash_secret(name: str) -> list[Statement]:
    """Read the secret of hashed columns, and no other; empty if there is none.

    AWS adds a hyphen and six characters to the name:
    https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples.html
    """
    if not name:
        return []
    arn = regional_arn("secretsmanager", f"secret:{name}-??????")
    reason = "AWS chooses the end of a secret's ARN"
    return [Statement("ReadHashSecret", ("secretsmanager:GetSecretValue",), (arn,), reason)]


def list_lake(names: ResourceNames) -> Statement:
    """List the lake.

    A condition on the prefix would turn 404 into 403: S3 reports a missing object only to callers that may list the
    bucket, and a GetObject request has no prefix. https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    """
    return Statement("ListLake", ("s3:ListBucket", "s3:ListBucketVersions"), (bucket_arn(names.lake_bucket),))


def write_lake(names: ResourceNames) -> Statement:
    """Write data files and the change log, retire and restore files, and clean up."""
    actions = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload")
    pattern = f"{bucket_arn(names.lake_bucket)}/{names.lake_prefix}*"
    return Statement("WriteLake", actions, (pattern,), "every change creates files with new names")


def use_key(names: ResourceNames) -> list[Statement]:
    """Let S3 encrypt and decrypt with the buckets' key; empty without such a key.

    Multipart uploads need permission to decrypt as well.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html#mpuAndPermissions
    """
    if not names.kms_key_arn:
        return []
    return [Statement("UseKey", ("kms:Decrypt", "kms:GenerateDataKey"), (names.kms_key_arn,), conditions=_ONLY_BY_S3)]


def use_state(names: ResourceNames, *actions: str) -> Statement:
    """Call actions such as `GetItem` on the state table."""
    return Statement(
        "UseState",
        tuple(f"dynamodb:{action}" for action in actions),
        (regional_arn("dynamodb", f"table/{names.state_table}"),),
    )


def maintain_catalog(names: ResourceNames) -> Statement:
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
    return Statement("KeepCatalog", actions, arns, "the source databases determine the table names")


def start_jobs(names: ResourceNames, *jobs: str) -> Statement:
    """Start runs of jobs."""
    return Statement("StartJobs", ("glue:StartJobRun",), _job_arns(names, jobs))


def read_task_statistics() -> Statement:
    """Read the progress of DMS tasks."""
    return Statement(
        "ReadTasks",
        ("dms:DescribeTableStatistics",),
        (regional_arn("dms", "task:*"),),
        "each table's settings name its DMS task",
    )


def follow_jobs(names: ResourceNames, *jobs: str) -> Statement:
    """Read how runs of jobs ended."""
    return Statement("FollowJobs", ("glue:GetJobRun",), _job_arns(names, jobs))


def write_job_logs(groups: str) -> Statement:
    """Write a job's logs.

    Args:
        groups: Prefix of Glue's log group names for this kind of job.
    """
    return Statement(
        "WriteLogs",
        ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
        (regional_arn("logs", f"log-group:{groups}*"),),
        "Glue chooses the log group names and creates a log stream per run",
    )


def put_metrics(namespace: str, sid: str = "PutMetrics") -> Statement:
    """Send metrics of one namespace."""
    return Statement(
        sid,
        ("cloudwatch:PutMetricData",),
        ("*",),
        "the action does not support resources; a condition restricts it to one namespace",
        {"StringEquals": {"cloudwatch:namespace": namespace}},
    )


def _job_arns(names: ResourceNames, jobs: Iterable[str]) -> tuple[str, ...]:
    return tuple(regional_arn("glue", f"job/{names.prefix}{job}") for job in jobs)
