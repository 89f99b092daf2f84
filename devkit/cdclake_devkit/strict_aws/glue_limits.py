"""Glue refuses requests that exceed the limits of its API, and answers in pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse

from cdclake_devkit.strict_aws.model_limits import violations
from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_PAGE = 1000


def _checked(call: Callable[..., Any]) -> Callable[..., Any]:
    def call_action(response: GlueResponse) -> Any:  # noqa: ANN401  moto's
        found = violations("glue", response._get_action(), response.parameters)
        if not found:
            return call(response)
        errors = "1 validation error" if len(found) == 1 else f"{len(found)} validation errors"
        body = {"__type": "ValidationException", "message": f"{errors} detected: {'; '.join(found)}"}
        return 400, {"content-type": "application/x-amz-json-1.1"}, json.dumps(body)

    return call_action


def _paged(get: Callable[..., ActionResult]) -> Callable[..., ActionResult]:
    def get_partitions(response: GlueResponse) -> ActionResult:
        parameters = response.parameters
        start = int(parameters.get("NextToken") or 0)
        end = start + parameters.get("MaxResults", _LARGEST_PAGE)
        result: Any = get(response).result
        partitions = result["Partitions"]
        more = {"NextToken": str(end)} if end < len(partitions) else {}
        return ActionResult({"Partitions": partitions[start:end], **more})

    return get_partitions


LIMITS = Rule(
    name="Glue: limits of the API",
    aws="Refuses with ValidationException what exceeds the limits of the API's model: 100 partitions for "
    "BatchCreatePartition and BatchUpdatePartition, 25 for BatchDeletePartition, 1,000 for BatchGetPartition and a "
    "page of GetPartitions, 25 runs for BatchStopJobRun; 255 bytes for names, 131,072 for types, 2,056 for locations, "
    "1,024 for partition values; unknown types of workers and so on. For arguments of StartJobRun no limit is "
    "documented. ConcurrentRunsExceededException comes from moto.",
    source="https://docs.aws.amazon.com/glue/latest/webapi/API_BatchDeletePartition.html and the pages of the other "
    "operations, whose limits botocore's model contains",
    measured="https://github.com/apache/hudi/issues/9806, https://github.com/dbt-labs/dbt-athena/issues/327",
    patches=(Patch(GlueResponse, "call_action", _checked),),
)
PAGES = Rule(
    name="Glue: pages of partitions",
    aws="GetPartitions returns at most MaxResults partitions (1,000 if it is missing, which is not documented), and a "
    "NextToken if there are more. moto returns all at once.",
    source="https://docs.aws.amazon.com/glue/latest/webapi/API_GetPartitions.html",
    measured=NOT_MEASURED,
    patches=(Patch(GlueResponse, "get_partitions", _paged),),
)
