"""Reads a cloud assembly, the output folder of synthesis, as the `cdk` command does. Pure.

https://github.com/aws/aws-cdk/tree/main/packages/aws-cdk-lib/cloud-assembly-schema
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STACK = "aws:cloudformation:stack"
ASSETS = "cdk:asset-manifest"
FILE, ZIP = "file", "zip"


@dataclass(frozen=True)
class Account:
    """The target account of a deployment.

    Attributes:
        number: Twelve digits.
        region: Such as `eu-central-1`.
    """

    number: str
    region: str

    def resolve(self, text: str) -> str:
        """Replace the placeholders in a text of the assembly."""
        values = {"AWS::AccountId": self.number, "AWS::Region": self.region, "AWS::Partition": "aws"}
        for name, value in values.items():
            text = text.replace(f"${{{name}}}", value)
        return text


@dataclass(frozen=True)
class Asset:
    """A file, or a folder to zip, that the stacks expect in a bucket.

    Attributes:
        source: Local path.
        packaging: `file`, or `zip` for a folder.
        bucket: Target bucket.
        key: Target key.
    """

    source: Path
    packaging: str
    bucket: str
    key: str


@dataclass(frozen=True)
class StackToDeploy:
    """A stack of the assembly.

    Attributes:
        name: Stack name.
        template: The synthesized template.
        assets: Assets to upload before the deployment.
        bootstrap_version_parameter: Name of the SSM parameter with the bootstrap version.
        bootstrap_version: The minimum bootstrap version.
        termination_protection: Whether the stack is protected against deletion.
    """

    name: str
    template: Mapping[str, Any]
    assets: tuple[Asset, ...]
    bootstrap_version_parameter: str
    bootstrap_version: int
    termination_protection: bool


def stacks_in_order(folder: Path, account: Account) -> list[StackToDeploy]:
    """The stacks of an assembly, each after its dependencies.

    Raises:
        ConfigurationError: The folder is not an assembly, or a file is missing.
    """
    artifacts = _json(folder / "manifest.json")["artifacts"]
    order = TopologicalSorter({name: artifact.get("dependencies", []) for name, artifact in artifacts.items()})
    names = [name for name in order.static_order() if artifacts[name]["type"] == STACK]
    return [_stack(folder, name, artifacts, account) for name in names]


def _stack(folder: Path, name: str, artifacts: Mapping[str, Any], account: Account) -> StackToDeploy:
    properties = artifacts[name]["properties"]
    dependencies = artifacts[name].get("dependencies", [])
    manifests = [dependency for dependency in dependencies if artifacts[dependency]["type"] == ASSETS]
    return StackToDeploy(
        name=properties.get("stackName", name),
        template=_json(folder / properties["templateFile"]),
        assets=tuple(
            asset
            for manifest in manifests
            for asset in _assets(folder, folder / artifacts[manifest]["properties"]["file"], account)
        ),
        bootstrap_version_parameter=properties["bootstrapStackVersionSsmParameter"],
        bootstrap_version=properties["requiresBootstrapStackVersion"],
        termination_protection=properties["terminationProtection"],
    )


def _assets(folder: Path, manifest: Path, account: Account) -> list[Asset]:
    content = _json(manifest)
    if content.get("dockerImages"):
        message = "A stack needs Docker images, which are not supported here"
        raise ConfigurationError(message, remedy="Deploy it with the cdk command", file=manifest)
    assets = [
        Asset(
            source=folder / file["source"]["path"],
            packaging=file["source"]["packaging"],
            bucket=account.resolve(destination["bucketName"]),
            key=account.resolve(destination["objectKey"]),
        )
        for file in content["files"].values()
        for destination in file["destinations"].values()
    ]
    for asset in assets:
        exists = asset.source.is_dir() if asset.packaging == ZIP else asset.source.is_file()
        if not exists:
            raise ConfigurationError("An asset is missing", remedy="Synthesize again", file=asset.source)
    return assets


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ConfigurationError("A file of the cloud assembly is missing", remedy="Synthesize again", file=file)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content
