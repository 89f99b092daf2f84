"""Evaluates policies as IAM does, for the features that cdclake's policies use: Allow statements and few conditions.

What this module does not know grants nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Permission(NamedTuple):
    """What a request needs; one request may need several.

    Attributes:
        action: As in policies, e.g. `s3:GetObject`.
        resource: ARN; `*` for an action that does not support resources.
        context: Condition keys with their values.
    """

    action: str
    resource: str
    context: frozenset[tuple[str, str]] = frozenset()


def allows(statement: Mapping[str, Any], permission: Permission) -> bool:
    """Whether a statement grants a permission.

    An action that does not support resources is granted only by statements on all resources.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
    """
    return (
        permission.action in as_list(statement["Action"])
        and any(_matches(pattern, permission.resource) for pattern in as_list(statement["Resource"]))
        and _conditions_hold(statement.get("Condition", {}), dict(permission.context))
    )


def as_list(value: str | list[str]) -> list[str]:
    """A value as a list; a policy may omit the brackets around a single value."""
    return [value] if isinstance(value, str) else value


def _conditions_hold(conditions: Mapping[str, Mapping[str, str | list[str]]], context: Mapping[str, str]) -> bool:
    return all(
        operator in _OPERATORS and key in context and _OPERATORS[operator](as_list(expected), context[key])
        for operator, keys in conditions.items()
        for key, expected in keys.items()
    )


def _equal(expected: Iterable[str], value: str) -> bool:
    return value in expected


def _like(patterns: Iterable[str], value: str) -> bool:
    return any(_matches(pattern, value) for pattern in patterns)


_OPERATORS: dict[str, Callable[[Iterable[str], str], bool]] = {"StringEquals": _equal, "StringLike": _like}


def _matches(pattern: str, value: str) -> bool:
    return _expression(pattern).fullmatch(value) is not None


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    """In a policy, `*` matches any characters, including slashes, and `?` matches one character."""
    parts = ("." if part == "?" else ".*" if part == "*" else re.escape(part) for part in re.split(r"([*?])", pattern))
    return re.compile("".join(parts), re.DOTALL)
