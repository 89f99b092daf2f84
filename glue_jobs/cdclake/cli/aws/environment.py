"""The environment of this process while a command reads the lake by other means than `Services`.

Arrow, Spark and Spark's workers find AWS as the AWS SDKs do, in environment variables; the options of a command have
to get there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from cdclake.cli.aws.session import endpoint_of, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.cli.target import Target

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_QUIET = """\
appender.nowhere.type = Null
appender.nowhere.name = nowhere
rootLogger.level = off
rootLogger.appenderRef.nowhere.ref = nowhere
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
"""Without an appender Spark would put its own settings in the place of these; without a level of the gateway's own it
would announce another one."""


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or take away those that are None, for as long as the `with` block lasts."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


@contextmanager
def aws_environment(target: Target) -> Iterator[None]:
    """Have everything in this process, and what it starts, reach AWS as the options of a command say.

    Raises:
        botocore.exceptions.BotoCoreError: There is no such profile.
    """
    before = boto3.DEFAULT_SESSION
    with environment(_aws_variables(target)):
        boto3.DEFAULT_SESSION = None
        try:
            yield
        finally:
            boto3.DEFAULT_SESSION = before


@contextmanager
def spark_environment_here() -> Iterator[None]:
    """What Spark needs to start on this machine and write nothing to the terminal.

    Raises:
        ConfigurationError: There is no Java.
    """
    from cdclake.devkit.local.environment import spark_environment  # its package is heavy, and not all commands need it

    with tempfile.TemporaryDirectory(prefix="cdclake-spark-", ignore_cleanup_errors=True) as folder:
        variables = spark_environment(Path(folder), sys.executable)
        Path(variables["SPARK_CONF_DIR"], "log4j2.properties").write_text(_QUIET)
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
    if target.profile:  # the SDKs prefer keys in the environment to a profile that is named there
        return {**variables, "AWS_PROFILE": target.profile, **dict.fromkeys(_KEYS)}
    made_up = session.get_credentials() if boto3.Session().get_credentials() is None else None
    if made_up:
        variables |= dict(zip(_KEYS, (made_up.access_key, made_up.secret_key, None), strict=True))
    return variables


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
