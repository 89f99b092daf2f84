"""Sets environment variables while a command reads the lake with Arrow or Spark instead of `Services`.

Like the AWS SDKs, Arrow, Spark and its workers read their AWS settings from environment variables, so the options of a
command must be set there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from cdclake_cli.aws.session import endpoint_of, session_of
from cdclake_cli.aws.spark import spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake_cli.target import Target

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_QUIET = """\
appender.nowhere.type = Null
appender.nowhere.name = nowhere
rootLogger.level = off
rootLogger.appenderRef.nowhere.ref = nowhere
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
"""Spark replaces settings that have no appender, and prints a message unless the gateway's logger has a level."""


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or remove those that are None, within the `with` block."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


@contextmanager
def aws_environment(target: Target) -> Iterator[None]:
    """Make this process, and processes that it starts, use the AWS options of a command.

    Raises:
        botocore.exceptions.BotoCoreError: The profile does not exist.
    """
    before = boto3.DEFAULT_SESSION
    with environment(_aws_variables(target)):
        boto3.DEFAULT_SESSION = None
        try:
            yield
        finally:
            boto3.DEFAULT_SESSION = before


@contextmanager
def local_spark_environment() -> Iterator[None]:
    """Set what Spark needs to start on this machine, and to print nothing.

    Raises:
        ConfigurationError: There is no Java.
    """
    with tempfile.TemporaryDirectory(prefix="cdclake-spark-", ignore_cleanup_errors=True) as folder:
        log_settings = Path(folder, "log4j2.properties")
        log_settings.write_text(_QUIET)
        variables = spark_environment(
            Path(folder), sys.executable, f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
        )
        with environment(variables):
            yield


def _aws_variables(target: Target) -> dict[str, str | None]:
    session = session_of(target)
    variables: dict[str, str | None] = {}
    endpoint_url = endpoint_of(target)
    if endpoint_url:
        variables["AWS_ENDPOINT_URL"] = endpoint_url
    if target.endpoint_url:
        variables["AWS_ENDPOINT_URL_S3"] = target.endpoint_url
    if session.region_name:
        variables["AWS_DEFAULT_REGION"] = variables["AWS_REGION"] = session.region_name
    if target.profile:  # in the environment, SDKs prefer keys to a profile
        return {**variables, "AWS_PROFILE": target.profile, **dict.fromkeys(_KEYS)}
    placeholder = session.get_credentials() if boto3.Session().get_credentials() is None else None
    if placeholder:
        variables |= dict(zip(_KEYS, (placeholder.access_key, placeholder.secret_key, None), strict=True))
    return variables


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
