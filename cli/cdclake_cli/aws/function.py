"""Finds the function for small changes of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from cdclake.adapters.aws import Remedies, error_code, translated_errors
from cdclake.model.names import FUNCTION_SMALL_CHANGES

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class SmallChanges(NamedTuple):
    """What one request to the function can use at most."""

    memory_mb: int
    timeout_seconds: int


def small_changes_function(client: LambdaClient, name_prefix: str) -> SmallChanges | None:
    """The function for small changes; None if it is not deployed.

    Raises:
        ConfigurationError: The caller may not ask.
    """
    name = f"{name_prefix}{FUNCTION_SMALL_CHANGES}"
    denied = f"Grant the caller lambda:GetFunctionConfiguration on the function {name}"
    with translated_errors(Remedies(missing="", denied=denied), function=name):
        try:
            found = client.get_function_configuration(FunctionName=name)
        except ClientError as error:
            if error_code(error) != "ResourceNotFoundException":
                raise
            return None
    return SmallChanges(found["MemorySize"], found["Timeout"])
