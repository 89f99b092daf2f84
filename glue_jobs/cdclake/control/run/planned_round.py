"""What is due for a table in a round, with everything that the plan was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.commit.ledger import recorded
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.full_load_gate import dms_table_state, due_loads
from cdclake.control.plan.loaded_files import LoadedFiles
from cdclake.control.plan.lost_files import PendingNote
from cdclake.control.plan.plan_table import plan_table
from cdclake.control.plan.raw_scan import run_begin
from cdclake.control.plan.seen_files import seen_by_run
from cdclake.model.names import JOB_LOAD_INITIAL
from cdclake.model.table.attributes import Attribute
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.commit.log import ChangeLog
    from cdclake.model.raw.files import RawFiles
    from cdclake.model.raw.ledger import Recorded
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import Ports


class PlannedRound(NamedTuple):
    """What a round listed, and what is due.

    Attributes:
        listed_utc: When the listing of the raw files began.
        files: What is in the raw folder.
        dms_state: State of the table in its DMS task.
        lake: The newest snapshot.
        recorded: Those of the listed change files that the lake's ledger contains.
        decision: What is still due.
    """

    listed_utc: datetime
    files: RawFiles
    dms_state: str | None
    lake: Snapshot
    recorded: Recorded
    decision: Decision

    def after(self, state: TableState, lake: Snapshot, seen: Recorded) -> PlannedRound:
        """The round after a load: the lake shows which change files it holds.

        Args:
            seen: Those of the listed change files that the lake's ledger contains.
        """
        decision = plan_table(state, self.files, self.listed_utc, lake, self.dms_state, recorded=seen)
        return self._replace(lake=lake, recorded=seen, decision=decision)

    @property
    def due_job(self) -> str:
        """The job whose work is due next; empty if none is."""
        return self.decision.due_job

    @property
    def note(self) -> dict[str, str]:
        """Which change files are due, for the item; see `cdclake.control.plan.lost_files`."""
        return {Attribute.LAST_PENDING: self.decision.note}

    def raw_files(self, file: str = "") -> dict[str, str]:
        """The raw files that are due, for an error.

        Args:
            file: The only one, if it is known.
        """
        first = last = ""
        if self.due_job == JOB_LOAD_INITIAL:
            first, last = self.files.full_load[0].relative, self.files.full_load[-1].relative
        elif self.due_job:
            first, last = self.decision.first, self.decision.new_watermark
        return {"file": file or first} if file or first == last else {"files": f"{first} to {last}"}

    def outcome(self, state: TableState) -> dict[str, str]:
        """What the table's item keeps of the round at its end."""
        files, lake, decision = self.files, self.lake, self.decision
        outcome = {**self.note, Attribute.LAST_LEFT_OUT: decision.left_out}
        if Attribute.LAST_DEATHS in state.item:
            outcome[Attribute.LAST_DEATHS] = ""
        is_known = state.item.get(Attribute.LAST_FULL_LOAD_FILES) or due_loads(state, files.full_load)
        if lake.exists and not is_known:
            outcome[Attribute.LAST_FULL_LOAD_FILES] = str(LoadedFiles.of_files(files.full_load))  # the lake knows none
        accounted = decision.kind is DecisionKind.NOTHING_NEW
        outcome[Attribute.LAST_SEEN] = str(seen_by_run(state, files, self.listed_utc, accounted=accounted))
        return outcome


class DueLoad(NamedTuple):
    """What a run loads into one lake table as one change.

    Attributes:
        job: `JOB_LOAD_INITIAL` replaces the table with a full load, `JOB_LOAD_INCREMENTAL` applies change files.
        changes: The table's change log, through which the load commits.
        state: The table's item.
        planned: Which files are due, and everything that the plan was made from.
        token: Fencing token of the lease.
        note_due: Notes in the item which files are due, if it does not say so yet. To be called before any is applied.
        note_file: Called with each raw file before it is read alone, and with "" afterwards, as an earlier run died at
            this table; None: several are read at a time.
        spark_reason: See `TableWork`.
    """

    job: str
    changes: ChangeLog
    state: TableState
    planned: PlannedRound
    token: int
    note_due: Callable[[], None]
    note_file: Callable[[str], None] | None
    spark_reason: str = ""


def plan_round(ports: Ports, state: TableState, changes: ChangeLog, lake: Snapshot) -> PlannedRound:
    """List a table's raw files, and decide what is due.

    If nothing that `run_begin` lists is to be loaded, or a full load is, all are listed.

    Args:
        changes: The change log of the table.
        lake: The newest snapshot.
    """

    def planned(begin: str) -> PlannedRound:
        listed_utc = ports.clock()
        files = list_raw_files(ports.open_bucket(state.bucket), state.raw_prefix, state.settings, begin)
        dms_state = dms_table_state(ports.statistics, state, files.full_load)
        noted = PendingNote.of_item(state.item)
        seen = recorded(changes, lake.ledger, files.all_changes, noted.missing(files.all_changes))
        decision = plan_table(state, files, listed_utc, lake, dms_state, recorded=seen)
        if begin and decision.kind is not DecisionKind.INCREMENTAL:
            return planned("")
        return PlannedRound(listed_utc, files, dms_state, lake, seen, decision)

    return planned(run_begin(state, lake, ports.clock()))
