"""Keeps the id of an asynchronous request to a function.

Ministack 1.5.33 answers with one id, and makes up another one for each try. Lambda answers with the id that the
function sees, and repeats the same request.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ministack import app
from ministack.services import lambda_svc

_dispatch = app._dispatch_service_request
_invoke = lambda_svc._invoke
_try_in_background = lambda_svc.invoke_async_with_retry
_execute = lambda_svc._execute_function_dispatch

_of_http: ContextVar[str] = ContextVar("of_http", default="")
"""Id of the HTTP request, with which ministack answers."""
_accepted: ContextVar[str] = ContextVar("accepted", default="")
"""Id of the request to a function that is being accepted."""
_tried: ContextVar[str] = ContextVar("tried", default="")
"""Id of the asynchronous request that is tried in this context."""


def keep_request_ids() -> None:
    """Install the patch."""
    app._dispatch_service_request = _dispatch_with_id
    lambda_svc._invoke = _invoke_with_id
    lambda_svc.invoke_async_with_retry = _try_with_one_id
    lambda_svc._execute_function_dispatch = _execute_with_id


async def _dispatch_with_id(*arguments: Any) -> Any:  # noqa: ANN401  ministack's
    *_, request_id = arguments
    _of_http.set(request_id)
    return await _dispatch(*arguments)


async def _invoke_with_id(*arguments: Any) -> Any:  # noqa: ANN401  ministack's
    _accepted.set(_of_http.get())
    return await _invoke(*arguments)


def _try_with_one_id(function: dict[str, Any], event: object) -> None:
    """Ministack tries in a copy of this context. An event of another service has no request of its own."""
    _tried.set(_accepted.get() or lambda_svc.new_uuid())
    _accepted.set("")
    _try_in_background(function, event)


def _execute_with_id(
    function: dict[str, Any], config: dict[str, Any], event: object, request_id: str, started: float
) -> Any:  # noqa: ANN401  ministack's
    return _execute(function, config, event, _tried.get() or request_id, started)
