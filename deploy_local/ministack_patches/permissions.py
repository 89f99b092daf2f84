"""Corrects two authorization details in which ministack 1.5.33 differs from IAM.

* In `GetDatabase`, ministack reads the database's `Name` as the name of a table.
  https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html
* Ministack lacks the condition key `cloudwatch:namespace` of `PutMetricData`.
  https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/iam-cw-condition-keys-namespace.html
"""

from __future__ import annotations

import json
from typing import Any

from ministack.core import iam_actions

_resource_arn = iam_actions.extract_resource_arn
_request_context = iam_actions.request_tag_context


def correct_authorization() -> None:
    """Install both corrections."""
    iam_actions.extract_resource_arn = _with_databases
    iam_actions.request_tag_context = _with_namespaces


def _with_databases(
    service: str,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    query_params: dict[str, Any],
    region: str,
    account_id: str,
) -> str:
    if service == "glue" and headers.get("x-amz-target", "").endswith(".GetDatabase"):
        return f"arn:aws:glue:{region}:{account_id}:database/{json.loads(body)['Name']}"
    arn: str = _resource_arn(service, method, path, headers, body, query_params, region, account_id)
    return arn


def _with_namespaces(service: str, iam_action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = _request_context(service, iam_action, body, params)
    if iam_action == "cloudwatch:PutMetricData":
        context["cloudwatch:namespace"] = json.loads(body)["Namespace"]
    return context
