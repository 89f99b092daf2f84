"""Names and ARNs of a deployment's buckets and tables, the same in every stack.

They are derived from the account and the region, so no stack references another. The pipeline stack can be deleted
without touching the storage stack.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Aws

from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, STATE_TABLE
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from cdclake_infra.settings import Settings

SPARK_JOBS = (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
CATALOG_DATABASE = "cdclake"
SAMPLE_TASK = "cdclake-sample"
"""Identifier of the sample's DMS task, also in its ARN."""


@dataclass(frozen=True)
class ResourceNames:
    """Names of the buckets, prefixes and tables of a deployment.

    Attributes:
        prefix: What precedes the names of all that is created.
        log_bucket: The bucket with the access logs of created buckets.
        raw_bucket: The bucket that DMS writes to.
        raw_prefix: Prefix of the schema folders in the raw bucket; empty, or with a trailing slash.
        lake_bucket: The bucket of the lake.
        lake_prefix: Prefix of the schema folders in the lake bucket; empty, or with a trailing slash.
        state_table: The DynamoDB table.
        catalog_database: The database in the Glue Data Catalog; empty: no catalog.
        kms_key_arn: Key that encrypts the objects of both buckets; empty: S3's key.
        dms_task: ARN of the DMS task of new tables; empty: none.
    """

    prefix: str
    log_bucket: str
    raw_bucket: str
    raw_prefix: str
    lake_bucket: str
    lake_prefix: str
    state_table: str
    catalog_database: str
    kms_key_arn: str
    dms_task: str

    @classmethod
    def of(cls, settings: Settings) -> ResourceNames:
        """Existing names from the settings; default names for everything that is created."""
        prefix = settings.name_prefix
        place = f"{Aws.ACCOUNT_ID}-{Aws.REGION}"
        sample_task = regional_arn("dms", f"task:{prefix}{SAMPLE_TASK}") if settings.sample_database else ""
        # Athena takes names with hyphens only in quotes.
        database = settings.existing_catalog_database or f"{prefix.replace('-', '_')}{CATALOG_DATABASE}"
        return cls(
            prefix=prefix,
            log_bucket=f"{prefix}cdclake-access-logs-{place}",
            raw_bucket=settings.existing_raw_bucket or f"{prefix}cdclake-raw-{place}",
            raw_prefix=settings.raw_prefix,
            lake_bucket=settings.existing_lake_bucket or f"{prefix}cdclake-lake-{place}",
            lake_prefix=settings.lake_prefix,
            state_table=settings.existing_state_table or f"{prefix}{STATE_TABLE}",
            catalog_database=database if settings.catalog else "",
            kms_key_arn=settings.kms_key_arn,
            dms_task=settings.dms_task or sample_task,
        )


def new_table(names: ResourceNames) -> str:
    """The settings of new tables, as the argument `new_table`; empty if there are none."""
    return json.dumps({Attribute.DMS_TASK: names.dms_task}) if names.dms_task else ""


def bucket_arn(bucket: str) -> str:
    """ARN of a bucket."""
    return f"arn:{Aws.PARTITION}:s3:::{bucket}"


def regional_arn(service: str, resource: str) -> str:
    """ARN of a resource in this account and region."""
    return f"arn:{Aws.PARTITION}:{service}:{Aws.REGION}:{Aws.ACCOUNT_ID}:{resource}"
