"""Identifies the operator who makes a change, for the change record."""

from __future__ import annotations

import getpass
import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cdclake import logs
from cdclake.adapters import aws

_logger = logs.bind(__name__)
UNKNOWN = "unknown"
USER_VARIABLE = "CDCLAKE_USER"
_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=2, read_timeout=5)
"""The name is optional, so a network without access to the service must not cost much time."""


def configured_user() -> str:
    """The user named in the environment variable; empty if it is not set."""
    return os.environ.get(USER_VARIABLE, "")


def aws_caller_arn() -> str:
    """ARN of the user or role of this process; the operating system's user name if AWS does not answer.

    The request needs no permission: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """
    try:
        arn: str = aws.session().client("sts", config=_CONFIG).get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError) as error:
        _logger.info("AWS did not return the caller's identity", extra={"error": str(error)})
        return os_user()
    return arn


def os_user() -> str:
    """The operating system's user name; `unknown` if there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # depends on the Python version
        return UNKNOWN
