"""Roles with exact actions on exact resources. A wildcard has a reason, which also acknowledges cdk-nag's finding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aws_cdk import Acknowledgment, Aws, Stack, Validations
from aws_cdk import aws_iam as iam

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from constructs import Construct


@dataclass(frozen=True)
class Statement:
    """A statement of a policy.

    Attributes:
        sid: Statement id.
        actions: Actions, without wildcards.
        resources: ARNs, with a wildcard only at the end.
        wildcard_reason: Why there is a wildcard; empty if there is none.
        conditions: IAM conditions.
    """

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    wildcard_reason: str = ""
    conditions: Mapping[str, Mapping[str, str | list[str]]] = field(default_factory=dict)


def create_role(scope: Construct, name: str, *, service: str, statements: Iterable[Statement]) -> iam.IRole:
    """Create a role with exactly these statements; those that other constructs would add are dropped.

    The service may assume it on behalf of this account alone. Glue and Lambda do not document that they state the
    account, so the condition applies if they do.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html

    Args:
        name: Construct id.
        service: The service that assumes the role, e.g. `glue.amazonaws.com`.
    """
    statements = list(statements)
    created = iam.Role(
        scope,
        name,
        assumed_by=iam.ServicePrincipal(
            service, conditions={"StringEqualsIfExists": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        ),
        inline_policies={"Grants": iam.PolicyDocument(statements=list(map(_policy_statement, statements)))},
    )
    for statement in statements:
        for resource in statement.resources:
            if "*" in resource:
                _acknowledge_wildcard(created, resource, statement.wildcard_reason)
    return created.without_policy_updates()


def _policy_statement(statement: Statement) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=statement.sid,
        actions=list(statement.actions),
        resources=list(statement.resources),
        conditions=statement.conditions,
    )


def _acknowledge_wildcard(created: iam.Role, resource: str, reason: str) -> None:
    finding = f"AwsSolutions-IAM5[Resource::{_nag_text(Stack.of(created).resolve(resource))}]"
    Validations.of(created).acknowledge(Acknowledgment(id=finding, reason=reason))


def _nag_text(resolved: Any) -> str:  # noqa: ANN401 - CloudFormation's JSON
    """A resolved value as cdk-nag writes it: references in angle brackets."""
    if isinstance(resolved, str):
        return resolved
    if "Ref" in resolved:
        return f"<{resolved['Ref']}>"
    delimiter, parts = resolved["Fn::Join"]
    return str(delimiter).join(map(_nag_text, parts))
