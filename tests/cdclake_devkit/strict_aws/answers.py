"""What a service answers."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError


def answer(client: Any, operation: str, **parameters: Any) -> tuple[int, str]:
    """The status and error code of a response; the code is empty for a success.

    Args:
        operation: Name of the client's method.
    """
    try:
        response = getattr(client, operation)(**parameters)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    return response["ResponseMetadata"]["HTTPStatusCode"], ""
