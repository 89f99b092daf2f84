"""The result of a Controller run: one result per table, and one line each for failures and for tables not started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.control.jobs.entry import error_line, failures_line

if TYPE_CHECKING:
    from cdclake.control.plan.planned_table import PlannedTable

NOT_STARTED = "not started"
"""Outcome of a table for which Glue had no room to start a run."""


@dataclass(frozen=True)
class TableResult:
    """The result of one table's plan.

    Attributes:
        planned: The plan.
        outcome: `registered`, `started`, `busy`, `not started`, ...; empty if there was nothing to do or it failed.
        run_id: Id of the ProcessTable run that was started.
        error: Why the table could not be planned or started, or the position of its page not stored.
        no_room: Why Glue had no room for the run. This is no failure: the next Controller run starts it.
    """

    planned: PlannedTable
    outcome: str = ""
    run_id: str = ""
    error: Exception | None = None
    no_room: str = ""

    @property
    def name(self) -> str:
        """`schema.table`."""
        return str(self.planned.state.name)

    def to_json(self) -> dict[str, object]:
        """JSON data: the plan's fields, `outcome`, `run_id`, `error` and `no_room`."""
        error = error_line(self.error) if self.error else ""
        result = {"outcome": self.outcome, "run_id": self.run_id, "error": error, "no_room": self.no_room}
        return {**self.planned.to_json(), **result}


@dataclass(frozen=True)
class Summary:
    """The result of a Controller run; `errors` and `findings` are the plan's."""

    tables: tuple[TableResult, ...]
    errors: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def failed(self) -> list[TableResult]:
        """Tables that could not be planned, registered or started."""
        return [table for table in self.tables if table.error]

    @property
    def not_started(self) -> list[TableResult]:
        """Tables with work for which Glue had no room. None of them failed."""
        return [table for table in self.tables if table.no_room]

    def to_json(self) -> dict[str, object]:
        """JSON data; `error` and `not_started` are one line each, empty if there is nothing to report."""
        tables = [table.to_json() for table in self.tables]
        failed = {table.name: table.error for table in self.tables if table.error}
        lines = {
            "not_started": self._not_started_line(),
            "error": failures_line(failed, len(self.tables), self.errors),
        }
        return {"tables": tables, "findings": list(self.findings), **lines}

    def _not_started_line(self) -> str:
        waiting = self.not_started
        if not waiting:
            return ""
        names = ", ".join(table.name for table in waiting)
        count = f"not started: {len(waiting)} of {len(self.tables)} tables; the next run starts them: {names}"
        return f"{count}. {waiting[0].no_room}"
