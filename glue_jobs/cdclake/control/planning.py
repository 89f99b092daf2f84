"""Decides what there is to do for one table. Pure: the state and the listings come in, an inert decision comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.rawfiles import file_order
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.model.rawfiles import RawFile


class DecisionKind(Enum):
    """What is to be done for a table."""

    FULL_LOAD = "full load"
    """There are LOAD files newer than the last full load."""
    INCREMENTAL = "incremental"
    """There are change files after the watermark."""
    BOTH = "full load and incremental"
    """The full load first, and the incremental only if that went well."""
    NOTHING_NEW = "nothing new"
    """Every raw file is accounted for."""
    INACTIVE = "inactive"
    """No person has turned the table on, so its files were not looked at."""


@dataclass(frozen=True)
class Decision:
    """What is to be done for one table, and why.

    Attributes:
        kind: What.
        reason: Why, for people.
        watermark: Relative key of the last change file applied; empty if none.
        new_watermark: Relative key of the newest change file; the same as `watermark` if no incremental is due.
        full_load_utc: When the newest LOAD file was written, to the second; None if no full load is due.
        files: Number of raw files to read.
        bytes: Their size.
    """

    kind: DecisionKind
    reason: str
    watermark: str = ""
    new_watermark: str = ""
    full_load_utc: datetime | None = None
    files: int = 0
    bytes: int = 0

    @property
    def full_load(self) -> bool:
        """Whether a full load is due."""
        return self.kind in (DecisionKind.FULL_LOAD, DecisionKind.BOTH)

    @property
    def incremental(self) -> bool:
        """Whether an incremental is due."""
        return self.kind in (DecisionKind.INCREMENTAL, DecisionKind.BOTH)

    @property
    def work(self) -> bool:
        """Whether anything is due."""
        return self.full_load or self.incremental

    def to_json(self) -> dict[str, object]:
        """Good for JSON; `full_load_utc` as `yyyy-mm-dd HH:MM:SS` or null."""
        written = self.full_load_utc
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "watermark": self.watermark,
            "new_watermark": self.new_watermark,
            "full_load_utc": written.strftime(TableState.DATE_FORMAT) if written else None,
            "files": self.files,
            "bytes": self.bytes,
        }


def plan_table(state: TableState, full_load_files: Sequence[RawFile], change_files: Sequence[RawFile]) -> Decision:
    """Decide what is due for a table.

    A full load is due when a LOAD file was written after the last full load, an incremental when a change file comes
    after the watermark in order. When a table that was loaded before is loaded anew, change files older than the new
    LOAD files are no work of their own: the full load passes over them, as it holds what they say.

    Args:
        state: The table.
        full_load_files: Its LOAD files, any order.
        change_files: Its change files, in the order of `RawFile.order`.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    if not state.active:
        return Decision(DecisionKind.INACTIVE, f"{Attribute.ACTIVE_FLAG} is not '{Sentinel.ACTIVE}'")
    loads, newest_load = _due_loads(state, full_load_files)
    changes = _due_changes(state, change_files)
    if loads and _loaded_before(state):
        oldest_load = min(file.modified_utc for file in loads)
        changes = [file for file in changes if file.modified_utc >= oldest_load]
    kinds = {
        (True, True): DecisionKind.BOTH,
        (True, False): DecisionKind.FULL_LOAD,
        (False, True): DecisionKind.INCREMENTAL,
        (False, False): DecisionKind.NOTHING_NEW,
    }
    return Decision(
        kind=kinds[bool(loads), bool(changes)],
        reason=_reason(state, loads, changes, any_files=bool(full_load_files or change_files)),
        watermark=_watermark(state),
        new_watermark=changes[-1].relative if changes else _watermark(state),
        full_load_utc=newest_load if loads else None,
        files=len(loads) + len(changes),
        bytes=sum(file.size_bytes for file in [*loads, *changes]),
    )


def _due_loads(state: TableState, files: Sequence[RawFile]) -> tuple[list[RawFile], datetime | None]:
    """All LOAD files if one of them is new, as a table is loaded from all of them; and when the newest was written."""
    newest = max((file.modified_utc.replace(microsecond=0) for file in files), default=None)
    due = newest is not None and newest > state.last_full_load_utc
    return (list(files) if due else []), newest


def _due_changes(state: TableState, files: Sequence[RawFile]) -> list[RawFile]:
    applied_through = file_order(_watermark(state))
    return [file for file in files if file.order > applied_through]


def _loaded_before(state: TableState) -> bool:
    return state.last_full_load_utc.strftime(TableState.DATE_FORMAT) != Sentinel.NEVER_LOADED


def _watermark(state: TableState) -> str:
    watermark = state.watermark
    if watermark in ("", Sentinel.NONE):
        return ""
    if not file_order(watermark):
        message = f"{Attribute.LAST_INCREMENTAL_FILE} is '{state.last_incremental_file}', which is no change file"
        remedy = f"Set it to {state.path}<change file>, or to {state.path}{Sentinel.FIRST_FILE} to begin with the first"
        raise ConfigurationError(message, remedy=remedy, table=state.name)
    return watermark


def _reason(state: TableState, loads: Sequence[RawFile], changes: Sequence[RawFile], *, any_files: bool) -> str:
    parts = []
    if loads:
        since = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
        parts.append(f"{_count(loads, 'LOAD file')} written since the last full load ({since})")
    if changes:
        parts.append(f"{_count(changes, 'change file')} after {_watermark(state) or 'the full load'}")
    if parts:
        return "; ".join(parts)
    return "every raw file is applied" if any_files else "there are no raw files"


def _count(files: Sequence[RawFile], what: str) -> str:
    return f"{len(files)} {what}{'' if len(files) == 1 else 's'}"
