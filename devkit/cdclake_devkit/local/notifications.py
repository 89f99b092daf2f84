"""AWS Lambda and S3 bucket notifications: moto stores the configuration, and real processes run the functions."""

from __future__ import annotations

import base64
import itertools
import json
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus
from uuid import uuid4

import moto.s3.notifications
from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda.models import LambdaFunction, lambda_backends
from moto.core.responses import BaseResponse
from moto.s3.notifications import S3NotificationEvent

from cdclake_devkit.local.events import DeliveryError, EventDelivery
from cdclake_devkit.local.lambda_functions import FunctionSpec, LambdaFunctions
from cdclake_devkit.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping

    from moto.s3.models import FakeBucket, FakeKey

_LOG_TAIL_BYTES = 4096
_REQUEST_ID = "x-amzn-requestid"
_sequence = itertools.count(1)


@contextmanager
def real_functions(functions: LambdaFunctions, delivery: EventDelivery) -> Iterator[None]:
    """Let moto's Lambda run functions as real processes, and S3 notify them in the background."""

    def invoke(
        function: LambdaFunction,
        body: str | bytes,
        request_headers: Mapping[str, str],
        response_headers: MutableMapping[str, str],
    ) -> bytes:
        event = (body.decode() if isinstance(body, bytes) else body) or "{}"
        kind = request_headers.get("x-amz-invocation-type", "RequestResponse")
        request_id = response_headers[_REQUEST_ID] = str(uuid4())
        if kind == "Event":
            what = f"Asynchronous invocation of Lambda {function.function_name}"
            delivery.deliver(what, lambda: _invoke(functions, function, event, request_id))
        if kind != "RequestResponse":
            return b""
        result = functions.invoke(function_spec(function), event, request_id)
        if result.failed:
            response_headers["x-amz-function-error"] = "Unhandled"
        tail = result.log.encode()[-_LOG_TAIL_BYTES:]
        response_headers["x-amz-log-result"] = base64.b64encode(tail).decode()
        return result.payload.encode()

    def notify(account_id: str, event_body: dict[str, Any], fn_arn: str, region_name: str) -> None:
        record = event_body["Records"][0]
        where = f"{record['s3']['bucket']['name']}/{record['s3']['object']['key']}"
        what = f"S3 event {record['eventName']} of {where}"
        delivery.deliver(what, sending(functions, fn_arn, event_body, account_id, region_name))

    with ExitStack() as stack:
        stack.enter_context(replaced(LambdaFunction, "invoke", invoke))
        with_own_id = staticmethod(_with_own_id(BaseResponse._enrich_response))
        stack.enter_context(replaced(BaseResponse, "_enrich_response", with_own_id))
        stack.enter_context(replaced(moto.s3.notifications, "_invoke_awslambda", notify))
        stack.enter_context(replaced(moto.s3.notifications, "_get_s3_event", s3_event))
        stack.enter_context(
            replaced(moto.s3.notifications, "send_event", _without_duplicate(moto.s3.notifications.send_event))
        )
        yield


def sending(
    functions: LambdaFunctions, arn: str, event: Mapping[str, Any], account_id: str, region: str
) -> Callable[[], None]:
    """A function that sends an event to one of moto's functions, or raises `DeliveryError`.

    Each try is the same request. https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html

    Args:
        arn: ARN of moto's function, which need not exist.
    """
    request_id = str(uuid4())

    def send() -> None:
        try:
            function = lambda_backends[account_id][region].get_function(arn)
        except UnknownFunctionException as error:
            message = f"the function {arn} does not exist"
            raise DeliveryError(message) from error
        _invoke(functions, function, json.dumps(event), request_id)

    return send


def _invoke(functions: LambdaFunctions, function: LambdaFunction, event: str, request_id: str) -> None:
    result = functions.invoke(function_spec(function), event, request_id)
    if result.failed:
        message = f"{result.payload} (log: {functions.log_path(function.function_name)})"
        raise DeliveryError(message)


def function_spec(function: LambdaFunction) -> FunctionSpec:
    """Code and configuration of one of moto's functions."""
    variables: dict[str, str] = function.environment_vars
    return FunctionSpec(
        arn=function.function_arn,
        name=function.function_name,
        role=function.role,
        version=str(function.version),
        handler=function.handler or "",
        code_zip=function.code_bytes,
        timeout_seconds=int(function.timeout),
        memory_mb=int(function.memory_size),
        variables=tuple(sorted(variables.items())),
    )


def s3_event(event_name: str, bucket: FakeBucket, key: FakeKey, notification_id: str) -> dict[str, Any]:
    """An S3 event message, version 2.1.

    The key is URL-encoded, with spaces as `+` and slashes unchanged. Source:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    stored = {
        "key": quote_plus(key.name, safe="/"),
        "size": key.size,
        "eTag": key.etag.strip('"'),
        "sequencer": f"{next(_sequence):018X}",
    }
    if key.version_id != "null":
        stored["versionId"] = key.version_id
    return {
        "Records": [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "awsRegion": bucket.region_name,
                "eventTime": now,
                "eventName": event_name.removeprefix("s3:"),
                "userIdentity": {"principalId": bucket.account_id},
                "requestParameters": {"sourceIPAddress": "127.0.0.1"},
                "responseElements": {"x-amz-request-id": "", "x-amz-id-2": ""},
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": notification_id,
                    "bucket": {
                        "name": bucket.name,
                        "ownerIdentity": {"principalId": bucket.account_id},
                        "arn": bucket.arn,
                    },
                    "object": stored,
                },
            }
        ]
    }


def _with_own_id(enrich: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the request id that a response has already; moto makes one up for each."""

    def enrich_response(headers: dict[str, str], body: Any) -> Any:  # noqa: ANN401  moto's
        own = {name: value for name, value in headers.items() if name == _REQUEST_ID}
        headers, body = enrich(headers, body)
        return {**headers, **own}, body

    return enrich_response


def _without_duplicate(send_event: Any) -> Any:  # noqa: ANN401  moto's function
    """Drop the Put event that moto, unlike S3, sends in addition to the event of a completed multipart upload."""

    def send(account_id: str, event_name: S3NotificationEvent, bucket: FakeBucket, key: FakeKey) -> None:
        if event_name is S3NotificationEvent.OBJECT_CREATED_PUT_EVENT and key.multipart is not None:
            return
        send_event(account_id, event_name, bucket, key)

    return send
