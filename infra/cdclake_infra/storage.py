"""The resources that contain data: buckets, state table, catalog database. Deleting the stack keeps them by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_glue as glue
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdclake.model.table.attributes import Attribute
from cdclake_infra.resource_names import ResourceNames

if TYPE_CHECKING:
    from cdclake_infra.settings import Settings

ACCESS_LOG_RETENTION = Duration.days(90)
UPLOAD_RETENTION = Duration.days(7)
"""Parts of an interrupted upload cost storage until the upload is aborted. No job runs that long."""
TLS_VERSION = 1.2


class Storage(Construct):
    """Raw bucket, lake bucket, state table and catalog database, except those that exist already."""

    def __init__(self, scope: Construct, name: str, *, settings: Settings) -> None:
        super().__init__(scope, name)
        self._removal = RemovalPolicy.DESTROY if settings.delete_data_with_stacks else RemovalPolicy.RETAIN
        names = ResourceNames.of(settings)
        # S3 supports access logs only in a bucket with S3's key. They contain names, never rows.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
        key = kms.Key.from_key_arn(self, "Key", names.kms_key_arn) if names.kms_key_arn else None
        logs = None
        if not (settings.existing_raw_bucket and settings.existing_lake_bucket):
            logs = self._bucket("AccessLogs", names.log_bucket, [s3.LifecycleRule(expiration=ACCESS_LOG_RETENTION)])
        if not settings.existing_raw_bucket:
            self._bucket("Raw", names.raw_bucket, raw_rules(settings.raw_expiry_days), logs, key)
        if not settings.existing_lake_bucket:
            rules = lake_rules(settings.lake_retention_days)
            self._bucket("Lake", names.lake_bucket, rules, logs, key, versioned=True)
        if not settings.existing_state_table:
            self._table(names.state_table)
        if settings.catalog and not settings.existing_catalog_database:
            self._catalog_database(names.catalog_database)

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
        """Create a bucket that is encrypted, private and accessible only through TLS."""
        logging: dict[str, Any] = (
            {"server_access_logs_bucket": logs, "server_access_logs_prefix": f"{name.lower()}/"} if logs else {}
        )
        created = s3.Bucket(
            self,
            name,
            bucket_name=bucket,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,  # fewer requests to KMS
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=TLS_VERSION,
            versioned=versioned,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=UPLOAD_RETENTION), *rules],
            removal_policy=self._removal,
            **logging,
        )
        assert created.policy is not None  # enforce_ssl creates it
        created.policy.apply_removal_policy(self._removal)  # a retained bucket keeps its policy
        return created

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
        """The database of the lake tables. Deleting it would delete the tables and the permissions on them."""
        created = glue.CfnDatabase(
            self,
            "Catalog",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=name, description="Lake tables, maintained by cdclake"
            ),
        )
        created.apply_removal_policy(self._removal)


def raw_rules(expiry_days: int) -> list[s3.LifecycleRule]:
    """Lifecycle rules of the raw bucket; 0 days: raw files stay."""
    return [s3.LifecycleRule(expiration=Duration.days(expiry_days))] if expiry_days else []


def lake_rules(retention_days: int) -> list[s3.LifecycleRule]:
    """Lifecycle rules of the lake bucket: replaced and deleted files can be restored for `retention_days`."""
    return [
        s3.LifecycleRule(
            noncurrent_version_expiration=Duration.days(retention_days), expired_object_delete_marker=True
        ),
    ]
