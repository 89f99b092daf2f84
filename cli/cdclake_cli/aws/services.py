"""The AWS services that a command uses."""

from __future__ import annotations

from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Callable
from uuid import uuid4

import typer

from cdclake.adapters.aws import server_clock
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.cloudwatch import MAX_PER_REQUEST, metric_data
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.controller import PlanInputs
from cdclake.model.metrics import namespace
from cdclake_cli.aws.dms_reload import DmsReloads
from cdclake_cli.aws.function import SmallChanges, small_changes_function
from cdclake_cli.aws.job_history import GlueJobHistory
from cdclake_cli.aws.session import CLIENT_CONFIG, endpoint_of, session_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from cdclake.control.admin.installation import Installation
    from cdclake.model.metrics import Metric
    from cdclake.model.table.name import TableName
    from cdclake_cli.target import Target

_CONNECTION = "_services"
"""Where a target keeps its services. It is no field: it does not count when targets are compared."""


class Services:
    """The adapters of a target, created on first use.

    Args:
        target: Buckets and state table.
        client: Creates the boto3 client of a service.
    """

    def __init__(self, target: Target, client: Callable[[str], Any]) -> None:
        self._target = target
        self._create = client
        self._clients: dict[str, Any] = {}
        self._lock = Lock()

    def _client(self, service: str) -> Any:  # noqa: ANN401 - boto3 has no type for all clients
        """The client of a service. boto3 cannot create clients in several threads at a time, and each takes 0.2 s."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._create(service)
            return self._clients[service]

    @cached_property
    def state(self) -> DynamoState:
        """The state table."""
        return DynamoState(self._client("dynamodb"), self._target.state_table)

    @cached_property
    def raw(self) -> S3Store:
        """The raw bucket."""
        return S3Store(self._client("s3"), self._target.raw_bucket)

    @cached_property
    def lake(self) -> S3Store:
        """The lake bucket."""
        return S3Store(self._client("s3"), self._target.lake_bucket)

    @cached_property
    def jobs(self) -> GlueJobs:
        """The Glue jobs."""
        return GlueJobs(self._client("glue"), self._target.name_prefix)

    @cached_property
    def statistics(self) -> DmsStatistics:
        """The progress of DMS tasks."""
        return DmsStatistics(lambda: self._client("dms"))

    @cached_property
    def reloads(self) -> DmsReloads:
        """Has DMS reload tables."""
        return DmsReloads(self._client("dms"), self.statistics)

    @cached_property
    def job_history(self) -> GlueJobHistory:
        """The runs of ProcessTable and of the Spark jobs."""
        return GlueJobHistory(self._client("glue"), self._target.name_prefix)

    @cached_property
    def small_changes(self) -> SmallChanges | None:
        """The function for small changes; None if it is not deployed."""
        return small_changes_function(self._client("lambda"), self._target.name_prefix)

    def send_metrics(self, metrics: Iterable[Metric]) -> None:
        """Send metrics to CloudWatch, also those of each table."""
        client, data = self._client("cloudwatch"), list(metric_data(list(metrics), per_table=True))
        for start in range(0, len(data), MAX_PER_REQUEST):
            client.put_metric_data(
                Namespace=namespace(self._target.name_prefix), MetricData=data[start : start + MAX_PER_REQUEST]
            )

    def clock(self) -> datetime:
        """The current time of AWS, see `ServerClock`."""
        return server_clock.after(lambda: self.state.get(self._target.installation.state_prefix))

    def catalog(self, database: str) -> GlueCatalog:
        """A database of the Glue Data Catalog."""
        return GlueCatalog(self._client("glue"), database)

    @property
    def installation(self) -> Installation:
        """The buckets and the state table."""
        return self._target.installation

    @property
    def plan_inputs(self) -> PlanInputs:
        """The inputs of a plan."""
        target = self._target
        return PlanInputs(self.raw, self.state, target.raw_bucket, target.installation.raw_folder, self.statistics)

    def log(self, name: TableName) -> ChangeLog:
        """The change log of a lake table."""
        return ChangeLog(self.lake, self._target.installation.layout(name))

    def open_table(self, name: TableName, made_by: str = "") -> RegisteredTable:
        """Open a registered table and its lake table, for one operation.

        Args:
            made_by: Author, for the change record.

        Raises:
            UnknownTableError: The table is not registered.
        """
        state = self._target.installation.find_table(self.state, name)
        run_id = f"by-hand-{uuid4().hex}"
        return RegisteredTable(self.state, state, self.log(name), run_id, self.clock, self.catalog, made_by)


def connect(target: Target) -> Services:
    """The services of a target, with the credentials that the AWS CLI uses.

    A target is connected once: the clients of a second connection would cost each of many tables 0.2 s.

    Raises:
        botocore.exceptions.BotoCoreError: The profile does not exist.
    """
    connected = vars(target)
    if _CONNECTION not in connected:
        server_clock.report = _warn
        create = partial(session_of(target).client, endpoint_url=endpoint_of(target), config=CLIENT_CONFIG)
        connected[_CONNECTION] = Services(target, lambda service: server_clock.watch(create(service)))
    services: Services = connected[_CONNECTION]
    return services


def _warn(text: str) -> None:
    typer.echo(f"Warning: {text}.", err=True)
