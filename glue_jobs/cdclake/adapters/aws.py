"""Creates clients of AWS services, translates their errors, and knows their time.

Leases expire, changes are found and files are due by times that different machines wrote and read, and the clock of a
machine may be off by hours. Every response of AWS has its time (the header `Date`), so `ServerClock` costs no request.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from threading import local
from typing import TYPE_CHECKING, Any, Callable, Literal, NamedTuple, TypeVar, overload

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)
from botocore.utils import parse_timestamp

from cdclake import __version__, logs
from cdclake.errors import CdclakeError, ConfigurationError, RetryableError
from cdclake.model.times import MAX_CLOCK_DIFFERENCE, display_utc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.client import BaseClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client

    from cdclake.ports import Clock

Client = TypeVar("Client")

_AGREES = timedelta(seconds=2)
"""The header has whole seconds. A clock within this of AWS's is taken as it is, because it is more exact."""
_LONGEST_TRIP = timedelta(seconds=5)
"""A response that took longer does not show the time: it was long on the way, or the process was paused."""
_HALF_SECOND = timedelta(seconds=0.5)
NO_ANSWER = (HTTPClientError, ConnectionError, IncompleteReadError)
"""What botocore raises if the response is missing or incomplete. The service may have executed the request."""

# Adaptive retries slow this client down when the service throttles it. S3 and the state table usually respond within a
# second; the read timeout allows for large server-side copies. S3 addressing is not set, because botocore addresses
# buckets by host on AWS, and by path if an endpoint URL is set.
_CONFIG = Config(
    retries={"mode": "adaptive", "total_max_attempts": 8},
    connect_timeout=5,
    read_timeout=60,
    max_pool_connections=32,
    user_agent_extra=f"cdclake/{__version__}",
)

