"""Evaluates policies as IAM does, for the features that these policies use: Allow statements and few conditions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.infra.calls import Call


def allowing(statements: Mapping[str, Mapping[str, Any]], call: Call) -> set[tuple[str, str]]:
    """The ids of the statements that allow a call, each with the call's action; empty if none does.

    An action that does not support resources is allowed only by statements on all resources.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
    """
    return {
        (name, call.action)
        for name, statement in statements.items()
        if call.action in as_list(statement["Action"])
        and any(_matches(pattern, call.resource) for pattern in as_list(statement["Resource"]))
        and _conditions_hold(statement.get("Condition", {}), dict(call.context))
    }


def as_list(value: str | list[str]) -> list[str]:
    """A value as a list; a policy may omit the brackets around a single value."""
    return [value] if isinstance(value, str) else value


def _conditions_hold(conditions: Mapping[str, Mapping[str, str | list[str]]], context: Mapping[str, str]) -> bool:
    return all(
        key in context and _OPERATORS[operator](as_list(expected), context[key])
        for operator, keys in conditions.items()
        for key, expected in keys.items()
    )


def _equal(expected: Iterable[str], value: str) -> bool:
    return value in expected


def _like(patterns: Iterable[str], value: str) -> bool:
    return any(_matches(pattern, value) for pattern in patterns)


_OPERATORS = {"StringEquals": _equal, "StringLike": _like}


def _matches(pattern: str, value: str) -> bool:
    """In a policy, `*` matches any characters, including slashes, and `?` matches one character."""
    parts = ("." if part == "?" else ".*" if part == "*" else re.escape(part) for part in re.split(r"([*?])", pattern))
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None
