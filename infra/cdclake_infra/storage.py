"""What holds data: the buckets and the state table. Nothing here goes away unless somebody says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_glue as glue
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdclake.model.layout import batches_prefix
from cdclake.model.names import Attribute
from cdclake_infra.places import LOG_BUCKET, Places

if TYPE_CHECKING:
    from cdclake_infra.settings import Settings

ACCESS_LOGS_KEPT = Duration.days(90)
UPLOADS_KEPT = Duration.days(7)
"""What an upload that died has sent is paid for until it is aborted. No job runs as long as that."""
BATCHES_KEPT = Duration.days(7)
"""What a run of several tables that died has left. None lasts as long as that."""
TLS_VERSION = 1.2


class Storage(Construct):
    """Raw bucket, lake bucket, state table and catalog database, as far as they are not there already."""

    def __init__(self, scope: Construct, name: str, *, settings: Settings) -> None:
        super().__init__(scope, name)
        self._removal = RemovalPolicy.DESTROY if settings.delete_data_with_stacks else RemovalPolicy.RETAIN
        places = Places.of(settings)
        # S3 promises to write access logs only to a bucket without a key of one's own. They hold names, and no rows.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
        key = kms.Key.from_key_arn(self, "Key", places.kms_key_arn) if places.kms_key_arn else None
        logs = None
        if not (settings.existing_raw_bucket and settings.existing_lake_bucket):
            logs = self._bucket("AccessLogs", LOG_BUCKET, [s3.LifecycleRule(expiration=ACCESS_LOGS_KEPT)])
        if not settings.existing_raw_bucket:
            self._bucket("Raw", places.raw_bucket, raw_rules(settings.raw_expiry_days), logs, key)
        if not settings.existing_lake_bucket:
            rules = lake_rules(settings.lake_retention_days, places.lake_prefix)
            self._bucket("Lake", places.lake_bucket, rules, logs, key, versioned=True)
        if not settings.existing_state_table:
            self._table(places.state_table)
        if settings.catalog and not settings.existing_catalog_database:
            self._catalog_database(places.catalog_database)

    def _bucket(
        self,
        name: str,
        bucket: str,
        rules: list[s3.LifecycleRule],
        logs: s3.Bucket | None = None,
        key: kms.IKey | None = None,
        *,
        versioned: bool = False,
    ) -> s3.Bucket:
        """A bucket that is encrypted, private, and speaks TLS only."""
        logged: dict[str, Any] = (
            {"server_access_logs_bucket": logs, "server_access_logs_prefix": f"{name.lower()}/"} if logs else {}
        )
        made = s3.Bucket(
            self,
            name,
            bucket_name=bucket,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,  # one request to KMS for many objects
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=TLS_VERSION,
            versioned=versioned,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=UPLOADS_KEPT), *rules],
            removal_policy=self._removal,
            **logged,
        )
        assert made.policy is not None  # enforce_ssl makes one
        made.policy.apply_removal_policy(self._removal)  # a bucket that stays keeps its protection
        return made

    def _table(self, name: str) -> None:
        dynamodb.Table(
            self,
            "State",
            table_name=name,
            partition_key=dynamodb.Attribute(name=Attribute.PATH, type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=self._removal is RemovalPolicy.RETAIN,
            removal_policy=self._removal,
        )

    def _catalog_database(self, name: str) -> None:
        """The lake tables' database. It would take the tables with it, and the permissions on them."""
        made = glue.CfnDatabase(
            self,
            "Catalog",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=name, description="Lake tables, kept in line by cdclake"
            ),
        )
        made.apply_removal_policy(self._removal)


def raw_rules(expiry_days: int) -> list[s3.LifecycleRule]:
    """Lifecycle of raw files; 0 days: they stay."""
    return [s3.LifecycleRule(expiration=Duration.days(expiry_days))] if expiry_days else []


def lake_rules(retention_days: int, lake_prefix: str) -> list[s3.LifecycleRule]:
    """Lifecycle of the lake: what is replaced or deleted can be brought back for so many days, and is then gone."""
    return [
        s3.LifecycleRule(
            noncurrent_version_expiration=Duration.days(retention_days), expired_object_delete_marker=True
        ),
        s3.LifecycleRule(prefix=batches_prefix(lake_prefix), expiration=BATCHES_KEPT),
    ]
