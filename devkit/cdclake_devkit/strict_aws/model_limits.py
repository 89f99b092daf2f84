"""Checks a request against the limits of the service's own model, of which botocore checks only the minimums."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from moto.core.utils import get_service_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.model import Shape

_SHOWN_CHARACTERS = 100
_BEYOND_16_BITS = (r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")
"""A range of characters as Java's patterns write it, and as Python's do."""


def violations(service: str, operation: str, parameters: dict[str, Any]) -> list[str]:
    """The limits that a request exceeds, in the words of AWS; empty if it may pass.

    Args:
        service: Name of the service in botocore.
        parameters: The parameters as sent. Unknown ones are ignored, as AWS does.
    """
    shape = get_service_model(service).operation_model(operation).input_shape
    return list(_violations(shape, parameters, "")) if shape else []


def _violations(shape: Shape, value: Any, path: str) -> Iterator[str]:  # noqa: ANN401  JSON
    if shape.type_name == "structure":
        for name, member in shape.members.items():  # type: ignore[attr-defined]  # of a structure
            if isinstance(value, dict) and value.get(name) is not None:
                yield from _violations(member, value[name], f"{path}.{_lower(name)}" if path else _lower(name))
    elif shape.type_name == "list":
        yield from _exceeded(shape, len(value), value, path, "have length")
        for number, item in enumerate(value, 1):
            yield from _violations(shape.member, item, f"{path}.{number}.member")  # type: ignore[attr-defined]
    elif shape.type_name == "map":
        for key, item in value.items():
            yield from _violations(shape.key, key, f"{path}.key")  # type: ignore[attr-defined]
            yield from _violations(shape.value, item, f"{path}.{key}.member")  # type: ignore[attr-defined]
    elif shape.type_name == "string":
        yield from _exceeded(shape, len(value.encode()), value, path, "have length")
        yield from _mismatches(shape, value, path)
    elif shape.type_name in {"integer", "long", "float", "double"}:
        yield from _exceeded(shape, value, value, path, "have value")


def _exceeded(shape: Shape, size: float, value: object, path: str, what: str) -> Iterator[str]:
    largest = shape.metadata.get("max")
    if largest is not None and size > largest:
        yield _violation(value, path, f"Member must {what} less than or equal to {largest}")


def _mismatches(shape: Shape, value: str, path: str) -> Iterator[str]:
    pattern, values = shape.metadata.get("pattern"), shape.metadata.get("enum")
    compiled = _compiled(pattern) if pattern else None
    if compiled and not compiled.fullmatch(value):
        yield _violation(value, path, f"Member must satisfy regular expression pattern: {pattern}")
    if values and value not in values:
        yield _violation(value, path, f"Member must satisfy enum value set: [{', '.join(values)}]")


def _violation(value: object, path: str, constraint: str) -> str:
    return f"Value '{str(value)[:_SHOWN_CHARACTERS]}' at '{path}' failed to satisfy constraint: {constraint}"


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern; None for one that Python cannot express."""
    try:
        return re.compile(pattern.replace(*_BEYOND_16_BITS))
    except re.error:
        return None


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]
