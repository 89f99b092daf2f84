"""Explains errors of AWS and of the way to it."""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from cdclake.errors import CdclakeError, ConfigurationError

_LOCAL_HINT = "for the embedded AWS, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to any value"
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_LOGIN_EXPIRED = (SSOError, TokenRetrievalError)
_EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


def explain_access(error: BaseException) -> ConfigurationError | None:
    """Convert an error that every other request would meet, too; None if it is another one."""
    if isinstance(error, (EndpointConnectionError, ConnectTimeoutError)):
        return ConfigurationError(
            "The AWS endpoint does not respond",
            remedy="Correct --endpoint-url or AWS_ENDPOINT_URL, or start the embedded AWS: cdclake local serve",
            endpoint=error.kwargs.get("endpoint_url"),
        )
    if isinstance(error, _NO_CREDENTIALS):
        remedy = f"Set AWS_PROFILE, --profile or access keys; {_LOCAL_HINT}"
        return ConfigurationError("No AWS credentials were found", remedy=remedy)
    if isinstance(error, _LOGIN_EXPIRED):
        remedy = "Log in again, for example with: aws sso login"
        return ConfigurationError("The AWS login has expired", remedy=remedy, reason=error)
    if isinstance(error, ProfileNotFound):
        remedy = "Correct --profile or AWS_PROFILE; aws configure list-profiles lists the profiles"
        return ConfigurationError(str(error), remedy=remedy)
    if isinstance(error, NoRegionError):
        return ConfigurationError("No AWS region is configured", remedy="Use --region or set AWS_DEFAULT_REGION")
    if isinstance(error, (InvalidRegionError, ParamValidationError)):
        remedy = "Correct the option or the environment variable"
        return ConfigurationError(str(error).rstrip("."), remedy=remedy)
    if isinstance(error, ResponseParserError):
        remedy = "Correct --endpoint-url or AWS_ENDPOINT_URL"
        return ConfigurationError("The endpoint does not respond like AWS", remedy=remedy)
    if isinstance(error, ClientError):
        from cdclake.adapters.aws import clock_off, is_clock_off  # slow to import, and rarely needed

        if is_clock_off(error):
            return clock_off(error)
    if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") in _EXPIRED_CODES:
        return ConfigurationError(
            "The AWS credentials have expired", remedy="Log in again", operation=error.operation_name
        )
    return None


def explain_answer(error: BaseException) -> CdclakeError | None:
    """Convert any other error of AWS, or of botocore; None if it is none."""
    if isinstance(error, ClientError):
        response = error.response.get("Error", {})
        message = f"AWS answered {response.get('Code')} to {error.operation_name}: {response.get('Message')}"
        return CdclakeError(message, remedy="Check the caller's permissions and the names in the command")
    if isinstance(error, BotoCoreError):
        return CdclakeError(str(error).rstrip("."), remedy="Check the AWS configuration and the network")
    return None
