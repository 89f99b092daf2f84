"""Reads from AWS DMS whether a full load is complete, and a task's settings."""

from __future__ import annotations

import json
from threading import Lock
from typing import TYPE_CHECKING, Any

from cdclake.adapters.aws import Remedies, translated_errors
from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.client import BaseClient

    from cdclake.model.table import TableName

PAGE_TABLES = 500
"""Maximum page size. https://docs.aws.amazon.com/dms/latest/APIReference/API_DescribeTableStatistics.html"""


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
        """See `TaskStatistics.table_state`."""
        with self._lock:
            if task not in self._tasks:
                self._tasks[task] = self._read(task)
        return self._tasks[task].get((name.schema.casefold(), name.table.casefold()))

    def settings(self, task: str) -> dict[str, Any]:
        """A task's settings by section, as in the DMS guide ("Specifying task settings").

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
        settings: dict[str, Any] = json.loads(tasks[0].get("ReplicationTaskSettings") or "{}")
        return settings

    def _read(self, task: str) -> dict[tuple[str, str], str]:
        remedies = Remedies(
            missing=f"Correct {Attribute.DMS_TASK}, or set it to null to judge full loads by their files alone",
            denied="Grant the caller dms:DescribeTableStatistics on the task",
        )
        with translated_errors(remedies, task=task):
            pages = self._connect().get_paginator("describe_table_statistics")
            return {
                (table["SchemaName"].casefold(), table["TableName"].casefold()): table["TableState"]
                for page in pages.paginate(ReplicationTaskArn=task, PaginationConfig={"PageSize": PAGE_TABLES})
                for table in page["TableStatistics"]
            }
