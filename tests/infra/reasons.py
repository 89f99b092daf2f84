"""Reasons for permissions that no job uses on a healthy embedded AWS."""

from __future__ import annotations

from cdclake.model.names import (
    FUNCTION_SMALL_CHANGES,
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
)
from cdclake_devkit.local.roles import ON_RAW_FILE, SMALL_CHANGES

JOBS = (JOB_CONTROLLER, JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
FUNCTIONS = {ON_RAW_FILE: "cdclake-on-raw-file", SMALL_CHANGES: FUNCTION_SMALL_CHANGES}

_Reasons = dict[tuple[str, str], str]
"""By statement and action."""


def _of(statement: str, *actions: str, reason: str) -> _Reasons:
    return {(statement, action): reason for action in actions}


_TASKS = _of("ReadTasks", "dms:DescribeTableStatistics", reason="called only for tables with a DMS task")
_WRITE_LAKE = {
    **_of("WriteLake", "s3:AbortMultipartUpload", reason="a failed multipart upload or copy is aborted"),
}
_PARTITIONS = ("Get{}s", "BatchCreate{}", "BatchUpdate{}", "BatchDelete{}")
_CATALOG = {
    **_of("KeepCatalog", *(f"glue:{name.format('Partition')}" for name in _PARTITIONS), reason="of partitioned tables"),
    **_of("KeepCatalog", "glue:DeleteTable", reason="a table with a new name or new partition columns is recreated"),
    **_of("KeepCatalog", "glue:CreateTable", reason="the first run of a table creates its entry"),
    **_of("KeepCatalog", "glue:GetDatabase", reason="distinguishes a missing database from a missing table"),
}
_SPARK = {
    **_TASKS,
    **_WRITE_LAKE,
    **_CATALOG,
    **_of("StartJobs", "glue:StartJobRun", reason="when its time is over, it leaves further work to another run"),
}

REASONS: dict[str, _Reasons] = {
    JOB_CONTROLLER: _TASKS,
    JOB_PROCESS_TABLE: {
        **_TASKS,
        **_WRITE_LAKE,
        **_CATALOG,
        **_of("KeepCatalog", "glue:UpdateTable", reason="a run may die before it has told the catalog of its change"),
        **_of("WriteLake", "s3:PutObject", reason="it publishes changes of interrupted runs"),
        **_of("WriteLake", "s3:DeleteObject", reason="publishing retires files"),
        **_of(
            "WriteLake", "s3:DeleteObjectVersion", reason="what interrupted runs staged is deleted with its versions"
        ),
        **_of("ListLake", "s3:ListBucketVersions", reason="what interrupted runs staged is deleted with its versions"),
        **_of("FollowJobs", "glue:GetJobRun", reason="it asks how a Spark run ended that recorded no end"),
    },
    SMALL_CHANGES: {
        **_TASKS,
        **_WRITE_LAKE,
        **_CATALOG,
        **_of(
            "WriteLake", "s3:DeleteObjectVersion", reason="what interrupted runs staged is deleted with its versions"
        ),
        **_of("ListLake", "s3:ListBucketVersions", reason="what interrupted runs staged is deleted with its versions"),
        **_of("FollowJobs", "glue:GetJobRun", reason="it asks how a Spark run ended that recorded no end"),
    },
    JOB_LOAD_INITIAL: {
        **_SPARK,
        **_of("WriteLake", "s3:DeleteObject", reason="a full load of a loaded table retires its files"),
    },
    JOB_LOAD_INCREMENTAL: _SPARK,
    ON_RAW_FILE: {
        **_of("UseState", "dynamodb:Scan", reason="a transaction file affects all tables that read its folder"),
        **_of("FollowJobs", "glue:GetJobRun", reason="it asks for the arguments of a Spark run that failed"),
    },
}
"""For each job and function."""
