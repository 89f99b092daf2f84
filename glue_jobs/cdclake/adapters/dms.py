"""Reads from AWS DMS whether a full load is complete, and the settings of a task and its endpoints."""

from __future__ import annotations

import json
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.adapters.aws import Remedies, translated_errors
from cdclake.errors import ConfigurationError
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from botocore.client import BaseClient

    from cdclake.model.table.name import TableName

PAGE_TABLES = 500
"""Maximum page size. https://docs.aws.amazon.com/dms/latest/APIReference/API_DescribeTableStatistics.html"""


class DmsEndpoint(NamedTuple):
    """Settings of an endpoint.

    Attributes:
        engine: Its engine, such as `postgres`.
        settings: The settings of its engine and its extra connection attributes, by lower-case name.
    """

    engine: str
    settings: Mapping[str, Any]

    def value(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """A setting by its name in the API; None if it is not set."""
        return self.settings.get(name.lower())


class DmsTask(NamedTuple):
    """Settings of a task.

    Attributes:
        sections: Its settings by section, as in the DMS guide ("Specifying task settings").
        source_arn: Its source endpoint.
        target_arn: Its target endpoint.
        endpoints: The endpoints by ARN, as far as they were read.
        mappings: Its table mappings.
        status: `running`, `stopped`, ...
        migration_type: `full-load`, `cdc` or `full-load-and-cdc`.
    """

    sections: Mapping[str, Any]
    source_arn: str = ""
    target_arn: str = ""
    endpoints: Mapping[str, DmsEndpoint] = MappingProxyType({})
    mappings: Mapping[str, Any] = MappingProxyType({})
    status: str = ""
    migration_type: str = ""

    @property
    def source(self) -> DmsEndpoint | None:
        """The source endpoint; None if it was not read."""
        return self.endpoints.get(self.source_arn)

    @property
    def target(self) -> DmsEndpoint | None:
        """The target endpoint; None if it was not read."""
        return self.endpoints.get(self.target_arn)


class DmsStatistics:
    """A `TaskStatistics` on AWS DMS. Reads each task once, with all its tables, on first use.

    Names are compared without regard to case. A task that renames tables lists them by their source names.

    Args:
        connect: Returns the DMS client; called on first use, because most lakes name no task.
    """

    def __init__(self, connect: Callable[[], BaseClient]) -> None:
        self._connect = connect
        self._tasks: dict[str, dict[tuple[str, str], str]] = {}
        self._lock = Lock()

    def table_state(self, task: str, name: TableName) -> str | None:
        """The state of a table in a task: `Full load`, `Table completed`, ...; None if the task lacks the table."""
        with self._lock:
            if task not in self._tasks:
                self._tasks[task] = self._read(task)
        return self._tasks[task].get((name.schema.casefold(), name.table.casefold()))

    def settings(self, task: str) -> DmsTask:
        """A task's settings, without its endpoints.

        Args:
            task: ARN of the task.

        Raises:
            ConfigurationError: The task does not exist, or the caller may not read it.
        """
        missing = f"Correct {Attribute.DMS_TASK}, or set it to null"
        remedies = Remedies(missing=missing, denied="Grant the caller dms:DescribeReplicationTasks")
        arn = {"Name": "replication-task-arn", "Values": [task]}
        with translated_errors(remedies, task=task):
            pages = self._connect().get_paginator("describe_replication_tasks")
            tasks = [one for page in pages.paginate(Filters=[arn]) for one in page["ReplicationTasks"]]
        if not tasks:
            raise ConfigurationError("The DMS task does not exist", remedy=missing, task=task)
        found = tasks[0]
        sections: dict[str, Any] = json.loads(found.get("ReplicationTaskSettings") or "{}")
        mappings = json.loads(found.get("TableMappings") or "{}")
        source, target = found.get("SourceEndpointArn", ""), found.get("TargetEndpointArn", "")
        status, migration_type = found.get("Status", ""), found.get("MigrationType", "")
        return DmsTask(sections, source, target, mappings=mappings, status=status, migration_type=migration_type)

    def with_endpoints(self, task: DmsTask) -> DmsTask:
        """The task with its endpoints.

        Raises:
            ConfigurationError: The caller may not read them.
        """
        arns = [arn for arn in (task.source_arn, task.target_arn) if arn]
        remedies = Remedies(missing="Check the task's endpoints", denied="Grant the caller dms:DescribeEndpoints")
        with translated_errors(remedies, endpoints=", ".join(arns)):
            pages = self._connect().get_paginator("describe_endpoints")
            filters = [{"Name": "endpoint-arn", "Values": arns}]
            endpoints = [one for page in pages.paginate(Filters=filters) for one in page["Endpoints"]] if arns else []
        return task._replace(endpoints={one["EndpointArn"]: _endpoint(one) for one in endpoints})

    def tables(self, task: str) -> Iterator[dict[str, Any]]:
        """What a task reports about each of its tables now, as in DMS's answer (`SchemaName`, `TableState`, ...).

        Args:
            task: ARN of the task.

        Raises:
            ConfigurationError: The task does not exist, or the caller may not read it.
        """
        remedies = Remedies(
            missing=f"Correct {Attribute.DMS_TASK}, or set it to null to judge full loads by their files alone",
            denied="Grant the caller dms:DescribeTableStatistics on the task",
        )
        with translated_errors(remedies, task=task):
            pages = self._connect().get_paginator("describe_table_statistics")
            found = pages.paginate(ReplicationTaskArn=task, PaginationConfig={"PageSize": PAGE_TABLES})
            for page in found:
                yield from page["TableStatistics"]

    def _read(self, task: str) -> dict[tuple[str, str], str]:
        return {
            (table["SchemaName"].casefold(), table["TableName"].casefold()): table["TableState"]
            for table in self.tables(task)
        }


def _endpoint(answer: Mapping[str, Any]) -> DmsEndpoint:
    """An endpoint. Settings of its engine are in one object of the answer, and win over extra connection attributes."""
    extra = (part.partition("=") for part in (answer.get("ExtraConnectionAttributes") or "").split(";"))
    settings: dict[str, Any] = {name.strip().lower(): value.strip() for name, _, value in extra if name.strip()}
    for key, values in answer.items():
        if key.endswith("Settings") and isinstance(values, dict):
            settings |= {name.lower(): value for name, value in values.items()}
    return DmsEndpoint(answer["EngineName"], settings)
