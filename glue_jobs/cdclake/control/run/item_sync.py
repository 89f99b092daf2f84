"""Brings a table's item in the state table in line with the lake, which is the truth; the item is a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import IntegrityError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import Snapshot


def is_emptied(log: ChangeLog, snapshot: Snapshot) -> bool:
    """Whether there was a lake table and a rollback undid all of it, so that it is to be loaded from the beginning."""
    return not snapshot.exists and any(record.as_of is None for record in log.newest_first(snapshot.change))


def lake_attributes(state: TableState, snapshot: Snapshot, *, emptied: bool) -> dict[str, str]:
    """What the item must say of a lake table.

    Before there is one, the item itself says where the changes begin, and the lake has but the number of its newest
    change to tell, if there is one. A lake table that no change file was applied to gets the sentinel, also if the item
    said otherwise: a full load may go back behind the watermark, so that changes written after it began are applied to
    it again.

    Args:
        state: The item.
        snapshot: The lake table after its newest change.
        emptied: As `is_emptied` says.
    """
    if not (snapshot.exists or emptied):
        return {Attribute.LAST_CHANGE_ID: str(snapshot.change)} if snapshot.change else {}
    return {
        Attribute.LAST_CHANGE_ID: str(snapshot.change),
        Attribute.LAST_INCREMENTAL_FILE: state.as_watermark(snapshot.watermark),
        Attribute.LAST_FULL_LOAD_DATE: snapshot.full_load_utc or Sentinel.NEVER_LOADED,
    }


def check_not_ahead(state: TableState, change: int, *, adopts: bool = False) -> None:
    """Refuse an item that knows more than the lake: the run would work on a wrong or emptied lake table.

    An item that knows of changes the lake lacks is ahead, and so is one that knows of a full load of a lake table
    without any change.

    Args:
        state: The item.
        change: Number of the lake's newest change.
        adopts: What was loaded is about to become the lake's first change.

    Raises:
        IntegrityError: The item is ahead.
    """
    loaded = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
    if state.last_change > change:
        what = f"change {state.last_change}"
    elif change == 0 and loaded != Sentinel.NEVER_LOADED and not adopts:
        what = f"a full load of {loaded}"
    else:
        return
    message = (
        f"The state table knows of {what} of {state.name}, but the newest change in the lake is {change or 'none'}"
    )
    remedy = (
        "Check the lake bucket and prefix of the job. If other jobs made the table, "
        f"cdclake adopt {state.name.typed} takes it over. To load it anew, set "
        f"{Attribute.LAST_CHANGE_ID} to 0, {Attribute.LAST_FULL_LOAD_DATE} to {Sentinel.NEVER_LOADED} "
        f"and {Attribute.LAST_INCREMENTAL_FILE} to {state.path}{Sentinel.FIRST_FILE}"
    )
    raise IntegrityError(message, remedy=remedy)
