"""`cdclake dms settings` prints settings that AWS's service model, cfn-lint and a shell accept."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, StructureShape
from botocore.validate import ParamValidator

from cdclake_cli.doctor.dms.recommended import mapping_rules, task_settings
from cdclake_cli.doctor.dms.setting import Setting, Source
from cdclake_cli.doctor.dms.sources import SOURCES
from cdclake_cli.doctor.dms.templates import Choices

if TYPE_CHECKING:
    from pathlib import Path

    Cdclake = Any

MODEL = ServiceModel(Loader().load_service_model("dms", "service-2"))
ROLE, KEY = "arn:aws:iam::123456789012:role/dms", "arn:aws:kms:eu-central-1:123456789012:key/1234"
CHOSEN = ("--bucket", "raw", "--folder", "dms/erp/", "--role-arn", ROLE, "--bucket-owner", "123456789012")
SOURCE_ARN = "arn:aws:dms:eu-central-1:123456789012:endpoint:SOURCE"
TASK_ARNS = {
    "SourceEndpointArn": SOURCE_ARN,
    "TargetEndpointArn": "arn:aws:dms:eu-central-1:123456789012:endpoint:TARGET",
    "ReplicationInstanceArn": "arn:aws:dms:eu-central-1:123456789012:rep:INSTANCE",
}


def input_shape(operation: str) -> StructureShape:
    shape = MODEL.operation_model(operation).input_shape
    assert shape is not None
    return shape


def errors(operation: str, **parameters: object) -> str:
    """What botocore refuses in the parameters of an operation: also unknown names and wrong types."""
    return str(ParamValidator().validate(parameters, input_shape(operation)).generate_report())


def every_setting(source: Source) -> list[Setting]:
    choices = Choices(source, "raw", "dms", ROLE, "123456789012", KEY)
    advice = SOURCES[source]
    return [
        *choices.target,
        *task_settings(source),
        *mapping_rules("shop"),
        *advice.endpoint,
        *advice.parameters,
        *advice.steps,
    ]


@pytest.mark.parametrize("source", Source)
def test_every_setting_has_a_reason_of_a_line_and_a_page_of_aws(source: Source) -> None:
    settings = every_setting(source)
    assert [one.name for one in settings if not 8 <= len(one.reason) <= 160 or "\n" in one.reason] == []
    assert [one.name for one in settings if not one.source_url.startswith("https://docs.aws.amazon.com/")] == []
    names = [one.name for one in settings]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("source", Source)
def test_the_service_model_accepts_what_is_printed_for_the_cli(cdclake: Cdclake, source: Source) -> None:
    result = cdclake.record("dms", "settings", "--source", source.value, "--as", "cli", *CHOSEN, "--kms-key-arn", KEY)
    files = result["files"]
    target = {"EndpointIdentifier": "raw", "EndpointType": "target", "EngineName": "s3"}
    assert errors("CreateEndpoint", **target, S3Settings=files["s3-settings.json"]) == ""
    assert errors("ModifyEndpoint", EndpointArn=SOURCE_ARN, S3Settings=files["s3-settings.json"]) == ""
    if "source-settings.json" in files:
        settings = {SOURCES[source].api_name: files["source-settings.json"]}
        assert errors("ModifyEndpoint", EndpointArn=SOURCE_ARN, **settings) == ""
    task = {"ReplicationTaskIdentifier": "cdclake", "MigrationType": "full-load-and-cdc", **TASK_ARNS}
    texts = {
        "ReplicationTaskSettings": json.dumps(files["task-settings.json"]),
        "TableMappings": json.dumps(files["table-mappings.json"]),
    }
    assert errors("CreateReplicationTask", **task, **texts) == ""
    assert files["s3-settings.json"]["BucketFolder"] == "dms/erp"
    assert files["s3-settings.json"]["ServerSideEncryptionKmsKeyId"] == KEY


@pytest.mark.parametrize("source", Source)
def test_values_are_among_those_that_the_service_lists(source: Source) -> None:
    """botocore does not check them. DMS's guide writes some in capitals or with underscores."""
    choices = Choices(source, kms_key_arn=KEY)
    for name, settings in (("S3Settings", choices.target), (SOURCES[source].api_name, SOURCES[source].endpoint)):
        shape = input_shape("CreateEndpoint").members[name]
        assert isinstance(shape, StructureShape)
        members = shape.members
        listed = {setting.name: getattr(members[setting.name], "enum", []) for setting in settings}
        assert {one.name for one in settings if listed[one.name]} >= ({"DataFormat"} if name == "S3Settings" else set())
        wrong = [
            one.name
            for one in settings
            if listed[one.name] and str(one.value).lower().replace("_", "-") not in listed[one.name]
        ]
        assert wrong == []


def test_the_validator_refuses_unknown_names_and_wrong_types() -> None:
    target = {"EndpointIdentifier": "raw", "EndpointType": "target", "EngineName": "s3"}
    assert "NoSuchSetting" in errors("CreateEndpoint", **target, S3Settings={"NoSuchSetting": True})
    assert "RowGroupLength" in errors("CreateEndpoint", **target, S3Settings={"RowGroupLength": "many"})


@pytest.mark.parametrize("source", Source)
def test_a_shell_writes_the_files_that_the_commands_read(cdclake: Cdclake, tmp_path: Path, source: Source) -> None:
    arguments = ("dms", "settings", "--source", source.value, "--as", "cli", *CHOSEN)
    expected = cdclake.record(*arguments)
    script = cdclake.ok(*arguments).stdout
    fake = tmp_path / "aws"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "aws $*" >> commands\n', encoding="utf-8")
    fake.chmod(0o755)
    subprocess.run(["bash", "-e", "-c", f"PATH=.:$PATH\n{script}"], cwd=tmp_path, check=True)
    written = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.json")}
    assert written == expected["files"]
    commands = (tmp_path / "commands").read_text(encoding="utf-8")
    assert set(re.findall(r"file://(\S+)", commands)) == written.keys()
    assert commands.splitlines() == [command.replace("'", "") for command in expected["commands"]]


