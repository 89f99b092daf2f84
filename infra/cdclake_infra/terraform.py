"""Makes a Terraform module of a cloud assembly: it does what the `cdk` command does.

It uploads the same files and creates the same stacks. Each synthesis writes it into the assembly, in Terraform's JSON
syntax, so it never describes another one.
https://developer.hashicorp.com/terraform/language/syntax/json
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODULE_FILE = "main.tf.json"
_PLACE = {
    "${AWS::AccountId}": "${data.aws_caller_identity.current.account_id}",
    "${AWS::Region}": "${data.aws_region.current.id}",
    "${AWS::Partition}": "${data.aws_partition.current.partition}",
}
_PROVIDERS = {
    "aws": {"source": "hashicorp/aws", "version": ">= 5.0"},
    "archive": {"source": "hashicorp/archive", "version": ">= 2.4"},
}
_ROLE = "execution_role"
_ROLE_VARIABLE = {
    "type": "string",
    "default": None,
    "description": "ARN of the role with which CloudFormation creates resources; null: the caller's own rights",
}
_PATIENCE = dict.fromkeys(("create", "update", "delete"), "60m")
"""A replication instance of DMS takes long."""


def write_module(assembly: Path) -> None:
    """Write the module into the folder of a cloud assembly."""
    text = json.dumps(_module(assembly), indent=1)
    (assembly / MODULE_FILE).write_text(f"{text}\n", encoding="utf-8")


def _module(assembly: Path) -> dict[str, Any]:
    artifacts = _json(assembly / "manifest.json")["artifacts"]
    names = [name for name, artifact in artifacts.items() if artifact["type"] == "aws:cloudformation:stack"]
    objects: dict[str, Any] = {}
    archives: dict[str, Any] = {}
    stacks: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for name in names:
        files = _json(assembly / f"{name}.assets.json")["files"]
        own = {}
        for file in files.values():
            for destination in file["destinations"].values():
                label = _label(destination["objectKey"])
                own[label] = _object(label, file["source"], destination)
                if file["source"]["packaging"] == "zip":
                    archives[label] = _archive(label, file["source"])
        objects |= own
        needed = [other for other in artifacts[name]["dependencies"] if other in names]
        stacks[name] = _stack(name, artifacts[name]["properties"], own, needed)
        for output in _json(assembly / artifacts[name]["properties"]["templateFile"]).get("Outputs", {}):
            outputs[output] = {"value": f'${{aws_cloudformation_stack.{name}.outputs["{output}"]}}'}
    current: dict[str, Any] = {"current": {}}
    return {
        "terraform": {"required_version": ">= 1.5", "required_providers": _PROVIDERS},
        "variable": {_ROLE: _ROLE_VARIABLE},
        "data": {
            "aws_caller_identity": current,
            "aws_region": current,
            "aws_partition": current,
            **({"archive_file": archives} if archives else {}),
        },
        "resource": {"aws_s3_object": objects, "aws_cloudformation_stack": stacks},
        "output": outputs,
    }


def _object(label: str, source: Mapping[str, str], destination: Mapping[str, str]) -> dict[str, Any]:
    path = f"${{data.archive_file.{label}.output_path}}" if source["packaging"] == "zip" else _path(source["path"])
    return {
        "bucket": _placed(destination["bucketName"]),
        "key": _placed(destination["objectKey"]),
        "source": path,
        # What a new assembly no longer has is deleted only after the stacks have changed.
        "lifecycle": {"create_before_destroy": True},
    }


def _archive(label: str, source: Mapping[str, str]) -> dict[str, str]:
    return {"type": "zip", "source_dir": _path(source["path"]), "output_path": _path(f"archives/{label}.zip")}


def _stack(name: str, properties: Mapping[str, Any], objects: Mapping[str, Any], needed: list[str]) -> dict[str, Any]:
    key = properties["stackTemplateAssetObjectUrl"].rpartition("/")[2]
    template = f"aws_s3_object.{_label(key)}"
    host = "s3.${data.aws_region.current.id}.${data.aws_partition.current.dns_suffix}"
    return {
        "name": properties.get("stackName", name),
        "template_url": f"https://${{{template}.bucket}}.{host}/${{{template}.key}}",
        "capabilities": ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        "iam_role_arn": f"${{var.{_ROLE}}}",
        "tags": properties.get("tags", {}),
        "timeouts": _PATIENCE,
        "lifecycle": {"prevent_destroy": properties["terminationProtection"]},
        "depends_on": [
            *(f"aws_s3_object.{label}" for label in objects),
            *(f"aws_cloudformation_stack.{other}" for other in needed),
        ],
    }


def _label(key: str) -> str:
    return "file_" + re.sub(r"\W", "_", key, flags=re.ASCII)


def _path(path: str) -> str:
    return f"${{path.module}}/{path}"


def _placed(text: str) -> str:
    for placeholder, expression in _PLACE.items():
        text = text.replace(placeholder, expression)
    return text


def _json(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content
