"""Names and ARNs of what a deployment works with, the same in every stack.

They are put together from the account and the region, and no stack asks another. So the stack that is thrown away and
built anew holds nothing of the one that keeps the data but its names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Aws

from cdclake.model.names import STATE_TABLE

if TYPE_CHECKING:
    from cdclake_infra.settings import Settings

CATALOG_DATABASE = "cdclake"
LOG_BUCKET = f"cdclake-access-logs-{Aws.ACCOUNT_ID}-{Aws.REGION}"


@dataclass(frozen=True)
class Places:
    """Where things are.

    Attributes:
        raw_bucket: Name of the bucket that DMS writes to.
        raw_prefix: Prefix of the schemas' folders in it, empty or with a trailing slash.
        lake_bucket: Name of the bucket of the lake.
        lake_prefix: Prefix of the schemas' folders in it, empty or with a trailing slash.
        state_table: Name of the DynamoDB table.
        catalog_database: Name of the database of the Glue Data Catalog; empty: there is none.
        kms_key_arn: Key that encrypts the objects of both buckets; empty: S3's own.
    """

    raw_bucket: str
    raw_prefix: str
    lake_bucket: str
    lake_prefix: str
    state_table: str
    catalog_database: str
    kms_key_arn: str

    @classmethod
    def of(cls, settings: Settings) -> Places:
        """The places that the settings name, and the names of those that are created."""
        return cls(
            raw_bucket=settings.existing_raw_bucket or f"cdclake-raw-{Aws.ACCOUNT_ID}-{Aws.REGION}",
            raw_prefix=settings.raw_prefix,
            lake_bucket=settings.existing_lake_bucket or f"cdclake-lake-{Aws.ACCOUNT_ID}-{Aws.REGION}",
            lake_prefix=settings.lake_prefix,
            state_table=settings.existing_state_table or STATE_TABLE,
            catalog_database=(settings.existing_catalog_database or CATALOG_DATABASE) if settings.catalog else "",
            kms_key_arn=settings.kms_key_arn,
        )


def bucket_arn(bucket: str) -> str:
    """ARN of a bucket."""
    return f"arn:{Aws.PARTITION}:s3:::{bucket}"


def regional_arn(service: str, resource: str) -> str:
    """ARN of something in this account and region."""
    return f"arn:{Aws.PARTITION}:{service}:{Aws.REGION}:{Aws.ACCOUNT_ID}:{resource}"
