"""The plan for one table: what the Controller does about it, and the decision behind that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import DecisionKind
from cdclake.errors import RawFilesLostError

if TYPE_CHECKING:
    from cdclake.control.plan.decision import Decision
    from cdclake.model.table.state import TableState


class Action(Enum):
    """What the Controller does about a table."""

    REGISTER = "register"
    """Add it to the state table, inactive, so that an operator can check it first."""
    START = "start"
    """Start a ProcessTable run."""
    ASK = "ask"
    """Ask the run that is working on the table to list its raw files again before it ends."""
    NONE = "none"
    """Do nothing."""


@dataclass(frozen=True)
class PlannedTable:
    """The plan for one table: a decision, or the error that prevented it.

    Attributes:
        state: The item as read; for a new table, the item to register.
        page_end: Where the next page of the raw folder begins, see `cdclake.control.plan.raw_scan`.
    """

    state: TableState
    action: Action
    decision: Decision | None = None
    error: Exception | None = None
    page_end: str = ""

    @property
    def page_moved(self) -> bool:
        """Whether the next scan begins at another page. A table with work keeps its page and is scanned there again."""
        nothing_new = self.decision is not None and self.decision.kind is DecisionKind.NOTHING_NEW
        return nothing_new and self.page_end != self.state.last_page_end

    @property
    def failure(self) -> Exception | None:
        """What a run must report as failed: the error, or that the table is frozen; None if neither."""
        if self.decision and self.decision.kind is DecisionKind.FROZEN:
            return RawFilesLostError(self.decision.reason, remedy=self.decision.to_do)
        return self.error

    @property
    def error_text(self) -> str:
        """The error on one line; empty if there is none."""
        return error_line(self.error) if self.error else ""

    def to_json(self) -> dict[str, object]:
        """JSON data: `table`, `path`, `action`, `error`, and the decision's own fields if there is one."""
        decision = self.decision.to_json() if self.decision else {}
        names = {"table": str(self.state.name), "path": self.state.path}
        return {**names, "action": self.action.value, "error": self.error_text, **decision}
