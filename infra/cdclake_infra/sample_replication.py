"""Replicates the sample database with DMS, from MySQL to Parquet files in the raw bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Aws, RemovalPolicy, Validations
from aws_cdk import aws_dms as dms
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdclake_cli.doctor.dms.recommended import RawLocation, s3_settings, table_mappings, task_settings
from cdclake_cli.doctor.dms.setting import Source, by_name, by_section
from cdclake_cli.doctor.dms.templates import snake_case
from cdclake_infra import job_permissions
from cdclake_infra.resource_names import SAMPLE_TASK, bucket_arn
from cdclake_infra.roles import Statement, create_role
from cdclake_infra.sample_source import MYSQL_PORT

if TYPE_CHECKING:
    from cdclake_infra.resource_names import ResourceNames
    from cdclake_infra.sample_source import SampleSource
    from cdclake_infra.settings import Settings

DMS = "dms.amazonaws.com"
SCHEMA = "shop"
ACCOUNT_ROLES = {
    "dms-vpc-role": "AmazonDMSVPCManagementRole",
    "dms-cloudwatch-logs-role": "AmazonDMSCloudWatchLogsRole",
}
"""Roles that DMS looks up by name, once per account, and their managed policies.
https://docs.aws.amazon.com/dms/latest/userguide/security-iam.html#CHAP_Security.APIRole
"""


class SampleReplication(Construct):
    """A replication instance, two endpoints and a task, which the operator starts once there are tables.

    Attributes:
        task: The task: full load, then changes.
    """

    def __init__(
        self, scope: Construct, name: str, *, settings: Settings, names: ResourceNames, source: SampleSource
    ) -> None:
        super().__init__(scope, name)
        instance = self._instance(source)
        if settings.create_dms_roles:
            for role in self._account_roles():
                instance.node.add_dependency(role)
        self.task = dms.CfnReplicationTask(
            self,
            "Task",
            replication_task_identifier=f"{names.prefix}{SAMPLE_TASK}",
            resource_identifier=f"{names.prefix}{SAMPLE_TASK}",
            migration_type="full-load-and-cdc",
            replication_instance_arn=instance.ref,
            source_endpoint_arn=self._source_endpoint(source, settings.sample_certificate).ref,
            target_endpoint_arn=self._target_endpoint(names).ref,
            table_mappings=json.dumps(table_mappings(SCHEMA)),
            replication_task_settings=json.dumps(by_section(task_settings(Source.MYSQL))),
        )

    def _instance(self, source: SampleSource) -> dms.CfnReplicationInstance:
        group = ec2.SecurityGroup(
            self, "Group", vpc=source.vpc, description="cdclake sample: DMS", allow_all_outbound=False
        )
        source.admit(group, "DMS")
        group.add_egress_rule(
            ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "S3, by the network's endpoint: there is no other"
        )
        subnets = dms.CfnReplicationSubnetGroup(
            self,
            "Subnets",
            replication_subnet_group_description="cdclake sample",
            subnet_ids=[subnet.subnet_id for subnet in source.vpc.isolated_subnets],
        )
        return dms.CfnReplicationInstance(
            self,
            "Instance",
            replication_instance_class="dms.t3.small",
            allocated_storage=20,
            multi_az=False,
            publicly_accessible=False,
            replication_subnet_group_identifier=subnets.ref,
            vpc_security_group_ids=[group.security_group_id],
        )

    def _source_endpoint(self, source: SampleSource, certificate: str) -> dms.CfnEndpoint:
        """The source. The template names a secret; CloudFormation reads the password from Secrets Manager.

        DMS verifies the database by RDS's certificates. For MySQL it has no TLS without them.
        https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Security.SSL.html
        """
        pem = Path(certificate).read_text(encoding="utf-8")
        trusted = dms.CfnCertificate(self, "Certificate", certificate_pem=pem)
        secret = source.database.secret
        assert secret is not None  # SampleSource creates it with one
        return dms.CfnEndpoint(
            self,
            "Source",
            endpoint_type="source",
            engine_name="mysql",
            server_name=source.database.db_instance_endpoint_address,
            port=MYSQL_PORT,
            ssl_mode="verify-ca",
            certificate_arn=trusted.ref,
            username=secret.secret_value_from_json("username").unsafe_unwrap(),
            password=secret.secret_value_from_json("password").unsafe_unwrap(),
        )

    def _target_endpoint(self, names: ResourceNames) -> dms.CfnEndpoint:
        location = RawLocation(
            bucket=names.raw_bucket,
            role_arn=self._writer(names).role_arn,
            bucket_owner=Aws.ACCOUNT_ID,
            folder=names.raw_prefix.rstrip("/"),
            kms_key_arn=names.kms_key_arn,
        )
        settings = {snake_case(name): value for name, value in by_name(s3_settings(location)).items()}
        return dms.CfnEndpoint(
            self,
            "Target",
            endpoint_type="target",
            engine_name="s3",
            s3_settings=dms.CfnEndpoint.S3SettingsProperty(**settings),
        )

    def _writer(self, names: ResourceNames) -> iam.IRole:
        """The role with which DMS writes raw files.

        https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html#CHAP_Target.S3.Prerequisites
        """
        files = f"{bucket_arn(names.raw_bucket)}/{names.raw_prefix}*"
        write = ("s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObject")
        return create_role(
            self,
            "Writer",
            service=DMS,
            statements=[
                Statement("FindRawBucket", ("s3:ListBucket",), (bucket_arn(names.raw_bucket),)),
                Statement("WriteRaw", write, (files,), "DMS chooses the names of raw files"),
                *job_permissions.use_key(names),
            ],
        )

    def _account_roles(self) -> list[iam.Role]:
        return [self._account_role(name, policy) for name, policy in ACCOUNT_ROLES.items()]

    def _account_role(self, name: str, policy: str) -> iam.Role:
        role = iam.Role(
            self,
            name,
            role_name=name,
            assumed_by=iam.ServicePrincipal(DMS),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(f"service-role/{policy}")],
        )
        role.apply_removal_policy(RemovalPolicy.RETAIN)  # other DMS tasks of the account may use it
        finding = f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/{policy}]"
        reason = "DMS requires a role of this name with this policy"
        Validations.of(role).acknowledge(Acknowledgment(id=finding, reason=reason))
        return role
