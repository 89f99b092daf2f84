"""The sample stack has what DMS needs and is unreachable from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdclake.control.jobs.arguments import parse_new_table
from cdclake.errors import ConfigurationError
from cdclake.model.names import JOB_CONTROLLER
from cdclake_infra.gate import CheckedStacks, lint
from cdclake_infra.on_raw_file import FUNCTION
from cdclake_infra.settings import Settings
from tests.infra.conftest import CERTIFICATE
from tests.infra.stacks import ACCOUNT, KEY, REGION, Stacks

SAMPLE = "CdclakeSample"


def test_the_sample_is_not_deployed_by_default(default: Stacks):
    assert SAMPLE not in default.stacks
    assert default.all("AWS::RDS::DBInstance") == default.all("AWS::DMS::ReplicationTask") == {}


def test_cfn_lint_finds_nothing_in_the_sample(checked_sample: CheckedStacks):
    lint(CheckedStacks(checked_sample.folder, {SAMPLE: checked_sample.templates[SAMPLE]}, []))


def test_the_sample_has_no_route_to_or_from_the_internet(sample: Stacks):
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


def test_the_database_writes_its_binlog_as_dms_requires(sample: Stacks):
    assert sample.one("AWS::RDS::DBParameterGroup")["Properties"]["Parameters"] == {
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_checksum": "NONE",
        "require_secure_transport": "1",
    }
    database = sample.one("AWS::RDS::DBInstance")["Properties"]
    assert database["BackupRetentionPeriod"] == 1
    assert database["StorageEncrypted"] is True


def test_dms_verifies_the_database_by_its_certificate(sample: Stacks):
    ((name, certificate),) = sample.all("AWS::DMS::Certificate").items()
    assert certificate["Properties"]["CertificatePem"] == CERTIFICATE.read_text(encoding="utf-8")
    source = sample.one("AWS::DMS::Endpoint", EndpointType="source")["Properties"]
    assert (source["SslMode"], source["CertificateArn"]) == ("verify-ca", f"<{name}>")


@pytest.mark.parametrize("content", [None, b"", b"\xff-----BEGIN CERTIFICATE-----", b"-----BEGIN PRIVATE KEY-----"])
def test_a_sample_without_certificates_is_refused(tmp_path: Path, content: bytes | None):
    certificate = str(tmp_path / "rds.pem")
    if content is not None:
        Path(certificate).write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"cdclake:sample_certificate is .* path of a PEM file"):
        Settings(sample_database=True, sample_certificate=certificate)


def test_the_password_is_generated_and_stored_only_in_secrets_manager(sample: Stacks):
    (secret,) = sample.all("AWS::SecretsManager::Secret")
    assert sample.one("AWS::SecretsManager::Secret")["Properties"]["GenerateSecretString"]["GenerateStringKey"]
    reference = f"{{{{resolve:secretsmanager:<{secret}>:SecretString:password::}}}}"
    assert sample.one("AWS::RDS::DBInstance")["Properties"]["MasterUserPassword"] == reference
    source = sample.one("AWS::DMS::Endpoint", EndpointType="source")["Properties"]
    assert source["Password"].startswith("{{resolve:secretsmanager:")


def test_dms_writes_parquet_files_with_a_timestamp_to_the_raw_prefix(sample: Stacks):
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
        "RowGroupLength": 1_000_000,
        "ParquetTimestampInMillisecond": False,
        "CdcInsertsOnly": False,
        "CdcInsertsAndUpdates": False,
        "PreserveTransactions": False,
        "DatePartitionEnabled": False,
        "EncryptionMode": "SSE_KMS",
        "ServerSideEncryptionKmsKeyId": KEY,
    }


def test_the_task_replicates_the_shop_in_order_and_never_deletes_raw_files(sample: Stacks):
    task = sample.one("AWS::DMS::ReplicationTask")["Properties"]
    assert task["MigrationType"] == "full-load-and-cdc"
    select, order, old_keys = json.loads(task["TableMappings"])["rules"]
    assert (select["rule-action"], select["object-locator"]["schema-name"]) == ("include", "shop")
    assert (order["rule-action"], order["value"], order["expression"]) == (
        "add-column",
        "AR_H_CHANGE_SEQ",
        "$AR_H_CHANGE_SEQ",
    )
    assert order["data-type"] == {"type": "string", "length": 35}
    assert old_keys["before-image-def"] == {"column-prefix": "BI_", "column-suffix": "", "column-filter": "pk-only"}
    assert {rule["object-locator"]["schema-name"] for rule in (order, old_keys)} == {"shop"}
    settings = json.loads(task["ReplicationTaskSettings"])
    handling = settings["ChangeProcessingDdlHandlingPolicy"]
    assert (handling["HandleSourceTableDropped"], handling["HandleSourceTableTruncated"]) == (False, False)
    assert settings["FullLoadSettings"]["TargetTablePrepMode"] == "DO_NOTHING"
    assert settings["ErrorBehavior"]["DataTruncationErrorPolicy"] == "SUSPEND_TABLE"


def test_new_tables_name_the_samples_task(sample: Stacks):
    task = sample.one("AWS::DMS::ReplicationTask")["Properties"]["ResourceIdentifier"]
    arn = f"arn:aws:dms:{REGION}:{ACCOUNT}:task:{task}"
    controller = sample.one("AWS::Glue::Job", Name=JOB_CONTROLLER)["Properties"]["DefaultArguments"]
    function = sample.one("AWS::Lambda::Function", FunctionName=FUNCTION)["Properties"]["Environment"]["Variables"]
    assert parse_new_table(controller["--new_table"]) == parse_new_table(function["NEW_TABLE"]) == {"DmsTask": arn}


def test_dms_may_write_raw_files_and_nothing_else(sample: Stacks):
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


def test_the_account_roles_of_dms_outlive_the_sample(sample: Stacks):
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
