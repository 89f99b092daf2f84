"""Starts and stops ministack: CloudFormation and the services on one local endpoint, with TLS and IAM."""

from __future__ import annotations

import json
import os
import select
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from cdclake.errors import ConfigurationError
from cdclake_cli.loopback import HOST
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.processes import Child
from cdclake_infra.library import ROOT
from deploy_local.certificate import write_certificate
from deploy_local.this_machine import GLUE_WITH_SPARK_4, SPARK_4_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deploy_local.assembly import Account

VENV_PYTHON = ROOT / ".venv-deploy" / "bin" / "python"
_SERVE = "deploy_local.ministack_patches.serve"
_ROOT_SECRET, _ADMINISTRATOR = "local", "administrator"
_START_SECONDS = 60
_POLL_SECONDS = 0.1


class Emulator:
    """A running ministack, accessed as an administrator.

    Args:
        endpoint: URL of ministack.
    """

    def __init__(self, endpoint: str, account: Account, certificate: Path, folder: Path) -> None:
        self.endpoint = endpoint
        self.account = account
        self.folder = folder
        self._certificate = certificate
        self._clients: dict[str, Any] = {}
        self._keys = (account.number, _ROOT_SECRET)
        self._keys = self._administrator()

    def client(self, service: str) -> Any:  # noqa: ANN401  boto3 creates client classes at run time
        """A boto3 client, shared between calls."""
        if service not in self._clients:
            self._clients[service] = self.new_client(service)
        return self._clients[service]

    def new_client(self, service: str) -> Any:  # noqa: ANN401  as above
        """A new boto3 client, which the caller closes."""
        session: Any = boto3.session.Session(*self._keys, region_name=self.account.region)
        return session.client(
            service, endpoint_url=self.endpoint, verify=str(self._certificate), config=Config(proxies={})
        )

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients.values():
            client.close()

    def _administrator(self) -> tuple[str, str]:
        """Keys of a new user. The root account is exempt from the policies of buckets and queues."""
        iam = self.new_client("iam")
        iam.create_user(UserName=_ADMINISTRATOR)
        everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
        iam.put_user_policy(UserName=_ADMINISTRATOR, PolicyName="Everything", PolicyDocument=json.dumps(everything))
        key = iam.create_access_key(UserName=_ADMINISTRATOR)["AccessKey"]
        iam.close()
        return key["AccessKeyId"], key["SecretAccessKey"]


@contextmanager
def running_emulator(account: Account, folder: Path) -> Iterator[Emulator]:
    """Run ministack, and all processes that it starts, for the duration of the block.

    Requests are signed and checked against the caller's policies, as in IAM.

    Args:
        folder: Existing folder for logs and for the files of runs.

    Raises:
        ConfigurationError: Ministack is not installed or does not start.
    """
    if not VENV_PYTHON.is_file():
        raise ConfigurationError("Ministack is not installed", remedy="Run `make deploy-local`", file=VENV_PYTHON)
    certificate, key = write_certificate(folder, HOST)
    log = folder / "ministack.log"
    with log.open("wb") as output:
        child = Child(
            [str(VENV_PYTHON), "-m", _SERVE],
            cwd=folder,
            env=_environment(account, folder, certificate, key),
            stdout=subprocess.PIPE,
            stderr=output,
        )
    try:
        endpoint = f"https://{HOST}:{_port(child, log)}"
        _wait_until_ready(endpoint, certificate, log)
        emulator = Emulator(endpoint, account, certificate, folder)
        try:
            yield emulator
        finally:
            emulator.close()
    finally:
        child.kill()
        child.wait()


def _environment(account: Account, folder: Path, certificate: Path, key: Path) -> dict[str, str]:
    base = child_environment(os.environ, "", account.region)
    del base["AWS_ENDPOINT_URL"]  # ministack sets it for its functions
    pythons = {"": sys.executable, GLUE_WITH_SPARK_4: str(SPARK_4_PYTHON)}
    job = ["-m", "deploy_local.job_run", account.region, str(folder)]
    return {
        **base,
        "PYTHONPATH": str(ROOT),
        "AUTH": "true",
        "AWS_ACCESS_KEY_ID": account.number,
        "AWS_SECRET_ACCESS_KEY": _ROOT_SECRET,
        "LAMBDA_ASYNC_RETRY_BASE_SECONDS": "0.2",
        "LAMBDA_EXECUTOR": "local",
        "LOG_LEVEL": "INFO",
        "MINISTACK_ACCOUNT_ID": account.number,
        "MINISTACK_HOST": HOST,
        "MINISTACK_REGION": account.region,
        "MINISTACK_SSL_CERT": str(certificate),
        "MINISTACK_SSL_KEY": str(key),
        "SSL_CERT_FILE": str(certificate),
        "AWS_CA_BUNDLE": str(certificate),
        "TMPDIR": str(folder),
        "USE_SSL": "1",
        "CDCLAKE_JOB_COMMANDS": json.dumps({version: [python, *job] for version, python in pythons.items()}),
        "CDCLAKE_JOB_PATH": os.pathsep.join(str(ROOT / name) for name in ("glue_jobs", "cli", "devkit", ".")),
    }


def _port(child: Child, log: Path) -> int:
    assert child.stdout is not None  # it is a pipe
    ready, _, _ = select.select([child.stdout], [], [], _START_SECONDS)
    line = child.stdout.readline().strip() if ready else b""
    if not line.isdigit():
        raise ConfigurationError("Ministack did not start", remedy=f"See {log}: {_last_line(log)}")
    return int(line)


def _wait_until_ready(endpoint: str, certificate: Path, log: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(certificate))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            opener.open(f"{endpoint}/_ministack/health", timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if time.monotonic() > deadline:
                raise ConfigurationError("Ministack does not answer", remedy=f"See {log}", reason=error) from error
            time.sleep(_POLL_SECONDS)
        else:
            return


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it wrote nothing"
