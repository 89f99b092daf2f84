"""The sample stack: what DMS needs, and nothing that the outside can reach."""

from __future__ import annotations

import json

import pytest

from cdclake_infra.build import build_app
from cdclake_infra.gate import Checked, lint, synthesize
from tests.infra.stacks import KEY, Deployed

SAMPLE = "CdclakeSample"


@pytest.fixture(scope="module")
def checked_sample(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """All stacks with the sample; cdk-nag has passed them."""
    context = {
        "cdclake:sample_database": True,
        "cdclake:existing_lake_bucket": "acme-lake",
        "cdclake:existing_raw_bucket": "acme-raw",
        "cdclake:existing_state_table": "acme_state",
        "cdclake:raw_prefix": "dms/erp",
        "cdclake:kms_key_arn": KEY,
    }
    return synthesize(build_app(context, tmp_path_factory.mktemp("sample")))


@pytest.fixture(scope="module")
def sample(checked_sample: Checked) -> Deployed:
    """That, as it will be in an account."""
    return Deployed(checked_sample)


def test_the_sample_is_not_there_unless_somebody_wants_it(default: Deployed):
    assert SAMPLE not in default.stacks
    assert default.all("AWS::RDS::DBInstance") == default.all("AWS::DMS::ReplicationTask") == {}


def test_cfn_lint_finds_nothing_in_the_sample(checked_sample: Checked):
    lint(Checked(checked_sample.folder, {SAMPLE: checked_sample.templates[SAMPLE]}, []))


def test_no_way_leads_from_the_internet_into_the_sample_or_out_of_it(sample: Deployed):
    kinds = {resource["Type"] for resource in sample.stacks[SAMPLE]["Resources"].values()}
    assert not kinds & {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::EC2::Route"}
    for subnet in sample.all("AWS::EC2::Subnet").values():
        assert subnet["Properties"]["MapPublicIpOnLaunch"] is False
    assert sample.one("AWS::RDS::DBInstance")["Properties"]["PubliclyAccessible"] is False
    assert sample.one("AWS::DMS::ReplicationInstance")["Properties"]["PubliclyAccessible"] is False
    for group in sample.all("AWS::EC2::SecurityGroup").values():
        assert "SecurityGroupIngress" not in group["Properties"]
    for rule in sample.all("AWS::EC2::SecurityGroupIngress").values():
        assert "SourceSecurityGroupId" in rule["Properties"]
        assert not {"CidrIp", "CidrIpv6"} & rule["Properties"].keys()


def test_the_database_writes_its_binlog_as_dms_reads_it(sample: Deployed):
    assert sample.one("AWS::RDS::DBParameterGroup")["Properties"]["Parameters"] == {
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_checksum": "NONE",
    }
    database = sample.one("AWS::RDS::DBInstance")["Properties"]
    assert database["BackupRetentionPeriod"] == 1
    assert database["StorageEncrypted"] is True


def test_the_password_is_made_up_and_stands_in_secrets_manager_alone(sample: Deployed):
    (secret,) = sample.all("AWS::SecretsManager::Secret")
    assert sample.one("AWS::SecretsManager::Secret")["Properties"]["GenerateSecretString"]["GenerateStringKey"]
    reference = f"{{{{resolve:secretsmanager:<{secret}>:SecretString:password::}}}}"
    assert sample.one("AWS::RDS::DBInstance")["Properties"]["MasterUserPassword"] == reference
    source = sample.one("AWS::DMS::Endpoint", EndpointType="source")["Properties"]
    assert source["Password"].startswith("{{resolve:secretsmanager:")


def test_dms_writes_parquet_files_with_a_timestamp_where_cdclake_looks_for_them(sample: Deployed):
    target = sample.one("AWS::DMS::Endpoint", EndpointType="target")["Properties"]["S3Settings"]
    assert target == {
        "ServiceAccessRoleArn": target["ServiceAccessRoleArn"],
        "BucketName": "acme-raw",
        "BucketFolder": "dms/erp",
        "ExpectedBucketOwner": "123456789012",
        "DataFormat": "parquet",
        "CompressionType": "GZIP",
        "TimestampColumnName": "dms_timestamp",
        "CdcMaxBatchInterval": 60,
        "EncryptionMode": "SSE_KMS",
        "ServerSideEncryptionKmsKeyId": KEY,
    }


def test_the_task_loads_the_shop_and_then_its_changes_in_order_and_takes_no_raw_file_away(sample: Deployed):
    task = sample.one("AWS::DMS::ReplicationTask")["Properties"]
    assert task["MigrationType"] == "full-load-and-cdc"
    select, order = json.loads(task["TableMappings"])["rules"]
    assert (select["rule-action"], select["object-locator"]["schema-name"]) == ("include", "shop")
    assert (order["rule-action"], order["value"], order["expression"]) == (
        "add-column",
        "AR_H_CHANGE_SEQ",
        "$AR_H_CHANGE_SEQ",
    )
    settings = json.loads(task["ReplicationTaskSettings"])
    handling = settings["ChangeProcessingDdlHandlingPolicy"]
    assert (handling["HandleSourceTableDropped"], handling["HandleSourceTableTruncated"]) == (False, False)
    assert settings["FullLoadSettings"]["TargetTablePrepMode"] == "DO_NOTHING"


def test_dms_may_write_raw_files_and_nothing_else(sample: Deployed):
    target = sample.one("AWS::DMS::Endpoint", EndpointType="target")["Properties"]["S3Settings"]
    granted = sample.role_of({"Properties": {"Role": target["ServiceAccessRoleArn"]}})
    assert granted.pop("UseKey")["Resource"] == KEY
    assert granted == {
        "FindRawBucket": {"Action": "s3:ListBucket", "Resource": "arn:aws:s3:::acme-raw"},
        "WriteRaw": {
            "Action": ["s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObject"],
            "Resource": "arn:aws:s3:::acme-raw/dms/erp/*",
        },
    }


def test_the_roles_that_dms_wants_in_every_account_outlive_the_sample(sample: Deployed):
    named = {
        role["Properties"]["RoleName"]: role["DeletionPolicy"]
        for role in sample.all("AWS::IAM::Role").values()
        if "RoleName" in role["Properties"]
    }
    assert named == {"dms-vpc-role": "Retain", "dms-cloudwatch-logs-role": "Retain"}
    roles = {
        logical_id
        for logical_id, role in sample.all("AWS::IAM::Role").items()
        if role["Properties"].get("RoleName") in named
    }
    assert roles <= set(sample.one("AWS::DMS::ReplicationInstance")["DependsOn"])
