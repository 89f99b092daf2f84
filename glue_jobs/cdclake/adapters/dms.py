"""AWS DMS as the one who knows whether a full load is complete, and how a task is set."""

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
"""The most that one answer holds. https://docs.aws.amazon.com/dms/latest/APIReference/API_DescribeTableStatistics.html"""


class DmsStatistics:
    """A `TaskStatistics` on AWS DMS. Reads each task once, with all its tables, when it is first asked for.

    Names are compared without regard to case. A task that renames tables knows them by the names of the source.

    Args:
        connect: Gives the DMS client; called when it is first needed, as most lakes name no task.
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
        """Settings of a task by section, as in the DMS guide ("Specifying task settings").

        Args:
            task: ARN of the task.

        Raises:
            ConfigurationError: There is no such task, or it may not be looked at.
        """
        missing = f"Correct {Attribute.DMS_TASK}, or set it to null"
        remedies = Remedies(missing=missing, denied="Grant the caller dms:DescribeReplicationTasks")
        asked = {"Name": "replication-task-arn", "Values": [task]}
        with translated_errors(remedies, task=task):
            pages = self._connect().get_paginator("describe_replication_tasks")
            found = [one for page in pages.paginate(Filters=[asked]) for one in page["ReplicationTasks"]]
        if not found:
            raise ConfigurationError("There is no such DMS task", remedy=missing, task=task)
        settings: dict[str, Any] = json.loads(found[0].get("ReplicationTaskSettings") or "{}")
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
