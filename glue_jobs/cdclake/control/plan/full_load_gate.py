"""Decides whether a full load has arrived completely. Pure.

DMS does not mark the last file of a full load. So the gate checks four signs: no LOAD file is missing in between, none
is left of the full load before, no LOAD file arrived for a while, and the DMS task, if the table names one, reports the
table as complete. Taking a load too early would lose nothing, as its remaining files make the next load due, but the
lake would show part of the table until then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.left_out import counted
from cdclake.control.plan.loaded_files import LoadedFiles
from cdclake.model.raw.files import missing_loads
from cdclake.model.snapshot import RELOAD, set_command
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import display_utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.state import TableState
    from cdclake.ports import TaskStatistics

COMPLETED = "Table completed"
FAILED = frozenset({"Table cancelled", "Table error"})
"""States of a table in a DMS task (`TableStatistics.TableState` of the DMS API)."""
MAX_LATE = timedelta(days=1)
"""How much later than the newest file of a full load another of its files may be written."""


GAPS_TO_WAIT = 2
"""A full load is quiet after so many times the longest gap between its files."""
MAX_QUIET_BY_GAPS = timedelta(hours=4)
"""A longer gap is more likely one between files that were copied on different days."""


class WaitReason(NamedTuple):
    """Why a full load is not taken yet.

    Attributes:
        reason: For people.
        to_do: The action needed from an operator; empty if the wait ends by itself.
    """

    reason: str
    to_do: str = ""


def due_loads(state: TableState, files: Sequence[RawFile]) -> list[RawFile]:
    """All LOAD files if the last full load lacks one of them, else none: a full load reads all of them.

    A file that was copied onto itself is the same file, and one that appears late is new, whatever its time. Times
    decide only if the loaded files are unknown, or if an operator set the date of the last full load.

    Args:
        files: LOAD files of the table, any order.
    """
    loaded = _loaded(state)
    if loaded:
        return [] if all(loaded.has(file) for file in files) else list(files)
    newest = newest_load_utc(files)
    return list(files) if newest is not None and newest > state.last_full_load_utc else []


def is_written_again(state: TableState, files: Sequence[RawFile]) -> bool:
    """Whether there are LOAD files, and all of them were written after the last full load, whatever their content."""
    last = state.last_full_load_utc
    return bool(files) and all(file.modified_utc.replace(microsecond=0) > last for file in files)


def _loaded_before(state: TableState, files: Sequence[RawFile]) -> list[str]:
    """The LOAD files of the last full load that were not written again; none if an operator set its date."""
    loaded, last = _loaded(state), state.last_full_load_utc
    if state.full_load_date_by_hand:
        return []
    known = (file for file in files if loaded.has(file)) if loaded else iter(files)
    return [file.relative for file in known if file.modified_utc.replace(microsecond=0) <= last]


def _loaded(state: TableState) -> LoadedFiles:
    """The LOAD files of the last full load; none if they are unknown, or if an operator set its date."""
    by_hand = state.full_load_date_by_hand
    return LoadedFiles.parse("" if by_hand else state.item.get(Attribute.LAST_FULL_LOAD_FILES, ""))


def _mixed_loads(state: TableState, files: Sequence[RawFile]) -> WaitReason | None:
    """Why LOAD files are not of one full load: some loaded ones are left, others written again or foreign."""
    by_number: dict[str, list[str]] = {}
    for file in files:
        by_number.setdefault(file.relative[: -len(file.format.value)], []).append(file.relative)
    twice = next((names for names in by_number.values() if len(names) > 1), None)
    if twice:
        return WaitReason(
            f"LOAD files of two full loads are mixed: {' and '.join(twice)}",
            "delete the files of the older full load, or have DMS reload the table",
        )
    loaded = _loaded(state)
    old = _loaded_before(state, files)
    kinds, last = {_kind(name) for name in old}, state.last_full_load_utc
    again = [file.relative for file in files if loaded.had(file)]
    added = [file for file in files if file.relative not in old and file.relative not in again and not loaded.has(file)]
    other = [file.relative for file in added if _kind(file.relative) not in kinds]
    later = [file.relative for file in added if file.modified_utc - last > MAX_LATE]
    signs = (
        (again, "written again since the last full load"),
        (other, "named otherwise than the files of the last full load"),
        (later, "written more than a day after the last full load"),
    )
    new, sign = next(((names, sign) for names, sign in signs if names), ([], ""))
    if not (new and old):
        return None
    return WaitReason(
        f"LOAD files of two full loads are mixed: {counted(new, 'file')} {sign}, {counted(old, 'file')} not",
        "check whether the DMS task is still loading. If not, delete the files of the older full load, or have DMS"
        f" reload the table, or load the files as they are: {reload_command(state)}",
    )


def _kind(relative: str) -> tuple[int, bool]:
    """What the names of the LOAD files of one full load have in common: number of folders, and whether in segments."""
    return relative.count("/"), relative.rpartition("/")[2].startswith("SEGMENT")


def reload_command(state: TableState) -> str:
    """The command that makes the next run load the table again."""
    return set_command(state.name, RELOAD)


def partial_reload(state: TableState, files: Sequence[RawFile], now: datetime) -> WaitReason | None:
    """Why LOAD files with the content of the last full load may be a new one: all written again, and some are gone.

    Loaded files may vanish, and files may be copied onto themselves, but both together are what a reload of fewer rows
    looks like.
    """
    loaded = _loaded(state)
    gone = len(loaded.hashes) - len(files)
    if not (loaded and gone > 0 and is_written_again(state, files) and all(loaded.has(file) for file in files)):
        return None
    newest = max(file.modified_utc for file in files)
    reason = (
        f"all LOAD files were written again with the same content, and {gone} of the last full load"
        f" {'is' if gone == 1 else 'are'} gone"
    )
    to_do = (
        f"if DMS reloaded the table, load the files: {reload_command(state)}. If they were only copied, put the others"
        f" back, or {_without_load(state, newest)}"
    )
    settled = newest + quiet_time(state, files) <= now
    return WaitReason(reason, to_do if settled else "")


def _without_load(state: TableState, newest: datetime) -> str:
    """How to go on without a full load. Without a lake table, a date would say that there is one."""
    if state.last_change:
        return f"skip this full load: set {Attribute.LAST_FULL_LOAD_DATE} to {newest:%Y-%m-%d %H:%M:%S}"
    return f"begin with the changes, without a full load: list its files in {Attribute.IGNORE_FILES}"


def newest_load_utc(files: Sequence[RawFile]) -> datetime | None:
    """When the newest file was written, to the second like the state table; None if there are no files."""
    return max((file.modified_utc.replace(microsecond=0) for file in files), default=None)


def quiet_time(state: TableState, files: Sequence[RawFile]) -> timedelta:
    """How long no LOAD file may have arrived: `FullLoadQuietMinutes`, or longer if the files arrive slowly.

    DMS writes a file of 1 GB at a time by default, which takes a slow source longer than ten minutes. If an operator
    set the date of the last full load, the files may be of several loads, and the time between them means nothing.

    Args:
        files: LOAD files of the table, any order.
    """
    quiet = timedelta(minutes=state.settings.full_load_quiet_minutes)
    if not quiet or state.full_load_date_by_hand:
        return quiet
    written = sorted(file.modified_utc for file in files if file.modified_utc > state.last_full_load_utc)
    gaps = [later - earlier for earlier, later in zip(written, written[1:])]
    return max(quiet, min(GAPS_TO_WAIT * max(gaps, default=timedelta(0)), MAX_QUIET_BY_GAPS))


def dms_table_state(statistics: TaskStatistics | None, state: TableState, files: Sequence[RawFile]) -> str | None:
    """State of a table in its DMS task; None if no full load is due, or if the table names no task.

    Args:
        statistics: Reads the states of DMS tasks; None: the state is not read.

    Raises:
        ConfigurationError: There is no such task, or the job may not read it.
    """
    task = state.settings.dms_task
    if statistics is None or not (task and due_loads(state, files)):
        return None
    return statistics.table_state(task, state.name)


def wait_reason(state: TableState, files: Sequence[RawFile], now: datetime, dms_state: str | None) -> WaitReason | None:
    """Why the due full load is not taken yet; None if it has arrived completely.

    Args:
        files: The LOAD files, at least one.
        dms_state: The result of `dms_table_state`.
    """
    if dms_state in FAILED:
        reason = f"the full load failed: the DMS task reports '{dms_state}'"
        return WaitReason(reason, "have the DMS task reload the table")
    if dms_state is not None and dms_state != COMPLETED:
        return WaitReason(f"full load still arriving: the DMS task reports '{dms_state}'")
    quiet, newest = quiet_time(state, files), max(file.modified_utc for file in files)
    settled = newest + quiet <= now
    missing = missing_loads(files, state.settings.ignore_files)
    if missing:
        reason = f"full load still arriving: {missing[0]} is missing, but a later file exists"
        to_do = (
            "check whether the DMS task is still loading. If not, have it reload the table, or"
            f" {_without_load(state, newest)}"
        )
        return WaitReason(reason, to_do if settled else "")
    mixed = _mixed_loads(state, files)
    if mixed:
        return mixed if settled else WaitReason(f"full load still arriving: {mixed.reason}")
    if not settled:
        since = f"the newest LOAD file was written at {display_utc(newest)}"
        return WaitReason(
            f"full load still arriving: {since}, and no other may arrive until {display_utc(newest + quiet)}"
        )
    return None
