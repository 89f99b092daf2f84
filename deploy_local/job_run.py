"""Executes one Glue job run with the deployed script, libraries, arguments and role.

`python -m deploy_local.job_run <region> <folder>` reads a request and writes a response in the format that
`ministack_patches.jobs` describes. The folder receives logs and the files of runs.

The script's path has only what Glue has: the files of `--extra-py-files`, on Spark the wheels of
`--additional-python-modules` and the modules that Glue preinstalls. Wheels are installed as on Glue, without a package
index. The project's own code is not on the path. One difference remains: a Python shell job runs on this Python instead
of 3.9.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cdclake.errors import CdclakeError, ConfigurationError
from cdclake_cli.aws.spark import spark_environment
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.jobs import JobKind, JobRunState, error_message
from deploy_local.modules import link_modules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXTRA_FILES, EXTRA_MODULES = "--extra-py-files", "--additional-python-modules"
INSTALLER_OPTION, NO_INDEX = "--python-modules-installer-option", "--no-index"
ZIP_OF_WHEELS = ".gluewheels.zip"
PREINSTALLED_ON_SPARK = ("pyspark", "pandas")
"""Preinstalled modules that the Spark jobs use: https://docs.aws.amazon.com/glue/latest/dg/release-notes.html"""
_MINUTE_SECONDS = 60
_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Request:
    """A job run to execute.

    Attributes:
        endpoint: URL of the local AWS.
        job: The job, as in Glue's API.
        run_id: Id of the run.
        arguments: Arguments of the script; names include the dashes.
        credentials: Environment variables with credentials of the job's role.
    """

    endpoint: str
    job: Mapping[str, Any]
    run_id: str
    arguments: Mapping[str, str]
    credentials: Mapping[str, str]


class CodeReader:
    """Reads deployed code with the job's role.

    Args:
        request: The job run.
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
        """Download an object to a folder, under its own name.

        Raises:
            ConfigurationError: The object does not exist, or the job's role may not read it.
        """
        url = urlsplit(location)
        key = url.path.lstrip("/")
        if url.scheme != "s3" or not url.netloc or not Path(key).name:
            message = f"'{location}' is not the s3:// URL of an object"
            raise ConfigurationError(message, remedy="Correct the job")
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / Path(key).name
        try:
            self._s3.download_file(url.netloc, key, str(target))
        except (ClientError, BotoCoreError) as error:
            message = f"The job cannot read {location}: {error}"
            raise ConfigurationError(
                message, remedy="Check the job's code locations, and ReadCode in its role"
            ) from error
        return target


def run(request: Request, region: str, folder: Path) -> tuple[JobRunState, str]:
    """Execute a job run.

    Args:
        request: The job run.
        folder: Existing folder for logs and for the files of the run.

    Returns:
        The final state, and the error message if the run failed.

    Raises:
        CdclakeError: The job's definition is wrong.
    """
    command = request.job["Command"]
    kind = JobKind(command["Name"])
    run_folder = folder / "runs" / request.run_id
    run_folder.mkdir(parents=True)
    code = CodeReader(request, region)
    script = code.fetch(command["ScriptLocation"], run_folder)
    path = _libraries(code, request.arguments, kind, run_folder)
    environment = {
        **child_environment(os.environ, request.endpoint, region),
        **request.credentials,
        "AWS_CA_BUNDLE": os.environ["SSL_CERT_FILE"],
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "TMPDIR": str(run_folder),
    }
    if kind is JobKind.SPARK:
        environment |= spark_environment(run_folder, sys.executable)
    log = folder / "logs" / request.job["Name"] / f"{request.run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -S: without `site`, which would add everything that is installed here, including this project.
    words = [sys.executable, "-S", str(script), *(word for pair in request.arguments.items() for word in pair)]
    seconds = request.job["Timeout"] * _MINUTE_SECONDS
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                words, cwd=run_folder, env=environment, stdout=output, stderr=output, timeout=seconds, check=False
            )
    except subprocess.TimeoutExpired:
        return JobRunState.TIMEOUT, f"Run exceeded its timeout of {seconds} seconds"
    if done.returncode == 0:
        return JobRunState.SUCCEEDED, ""
    return JobRunState.FAILED, f"{error_message(_tail(log), done.returncode)} (log: {log})"


def _libraries(code: CodeReader, arguments: Mapping[str, str], kind: JobKind, run_folder: Path) -> Sequence[Path]:
    """The script's path, in search order."""
    files = [code.fetch(location, run_folder / "files") for location in _words(arguments.get(EXTRA_FILES, ""))]
    modules = [code.fetch(location, run_folder / "modules") for location in _words(arguments.get(EXTRA_MODULES, ""))]
    installed = run_folder / "installed"
    if kind is JobKind.SPARK:
        preinstalled = run_folder / "preinstalled"
        link_modules(PREINSTALLED_ON_SPARK, preinstalled)
        for archive in modules:
            _install_zip_of_wheels(archive, arguments.get(INSTALLER_OPTION, ""), installed)
        return [*files, installed, preinstalled]
    if modules:
        message = f"A Python shell job installs no files from S3 with {EXTRA_MODULES}, such as {modules[0].name}"
        raise ConfigurationError(message, remedy=f"Pass them with {EXTRA_FILES}")
    for wheel in files:
        _pip_install(wheel.name, [str(wheel)], installed)
    return [installed]


def _install_zip_of_wheels(archive: Path, option: str, target: Path) -> None:
    """Install the wheels of an archive as Glue does with the installer option `--no-index`."""
    if not archive.name.endswith(ZIP_OF_WHEELS) or option != NO_INDEX:
        message = f"To install {archive.name} with the option '{option}', Glue needs a package index"
        raise ConfigurationError(message, remedy=f"Pass a file *{ZIP_OF_WHEELS}, and {INSTALLER_OPTION} {NO_INDEX}")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
        wheels = Path(folder) / "wheels"
        what = ["--find-links", str(wheels), "--requirement", str(wheels / "requirements.txt")]
        _pip_install(archive.name, what, target)


def _pip_install(name: str, what: Sequence[str], target: Path) -> None:
    """Install with pip as Glue does, but without a package index: what the files lack is missing.

    Pip rejects a wheel whose file name is invalid.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--isolated", "--no-compile"]
    command = [*pip, NO_INDEX, "--target", str(target), *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"pip cannot install {name}: {done.stderr.strip().rstrip('.')}"
        raise ConfigurationError(message, remedy=f"Correct {EXTRA_FILES} or {EXTRA_MODULES}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _tail(log: Path) -> str:
    return log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")


def main() -> None:
    """Execute the job run on standard input; print the result."""
    region, folder = sys.argv[1:]
    try:
        state, error = run(Request(**json.load(sys.stdin)), region, Path(folder))
    except CdclakeError as problem:
        state, error = JobRunState.FAILED, str(problem)
    sys.stdout.write(json.dumps({"state": state.value, "error": error}))


if __name__ == "__main__":
    main()
