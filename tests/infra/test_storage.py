"""The buckets and the state table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cdclake.model.names import JOB_PROCESS_TABLE, STATE_TABLE
from cdclake_infra.build import build_app
from cdclake_infra.gate import synthesize
from tests.infra.stacks import ACCOUNT, KEY, REGION, Stacks

if TYPE_CHECKING:
    from pathlib import Path

RAW, LAKE, LOGS = (f"cdclake-{name}-{ACCOUNT}-{REGION}" for name in ("raw", "lake", "access-logs"))
KEEPS_DATA = ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::DynamoDB::Table", "AWS::Glue::Database")


def bucket(deployed: Stacks, name: str) -> dict[str, Any]:
    properties: dict[str, Any] = deployed.one("AWS::S3::Bucket", BucketName=name)["Properties"]
    return properties


def logical_id(deployed: Stacks, name: str) -> str:
    buckets = deployed.all("AWS::S3::Bucket").items()
    (found,) = [logical_id for logical_id, bucket in buckets if bucket["Properties"]["BucketName"] == name]
    return found


def rules(deployed: Stacks, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bucket(deployed, name)["LifecycleConfiguration"]["Rules"]
    return found


@pytest.mark.parametrize("name", [RAW, LAKE, LOGS])
def test_a_bucket_is_encrypted_and_private(default: Stacks, name: str):
    properties = bucket(default, name)
    (encryption,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    block = properties["PublicAccessBlockConfiguration"]
    assert block == dict.fromkeys(
        ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
    )
    assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def test_a_kms_key_encrypts_the_data_but_not_the_access_logs(tailored: Stacks):
    (encryption,) = bucket(tailored, LAKE)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    by_key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    assert encryption == {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": by_key}
    (encryption,) = bucket(tailored, LOGS)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


@pytest.mark.parametrize("name", [RAW, LAKE, LOGS])
def test_a_bucket_refuses_clients_without_tls_1_2(default: Stacks, name: str):
    bucket_id = logical_id(default, name)
    policy = default.one("AWS::S3::BucketPolicy", Bucket=f"<{bucket_id}>")["Properties"]["PolicyDocument"]
    refused = [statement for statement in policy["Statement"] if statement["Effect"] == "Deny"]
    everything = {
        "Action": "s3:*",
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Resource": [f"<{bucket_id}.Arn>", f"<{bucket_id}.Arn>/*"],
    }
    assert refused == [
        {**everything, "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
        {**everything, "Condition": {"NumericLessThan": {"s3:TlsVersion": 1.2}}},
    ]


def test_access_to_raw_and_lake_is_logged(default: Stacks):
    logs = logical_id(default, LOGS)
    for name, prefix in ((RAW, "raw/"), (LAKE, "lake/")):
        logging = bucket(default, name)["LoggingConfiguration"]
        assert logging == {"DestinationBucketName": f"<{logs}>", "LogFilePrefix": prefix}
    policy = default.one("AWS::S3::BucketPolicy", Bucket=f"<{logs}>")["Properties"]["PolicyDocument"]
    allowed = [statement for statement in policy["Statement"] if statement["Effect"] == "Allow"]
    assert [statement["Resource"] for statement in allowed] == [f"<{logs}.Arn>/raw/*", f"<{logs}.Arn>/lake/*"]
    assert {statement["Principal"]["Service"] for statement in allowed} == {"logging.s3.amazonaws.com"}
    assert {"ExpirationInDays": 90, "Status": "Enabled"} in rules(default, LOGS)


def test_the_lake_keeps_versions_for_the_retention_time(default: Stacks, tailored: Stacks):
    for deployed, days in ((default, 30), (tailored, 7)):
        assert bucket(deployed, LAKE)["VersioningConfiguration"] == {"Status": "Enabled"}
        assert {
            "Status": "Enabled",
            "NoncurrentVersionExpiration": {"NoncurrentDays": days},
            "ExpiredObjectDeleteMarker": True,
        } in rules(deployed, LAKE)


def test_nothing_current_expires_in_the_lake(default: Stacks, tailored: Stacks):
    for deployed in (default, tailored):
        assert not [rule for rule in rules(deployed, LAKE) if "ExpirationInDays" in rule or "ExpirationDate" in rule]


@pytest.mark.parametrize("name", [RAW, LAKE, LOGS])
def test_interrupted_uploads_are_cleaned_up(default: Stacks, name: str):
    assert {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}, "Status": "Enabled"} in rules(default, name)


def test_raw_files_do_not_expire_and_have_no_versions(default: Stacks):
    assert "VersioningConfiguration" not in bucket(default, RAW)
    assert not [rule for rule in rules(default, RAW) if "ExpirationInDays" in rule]


@pytest.mark.deployment
def test_raw_files_expire_if_configured(everything: tuple[Stacks, Stacks]):
    assert {"ExpirationInDays": 400, "Status": "Enabled"} in rules(everything[0], RAW)


def test_the_state_table_keeps_its_known_name_and_key(default: Stacks):
    table = default.one("AWS::DynamoDB::Table")["Properties"]
    assert table == {
        "TableName": STATE_TABLE,
        "KeySchema": [{"AttributeName": "path", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "path", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "DeletionProtectionEnabled": True,
    }


def test_the_lake_tables_have_a_database_in_the_catalog(default: Stacks, tailored: Stacks):
    database = default.one("AWS::Glue::Database")["Properties"]
    assert (database["CatalogId"], database["DatabaseInput"]["Name"]) == (ACCOUNT, "cdclake")
    assert tailored.all("AWS::Glue::Database") == {}  # it exists already


def test_data_and_bucket_policies_survive_the_stack(default: Stacks):
    kept = [resource for kind in KEEPS_DATA for resource in default.all(kind).values()]
    assert len(kept) == 8
    assert {(resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) for resource in kept} == {
        ("Retain", "Retain")
    }


def test_one_setting_deletes_data_with_the_stack(tailored: Stacks):
    kept = [resource for kind in KEEPS_DATA for resource in tailored.all(kind).values()]
    assert {(resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) for resource in kept} == {
        ("Delete", "Delete")
    }
    assert tailored.one("AWS::DynamoDB::Table")["Properties"]["DeletionProtectionEnabled"] is False


def test_a_stack_with_data_is_protected_against_deletion(default: Stacks, tailored: Stacks):
    assert default.termination_protected() == {"CdclakeStorage": True, "CdclakePipeline": False}
    assert tailored.termination_protected() == {"CdclakeStorage": False, "CdclakePipeline": False}


def test_the_pipeline_stack_holds_no_data(default: Stacks):
    kinds = {resource["Type"] for resource in default.stacks["CdclakePipeline"]["Resources"].values()}
    assert not kinds & set(KEEPS_DATA)


def test_an_existing_bucket_is_not_created(tailored: Stacks):
    names = {found["Properties"]["BucketName"] for found in tailored.all("AWS::S3::Bucket").values()}
    assert names == {LAKE, LOGS}


@pytest.mark.deployment
def test_no_storage_is_deployed_if_everything_exists(tmp_path: Path):
    context = {
        "cdclake:existing_raw_bucket": "acme-raw",
        "cdclake:existing_lake_bucket": "acme-lake",
        "cdclake:existing_state_table": "acme_state",
        "cdclake:catalog": "false",
    }
    deployed = Stacks(synthesize(build_app(context, tmp_path)))
    assert list(deployed.stacks) == ["CdclakePipeline"]
    process_table = deployed.one("AWS::Glue::Job", Name=JOB_PROCESS_TABLE)
    assert "--catalog_database" not in process_table["Properties"]["DefaultArguments"]
    assert "KeepCatalog" not in deployed.role_of(process_table)
    outputs = {name: output["Value"] for name, output in deployed.stacks["CdclakePipeline"]["Outputs"].items()}
    (topic,) = deployed.all("AWS::SNS::Topic")
    assert outputs == {
        "RawBucket": "acme-raw",
        "LakeBucket": "acme-lake",
        "StateTable": "acme_state",
        "AlarmTopic": f"<{topic}>",
    }
