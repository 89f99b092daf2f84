"""Network faults between boto3 and the embedded AWS: lost requests and lost responses."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Callable, cast

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.client import BaseClient

Step = Callable[["AWSPreparedRequest"], "AWSResponse | None"]


class _Body(BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


class Faults:
    """Faults for the next requests of one operation, or of all. Requests after the last fault pass.

    Attributes:
        sent: Number of requests so far, including retries.
    """

    def __init__(self, client: BaseClient, operation: str | None = None) -> None:
        self.sent = 0
        self._before: list[Step | None] = []
        self._after: list[Step | None] = []
        self._ending = f".{operation}" if operation else ""
        # The embedded AWS responds from a handler of the same event, between these two.
        events = cast("Any", client.meta.events)  # its stub lacks handlers that return a response
        events.register_first("before-send", self._before_send)
        events.register_last("before-send", self._after_send)

    def _before_send(self, request: AWSPreparedRequest, event_name: str, **_: object) -> AWSResponse | None:
        if not event_name.endswith(self._ending):
            return None
        self.sent += 1
        step = self._before.pop(0) if self._before else None
        return step(request) if step else None

    def _after_send(self, request: AWSPreparedRequest, event_name: str, **_: object) -> AWSResponse | None:
        if not event_name.endswith(self._ending):
            return None
        step = self._after.pop(0) if self._after else None
        return step(request) if step else None

    def clear(self) -> None:
        """Drop the remaining faults."""
        self._before.clear()
        self._after.clear()

    def let_through(self, times: int = 1) -> None:
        """Let requests pass."""
        self._before += [None] * times
        self._after += [None] * times

    def before_request(self, step: Callable[[], object]) -> None:
        """Run a step just before the request arrives, as if another caller did."""

        def run_step(_: AWSPreparedRequest) -> None:
            step()

        self._before.append(run_step)
        self._after.append(None)

    def lose_request(self, times: int = 1) -> None:
        """Break the connection before the service receives the request."""
        self._before += [_break] * times  # the request goes no further

    def lose_response(self, times: int = 1) -> None:
        """Let the service execute the request, and time out waiting for the response."""
        self._before += [None] * times
        self._after += [_time_out] * times

    def lose_response_after(self, step: Callable[[], object]) -> None:
        """Run a step just before the request arrives, and lose the response."""
        self.before_request(step)
        self._after[-1] = _time_out

    def replace_response(self, status: int, code: str) -> None:
        """Let the service execute the request, and return this error."""
        self._before.append(lambda request: response(request, status, error_body(code)))
        self._after.append(None)

    def respond(self, status: int, body: bytes, times: int = 1) -> None:
        """Return this response without executing the request."""

        def refuse_request(request: AWSPreparedRequest) -> AWSResponse:
            request.url = "https://turned-away.invalid/"  # where the embedded AWS does not listen
            return response(request, status, body)

        self._before += [refuse_request] * times
        self._after += [None] * times

    def refuse(self, status: int, code: str, times: int = 1) -> None:
        """Return this error without executing the request."""
        for _ in range(times):
            self.respond(status, error_body(code))


def response(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    """A response of a service."""
    return AWSResponse(request.url, status, {}, _Body(body))  # type: ignore[arg-type]  # the stub wants urllib3's


def error_body(code: str) -> bytes:
    """The body of an S3 error."""
    return f"<Error><Code>{code}</Code><Message>made up</Message></Error>".encode()


def _break(request: AWSPreparedRequest) -> AWSResponse | None:
    raise ConnectionClosedError(endpoint_url=request.url)


def _time_out(request: AWSPreparedRequest) -> AWSResponse | None:
    raise ReadTimeoutError(endpoint_url=request.url)
