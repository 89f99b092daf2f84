"""Creates clients of AWS services, and translates their errors."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

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

from cdclake import __version__
from cdclake.errors import CdclakeError, ConfigurationError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.client import BaseClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client

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
def client(service: Literal["dms"]) -> BaseClient: ...
def client(
    service: Literal["s3", "dynamodb", "glue", "dms"],
) -> S3Client | DynamoDBClient | GlueClient | BaseClient:
    """Create a client of a service from the default session. Clients are thread-safe.

    `AWS_ENDPOINT_URL` (or `AWS_ENDPOINT_URL_S3`, ...) selects an endpoint other than AWS.

    Raises:
        ConfigurationError: No region is configured.
    """
    try:
        return session().client(service, config=_CONFIG)
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
def translated_errors(remedies: Remedies, **where: object) -> Iterator[None]:
    """Translate boto3's errors within the block to errors of `cdclake.errors`.

    Args:
        remedies: Remedies for missing resources and missing permissions.
        where: Details for the error: `bucket`, `file`, ...

    Raises:
        ConfigurationError: A resource does not exist, a permission is missing, or there are no credentials.
        RetryableError: The service throttles, has an internal error or does not respond, even after botocore's retries.
        CdclakeError: The service refuses for another reason, which the error contains.
    """
    try:
        yield
    except ClientError as error:
        raise _from_response(error, remedies, where) from error
    except _NO_CREDENTIALS as error:
        raise ConfigurationError(
            "No AWS credentials were found", remedy="Set a profile, a role or access keys", reason=error, **where
        ) from error
    except NO_ANSWER as error:
        raise RetryableError(
            "AWS did not respond", remedy="Run again; if it happens again, check the network", reason=error, **where
        ) from error


def _from_response(error: ClientError, remedies: Remedies, where: dict[str, object]) -> CdclakeError:
    code = error_code(error)
    message = f"AWS answered {code} to {error.operation_name}: {error.response.get('Error', {}).get('Message', '')}"
    if code in _MISSING:
        return ConfigurationError(message, remedy=remedies.missing, **where)
    if code in _DENIED:
        return ConfigurationError(message, remedy=remedies.denied, **where)
    if is_transient(error):
        return RetryableError(message, remedy="Run again", **where)
    return CdclakeError(message, remedy="Look the code up in the AWS reference of that operation", **where)
