"""Opens the AWS session of a target, and reads the outputs of its deployed stack."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from cdclake_cli.target import Target

# A user is waiting: fewer and shorter attempts than in the jobs.
CLIENT_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5, read_timeout=60, max_pool_connections=32
)
_ENDPOINT = re.compile(r"https?://[^/?#\s]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def stack_outputs(target: Target) -> dict[str, str]:
    """The outputs of the target's CloudFormation stack, by name.

    Raises:
        ConfigurationError: There is no such stack.
    """
    client = session_of(target).client("cloudformation", endpoint_url=endpoint_of(target), config=CLIENT_CONFIG)
    try:
        (stack,) = client.describe_stacks(StackName=target.stack or "")["Stacks"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ValidationError":  # unknown stack
            raise
        message = f"There is no CloudFormation stack {target.stack} in this account and region"
        raise ConfigurationError(message, remedy="Correct --stack or CDCLAKE_STACK, --profile or --region") from error
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def endpoint_of(target: Target) -> str | None:
    """The URL to use instead of AWS; None for AWS.

    Raises:
        ConfigurationError: It is not a URL.
    """
    endpoint = target.endpoint_url or os.environ.get("AWS_ENDPOINT_URL") or None
    if endpoint and not _ENDPOINT.match(endpoint):
        message = f"'{endpoint}' is not the URL of an endpoint"
        raise ConfigurationError(message, remedy="Write --endpoint-url or AWS_ENDPOINT_URL as http://host:port")
    return endpoint


def session_of(target: Target) -> boto3.Session:
    """The boto3 session for a target.

    Raises:
        botocore.exceptions.BotoCoreError: The profile does not exist.
    """
    session = boto3.Session(profile_name=target.profile, region_name=target.region)
    if urlsplit(endpoint_of(target) or "").hostname in _LOOPBACK:
        return _with_placeholders(session, target.profile)
    return session


def _with_placeholders(session: boto3.Session, profile: str | None) -> boto3.Session:
    """Fill in missing credentials and region: the embedded AWS accepts any."""
    region = session.region_name or "us-east-1"
    if session.get_credentials() is None:
        return boto3.Session("local", "local", region_name=region)
    return boto3.Session(profile_name=profile, region_name=region)