_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_DENIED = frozenset(
    {
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AccessDeniedFault",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_MISSING = frozenset({"NoSuchBucket", "ResourceNotFoundException", "ResourceNotFoundFault", "EntityNotFoundException"})
_TRANSIENT = frozenset(
    {
        "ConcurrentModificationException",
        "LimitExceededException",
        "OperationTimeoutException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
    }
)


log = logs.bind(__name__)


def machine_time() -> datetime:
    """What the clock of this machine shows, in UTC."""
    return datetime.now(timezone.utc)


class ServerClock:
    """A `Clock`: this machine's, corrected by the times in responses. Safe to share between threads.

    Args:
        machine: The clock of this machine.

    Attributes:
        heard: Whether a response has shown the time. Before, the machine's clock counts.
        skew: How far the machine's clock is ahead of AWS; negative if it is behind, zero while they agree.
        report: Called with `fault` when the clock is found to be off.
    """

    def __init__(self, machine: Clock = machine_time) -> None:
        self._machine = machine
        self._sent = local()
        self._asked = False
        self.heard = False
        self.skew = timedelta()
        self.report: Callable[[str], object] = log.warning

    def __call__(self) -> datetime:
        """The current time."""
        return self._machine() - self.skew

    def after(self, request: Callable[[], object]) -> datetime:
        """The current time; sends a request first if there was no response yet, and none again if that does not help.

        Args:
            request: Sends any request through a watched client.

        Raises:
            As `request`.
        """
        if not (self.heard or self._asked):
            self._asked = True
            request()
        return self()

    @property
    def fault(self) -> str:
        """That the machine's clock is off, with both times, for people; empty if it is right."""
        if abs(self.skew) <= MAX_CLOCK_DIFFERENCE:
            return ""
        seconds = round(self.skew.total_seconds())
        off = f"{abs(seconds):,} seconds {'ahead of' if seconds > 0 else 'behind'}"
        shown, right = display_utc(self._machine()), display_utc(self())
        return (
            f"The clock of this machine shows {shown}, {off} AWS, where it is {right}. The time of AWS is used; correct"
            " the clock, because AWS refuses requests that are signed more than some minutes off"
        )

    def watch(self, client: Client) -> Client:
        """Learn the time from the responses to a boto3 client, which is returned."""
        events: Any = getattr(client, "meta").events  # noqa: B009 - clients of all services have it, and no common type
        events.register("before-send", self._send)
        events.register("response-received", self._hear)
        return client

    def _send(self, **_: object) -> None:
        self._sent.at = self._machine()

    def _hear(self, response_dict: Any = None, **_: object) -> None:  # noqa: ANN401 - botocore has no types
        now, sent = self._machine(), getattr(self._sent, "at", None)
        text = response_dict["headers"].get("date") if response_dict else None
        if sent is None or not text or not timedelta() <= now - sent <= _LONGEST_TRIP:
            return
        try:
            server = parsedate_to_datetime(text)
        except (TypeError, ValueError):  # a server that is not AWS
            return
        if server.tzinfo is None:
            return
        self.heard = True
        skew = sent + (now - sent) / 2 - (server + _HALF_SECOND)
        if abs(skew - self.skew) <= _AGREES:
            return
        self.skew = skew if abs(skew) > _AGREES else timedelta()
        if self.fault:
            self.report(self.fault)


server_clock = ServerClock()
"""The time for everything that this process does. Without a response of AWS, as with folders, the machine's own."""


def session() -> boto3.session.Session:
    """The process's boto3 session. It honors `AWS_PROFILE`, `AWS_REGION` and the other settings of the AWS SDKs."""
    if boto3.DEFAULT_SESSION is None:
        core = botocore.session.Session()
        core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=read_time)
        boto3.setup_default_session(botocore_session=core)
    assert boto3.DEFAULT_SESSION is not None
    return boto3.DEFAULT_SESSION


def read_time(text: str) -> datetime:
    """Parse a time in a response. botocore's own parser accepts any format, but is slow on long listings."""
    if isinstance(text, str) and text.endswith("Z"):
        with suppress(ValueError):
            return datetime.fromisoformat(f"{text[:-1]}+00:00")
    return parse_timestamp(text)


@overload
def client(service: Literal["s3"]) -> S3Client: ...
@overload
def client(service: Literal["dynamodb"]) -> DynamoDBClient: ...
@overload
def client(service: Literal["glue"]) -> GlueClient: ...
@overload
def client(service: Literal["lambda"]) -> LambdaClient: ...
@overload
def client(service: Literal["dms", "secretsmanager"]) -> BaseClient: ...
def client(
    service: Literal["s3", "dynamodb", "glue", "lambda", "dms", "secretsmanager"],
) -> S3Client | DynamoDBClient | GlueClient | LambdaClient | BaseClient:
    """Create a client of a service from the default session, watched by `server_clock`. Clients are thread-safe.

    `AWS_ENDPOINT_URL` (or `AWS_ENDPOINT_URL_S3`, ...) selects an endpoint other than AWS.

    Raises:
        ConfigurationError: No region is configured.
    """
    try:
        return server_clock.watch(session().client(service, config=_CONFIG))
    except NoRegionError as error:
        raise ConfigurationError(
            "No AWS region is configured", remedy="Set AWS_REGION, or a region in the profile"
        ) from error


def error_code(error: ClientError) -> str:
    """The service's error code, e.g. `NoSuchKey`; the HTTP status for a response without a body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def http_status(error: ClientError) -> int:
    """HTTP status of an error; 0 if unknown."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_clock_off(error: ClientError) -> bool:
    """Whether AWS refused a request because of the time at which it was signed.

    https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html
    """
    message = str(error.response.get("Error", {}).get("Message", ""))
    return error_code(error) == "RequestTimeTooSkewed" or "Signature expired" in message or "not yet current" in message


def clock_off(error: ClientError) -> ConfigurationError:
    """The error for such a refusal."""
    return ConfigurationError(
        f"AWS refused {error.operation_name}, because the clock of this machine is off",
        remedy="Set the clock, best by a time service (NTP), then run again",
        clock=display_utc(machine_time()),
        reason=error.response.get("Error", {}).get("Message"),
    )


def is_transient(error: ClientError) -> bool:
    """Whether a retry may succeed: the service is busy or had an internal error."""
    return http_status(error) >= 500 or error_code(error) in _TRANSIENT


class Remedies(NamedTuple):
    """What to do about the errors that an operator can fix.

    Attributes:
        missing: For a bucket, table or job that does not exist.
        denied: For a missing permission.
    """

    missing: str
    denied: str


@contextmanager
def translated_errors(remedies: Remedies, *, quotes_values: bool = False, **where: object) -> Iterator[None]:
    """Translate boto3's errors within the block to errors of `cdclake.errors`.

    Args:
        remedies: Remedies for missing resources and missing permissions.
        quotes_values: Whether the service may quote values of rows. Then its text is left out.
        where: Details for the error: `bucket`, `file`, ...

    Raises:
        ConfigurationError: A resource does not exist, a permission is missing, or there are no credentials.
        RetryableError: The service throttles, has an internal error or does not respond, even after botocore's retries.
        CdclakeError: The service refuses for another reason, which the error contains.
    """
    try:
        yield
    except ClientError as error:
        text = "" if quotes_values else f": {error.response.get('Error', {}).get('Message', '')}"
        raise _from_response(error, remedies, text, where) from (None if quotes_values else error)
    except _NO_CREDENTIALS as error:
        raise ConfigurationError(
            "No AWS credentials were found", remedy="Set a profile, a role or access keys", reason=error, **where
        ) from error
    except NO_ANSWER as error:
        raise RetryableError(
            "AWS did not respond", remedy="Run again; if it happens again, check the network", reason=error, **where
        ) from error


def _from_response(error: ClientError, remedies: Remedies, text: str, where: dict[str, object]) -> CdclakeError:
    if is_clock_off(error):
        return clock_off(error)
    code = error_code(error)
    message = f"AWS answered {code} to {error.operation_name}{text}"
    if code in _MISSING:
        return ConfigurationError(message, remedy=remedies.missing, **where)
    if code in _DENIED:
        return ConfigurationError(message, remedy=remedies.denied, **where)
    if is_transient(error):
        return RetryableError(message, remedy="Run again", **where)
    return CdclakeError(message, remedy="Look the code up in the AWS reference of that operation", **where)
