"""Adapts a template to the local CloudFormation, which lacks some types and properties. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FUNCTION = "AWS::Lambda::Function"
_DEAD_LETTERS_OF, _NAME_OF = "DeadLettersOf", "NameOf"
_PLACEHOLDER = re.compile(r"\$\{([^!.}]+)(\.[^}]*)?\}")


@dataclass(frozen=True)
class UnsupportedType:
    """A type of resource that the local CloudFormation lacks.

    Attributes:
        name: Such as `AWS::Glue::Workflow`.
        name_property: The property that a `Ref` to such a resource resolves to.
        replacement: How the resource is created instead.
    """

    name: str
    name_property: str
    replacement: str


@dataclass(frozen=True)
class RemovedResource:
    """A resource that was removed from a template.

    Attributes:
        logical_id: Logical id in the template.
        properties: The resource's properties.
        type: The unsupported type.
    """

    logical_id: str
    properties: Mapping[str, Any]
    type: UnsupportedType


def remove_unsupported(
    template: Mapping[str, Any], unsupported: Mapping[str, UnsupportedType]
) -> tuple[dict[str, Any], list[RemovedResource]]:
    """Remove resources of unsupported types. A `Ref` to such a resource becomes its name.

    Args:
        template: The synthesized template; not modified.

    Returns:
        The template to deploy, and the removed resources.

    Raises:
        ConfigurationError: The template uses an attribute of a removed resource, or its name is not a plain text.
    """
    removed = {
        logical_id: RemovedResource(logical_id, resource.get("Properties", {}), unsupported[resource["Type"]])
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] in unsupported
    }
    kept = {key: value for key, value in template["Resources"].items() if key not in removed}
    return _without({**template, "Resources": kept}, removed), list(removed.values())


def with_dead_letter_outputs(template: Mapping[str, Any]) -> dict[str, Any]:
    """Add outputs with each function's name and dead-letter target, for `dead_letter_targets`.

    Ministack ignores `DeadLetterConfig`, but resolves the references in an output.

    Args:
        template: The synthesized template; not modified.
    """
    outputs = dict(template.get("Outputs", {}))
    for logical_id, resource in template["Resources"].items():
        target = resource.get("Properties", {}).get("DeadLetterConfig", {}).get("TargetArn")
        if resource["Type"] == FUNCTION and target:
            outputs[f"{_DEAD_LETTERS_OF}{logical_id}"] = {"Value": target}
            outputs[f"{_NAME_OF}{logical_id}"] = {"Value": {"Ref": logical_id}}
    return {**template, "Outputs": outputs} if outputs else dict(template)


def dead_letter_targets(outputs: Mapping[str, str]) -> dict[str, str]:
    """Dead-letter targets by function, from the outputs of a deployed stack."""
    return {
        outputs[f"{_NAME_OF}{key[len(_DEAD_LETTERS_OF) :]}"]: target
        for key, target in outputs.items()
        if key.startswith(_DEAD_LETTERS_OF)
    }


def _without(value: Any, removed: Mapping[str, RemovedResource]) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, list):
        return [_without(item, removed) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Ref": str(name)} if name in removed:
            return _name(removed[name])
        case {"Fn::GetAtt": [str(name), *_]} if name in removed:
            raise _irreplaceable(name, "the template uses one of its attributes")
        case {"Fn::Sub": text} if names := [name for name in _placeholders(text) if name in removed]:
            raise _irreplaceable(names[0], "Fn::Sub contains it")
    return {key: (_dependencies if key == "DependsOn" else _without)(item, removed) for key, item in value.items()}


def _dependencies(depends_on: str | list[str], removed: Mapping[str, RemovedResource]) -> list[str]:
    names = [depends_on] if isinstance(depends_on, str) else depends_on
    return [name for name in names if name not in removed]


def _placeholders(text: str | list[Any]) -> Iterator[str]:
    """Resource names in `Fn::Sub`, which is a text or a list of a text and values."""
    for placeholder in _PLACEHOLDER.finditer(text if isinstance(text, str) else text[0]):
        yield placeholder[1]


def _name(resource: RemovedResource) -> str:
    name = resource.properties.get(resource.type.name_property)
    if not isinstance(name, str):
        raise _irreplaceable(resource.logical_id, "a Ref needs its name, which CloudFormation generates")
    return name


def _irreplaceable(logical_id: str, reason: str) -> ConfigurationError:
    message = f"The local CloudFormation lacks the type of {logical_id}, and {reason}"
    return ConfigurationError(message, remedy="Extend deploy_local/unsupported.py")
