"""How a table stands, for people and for programs: made of its plan, its item and its newest change. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.run.item_sync import last_change
from cdclake.control.run.metrics import lag_seconds
from cdclake.model.names import Attribute, RunState, Sentinel

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.control.controller import PlannedTable
    from cdclake.control.plan.decision import Decision
    from cdclake.model.change import ChangeRecord
    from cdclake.model.table import TableState

LATE_AFTER_MINUTES = 180
"""The Controller comes by every hour; who has waited for three has been passed over more than once."""


class Standing(Enum):
    """How a table stands. The first that fits, in this order."""

    BROKEN = "broken"
    """Its settings, its item, its raw files or its change log cannot be read as they are."""
    NEW = "new"
    """No person has looked at it yet."""
    INACTIVE = "inactive"
    """A person, or a rollback, has turned it off."""
    FROZEN = "frozen"
    """Change files vanished before they were applied."""
    FAILED = "failed"
    """Its last run failed."""
    WORKING = "working"
    """A run is at work on it."""
    WAITING = "waiting"
    """Its full load is still arriving."""
    LATE = "late"
    """Raw files have been due for too long, and no run is at work."""
    STALE_CATALOG = "stale catalog"
    """Its rows are right, and the catalog could not be brought in line with them."""
    BEHIND = "behind"
    """Raw files are due; the next run applies them."""
    UP_TO_DATE = "up to date"
    """Every raw file is accounted for."""


NEEDS_A_PERSON = frozenset(
    {Standing.BROKEN, Standing.NEW, Standing.FROZEN, Standing.FAILED, Standing.LATE, Standing.STALE_CATALOG}
)


@dataclass(frozen=True)
class TableStatus:
    """How one table stands. Times are as they stand in the item or the change record, UTC.

    Attributes:
        reason: Why it stands so, for people.
        to_do: What a person must do; empty if nothing.
        lag_seconds: How long the oldest raw file that is due has been waiting; None if it is not known.
        lag_files: How many are due; None if it is not known.
        change: Number of the newest change that the item knows; None if there is none.
        change_kind: What made it.
        change_utc: When it was made.
        rows: Rows of the lake table after it; None if it is not known.
        run_state: `SUCCEEDED` or `FAILED`: how the last run ended; empty if there was none.
        run_id: That run.
        run_utc: When it ended.
        error: What went wrong in it; empty if nothing did.
        leased_by: Run that may write the table now; empty if none.
        leased_until_utc: Until when.
        catalog_table: `<database>.<table>` that shows it in the catalog; empty if none does.
        catalog_error: Why the catalog could not be brought in line; empty if it was.
    """

    table: str
    path: str
    standing: Standing
    reason: str
    to_do: str
    lag_seconds: float | None
    lag_files: int | None
    change: int | None
    change_kind: str
    change_utc: str
    rows: int | None
    run_state: str
    run_id: str
    run_utc: str
    error: str
    leased_by: str
    leased_until_utc: str
    catalog_table: str
    catalog_error: str

    @property
    def needs_a_person(self) -> bool:
        """Whether nothing goes on until somebody does something."""
        return self.standing in NEEDS_A_PERSON

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        return {**asdict(self), "standing": self.standing.value, "needs_a_person": self.needs_a_person}


def table_status(
    planned: PlannedTable, newest: ChangeRecord | None, problem: str, now: datetime, late_after_minutes: int
) -> TableStatus:
    """Tell how a table stands.

    Args:
        planned: What the Controller would do about it.
        newest: The newest change that its item knows; None if there is none or it cannot be read.
        problem: Why the change cannot be read; empty if it can.
        now: The time.
        late_after_minutes: After how long a raw file that is due is late.
    """
    state, decision = planned.state, planned.decision
    error = planned.error or problem
    standing = Standing.BROKEN if error or decision is None else _standing(state, decision, now, late_after_minutes)
    known = decision is not None and decision.kind is not DecisionKind.INACTIVE
    leased = state.leased(now)
    item = state.item
    return TableStatus(
        table=str(state.name),
        path=state.path,
        standing=standing,
        reason=error or (decision.reason if decision else ""),
        to_do=_to_do(standing, error, state, decision),
        lag_seconds=lag_seconds(decision, now) if decision and known else None,
        lag_files=decision.files + decision.left if decision and known else None,
        change=last_change(state) or None,
        change_kind=newest.kind.value if newest else "",
        change_utc=newest.created_utc if newest else "",
        rows=newest.books.rows_after if newest else None,
        run_state=item.get(Attribute.LAST_RUN_STATE, ""),
        run_id=item.get(Attribute.LAST_RUN_ID, ""),
        run_utc=item.get(Attribute.LAST_RUN_UTC, ""),
        error=item.get(Attribute.LAST_ERROR, ""),
        leased_by=item[Attribute.LEASE_HOLDER] if leased else "",
        leased_until_utc=item[Attribute.LEASE_EXPIRES_UTC] if leased else "",
        catalog_table=item.get(Attribute.LAST_CATALOG_TABLE, ""),
        catalog_error=item.get(Attribute.LAST_CATALOG_ERROR, ""),
    )


def _standing(state: TableState, decision: Decision, now: datetime, late_after_minutes: int) -> Standing:
    catalog = state.item.get(Attribute.LAST_CATALOG_ERROR)
    if decision.kind is DecisionKind.INACTIVE:
        off = Standing.STALE_CATALOG if catalog else Standing.INACTIVE
        return Standing.NEW if _untouched(state) else off
    if decision.kind is DecisionKind.FROZEN:
        return Standing.FROZEN
    if state.item.get(Attribute.LAST_RUN_STATE) == RunState.FAILED:
        return Standing.FAILED
    if state.leased(now):
        return Standing.WORKING
    if decision.kind is DecisionKind.WAITING:
        return Standing.WAITING
    if lag_seconds(decision, now) > late_after_minutes * 60:
        return Standing.LATE
    if catalog:
        return Standing.STALE_CATALOG
    return Standing.BEHIND if decision.work else Standing.UP_TO_DATE


def _untouched(state: TableState) -> bool:
    """Whether a table that is off is as it was registered: without a key, and no run has ever been at it."""
    worked_on = (Attribute.LAST_RUN_STATE, Attribute.LAST_CHANGE_ID, Attribute.FENCING_TOKEN)
    key = state.item.get(Attribute.PRIMARY_KEY, Sentinel.NONE)
    return key == Sentinel.NONE and not any(state.item.get(name) for name in worked_on)


def _to_do(standing: Standing, error: str, state: TableState, decision: Decision | None) -> str:
    if standing is Standing.BROKEN:
        return error
    if standing is Standing.FAILED:
        return state.item.get(Attribute.LAST_ERROR, "")
    if standing is Standing.STALE_CATALOG:
        return state.item[Attribute.LAST_CATALOG_ERROR]
    if standing is Standing.LATE:
        return "see whether the Controller runs, and what its last run says (cdclake run starts it)"
    return decision.to_do if decision else ""
