"""Errors as a person reads them: what happened, where, what to do; and the exit status that goes with them."""

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

from cdclake.cli.output import printable
from cdclake.errors import CdclakeError, ConfigurationError

if TYPE_CHECKING:
    from typer._click import Context  # what the method overridden below takes; Typer's own Context is one of it

_LOCAL_HINT = "for the embedded AWS set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to anything"
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_LOGIN_OVER = (SSOError, TokenRetrievalError)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


def explain(error: BaseException) -> CdclakeError | None:
    """The message to show for an expected error; None for one that nobody expected.

    The reason below an adapter's error tells more than the error where AWS was never reached.
    """
    for known in (error, error.__cause__):
        explained = _explain_aws(known) if known else None
        if explained:
            return explained
    if isinstance(error, CdclakeError):
        return error
    if isinstance(error, ClientError):
        answer = error.response.get("Error", {})
        message = f"AWS answered {answer.get('Code')} to {error.operation_name}: {answer.get('Message')}"
        return CdclakeError(message, remedy="Look at the caller's permissions and at the names given")
    if isinstance(error, BotoCoreError):
        return CdclakeError(str(error).rstrip("."), remedy="Look at the AWS configuration and the network")
    return None


def _explain_aws(error: BaseException) -> ConfigurationError | None:
    if isinstance(error, (EndpointConnectionError, ConnectTimeoutError)):
        return ConfigurationError(
            "Nothing answers at the AWS endpoint",
            remedy="Correct --endpoint-url or AWS_ENDPOINT_URL, or start the embedded AWS: cdclake local serve",
            endpoint=error.kwargs.get("endpoint_url"),
        )
    if isinstance(error, _NO_CREDENTIALS):
        remedy = f"Set AWS_PROFILE, --profile or access keys; {_LOCAL_HINT}"
        return ConfigurationError("There are no AWS credentials to use", remedy=remedy)
    if isinstance(error, _LOGIN_OVER):
        remedy = "Log in again, e.g. with: aws sso login"
        return ConfigurationError("The AWS login is not valid any more", remedy=remedy, reason=error)
    if isinstance(error, ProfileNotFound):
        remedy = "Correct --profile or AWS_PROFILE; aws configure list-profiles shows them"
        return ConfigurationError(str(error), remedy=remedy)
    if isinstance(error, NoRegionError):
        return ConfigurationError("No AWS region is configured", remedy="Give --region or set AWS_DEFAULT_REGION")
    if isinstance(error, (InvalidRegionError, ParamValidationError)):
        remedy = "Correct the option or the environment variable that says so"
        return ConfigurationError(str(error).rstrip("."), remedy=remedy)
    if isinstance(error, ResponseParserError):
        remedy = "Correct --endpoint-url or AWS_ENDPOINT_URL"
        return ConfigurationError("What answers at the endpoint does not answer as AWS does", remedy=remedy)
    if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") in _EXPIRED:
        return ConfigurationError(
            "The AWS credentials have expired", remedy="Get new ones: log in again", operation=error.operation_name
        )
    return None


def explain_file(error: OSError) -> CdclakeError | None:
    """The message to show if a file or folder of this machine cannot be used, such as one that an option names.

    None for all other errors of the system.
    """
    if error.filename is None and error.errno not in _NO_ROOM:
        return None
    return ConfigurationError(
        f"The system says of a file or folder: {error.strerror}",
        remedy="Name another one, or see to it that there is room and that this user may read and write there",
        file=error.filename,
    )


def print_error(error: CdclakeError) -> None:
    """Write an error to stderr: the message and where on one line, the remedy on the next."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    where = ", ".join(f"{name} {value}" for name, value in error.details.items() if value not in (None, ""))
    text = f"{error.message} ({where})" if where else error.message
    console.print("Error: ", style="bold red", end="")
    console.print(printable(text), markup=False)
    if error.remedy:
        console.print(f"  {printable(error.remedy)}", markup=False)


class ErrorReportingGroup(TyperGroup):
    """The root of the commands: expected errors become a message and an exit status, without a traceback."""

    def invoke(self, ctx: Context) -> Any:  # noqa: ANN401 - the signature of the class above
        """Run the command.

        Raises:
            Exit: With the error's exit status.
        """
        try:
            return super().invoke(ctx)
        except (CdclakeError, BotoCoreError, ClientError, ResponseParserError, OSError) as error:
            known = explain_file(error) if isinstance(error, OSError) else explain(error)
            if known is None:
                raise
            print_error(known)
            raise Exit(known.exit_code) from error
