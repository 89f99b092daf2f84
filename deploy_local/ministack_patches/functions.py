"""Keeps the id of an asynchronous request to a function.

Ministack 1.5.33 makes up an id for each try, and another one for its answer. Lambda answers with the id that the
function sees, and repeats the same request.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ministack.services import lambda_svc

_answer = lambda_svc._invoke
_try_in_background = lambda_svc.invoke_async_with_retry
_execute = lambda_svc._execute_function_dispatch
_request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the asynchronous request that this context, or the one that it was copied from, accepted."""


def keep_request_ids() -> None:
    """Install the patch."""
    lambda_svc._invoke = _answer_with_id
    lambda_svc.invoke_async_with_retry = _try_with_one_id
    lambda_svc._execute_function_dispatch = _execute_with_id


async def _answer_with_id(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401  ministack's
    status, headers, body = await _answer(*arguments, **options)
    if _request_id.get():
        headers["x-amzn-requestid"] = _request_id.get()
    return status, headers, body


def _try_with_one_id(function: dict[str, Any], event: Any) -> None:  # noqa: ANN401  any JSON
    """Ministack tries in a copy of this context."""
    _request_id.set(lambda_svc.new_uuid())
    _try_in_background(function, event)


def _execute_with_id(
    function: dict[str, Any], config: dict[str, Any], event: object, request_id: str, started: float
) -> Any:  # noqa: ANN401  ministack's
    return _execute(function, config, event, _request_id.get() or request_id, started)
