"""The recommended settings for the AWS CLI, CloudFormation and Terraform. Pure.

Each form creates the S3 target endpoint and the task. The source endpoint has a password, so it is named, not created.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

from cdclake_cli.doctor.dms.recommended import (
    DEFAULT_LOB_KILOBYTES,
    RawLocation,
    mapping_rules,
    s3_settings,
    table_mappings,
    task_settings,
)
from cdclake_cli.doctor.dms.setting import Setting, Source, by_name, by_section
from cdclake_cli.doctor.dms.sources import SOURCES, SourceAdvice

NAME = "cdclake"
MIGRATION_TYPE = "full-load-and-cdc"


@dataclass(frozen=True)
class Choices:
    """What a user chose. None: left open, as a placeholder or parameter.

    Attributes:
        source: Kind of source database.
        bucket: The raw bucket.
        folder: The raw prefix.
        role_arn: The role that DMS writes with.
        bucket_owner: Number of the account that owns the bucket.
        kms_key_arn: The key that encrypts the files, if any.
        schema: The schema whose tables are replicated, in which `%` matches any text.
        lob_kilobytes: Size of the largest LOB at the source.
    """

    source: Source
    bucket: str | None = None
    folder: str | None = None
    role_arn: str | None = None
    bucket_owner: str | None = None
    kms_key_arn: str | None = None
    schema: str = "%"
    lob_kilobytes: int = DEFAULT_LOB_KILOBYTES

    @property
    def advice(self) -> SourceAdvice:
        """What the source needs."""
        return SOURCES[self.source]

    @property
    def target(self) -> list[Setting]:
        """`S3Settings` of the target endpoint."""
        return self._target(bucket="<bucket>", role_arn="<role ARN>", bucket_owner="<account ID>")

    @property
    def task(self) -> list[Setting]:
        """Task settings, named `Section.Name`."""
        return task_settings(self.source, self.lob_kilobytes)

    @property
    def rules(self) -> list[Setting]:
        """The rules of the table mappings."""
        return mapping_rules(self.schema)

    def _target(self, *, bucket: Any, role_arn: Any, bucket_owner: Any) -> list[Setting]:  # noqa: ANN401 - references
        folder = self.folder.strip("/") if self.folder else None
        location = RawLocation(
            self.bucket or bucket,
            self.role_arn or role_arn,
            self.bucket_owner or bucket_owner,
            folder or None,
            self.kms_key_arn,
        )
        return s3_settings(location)

    @property
    def cli_files(self) -> dict[str, dict[str, Any]]:
        """Content of the files that the options of the AWS CLI name."""
        files = {
            "s3-settings.json": by_name(self.target),
            "task-settings.json": by_section(self.task),
            "table-mappings.json": table_mappings(self.schema),
        }
        if self.advice.endpoint:
            files["source-settings.json"] = by_name(self.advice.endpoint)
        return files

    @property
    def cli_commands(self) -> list[str]:
        """The commands of the AWS CLI that read the files."""
        commands = [
            f"aws dms create-endpoint --endpoint-identifier {NAME}-raw --endpoint-type target --engine-name s3"
            " --s3-settings file://s3-settings.json"
        ]
        source = shlex.quote("<source endpoint ARN>")
        if self.advice.endpoint:
            commands.append(
                f"aws dms modify-endpoint --endpoint-arn {source} {self.advice.option} file://source-settings.json"
            )
        commands.append(
            f"aws dms create-replication-task --replication-task-identifier {NAME} --migration-type {MIGRATION_TYPE}"
            f" --source-endpoint-arn {source} --target-endpoint-arn '<target endpoint ARN>'"
            " --replication-instance-arn '<replication instance ARN>'"
            " --replication-task-settings file://task-settings.json --table-mappings file://table-mappings.json"
        )
        return commands

    @property
    def shell_script(self) -> str:
        """A script for the shell that writes the files and runs the commands."""
        files = [
            f"cat > {name} <<'END'\n{json.dumps(content, indent=2)}\nEND" for name, content in self.cli_files.items()
        ]
        return "\n".join([*files, *self.cli_commands])

    @property
    def cloudformation(self) -> dict[str, Any]:
        """A CloudFormation template; what is open is a parameter."""
        open_values = {"BucketName": self.bucket, "RoleArn": self.role_arn}
        names = ["SourceEndpointArn", "ReplicationInstanceArn"]
        names += [name for name, value in open_values.items() if value is None]
        target = self._target(
            bucket={"Ref": "BucketName"}, role_arn={"Ref": "RoleArn"}, bucket_owner={"Ref": "AWS::AccountId"}
        )
        endpoint = {"EndpointType": "target", "EngineName": "s3", "S3Settings": by_name(target)}
        task = {
            "MigrationType": MIGRATION_TYPE,
            "SourceEndpointArn": {"Ref": "SourceEndpointArn"},
            "TargetEndpointArn": {"Ref": "RawFiles"},
            "ReplicationInstanceArn": {"Ref": "ReplicationInstanceArn"},
            "ReplicationTaskSettings": self._task_json,
            "TableMappings": self._mappings_json,
        }
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": "DMS writes the raw files of cdclake",
            "Parameters": {name: {"Type": "String"} for name in names},
            "Resources": {
                "RawFiles": {"Type": "AWS::DMS::Endpoint", "Properties": endpoint},
                "Task": {"Type": "AWS::DMS::ReplicationTask", "Properties": task},
            },
        }

    @property
    def terraform(self) -> dict[str, Any]:
        """A Terraform configuration in JSON syntax; what is open is a variable."""
        open_values = {"bucket": self.bucket, "role_arn": self.role_arn}
        names = ["source_endpoint_arn", "replication_instance_arn"]
        names += [name for name, value in open_values.items() if value is None]
        target = self._target(
            bucket="${var.bucket}",
            role_arn="${var.role_arn}",
            bucket_owner="${data.aws_caller_identity.current.account_id}",
        )
        endpoint = {"endpoint_id": f"{NAME}-raw", "endpoint_type": "target"}
        endpoint |= {snake_case(name): value for name, value in by_name(target).items()}
        task = {
            "replication_task_id": NAME,
            "migration_type": MIGRATION_TYPE,
            "source_endpoint_arn": "${var.source_endpoint_arn}",
            "target_endpoint_arn": f"${{aws_dms_s3_endpoint.{NAME}.endpoint_arn}}",
            "replication_instance_arn": "${var.replication_instance_arn}",
            "replication_task_settings": self._task_json,
            "table_mappings": self._mappings_json,
        }
        return {
            "variable": {name: {"type": "string"} for name in names},
            "data": {"aws_caller_identity": {"current": {}}},
            "resource": {"aws_dms_s3_endpoint": {NAME: endpoint}, "aws_dms_replication_task": {NAME: task}},
        }

    @property
    def _task_json(self) -> str:
        return json.dumps(by_section(self.task))

    @property
    def _mappings_json(self) -> str:
        return json.dumps(table_mappings(self.schema))


def snake_case(name: str) -> str:
    """The name of a DMS setting in Terraform and in the CDK."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
