"""Has AWS DMS load a table from its source again, and waits until DMS reports it loaded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.adapters.aws import Remedies, translated_errors
from cdclake.control.plan.full_load_gate import COMPLETED, FAILED
from cdclake.errors import AttentionError, ConfigurationError, RetryableError
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from cdclake.adapters.dms import DmsStatistics
    from cdclake.model.table.name import TableName

RUNNING = "running"
"""Status of a task that works. DMS reloads tables of no other."""
_CHANGES_ONLY = "cdc"
_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 15.0


class TableLoad(NamedTuple):
    """What a task reports about a table and its last full load.

    Attributes:
        schema: Name of the source schema, as DMS spells it.
        table: Name of the source table, as DMS spells it.
        state: `Table completed`, `Full load`, ...
        rows: Rows that the load has read.
        ended_utc: When the load ended; None if DMS does not say.
    """

    schema: str
    table: str
    state: str
    rows: int = 0
    ended_utc: datetime | None = None

    def follows(self, before: TableLoad) -> bool:
        """Whether this shows that DMS has begun a load since `before`. A short one ends between two looks."""
        return self.state != before.state or self.ended_utc not in (None, before.ended_utc)


class DmsReloads:
    """Has DMS reload tables.

    Args:
        client: The DMS client.
        statistics: Reads tasks.
        sleep: Waits for a number of seconds.
    """

    def __init__(self, client: Any, statistics: DmsStatistics, sleep: Callable[[float], None] = time.sleep) -> None:  # noqa: ANN401 - boto3 has no types
        self._client = client
        self._statistics = statistics
        self._sleep = sleep

    def before_reload(self, task: str, name: TableName) -> TableLoad:
        """What the task reports about a table that it can reload.

        Args:
            task: ARN of the task.
            name: The table, by the names of its raw folders.

        Raises:
            ConfigurationError: The task does not exist or does not run, cannot reload, or lacks the table.
            RetryableError: DMS is loading the table already.
        """
        found = self._statistics.settings(task)
        if found.migration_type == _CHANGES_ONLY:
            remedy = "Load the table with a task that does full loads"
            raise ConfigurationError("The DMS task only sends changes: it cannot reload", remedy=remedy, task=task)
        if found.status != RUNNING:
            remedy = "Start or resume the task, then run again: DMS reloads tables of running tasks only"
            message = f"The DMS task is '{found.status}'"
            raise ConfigurationError(message, remedy=remedy, task=task)
        load = self._load(task, name)
        if load.state not in FAILED | {COMPLETED}:
            remedy = "Wait until the load has ended, then run again if the table still differs"
            message = f"The DMS task reports '{load.state}' already"
            raise RetryableError(message, remedy=remedy, table=name, task=task)
        return load

    def reload(self, task: str, load: TableLoad) -> None:
        """Ask DMS to reload a table.

        Args:
            task: ARN of the task.
            load: The result of `before_reload`.

        Raises:
            ConfigurationError: The task is gone, or the caller may not reload its tables.
        """
        denied = "Grant the caller dms:ReloadTables on the task"
        with translated_errors(Remedies(missing=f"Correct {Attribute.DMS_TASK}", denied=denied), task=task):
            self._client.reload_tables(
                ReplicationTaskArn=task,
                TablesToReload=[{"SchemaName": load.schema, "TableName": load.table}],
                ReloadOption="data-reload",
            )

    def wait(self, task: str, name: TableName, before: TableLoad, progress: Callable[[TableLoad], None]) -> TableLoad:
        """Wait until DMS reports the table loaded.

        Args:
            task: ARN of the task.
            name: The table, by the names of its raw folders.
            before: The result of `before_reload`.
            progress: Gets what DMS reports, again and again.

        Raises:
            AttentionError: The load failed, or the task stopped before its end.
        """
        begun, pause_seconds = False, _FIRST_PAUSE_SECONDS
        while True:
            status = self._statistics.settings(task).status  # first: a task may stop when it has loaded its last table
            load = self._load(task, name)
            begun = begun or load.follows(before)
            if begun and load.state == COMPLETED:
                return load
            if begun and load.state in FAILED:
                remedy = "Look into the task's log, remove the cause, then run again"
                message = f"The reload failed: DMS reports '{load.state}'"
                raise AttentionError(message, remedy=remedy, table=name)
            if status != RUNNING:
                remedy = "Resume the task, and check in DMS whether it loads the table; if not, run again"
                message = f"The DMS task is '{status}' before it has reloaded the table"
                raise AttentionError(message, remedy=remedy, table=name, task=task)
            progress(load)
            self._sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _load(self, task: str, name: TableName) -> TableLoad:
        """What a task reports about a table. Names are compared without regard to case."""
        wanted = (name.schema.casefold(), name.table.casefold())
        for one in self._statistics.tables(task):
            if (one["SchemaName"].casefold(), one["TableName"].casefold()) == wanted:
                rows, ended = one.get("FullLoadRows", 0), one.get("FullLoadEndTime")
                return TableLoad(one["SchemaName"], one["TableName"], one["TableState"], rows, ended)
        remedy = "If a rule of the task renames it, reload it in DMS by its source name"
        raise ConfigurationError("The DMS task has no table of this name", remedy=remedy, table=name, task=task)
