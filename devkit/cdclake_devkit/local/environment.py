"""Environments for processes that use the embedded AWS, and must never use the caller's AWS account."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import cdclake
from cdclake_cli.loopback import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_REGION = "us-east-1"
DUMMY_KEY = "local"

_DROPPED_PREFIXES = ("AWS_", "SPARK_", "PYSPARK_", "JAVA_", "JDK_", "HADOOP_", "PYTHON")


def default_region(environment: Mapping[str, str]) -> str:
    """The region that AWS clients use in this environment, or the default."""
    return environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION") or DEFAULT_REGION


def child_environment(base: Mapping[str, str], endpoint: str, region: str) -> dict[str, str]:
    """The complete environment of a child process.

    Args:
        base: Environment to start from. Its variables for AWS, Python, Java and Spark are removed.
        endpoint: URL of the embedded AWS.
        region: Region of every client.
    """
    kept = {name: value for name, value in base.items() if not name.startswith(_DROPPED_PREFIXES)}
    return {
        **kept,
        **_aws_variables(base, endpoint, region),
        "PYTHONPATH": str(Path(cdclake.__file__).resolve().parents[1]),
        "PYTHONUNBUFFERED": "1",
    }


def shell_environment(base: Mapping[str, str], endpoint: str, region: str) -> dict[str, str]:
    """The complete environment of a person's shell: their own, but for AWS, with the commands of this Python first.

    Args:
        base: Environment to start from. Its variables for AWS and for the options of `cdclake` are removed.
        endpoint: URL of the embedded AWS.
        region: Region of every client.
    """
    kept = {name: value for name, value in base.items() if not name.startswith(("AWS_", "CDCLAKE_"))}
    path = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), base.get("PATH")]))
    return {**kept, **_aws_variables(base, endpoint, region), "PATH": path}


def _aws_variables(base: Mapping[str, str], endpoint: str, region: str) -> dict[str, str]:
    """Variables with which every AWS client uses the embedded AWS, and no account."""
    not_proxied = ",".join(filter(None, [base.get("no_proxy") or base.get("NO_PROXY"), HOST]))
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": DUMMY_KEY,
        "AWS_SECRET_ACCESS_KEY": DUMMY_KEY,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        # A profile or an endpoint in the user's files would override these variables.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": not_proxied,
        "no_proxy": not_proxied,
    }
