"""Who it is that makes a change by hand, for the change record."""

from __future__ import annotations

import getpass
import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cdclake import logs
from cdclake.adapters import aws

log = logs.bind(__name__)
UNKNOWN = "unknown"
USER_VARIABLE = "CDCLAKE_USER"
_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=2, read_timeout=5)
"""The answer is good to have, and a network without a way to the service shall not hold anybody up."""


def named_user() -> str:
    """Who says in the environment that it is he; empty if nobody does."""
    return os.environ.get(USER_VARIABLE, "")


def aws_caller() -> str:
    """ARN of the user or role that AWS takes this process for; the name of the machine's user if AWS does not tell.

    Asking takes no permission.
    https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """
    try:
        arn: str = aws.session().client("sts", config=_CONFIG).get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError) as error:
        log.info("AWS does not tell who the caller is", extra={"error": str(error)})
        return machine_user()
    return arn


def machine_user() -> str:
    """Name of the user of this machine; `unknown` where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # which of them depends on the version of Python
        return UNKNOWN
