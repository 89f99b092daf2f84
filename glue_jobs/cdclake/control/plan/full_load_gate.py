"""Tells whether a full load has arrived as a whole. Pure.

DMS names no last file of a full load. So three signs are asked for: no LOAD file is missing in between, none came for a
while, and the DMS task, where one is named, says that the table is complete. A load that is taken too early would not
be lost, as its remaining files make the next one due, but the lake would show a part of the table until then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.names import Attribute
from cdclake.model.rawfiles import missing_loads
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.model.rawfiles import RawFile
    from cdclake.model.table import TableState
    from cdclake.ports import TaskStatistics

COMPLETED = "Table completed"
FAILED = frozenset({"Table cancelled", "Table error"})
"""States of a table in a DMS task (`TableStatistics.TableState` of the DMS API)."""


class Waiting(NamedTuple):
    """Why a full load is not taken yet.

    Attributes:
        reason: For people.
        to_do: What a person must do; empty if it will be over by itself.
    """

    reason: str
    to_do: str = ""


def due_loads(state: TableState, files: Sequence[RawFile]) -> list[RawFile]:
    """All LOAD files if one of them is newer than the last full load, as a table is loaded from all of them.

    Args:
        state: The table.
        files: Its LOAD files, any order.
    """
    newest = newest_load_utc(files)
    return list(files) if newest is not None and newest > state.last_full_load_utc else []


def newest_load_utc(files: Sequence[RawFile]) -> datetime | None:
    """When the newest file was written, to the second, as the state table keeps it; None if there are no files."""
    return max((file.modified_utc.replace(microsecond=0) for file in files), default=None)


def dms_table_state(statistics: TaskStatistics | None, state: TableState, files: Sequence[RawFile]) -> str | None:
    """What the table's DMS task says of it, asked only if a full load is due; None if there is nothing to be told.

    Args:
        statistics: Whom to ask; None: nobody.
        state: The table.
        files: Its LOAD files.

    Raises:
        ConfigurationError: There is no such task, or it may not be looked at.
    """
    task = state.settings.dms_task
    if statistics is None or not (task and due_loads(state, files)):
        return None
    return statistics.table_state(task, state.name)


def waiting(state: TableState, files: Sequence[RawFile], now: datetime, word: str | None) -> Waiting | None:
    """Why the full load that is due is not taken yet; None if it has arrived as a whole.

    Args:
        state: The table.
        files: The LOAD files, at least one.
        now: The time.
        word: What the table's DMS task says of it, see `dms_table_state`.
    """
    if word in FAILED:
        return Waiting(f"the full load failed: the DMS task says '{word}'", "have the DMS task reload the table")
    if word is not None and word != COMPLETED:
        return Waiting(f"full load still arriving: the DMS task says '{word}'")
    quiet = timedelta(minutes=state.settings.full_load_quiet_minutes)
    newest = max(file.modified_utc for file in files)
    settled = newest + quiet <= now
    missing = missing_loads(files)
    if missing:
        reason = f"full load still arriving: {missing[0]} is missing, and a later file is there"
        to_do = (
            f"look whether the DMS task is still loading. If not, have it reload the table, or go on without this full"
            f" load: set {Attribute.LAST_FULL_LOAD_DATE} to {newest:%Y-%m-%d %H:%M:%S}"
        )
        return Waiting(reason, to_do if settled else "")
    if not settled:
        since = f"the newest LOAD file was written at {iso_utc(newest)}"
        return Waiting(f"full load still arriving: {since}, and no other must come until {iso_utc(newest + quiet)}")
    return None
