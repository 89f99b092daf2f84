"""Templates with resolved references, as in an account."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cdclake_infra.gate import CheckedStacks

ACCOUNT, REGION = "123456789012", "eu-central-1"
PSEUDO = {"AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com"}
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CODE_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0987dcba-09fe-87dc-65ba-ab0987654321"
TASK = f"arn:aws:dms:{REGION}:{ACCOUNT}:task:ERP"
CODE_BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"


class Stacks:
    """The resources of all stacks. A name that CloudFormation generates is `<logical id>`."""

    def __init__(self, checked: CheckedStacks) -> None:
        self.folder = checked.folder
        self.stacks = {name: resolve(template) for name, template in checked.templates.items()}
        self._resources = {
            logical_id: resource
            for template in self.stacks.values()
            for logical_id, resource in template["Resources"].items()
        }

    def all(self, kind: str) -> dict[str, Any]:
        """Resources of a type such as `AWS::S3::Bucket`, by logical id."""
        return {name: resource for name, resource in self._resources.items() if resource["Type"] == kind}

    def one(self, kind: str, **properties: str) -> dict[str, Any]:
        """The only resource of a type with these properties."""
        (match,) = [
            resource
            for resource in self.all(kind).values()
            if all(resource["Properties"].get(name) == value for name, value in properties.items())
        ]
        return dict(match)

    def role_of(self, resource: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The policy statements of a job's or function's role, by statement id."""
        role = self._resources[resource["Properties"]["Role"].strip("<>").partition(".")[0]]
        assert "ManagedPolicyArns" not in role["Properties"]
        (policy,) = role["Properties"]["Policies"]
        statements = policy["PolicyDocument"]["Statement"]
        assert {statement["Effect"] for statement in statements} == {"Allow"}
        return {
            statement["Sid"]: {name: value for name, value in statement.items() if name not in ("Sid", "Effect")}
            for statement in statements
        }

    def termination_protected(self) -> dict[str, bool]:
        """Whether each stack is protected against deletion."""
        artifacts = json.loads((self.folder / "manifest.json").read_text())["artifacts"]
        return {stack: artifacts[stack]["properties"]["terminationProtection"] for stack in self.stacks}

    def uploaded(self, key: str) -> Path:
        """The local file or folder that is uploaded to a key of the CDK's bucket."""
        for stack in self.stacks:
            files = json.loads((self.folder / f"{stack}.assets.json").read_text())["files"]
            for file in files.values():
                if any(destination["objectKey"] == key for destination in file["destinations"].values()):
                    return self.folder / str(file["source"]["path"])
        raise AssertionError(key)


def resolve(value: Any) -> Any:
    """A template's value with all references resolved."""
    if isinstance(value, list):
        return [resolve(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Ref": name}:
            return PSEUDO.get(name, f"<{name}>")
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{(.+?)\}", lambda match: PSEUDO[match[1]], text)
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(resolve(part) for part in parts)
    return {name: resolve(item) for name, item in value.items()}
