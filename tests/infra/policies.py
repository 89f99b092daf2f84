"""What a policy allows, as IAM decides it, as far as our policies go: they only allow, and use few conditions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.infra.calls import Call


def allowing(statements: Mapping[str, Mapping[str, Any]], call: Call) -> set[tuple[str, str]]:
    """The statements that allow a call, each with the action that it allows it by; empty if none does.

    An action that knows no resources is allowed by statements on all resources alone.
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
    """A policy may leave out the brackets around a single value."""
    return [value] if isinstance(value, str) else value


def _conditions_hold(conditions: Mapping[str, Mapping[str, str | list[str]]], context: Mapping[str, str]) -> bool:
    return all(
        key in context and _OPERATORS[operator](as_list(wanted), context[key])
        for operator, keys in conditions.items()
        for key, wanted in keys.items()
    )


def _equal(wanted: Iterable[str], value: str) -> bool:
    return value in wanted


def _like(wanted: Iterable[str], value: str) -> bool:
    return any(_matches(pattern, value) for pattern in wanted)


_OPERATORS = {"StringEquals": _equal, "StringLike": _like}


def _matches(pattern: str, value: str) -> bool:
    """In a policy, a star stands for any characters, slashes as well, and a question mark for one."""
    parts = ("." if part == "?" else ".*" if part == "*" else re.escape(part) for part in re.split(r"([*?])", pattern))
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None
