"""S3, DynamoDB, Glue, Lambda and EventBridge on one loopback endpoint; jobs and functions really run."""

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

from cdclake.errors import ConfigurationError, JobRunError
from cdclake_devkit.local.activity import Activity
from cdclake_devkit.local.environment import DUMMY_KEY, child_environment, default_region
from cdclake_devkit.local.events import EventDelivery
from cdclake_devkit.local.glue import real_job_runs
from cdclake_devkit.local.job_events import JobEvents
from cdclake_devkit.local.jobs import JobKind, JobRuns
from cdclake_devkit.local.lambda_functions import LambdaFunctions
from cdclake_devkit.local.notifications import real_functions
from cdclake_devkit.local.roles import role_variables
from cdclake_devkit.local.web import http_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from wsgiref.types import WSGIApplication

_OPEN_FILES = 65536


class EmbeddedAws:
    """A local AWS for the duration of the `with` block.

    The same code works with it as with AWS: boto3 with `AWS_ENDPOINT_URL`. Objects and items are in this process (large
    objects in temporary files). At the end they are discarded, and all processes that it started are ended, even if
    this process is killed. A process can have one at a time, because moto keeps its state in module variables. Where
    moto is kinder than AWS, it follows the rules of `cdclake_devkit.strict_aws`. Jobs and functions run with the
    credentials of their roles, and may do only what these grant.

    Args:
        port: Loopback port; 0 for any free one.
        data_dir: Folder for logs and run files, created if missing. None for a temporary one, which is deleted at the
            end.
        region: Region of all services; None for the region that AWS clients of this environment use.
        spark_runs: Maximum number of concurrent Spark runs; further ones wait.
        python_shell_runs: Maximum number of concurrent Python shell runs; further ones wait.
        retry_delays_seconds: Delays before retries of events whose function failed.
        middleware: Wraps the application, and thus sees every request first.
    """

    _process_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        port: int = 0,
        data_dir: Path | None = None,
        *,
        region: str | None = None,
        spark_runs: int = 2,
        python_shell_runs: int = 8,
        retry_delays_seconds: Sequence[float] = (1.0, 2.0),
        middleware: Callable[[WSGIApplication], WSGIApplication] = lambda app: app,
    ) -> None:
        self._port = port
        self._data_dir = data_dir
        self.region = region or default_region(os.environ)
        self._limits = {JobKind.SPARK: spark_runs, JobKind.PYTHON_SHELL: python_shell_runs}
        self._retry_delays_seconds = retry_delays_seconds
        self._middleware = middleware
        self._activity = Activity()
        self._stack = ExitStack()
        self._clients: dict[str, Any] = {}
        self._clients_lock = threading.Lock()
        self.endpoint = ""
        self.logs_dir = Path()

    def __enter__(self) -> EmbeddedAws:
        """Start the services.

        Raises:
            ConfigurationError: The port is in use, or this process already has an embedded AWS.
        """
        if not self._process_lock.acquire(blocking=False):
            raise ConfigurationError("This process already has an embedded AWS", remedy="Leave its `with` block first")
        with ExitStack() as stack:
            stack.callback(self._process_lock.release)
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the services, and end all processes that they started."""
        self._stack.close()

    def environment(self) -> dict[str, str]:
        """The complete environment of a child process that uses this AWS."""
        return child_environment(os.environ, self.endpoint, self.region)

    def client(self, service: str) -> Any:  # noqa: ANN401  boto3 creates client classes at run time
        """The boto3 client for a service of this AWS; the same one each time."""
        with self._clients_lock:
            if service not in self._clients:
                session: Any = boto3.session.Session(DUMMY_KEY, DUMMY_KEY, region_name=self.region)
                config = Config(proxies={}, max_pool_connections=32)
                self._clients[service] = session.client(service, endpoint_url=self.endpoint, config=config)
            return self._clients[service]

    def assume_role(self, role: str) -> dict[str, str]:
        """Variables with credentials of a role, which may do only what its policies grant.

        Args:
            role: Its name or ARN.

        Raises:
            ClientError: The role does not exist.
        """
        name = role.rpartition("/")[2]
        arn = self.client("iam").get_role(RoleName=name)["Role"]["Arn"]
        session = self.client("sts").assume_role(RoleArn=arn, RoleSessionName=name)
        return role_variables(session["Credentials"])

    def wait_until_idle(self, timeout_seconds: float) -> None:
        """Wait until no event is pending and no job run is active.

        Raises:
            JobRunError: The time is over; the message lists what is active.
        """
        active = self._activity.wait_until_idle(timeout_seconds)
        if active:
            message = f"The embedded AWS is still busy after {timeout_seconds:g} seconds: {'; '.join(active)}"
            raise JobRunError(message, remedy=f"Check the logs in {self.logs_dir}")

    def _start(self, stack: ExitStack) -> None:
        """Start all parts; the stack stops them in reverse order."""
        _allow_many_open_files()
        data_dir = self._data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cdclake-aws-")))
        data_dir = data_dir.resolve()
        self.logs_dir = data_dir / "logs"
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        stack.callback(moto_api_backend.reset)
        self.endpoint = stack.enter_context(http_server(self._port, self._middleware))
        stack.callback(self._close_clients)

        environment = self.environment()
        functions = LambdaFunctions(environment=environment, assume_role=self.assume_role, data_dir=data_dir)
        delivery = EventDelivery(retry_delays_seconds=self._retry_delays_seconds, activity=self._activity)
        runs = JobRuns(
            environment=environment,
            assume_role=self.assume_role,
            read_object=self._read_object,
            data_dir=data_dir,
            limits=self._limits,
            activity=self._activity,
            ended=JobEvents(functions, delivery, self.region).ended,
        )
        stack.enter_context(real_job_runs(runs))
        stack.enter_context(real_functions(functions, delivery))
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
    """Raise the limit of open files, usually 1024: each object of some megabytes is an open temporary file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
