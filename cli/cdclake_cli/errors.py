"""Prints expected errors, with location and remedy, and maps them to exit statuses."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

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
from rich.console import Console
from typer import Exit
from typer.core import TyperGroup

from cdclake.errors import CdclakeError, ConfigurationError, disk_full
from cdclake.printable import printable

if TYPE_CHECKING:
    from typer._click import Context  # the type in TyperGroup's signatures

_LOCAL_HINT = "for the embedded AWS, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to any value"
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_LOGIN_EXPIRED = (SSOError, TokenRetrievalError)
_EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


def explain(error: BaseException) -> CdclakeError | None:
    """Convert an expected error to the error to show; None if it is unexpected.

    If AWS was not reached, the cause of an adapter's error says more than the error.
    """
    for cause in (error, error.__cause__):
        explained = _explain_aws(cause) if cause else None
        if explained:
            return explained
    if isinstance(error, CdclakeError):
        return error
    if isinstance(error, ClientError):
        response = error.response.get("Error", {})
        message = f"AWS answered {response.get('Code')} to {error.operation_name}: {response.get('Message')}"
        return CdclakeError(message, remedy="Check the caller's permissions and the names in the command")
    if isinstance(error, BotoCoreError):
        return CdclakeError(str(error).rstrip("."), remedy="Check the AWS configuration and the network")
    return disk_full(error)


def concerns_every_table(error: BaseException) -> bool:
    """Whether an error of one table would be that of every other, too: AWS is not reached, or refuses the caller."""
    return any(_explain_aws(cause) for cause in (error, error.__cause__) if cause)


def _explain_aws(error: BaseException) -> ConfigurationError | None:
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


def explain_file(error: OSError) -> CdclakeError | None:
    """Convert an error about a local file or folder to the error to show; None for other system errors."""
    full = disk_full(error)
    if full or (error.filename is None and error.errno != errno.EROFS):
        return full
    return ConfigurationError(
        f"A file or folder cannot be used: {error.strerror}",
        remedy="Name another one, or check this user's permissions",
        file=error.filename,
    )


def print_error(error: CdclakeError) -> None:
    """Print an error to stderr: message and location on one line, the remedy on the next."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    where = ", ".join(f"{name} {value}" for name, value in error.details.items() if value not in (None, ""))
    text = f"{error.message} ({where})" if where else error.message
    console.print("Error: ", style="bold red", end="")
    console.print(printable(text), markup=False)
    if error.remedy:
        console.print(f"  {printable(error.remedy)}", markup=False)


class ErrorReportingGroup(TyperGroup):
    """The root command: turns expected errors into a message and an exit status, without a traceback."""

    def invoke(self, ctx: Context) -> Any:  # noqa: ANN401 - the signature of the class above
        """Run the command.

        Raises:
            Exit: With the error's exit status.
        """
        try:
            return super().invoke(ctx)
        except (CdclakeError, BotoCoreError, ClientError, ResponseParserError, OSError) as error:
            explained = explain_file(error) if isinstance(error, OSError) else explain(error)
            if explained is None:
                raise
            print_error(explained)
            raise Exit(explained.exit_code) from error