def test_the_options_of_the_cli_are_those_of_the_service_model() -> None:
    """The AWS CLI names an option after the member: `--my-sql-settings` for MySQLSettings."""
    options = {advice.api_name: advice.option for advice in SOURCES.values()}
    assert options.keys() <= input_shape("ModifyEndpoint").members.keys()
    for name, option in options.items():
        assert option.replace("-", "") == name.lower()


def cfn_lint(template: str) -> list[str]:
    from cfnlint.api import ManualArgs, lint  # takes half a second to import, also where these tests do not run

    return list(map(str, lint(template, config=ManualArgs())))


@pytest.mark.sampled(test=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "chosen"), [(Source.MYSQL, ()), *((source, (*CHOSEN, "--kms-key-arn", KEY)) for source in Source)]
)
def test_cfn_lint_accepts_the_template(cdclake: Cdclake, source: Source, chosen: tuple[str, ...]) -> None:
    result = cdclake.ok("dms", "settings", "--source", source.value, "--as", "cloudformation", *chosen)
    assert cfn_lint(result.stdout) == []
    template = json.loads(result.stdout)
    open_names = {"SourceEndpointArn", "ReplicationInstanceArn", *([] if chosen else ["BucketName", "RoleArn"])}
    assert template["Parameters"].keys() == open_names


@pytest.mark.slow
def test_cfn_lint_refuses_an_unknown_setting(cdclake: Cdclake) -> None:
    text = cdclake.ok("dms", "settings", "--source", "mysql", "--as", "cloudformation").stdout
    assert cfn_lint(text.replace("RowGroupLength", "RowGroupSize")) != []


TERRAFORM_S3_ARGUMENTS = {
    *("bucket_name", "bucket_folder", "service_access_role_arn", "expected_bucket_owner", "encryption_mode"),
    *("server_side_encryption_kms_key_id", "data_format", "compression_type", "timestamp_column_name"),
    *("cdc_max_batch_interval", "row_group_length", "parquet_timestamp_in_millisecond", "cdc_inserts_only"),
    *("cdc_inserts_and_updates", "preserve_transactions", "date_partition_enabled", "endpoint_id", "endpoint_type"),
}
"""https://registry.terraform.io/providers/hashicorp/aws/latest/docs/resources/dms_s3_endpoint"""


@pytest.mark.parametrize("source", Source)
def test_terraform_gets_the_same_settings_as_the_cli(cdclake: Cdclake, source: Source) -> None:
    arguments = ("dms", "settings", "--source", source.value, *CHOSEN, "--kms-key-arn", KEY, "--schema", "shop")
    files = cdclake.record(*arguments, "--as", "cli")["files"]
    resources = json.loads(cdclake.ok(*arguments, "--as", "terraform").stdout)["resource"]
    task = resources["aws_dms_replication_task"]["cdclake"]
    assert json.loads(task["replication_task_settings"]) == files["task-settings.json"]
    assert json.loads(task["table_mappings"]) == files["table-mappings.json"]
    assert not re.search(
        r"[$%]\{", task["replication_task_settings"] + task["table_mappings"]
    )  # Terraform would expand it
    endpoint = resources["aws_dms_s3_endpoint"]["cdclake"]
    assert endpoint.keys() == TERRAFORM_S3_ARGUMENTS
    assert sorted(map(str, endpoint.values())) == sorted(
        map(str, [*files["s3-settings.json"].values(), "cdclake-raw", "target"])
    )


def test_what_is_left_open_is_a_variable_in_terraform_and_a_placeholder_for_the_cli(cdclake: Cdclake) -> None:
    configuration = cdclake.record("dms", "settings", "--source", "mysql", "--as", "terraform")
    assert configuration["variable"].keys() == {"source_endpoint_arn", "replication_instance_arn", "bucket", "role_arn"}
    assert configuration["resource"]["aws_dms_s3_endpoint"]["cdclake"]["bucket_name"] == "${var.bucket}"
    files = cdclake.record("dms", "settings", "--source", "mysql", "--as", "cli")["files"]
    assert files["s3-settings.json"]["BucketName"] == "<bucket>"


@pytest.mark.parametrize("source", Source)
def test_the_tables_show_every_setting_with_its_reason_and_json_also_aws_page(cdclake: Cdclake, source: Source) -> None:
    arguments = ("dms", "settings", "--source", source.value, "--bucket", "raw", "--lob-max-size", "512")
    result = cdclake.ok(*arguments)
    records = cdclake.records(*arguments)
    assert {record["name"] for record in records} >= {"BucketName", "TargetMetadata.LobMaxSize", "old-keys"}
    assert [
        one["name"] for one in records if one["reason"] not in result.stdout or one["name"] not in result.stdout
    ] == []
    assert {record["name"]: record["value"] for record in records}["TargetMetadata.LobMaxSize"] == 512
    assert all(record["source"].startswith("https://docs.aws.amazon.com/") for record in records)
    for step in SOURCES[source].steps:
        assert f"\n{step.value}\n" in result.stdout  # unbroken, to paste


def test_a_template_alone_is_printed_to_stdout(cdclake: Cdclake) -> None:
    result = cdclake.ok("dms", "settings", "--source", "oracle", "--as", "terraform")
    json.loads(result.stdout)
    assert result.stderr == "Set up the source, too: cdclake dms settings --source oracle\n"
