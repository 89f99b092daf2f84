"""Prints expected errors, with location and remedy, and maps them to exit statuses."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from typer import Exit
from typer.core import TyperGroup

from cdclake.errors import CdclakeError, ConfigurationError, disk_full
from cdclake.printable import printable

if TYPE_CHECKING:
    from typer._click import Context  # the type in TyperGroup's signatures

_AWS_LIBRARY = "botocore"
"""Takes a tenth of a second to import. Without it, no error is one of AWS."""


def explain(error: BaseException) -> CdclakeError | None:
    """Convert an expected error to the error to show; None if it is unexpected.

    If AWS was not reached, the cause of an adapter's error says more than the error.
    """
    explained = _explain_access(error)
    if explained:
        return explained
    if isinstance(error, CdclakeError):
        return error
    if _AWS_LIBRARY in sys.modules:
        from cdclake_cli.aws.errors import explain_answer

        return explain_answer(error) or disk_full(error)
    return disk_full(error)


def concerns_every_table(error: BaseException) -> bool:
    """Whether an error of one table would be that of every other, too: AWS is not reached, or refuses the caller."""
    return _explain_access(error) is not None


def _is_of_aws(error: BaseException) -> bool:
    return any(kind.__module__.partition(".")[0] == _AWS_LIBRARY for kind in type(error).__mro__)


def _explain_access(error: BaseException) -> ConfigurationError | None:
    if _AWS_LIBRARY not in sys.modules:
        return None
    from cdclake_cli.aws.errors import explain_access

    causes = (cause for cause in (error, error.__cause__) if cause)
    return next(filter(None, map(explain_access, causes)), None)


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
        except Exception as error:
            if not (isinstance(error, (CdclakeError, OSError)) or _is_of_aws(error)):
                raise
            explained = explain_file(error) if isinstance(error, OSError) else explain(error)
            if explained is None:
                raise
            print_error(explained)
            raise Exit(explained.exit_code) from error
