"""Reads a cloud assembly, the folder that synthesis leaves behind, as the `cdk` command does. Pure.

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
    """Where a deployment goes.

    Attributes:
        number: Twelve digits.
        region: As `eu-central-1`.
    """

    number: str
    region: str

    def place(self, text: str) -> str:
        """A text of the assembly with its placeholders replaced."""
        values = {"AWS::AccountId": self.number, "AWS::Region": self.region, "AWS::Partition": "aws"}
        for name, value in values.items():
            text = text.replace(f"${{{name}}}", value)
        return text


@dataclass(frozen=True)
class Asset:
    """A file, or a folder to be zipped, that the stacks expect in a bucket.

    Attributes:
        source: Where it is.
        packaging: `file`, or `zip` for a folder.
        bucket: Where it goes.
        key: Its name there.
    """

    source: Path
    packaging: str
    bucket: str
    key: str


@dataclass(frozen=True)
class StackToDeploy:
    """A stack of the assembly.

    Attributes:
        name: Its name.
        template: Its template, as synthesized.
        assets: What must be uploaded before.
        bootstrap_version_parameter: Name of the SSM parameter that must hold `bootstrap_version` at least.
        bootstrap_version: What `cdk bootstrap` must have left.
        termination_protection: Whether it refuses to be deleted.
    """

    name: str
    template: Mapping[str, Any]
    assets: tuple[Asset, ...]
    bootstrap_version_parameter: str
    bootstrap_version: int
    termination_protection: bool


def stacks_in_order(folder: Path, account: Account) -> list[StackToDeploy]:
    """The stacks of an assembly, each after those that it depends on.

    Args:
        folder: The assembly.
        account: Where they go.

    Raises:
        ConfigurationError: It is no assembly, or one that names what is not there.
    """
    artifacts = _json(folder / "manifest.json")["artifacts"]
    order = TopologicalSorter({name: artifact.get("dependencies", []) for name, artifact in artifacts.items()})
    names = [name for name in order.static_order() if artifacts[name]["type"] == STACK]
    return [_stack(folder, name, artifacts, account) for name in names]


def _stack(folder: Path, name: str, artifacts: Mapping[str, Any], account: Account) -> StackToDeploy:
    properties = artifacts[name]["properties"]
    manifests = [one for one in artifacts[name].get("dependencies", []) if artifacts[one]["type"] == ASSETS]
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
        message = "A stack wants Docker images, which nobody builds here"
        raise ConfigurationError(message, remedy="Deploy it with the cdk command", file=manifest)
    found = [
        Asset(
            source=folder / file["source"]["path"],
            packaging=file["source"]["packaging"],
            bucket=account.place(destination["bucketName"]),
            key=account.place(destination["objectKey"]),
        )
        for file in content["files"].values()
        for destination in file["destinations"].values()
    ]
    for asset in found:
        there = asset.source.is_dir() if asset.packaging == ZIP else asset.source.is_file()
        if not there:
            raise ConfigurationError("An asset is not there", remedy="Synthesize again", file=asset.source)
    return found


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ConfigurationError("A file of the cloud assembly is not there", remedy="Synthesize again", file=file)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content
