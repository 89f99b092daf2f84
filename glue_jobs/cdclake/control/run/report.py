"""What a run did, by table and round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdclake.control.jobs.entry import error_line, failures_line

if TYPE_CHECKING:
    from cdclake.control.plan.decision import Decision


@dataclass
class Round:
    """One round of a table: what was decided, loaded and committed.

    Attributes:
        loads: Names of the jobs whose work was done.
        changes: Numbers of the lake's changes that the item did not know at the start of the round.
    """

    decision: Decision
    loads: list[str] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """JSON data."""
        return {**vars(self), "decision": self.decision.to_json()}


@dataclass
class TableReport:
    """What a run did for one table.

    Attributes:
        table: `schema.table`, or the path of a table that is not registered.
        outcome: `done`, `inactive`, `busy: ...`, `failed`, or `handed on` to the run `follow_up`.
        failure: The error, if the run failed.
        catalog_error: Why the catalog could not be updated; empty if it could. This is no failure of the table.
    """

    table: str
    run_id: str
    outcome: str = "done"
    rounds: list[Round] = field(default_factory=list)
    follow_up: str = ""
    failure: BaseException | None = None
    catalog_error: str = ""

    @property
    def error(self) -> str:
        """The error on one line; empty if there is none."""
        return error_line(self.failure) if self.failure else ""

    def to_json(self) -> dict[str, object]:
        """JSON data."""
        data = {name: value for name, value in vars(self).items() if name != "failure"}
        return {**data, "rounds": [one.to_json() for one in self.rounds], "error": self.error}


@dataclass(frozen=True)
class RunReport:
    """What a run did, by table."""

    run_id: str
    tables: tuple[TableReport, ...]

    @property
    def only(self) -> TableReport:
        """The report of the only table.

        Raises:
            CdclakeError: The table failed; its item has the error too.
        """
        (report,) = self.tables
        if report.failure:
            raise report.failure
        return report

    def to_json(self) -> dict[str, object]:
        """JSON data; `error` is one line that names the failed tables, or empty."""
        failed = {report.table: report.failure for report in self.tables if report.failure}
        return {
            "run_id": self.run_id,
            "tables": [report.to_json() for report in self.tables],
            "error": failures_line(failed, len(self.tables)),
        }
