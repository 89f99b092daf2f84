"""Reads what the fates of a table's raw files follow from. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.commit.ledger import all_entries, recorded
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.fates import fates
from cdclake.control.plan.full_load_gate import dms_table_state
from cdclake.control.plan.lost_files import PendingNote
from cdclake.control.plan.plan_table import plan_table
from cdclake.errors import CdclakeError
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from cdclake.commit.log import ChangeLog
    from cdclake.control.plan.fates import FileFate
    from cdclake.model.change.record import RawFileRows
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectReader, TaskStatistics

_STOPPED = frozenset({DecisionKind.INACTIVE, DecisionKind.WAITING, DecisionKind.FROZEN})


def raw_fates(
    raw: ObjectReader, state: TableState, log: ChangeLog, now: datetime, statistics: TaskStatistics | None
) -> list[FileFate]:
    """The fates of all raw files of a table, see `cdclake.control.plan.fates.fates`.

    Args:
        raw: The raw bucket.
        state: The table's item.
        log: Its change log.
        statistics: Reads table states of DMS tasks.

    Raises:
        UnreadableFileError: The name of a change file has an invalid time.
        ConfigurationError: An attribute of the state is invalid; names it.
        IntegrityError: An object of the change log is missing.
    """
    lake = log.snapshot(log.head())
    files = list_raw_files(raw, state.raw_prefix, state.settings)
    noted = PendingNote.of_item(state.item)
    seen = recorded(log, lake.ledger, files.changes, noted.missing(files.all_changes))
    try:
        dms_state = dms_table_state(statistics, state, files.full_load)
        decision = plan_table(state, files, now, lake, dms_state, recorded=seen)
    except CdclakeError as error:
        stopped_by = error_line(error)
    else:
        stopped_by = decision.reason if decision.kind in _STOPPED else ""
    return fates(state, files, lake, all_entries(log, lake.ledger), seen, stopped_by)


def rows_read(log: ChangeLog, files: Iterable[FileFate]) -> dict[str, RawFileRows]:
    """The rows that changes read of some raw files, by relative key; files that no change has read are missing."""
    records = log.records_of(sorted({one.change for one in files if one.change}))
    return {read.relative: read for record in records for read in record.raw_files}
