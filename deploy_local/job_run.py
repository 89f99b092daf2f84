"""Runs one Glue job run from what is deployed: the job's script and libraries in S3, its arguments, its role.

`python -m deploy_local.job_run <region> <folder>` reads a request and writes an answer as
`ministack_with_jobs` describes them. Logs and what runs write go below the folder.

The script sees what it would see on Glue, and no more: the libraries of `--extra-py-files`, the modules of
`--additional-python-modules` with what they need, and on Spark what Glue has installed. This project's own code is not
on its path. What differs: a Python shell job runs on this Python, and not on 3.9.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cdclake.devkit.local.environment import child_environment, spark_environment
from cdclake.devkit.local.jobs import JobKind, RunState, error_message
from cdclake.errors import CdclakeError, ConfigurationError
from deploy_local.modules import link_modules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXTRA_FILES, EXTRA_MODULES = "--extra-py-files", "--additional-python-modules"
ON_GLUE_SPARK = ("pyspark", "pandas")
"""What our Spark jobs use of that which Glue has installed: https://docs.aws.amazon.com/glue/latest/dg/release-notes.html"""
_MINUTE_SECONDS = 60
_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Request:
    """What is to be run.

    Attributes:
        endpoint: URL of the local AWS.
        job: The job as Glue's API shows it.
        run_id: The run.
        arguments: What the script gets, names with their dashes.
        credentials: Environment variables of a session of the job's role.
    """

    endpoint: str
    job: Mapping[str, Any]
    run_id: str
    arguments: Mapping[str, str]
    credentials: Mapping[str, str]


class Deployed:
    """Reads what is deployed, as the job's role may.

    Args:
        request: Whose role, and where.
        region: Region.
    """

    def __init__(self, request: Request, region: str) -> None:
        keys = request.credentials
        self._s3 = boto3.client(
            "s3",
            endpoint_url=request.endpoint,
            region_name=region,
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=keys["AWS_SESSION_TOKEN"],
            config=Config(proxies={}),
        )

    def fetch(self, location: str, folder: Path) -> Path:
        """Copy an object to a folder, under its own name.

        Raises:
            ConfigurationError: It is not there, or the job's role may not read it.
        """
        url = urlsplit(location)
        key = url.path.lstrip("/")
        if url.scheme != "s3" or not url.netloc or not Path(key).name:
            message = f"'{location}' is not an object's s3:// URL"
            raise ConfigurationError(message, remedy="Correct the job")
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / Path(key).name
        try:
            self._s3.download_file(url.netloc, key, str(target))
        except (ClientError, BotoCoreError) as error:
            message = f"The job cannot read {location}: {error}"
            raise ConfigurationError(message, remedy="See what the job names, and its role's ReadCode") from error
        return target


def run(request: Request, region: str, folder: Path) -> tuple[RunState, str]:
    """Run a script to its end.

    Args:
        request: What to run.
        region: Region.
        folder: Existing folder for logs and for what the run writes.

    Returns:
        How it ended, and why.

    Raises:
        CdclakeError: The job is wrong.
    """
    command = request.job["Command"]
    kind = JobKind(command["Name"])
    here = folder / "runs" / request.run_id
    here.mkdir(parents=True)
    deployed = Deployed(request, region)
    script = deployed.fetch(command["ScriptLocation"], here)
    path = _libraries(deployed, request.arguments, kind, here)
    environment = {
        **child_environment(os.environ, request.endpoint, region),
        **request.credentials,
        "AWS_CA_BUNDLE": os.environ["SSL_CERT_FILE"],
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "TMPDIR": str(here),
    }
    if kind is JobKind.SPARK:
        environment |= spark_environment(here, sys.executable)
    log = folder / "logs" / request.job["Name"] / f"{request.run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # Without `site`, as that would put all that is installed here on the path, this project among it.
    words = [sys.executable, "-S", str(script), *(word for pair in request.arguments.items() for word in pair)]
    seconds = request.job["Timeout"] * _MINUTE_SECONDS
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                words, cwd=here, env=environment, stdout=output, stderr=output, timeout=seconds, check=False
            )
    except subprocess.TimeoutExpired:
        return RunState.TIMEOUT, f"Run exceeded its timeout of {seconds} seconds"
    if done.returncode == 0:
        return RunState.SUCCEEDED, ""
    return RunState.FAILED, f"{error_message(_tail(log), done.returncode)} (log: {log})"


def _libraries(deployed: Deployed, arguments: Mapping[str, str], kind: JobKind, here: Path) -> Sequence[Path]:
    """What goes on the script's path, first things first."""
    files = [deployed.fetch(location, here / "files") for location in _words(arguments.get(EXTRA_FILES, ""))]
    modules = here / "modules"
    on_glue = ON_GLUE_SPARK if kind is JobKind.SPARK else ()
    link_modules([*_words(arguments.get(EXTRA_MODULES, "")), *on_glue], modules)
    if kind is JobKind.SPARK:
        return [*files, modules]
    installed = here / "installed"
    if files:
        _pip_install(files, installed)
    return [installed, modules]


def _pip_install(wheels: Sequence[Path], target: Path) -> None:
    """As Glue's Python shell does it, which takes no file whose name is not a wheel's."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    done = subprocess.run([*pip, *map(str, wheels)], capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().rstrip(".")
        message = f"pip cannot install {', '.join(wheel.name for wheel in wheels)}: {why}"
        raise ConfigurationError(message, remedy=f"Correct what {EXTRA_FILES} names")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _tail(log: Path) -> str:
    return log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")


def main() -> None:
    """Answer one request."""
    region, folder = sys.argv[1:]
    try:
        state, error = run(Request(**json.load(sys.stdin)), region, Path(folder))
    except CdclakeError as problem:
        state, error = RunState.FAILED, str(problem)
    sys.stdout.write(json.dumps({"state": state.value, "error": error}))


if __name__ == "__main__":
    main()
