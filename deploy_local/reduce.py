"""Takes out of a template what the local CloudFormation lacks, and asks it for what it overlooks. Pure."""

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
class Lacking:
    """A type of resource that the local CloudFormation lacks.

    Attributes:
        kind: As `AWS::Glue::Workflow`.
        name_property: The property whose value a `Ref` to such a resource gives.
        instead: What is done in its place, so that nothing is lost.
    """

    kind: str
    name_property: str
    instead: str


@dataclass(frozen=True)
class TakenOut:
    """A resource that was taken out.

    Attributes:
        logical_id: Its name in the template.
        properties: Its properties.
        lacking: Why.
    """

    logical_id: str
    properties: Mapping[str, Any]
    lacking: Lacking


def reduced(template: Mapping[str, Any], lacking: Mapping[str, Lacking]) -> tuple[dict[str, Any], list[TakenOut]]:
    """The template without resources of some types. A `Ref` to one of them becomes the name that it would give.

    Args:
        template: As synthesized; left as it is.
        lacking: What is lacking, by type.

    Returns:
        The template to deploy, and what was taken out.

    Raises:
        ConfigurationError: Something asks for an attribute of what is taken out, or its name is not a plain text.
    """
    gone = {
        logical_id: TakenOut(logical_id, resource.get("Properties", {}), lacking[resource["Type"]])
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] in lacking
    }
    kept = {key: value for key, value in template["Resources"].items() if key not in gone}
    return _without({**template, "Resources": kept}, gone), list(gone.values())


def with_dead_letters(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template with outputs of each function's name and dead-letter target, as `dead_letters` reads them.

    Ministack takes `DeadLetterConfig` and forgets it. By an output it still resolves the references in it.

    Args:
        template: As synthesized; left as it is.
    """
    outputs = dict(template.get("Outputs", {}))
    for logical_id, resource in template["Resources"].items():
        target = resource.get("Properties", {}).get("DeadLetterConfig", {}).get("TargetArn")
        if resource["Type"] == FUNCTION and target:
            outputs[f"{_DEAD_LETTERS_OF}{logical_id}"] = {"Value": target}
            outputs[f"{_NAME_OF}{logical_id}"] = {"Value": {"Ref": logical_id}}
    return {**template, "Outputs": outputs} if outputs else dict(template)


def dead_letters(outputs: Mapping[str, str]) -> dict[str, str]:
    """Dead-letter targets by function, from the outputs of a deployed stack."""
    return {
        outputs[f"{_NAME_OF}{key[len(_DEAD_LETTERS_OF) :]}"]: target
        for key, target in outputs.items()
        if key.startswith(_DEAD_LETTERS_OF)
    }


def _without(value: Any, gone: Mapping[str, TakenOut]) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, list):
        return [_without(one, gone) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Ref": str(name)} if name in gone:
            return _name(gone[name])
        case {"Fn::GetAtt": [str(name), *_]} if name in gone:
            raise _still_wanted(name, "an attribute of it is used")
        case {"Fn::Sub": text} if any(found in gone for found in _placeholders(text)):
            raise _still_wanted(next(found for found in _placeholders(text) if found in gone), "Fn::Sub names it")
    return {key: _after(one, gone) if key == "DependsOn" else _without(one, gone) for key, one in value.items()}


def _after(depends_on: str | list[str], gone: Mapping[str, TakenOut]) -> list[str]:
    names = [depends_on] if isinstance(depends_on, str) else depends_on
    return [name for name in names if name not in gone]


def _placeholders(text: str | list[Any]) -> Iterator[str]:
    """Names of resources in the first form of `Fn::Sub`, a text, or the second, a text and values."""
    for found in _PLACEHOLDER.finditer(text if isinstance(text, str) else text[0]):
        yield found[1]


def _name(taken_out: TakenOut) -> str:
    name = taken_out.properties.get(taken_out.lacking.name_property)
    if not isinstance(name, str):
        raise _still_wanted(taken_out.logical_id, "it is referred to, and its name is made up when it is deployed")
    return name


def _still_wanted(logical_id: str, why: str) -> ConfigurationError:
    message = f"The local CloudFormation lacks the type of {logical_id}, and {why}"
    return ConfigurationError(message, remedy="Teach deploy_local/reduce.py what to put there")
