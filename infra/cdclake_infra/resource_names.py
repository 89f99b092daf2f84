"""Names and ARNs of a deployment's buckets and tables, the same in every stack.

They are derived from the account and the region, so no stack references another. The pipeline stack can be deleted
without touching the storage stack.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Aws

from cdclake.model.names import STATE_TABLE, Attribute

if TYPE_CHECKING:
    from cdclake_infra.settings import Settings

CATALOG_DATABASE = "cdclake"
SAMPLE_TASK = "cdclake-sample"
"""Identifier of the sample's DMS task, also in its ARN."""
LOG_BUCKET = f"cdclake-access-logs-{Aws.ACCOUNT_ID}-{Aws.REGION}"


@dataclass(frozen=True)
class ResourceNames:
    """Names of the buckets, prefixes and tables of a deployment.

    Attributes:
        raw_bucket: The bucket that DMS writes to.
        raw_prefix: Prefix of the schema folders in the raw bucket; empty, or with a trailing slash.
        lake_bucket: The bucket of the lake.
        lake_prefix: Prefix of the schema folders in the lake bucket; empty, or with a trailing slash.
        state_table: The DynamoDB table.
        catalog_database: The database in the Glue Data Catalog; empty: no catalog.
        kms_key_arn: Key that encrypts the objects of both buckets; empty: S3's key.
        dms_task: ARN of the DMS task of new tables; empty: none.
    """

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
        sample_task = regional_arn("dms", f"task:{SAMPLE_TASK}") if settings.sample_database else ""
        return cls(
            raw_bucket=settings.existing_raw_bucket or f"cdclake-raw-{Aws.ACCOUNT_ID}-{Aws.REGION}",
            raw_prefix=settings.raw_prefix,
            lake_bucket=settings.existing_lake_bucket or f"cdclake-lake-{Aws.ACCOUNT_ID}-{Aws.REGION}",
            lake_prefix=settings.lake_prefix,
            state_table=settings.existing_state_table or STATE_TABLE,
            catalog_database=(settings.existing_catalog_database or CATALOG_DATABASE) if settings.catalog else "",
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
