"""A bad network between boto3 and the embedded AWS: requests that do not arrive, answers that do not come back."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Callable, cast

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.awsrequest import AWSPreparedRequest
    from botocore.client import BaseClient

Step = Callable[["AWSPreparedRequest"], "AWSResponse | None"]


class _Body(BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


class Faults:
    """What happens to the next requests of one operation, or of all; those after the last step go through undisturbed.

    Attributes:
        sent: Requests so far, retries included.
    """

    def __init__(self, client: BaseClient, operation: str | None = None) -> None:
        self.sent = 0
        self._before: list[Step | None] = []
        self._after: list[Step | None] = []
        self._ending = f".{operation}" if operation else ""
        # The embedded AWS answers from a handler of the same event, between these two.
        events = cast("Any", client.meta.events)  # its stub knows no handlers that answer
        events.register_first("before-send", self._on_way_there)
        events.register_last("before-send", self._on_way_back)

    def _on_way_there(self, request: AWSPreparedRequest, event_name: str, **_: object) -> AWSResponse | None:
        if not event_name.endswith(self._ending):
            return None
        self.sent += 1
        step = self._before.pop(0) if self._before else None
        return step(request) if step else None

    def _on_way_back(self, request: AWSPreparedRequest, event_name: str, **_: object) -> AWSResponse | None:
        if not event_name.endswith(self._ending):
            return None
        step = self._after.pop(0) if self._after else None
        return step(request) if step else None

    def clear(self) -> None:
        """Forget the steps that are left."""
        self._before.clear()
        self._after.clear()

    def let_through(self, times: int = 1) -> None:
        """Nothing happens."""
        self._before += [None] * times
        self._after += [None] * times

    def before_request(self, step: Callable[[], object]) -> None:
        """Somebody else does something just before the request arrives."""

        def meanwhile(_: AWSPreparedRequest) -> None:
            step()

        self._before.append(meanwhile)
        self._after.append(None)

    def lose_request(self, times: int = 1) -> None:
        """The connection breaks before the service has the request."""
        self._before += [_break] * times  # the rest of the way is not gone

    def lose_answer(self, times: int = 1) -> None:
        """The service carries the request out, and the caller waits in vain."""
        self._before += [None] * times
        self._after += [_time_out] * times

    def lose_answer_after(self, step: Callable[[], object]) -> None:
        """Somebody else does something just before the request arrives, and its answer gets lost."""
        self.before_request(step)
        self._after[-1] = _time_out

    def replace_answer(self, status: int, code: str) -> None:
        """The service carries the request out, and the caller gets this error all the same."""
        self._before.append(lambda request: answer(request, status, error_body(code)))
        self._after.append(None)

    def give_answer(self, status: int, body: bytes) -> None:
        """The service does not carry the request out, and the caller gets this."""

        def turn_away(request: AWSPreparedRequest) -> AWSResponse:
            request.url = "https://turned-away.invalid/"  # where the embedded AWS has nothing
            return answer(request, status, body)

        self._before.append(turn_away)
        self._after.append(None)

    def refuse(self, status: int, code: str, times: int = 1) -> None:
        """The service does not carry the request out, and says why."""
        for _ in range(times):
            self.give_answer(status, error_body(code))


def answer(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    """An answer of a service."""
    return AWSResponse(request.url, status, {}, _Body(body))  # type: ignore[arg-type]  # the stub wants urllib3's


def error_body(code: str) -> bytes:
    """What S3 sends with an error."""
    return f"<Error><Code>{code}</Code><Message>made up</Message></Error>".encode()


def _break(request: AWSPreparedRequest) -> AWSResponse | None:
    raise ConnectionClosedError(endpoint_url=request.url)


def _time_out(request: AWSPreparedRequest) -> AWSResponse | None:
    raise ReadTimeoutError(endpoint_url=request.url)
