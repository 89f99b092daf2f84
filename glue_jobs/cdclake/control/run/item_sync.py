"""Updates a table's item in the state table from the lake. The lake is the truth; the item is a view of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.log import ways_back
from cdclake.commit.quarantine import quarantined_files
from cdclake.control.plan.loaded_files import LoadedFiles
from cdclake.control.plan.open_findings import OpenFindings, can_empty_quarantine
from cdclake.errors import IntegrityError
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import Sentinel
from cdclake.model.snapshot import LakeKeys
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake.model.table.state import TableState

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import Snapshot


_LOADS = (ChangeKind.FULL_LOAD, ChangeKind.ADOPTION)
_BY_RUNS = (ChangeKind.FULL_LOAD, ChangeKind.INCREMENTAL)
_OF_LAKE = attributes_that(lambda declared: declared.of_lake)
MAX_CHANGES_READ = 100
"""A rebuilt item knows no change; reading all of them could take long."""


def _is_emptied(log: ChangeLog, snapshot: Snapshot) -> bool:
    """Whether a rollback undid all changes of a lake table, so that it must be loaded from the beginning."""
    return not snapshot.exists and any(record.as_of is None for record in log.newest_first(snapshot.change))


def _was_loaded(log: ChangeLog, state: TableState, snapshot: Snapshot) -> bool:
    """Whether a full load, or an adoption, is among the changes that the item does not know."""
    first = max(state.last_change, snapshot.change - MAX_CHANGES_READ) + 1
    return any(record.kind in _LOADS for record in log.records(first, snapshot.change))


def unknown_rollback(log: ChangeLog, state: TableState, change: int) -> int:
    """Number of the rollback that turned the table off although its item is on: the item is older; 0 if there is none.

    A rollback removes `LastSeen` before its commit, so an item that an operator turned on after it, even if the
    rollback died, is not older.

    Args:
        change: Number of the lake's newest change.
    """
    if state.seen.listed_utc is None:
        return 0
    for number in range(change, max(state.last_change, change - MAX_CHANGES_READ), -1):
        record = log.record(number)
        if record.kind is ChangeKind.ROLLBACK:
            return number
        if record.kind in _BY_RUNS:  # the table was on
            return 0
    return 0


def lake_attributes(state: TableState, log: ChangeLog, snapshot: Snapshot) -> dict[str, str]:
    """Attributes that the item must have for a lake table.

    Before the lake table exists, the item itself holds where the changes begin, and the lake adds only the number of
    its newest change, if any. If no change file was applied to the lake table, the watermark becomes the sentinel,
    whatever the item holds: a full load may move the watermark back, so that changes written after it began are applied
    again.

    A watermark or a date of the last full load that an operator set by hand stays until the table is loaded, or rolled
    back to nothing: the planner obeys or refuses it.

    Args:
        snapshot: The lake table after its newest change.
    """
    if not snapshot.change:
        return {}
    emptied, found = _is_emptied(log, snapshot), str(open_findings(state, log, snapshot))
    attributes = {Attribute.LAST_CHANGE_ID: str(snapshot.change), Attribute.LAST_FINDINGS: found}
    if not (snapshot.exists or emptied):
        return attributes
    recorded = {
        Attribute.LAST_INCREMENTAL_FILE: state.as_watermark(snapshot.watermark),
        Attribute.LAST_FULL_LOAD_DATE: snapshot.full_load_utc or Sentinel.NEVER_LOADED,
    }
    files = str(LoadedFiles.of_snapshot(snapshot))
    if not files and recorded[Attribute.LAST_FULL_LOAD_DATE] == state.recorded.get(Attribute.LAST_FULL_LOAD_DATE):
        files = state.item.get(Attribute.LAST_FULL_LOAD_FILES, "")
    is_new = emptied and state.last_change < snapshot.change  # what was set before the rollback is gone with the rest
    by_hand = set() if is_new or _was_loaded(log, state, snapshot) else _set_by_hand(state)
    return {
        **attributes,
        Attribute.LAST_KEYS: str(LakeKeys.of(snapshot) or ""),
        **{name: value for name, value in recorded.items() if name not in by_hand},
        Attribute.LAST_RECORDED: json.dumps(recorded),
        Attribute.LAST_FULL_LOAD_FILES: files,
    }


def _set_by_hand(state: TableState) -> set[str]:
    """Attributes that an operator set since the jobs wrote them."""
    by_hand = {
        Attribute.LAST_INCREMENTAL_FILE: state.watermark_by_hand,
        Attribute.LAST_FULL_LOAD_DATE: state.full_load_date_by_hand,
    }
    return {name for name, changed in by_hand.items() if changed}


def open_findings(state: TableState, log: ChangeLog, snapshot: Snapshot) -> OpenFindings:
    """The findings of a table after its newest change.

    They build on those in the item. If it has none, as an item that was lost, only quarantined rows are searched for in
    the changes that it knows.

    Args:
        snapshot: The lake table after its newest change.

    Raises:
        IntegrityError: A change record is missing.
    """
    change = snapshot.change
    stored = OpenFindings.of(state.item)
    usable = stored is not None and stored.through <= change  # it is not if the lake table was emptied
    known = stored if stored and usable else OpenFindings(min(state.last_change, change))
    records = list(log.records(max(known.through, change - MAX_CHANGES_READ) + 1, change))
    found = known.after(records, state.settings.schema_policy)
    if not usable or can_empty_quarantine(records):  # among them erasures
        found = replace(found, quarantined_rows=quarantined_rows(log, change, state.acknowledged_change))
    elif not known.unfinished_erasures:
        return found
    return replace(found, unfinished_erasures=tuple(one.change for one in log.unfinished_erasures(snapshot)))


def quarantined_rows(log: ChangeLog, change: int, acknowledged: int) -> int:
    """Number of quarantined rows that a table lacks after a change, without rows of acknowledged changes."""
    after = acknowledged if acknowledged <= change else 0
    return sum(len(file.rows) for file in quarantined_files(log, change) if file.change > after) if change else 0


def check_not_ahead(state: TableState, layout: LakeLayout, change: int, *, adopts: bool = False) -> None:
    """Refuse an item that is ahead of the lake: the run would work on a wrong or emptied lake table.

    An item is ahead if it knows a change that the lake lacks, or a full load although the lake has no change.

    Args:
        change: Number of the lake's newest change.
        adopts: Whether the loaded files are about to become the lake's first change.

    Raises:
        IntegrityError: The item is ahead.
    """
    loaded = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
    if state.last_change > change:
        what, attribute, taken_over = f"change {state.last_change}", Attribute.LAST_CHANGE_ID, ""
    elif change == 0 and loaded != Sentinel.NEVER_LOADED and not adopts:
        what, attribute = f"a full load of {loaded}", Attribute.LAST_FULL_LOAD_DATE
        taken_over = f"If other jobs made the table, cdclake adopt {state.name.typed} takes it over. "
    else:
        return
    message = (
        f"The state table has {what} of {state.name} ({attribute}), but the newest change in the lake is"
        f" {change or 'none'}"
    )
    remedy = f"Check the lake bucket and prefix of the job. {taken_over}{ways_back(layout)}"
    raise IntegrityError(message, remedy=remedy)


def forgotten_lake(state: TableState) -> dict[str, str]:
    """Attributes of an item that knows no lake table, whatever the item knows now."""
    return {
        **{name: "" for name in _OF_LAKE if state.item.get(name)},
        Attribute.LAST_CHANGE_ID: "0",
        Attribute.LAST_FULL_LOAD_DATE: Sentinel.NEVER_LOADED,
        Attribute.LAST_INCREMENTAL_FILE: state.as_watermark(""),
    }
