"""S3, DynamoDB, Glue and Lambda on one loopback endpoint, in this process, really running what they are given."""

from __future__ import annotations

import os
import resource
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import boto3
from botocore.config import Config
from moto.moto_api._internal.models import moto_api_backend

from cdclake.devkit.local.activity import Activity
from cdclake.devkit.local.environment import DUMMY_KEY, child_environment, default_region
from cdclake.devkit.local.events import EventDelivery
from cdclake.devkit.local.glue import glue_runs_jobs
from cdclake.devkit.local.jobs import JobKind, JobRuns
from cdclake.devkit.local.lambda_functions import LambdaFunctions
from cdclake.devkit.local.notifications import lambda_runs_functions
from cdclake.devkit.local.web import http_server
from cdclake.errors import ConfigurationError, JobRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from wsgiref.types import WSGIApplication

_OPEN_FILES_WANTED = 65536


class EmbeddedAws:
    """An AWS of one's own for as long as the `with` block lasts.

    Code that talks to it is the same as on AWS: boto3 with `AWS_ENDPOINT_URL` set. Objects and items live in this
    process (large objects in temporary files) and are gone at the end, and so is every process it started, even if this
    one is killed. There can be one at a time in a process, as moto keeps its state in module variables.

    Args:
        port: Loopback port; 0 for any free one.
        data_dir: Folder for logs and for what runs write; made if it is not there. None for a temporary one, which is
            deleted at the end.
        region: Region of everything; None for the one that AWS clients of this environment use.
        spark_runs: How many Spark runs may have a process at once. Those over it wait.
        python_shell_runs: The same for Python shell runs.
        retry_delays_seconds: When to try again to deliver an event whose function failed.
        around: Puts something between the socket and the services, which then sees every request first.
    """

    _only_one: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        port: int = 0,
        data_dir: Path | None = None,
        *,
        region: str | None = None,
        spark_runs: int = 2,
        python_shell_runs: int = 8,
        retry_delays_seconds: Sequence[float] = (1.0, 2.0),
        around: Callable[[WSGIApplication], WSGIApplication] = lambda app: app,
    ) -> None:
        self._port = port
        self._data_dir = data_dir
        self.region = region or default_region(os.environ)
        self._limits = {JobKind.SPARK: spark_runs, JobKind.PYTHON_SHELL: python_shell_runs}
        self._retry_delays_seconds = retry_delays_seconds
        self._around = around
        self._activity = Activity()
        self._stack = ExitStack()
        self._clients: dict[str, Any] = {}
        self._clients_lock = threading.Lock()
        self.endpoint = ""
        self.logs_dir = Path()

    def __enter__(self) -> EmbeddedAws:
        """Start it.

        Raises:
            ConfigurationError: The port is in use, or this process has an embedded AWS already.
        """
        if not self._only_one.acquire(blocking=False):
            raise ConfigurationError("This process has an embedded AWS already", remedy="Leave its `with` block first")
        with ExitStack() as stack:
            stack.callback(self._only_one.release)
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop it, and end every process it started."""
        self._stack.close()

    def environment(self) -> dict[str, str]:
        """The whole environment of a child process that uses this AWS: this one's, but for what it says of AWS."""
        return child_environment(os.environ, self.endpoint, self.region)

    def client(self, service: str) -> Any:  # noqa: ANN401  boto3 makes its clients' classes as it runs
        """A boto3 client of this AWS; the same one each time."""
        with self._clients_lock:
            if service not in self._clients:
                session: Any = boto3.session.Session(DUMMY_KEY, DUMMY_KEY, region_name=self.region)
                config = Config(proxies={}, max_pool_connections=32)
                self._clients[service] = session.client(service, endpoint_url=self.endpoint, config=config)
            return self._clients[service]

    def wait_until_idle(self, timeout_seconds: float) -> None:
        """Wait until no event is pending and no job run is active.

        Raises:
            JobRunError: That is not so after this time; says what is going on.
        """
        active = self._activity.wait_until_idle(timeout_seconds)
        if active:
            message = f"The embedded AWS is still busy after {timeout_seconds:g} seconds: {'; '.join(active)}"
            raise JobRunError(message, remedy=f"Look at the logs in {self.logs_dir}")

    def _start(self, stack: ExitStack) -> None:
        """Put all parts together; what is entered last is left first."""
        _allow_many_open_files()
        data_dir = self._data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cdclake-aws-")))
        data_dir = data_dir.resolve()
        self.logs_dir = data_dir / "logs"
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        stack.callback(moto_api_backend.reset)
        self.endpoint = stack.enter_context(http_server(self._port, self._around))
        stack.callback(self._close_clients)

        environment = self.environment()
        functions = LambdaFunctions(environment=environment, data_dir=data_dir)
        runs = JobRuns(
            environment=environment,
            read_object=self._read_object,
            data_dir=data_dir,
            limits=self._limits,
            activity=self._activity,
        )
        delivery = EventDelivery(retry_delays_seconds=self._retry_delays_seconds, activity=self._activity)
        stack.enter_context(glue_runs_jobs(runs))
        stack.enter_context(lambda_runs_functions(functions, delivery))
        stack.callback(delivery.close)
        stack.callback(functions.close)
        stack.callback(runs.close)
        stack.callback(delivery.stop)

    def _read_object(self, bucket: str, key: str) -> bytes:
        content: bytes = self.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def _close_clients(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()


def _allow_many_open_files() -> None:
    """Each object of some megabytes is an open temporary file, and the usual limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
