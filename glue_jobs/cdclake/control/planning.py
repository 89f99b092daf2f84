"""Decides what there is to do for one table. Pure: the state and the listings come in, an inert decision comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.lake_state import last_change
from cdclake.model.late import begin_after, passed_over, pending_changes
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.rawfiles import file_order
from cdclake.model.snapshot import Snapshot
from cdclake.model.table import TableState
from cdclake.model.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.model.rawfiles import RawFile

MOST_NAMES = 3
"""So many files are named in a reason, and the others counted."""


class DecisionKind(Enum):
    """What is to be done for a table."""

    FULL_LOAD = "full load"
    """There are LOAD files newer than the last full load."""
    INCREMENTAL = "incremental"
    """There are change files to apply."""
    BOTH = "full load and incremental"
    """The full load first, and the incremental only if that went well."""
    LOOK = "look"
    """A change file before the watermark may be late, and only the lake can tell."""
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
        new_watermark: Relative key of the change file up to which to apply; the same as `watermark` if none after it
            is due.
        full_load_utc: When the newest LOAD file was written, to the second; None if no full load is due.
        files: Number of raw files to read.
        bytes: Their size.
        oldest_utc: When the oldest of them was written; None if there are none.
        too_late: Number of change files that came since the last run and lie behind the late window.
    """

    kind: DecisionKind
    reason: str
    watermark: str = ""
    new_watermark: str = ""
    full_load_utc: datetime | None = None
    files: int = 0
    bytes: int = 0
    oldest_utc: datetime | None = None
    too_late: int = 0

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
        """Whether ProcessTable has anything to do."""
        return self.full_load or self.incremental or self.kind is DecisionKind.LOOK

    def to_json(self) -> dict[str, object]:
        """Good for JSON; `full_load_utc` as `yyyy-mm-dd HH:MM:SS` or null, `oldest_utc` as `yyyy-mm-ddTHH:MM:SSZ`."""
        written = self.full_load_utc
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "watermark": self.watermark,
            "new_watermark": self.new_watermark,
            "full_load_utc": written.strftime(TableState.DATE_FORMAT) if written else None,
            "files": self.files,
            "bytes": self.bytes,
            "oldest_utc": utc_text(self.oldest_utc) if self.oldest_utc else None,
            "too_late": self.too_late,
        }


def plan_table(
    state: TableState,
    full_load_files: Sequence[RawFile],
    change_files: Sequence[RawFile],
    lake: Snapshot | None = None,
) -> Decision:
    """Decide what is due for a table.

    A full load is due when a LOAD file was written after the last full load, an incremental when the lake lacks a
    change file, see `cdclake.model.late`. When a table that was loaded before is loaded anew, change files older than
    the new LOAD files are no work of their own: the full load passes over them, as it holds what they say.

    Args:
        state: The table.
        full_load_files: Its LOAD files, any order.
        change_files: Its change files, any order.
        lake: The lake table, which alone knows what was applied. Without it the item has to do, and a change file
            before the watermark that came since the last run listed leads to a `LOOK`.

    Raises:
        ConfigurationError: An attribute of the state does not parse; names it.
    """
    if not state.active:
        return Decision(DecisionKind.INACTIVE, f"{Attribute.ACTIVE_FLAG} is not '{Sentinel.ACTIVE}'")
    known = _known(state, lake)
    loads, newest_load = _due_loads(state, full_load_files)
    # The first full load passes over nothing, as no change file is known to be older than what it reads.
    made = last_change(state) > 0 if lake is None else lake.made
    reload = bool(loads) and (made or _loaded_before(state))
    base = begin_after(known, passed_over(loads, change_files) if reload else "") if loads else known
    pending = pending_changes(base, change_files, state.settings.late_window_hours, state.last_listed_utc)
    changes = [file for file in pending.due if file.order > file_order(base.watermark)]
    late = [file for file in pending.due if file.order <= file_order(base.watermark)]
    perhaps_late: list[RawFile] = []
    if lake is None:
        late, perhaps_late = [], [file for file in late if _since_last_listing(state, file)]
    work = _Work(loads, changes, late, perhaps_late, pending.too_late if lake else [])
    return Decision(
        kind=work.kind,
        reason=_reason(state, base, work, any_files=bool(full_load_files or change_files)),
        watermark=known.watermark,
        new_watermark=changes[-1].relative if changes else known.watermark,
        full_load_utc=newest_load if loads else None,
        files=len(work.to_read),
        bytes=sum(file.size_bytes for file in work.to_read),
        oldest_utc=min((file.modified_utc for file in work.to_read), default=None),
        too_late=len(work.too_late),
    )


class _Work(NamedTuple):
    """The raw files of a decision.

    Attributes:
        loads: LOAD files, if a full load is due.
        changes: Change files after the watermark.
        late: Change files before it that were never applied.
        perhaps_late: Change files before it that came since the last run, where it is not known what was applied.
        too_late: Change files behind the late window that came since the last run.
    """

    loads: list[RawFile]
    changes: list[RawFile]
    late: list[RawFile]
    perhaps_late: list[RawFile]
    too_late: list[RawFile]

    @property
    def to_read(self) -> list[RawFile]:
        return [*self.loads, *self.late, *self.changes]

    @property
    def kind(self) -> DecisionKind:
        kinds = {
            (True, True): DecisionKind.BOTH,
            (True, False): DecisionKind.FULL_LOAD,
            (False, True): DecisionKind.INCREMENTAL,
            (False, False): DecisionKind.LOOK if self.perhaps_late else DecisionKind.NOTHING_NEW,
        }
        return kinds[bool(self.loads), bool(self.changes or self.late)]


def _known(state: TableState, lake: Snapshot | None) -> Snapshot:
    """The lake table as far as it is known. While there is none, the item says where the changes begin."""
    if lake is None:
        return Snapshot(change=last_change(state), watermark=state.checked_watermark)
    return lake if lake.made else begin_after(lake, state.checked_watermark)


def _due_loads(state: TableState, files: Sequence[RawFile]) -> tuple[list[RawFile], datetime | None]:
    """All LOAD files if one of them is new, as a table is loaded from all of them; and when the newest was written."""
    newest = max((file.modified_utc.replace(microsecond=0) for file in files), default=None)
    due = newest is not None and newest > state.last_full_load_utc
    return (list(files) if due else []), newest


def _since_last_listing(state: TableState, file: RawFile) -> bool:
    return state.last_listed_utc is None or file.modified_utc >= state.last_listed_utc


def _loaded_before(state: TableState) -> bool:
    return state.last_full_load_utc.strftime(TableState.DATE_FORMAT) != Sentinel.NEVER_LOADED


def _reason(state: TableState, base: Snapshot, work: _Work, *, any_files: bool) -> str:
    after = base.watermark or "the full load"
    parts = []
    if work.loads:
        since = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
        parts.append(f"{_count(work.loads, 'LOAD file')} written since the last full load ({since})")
    if work.changes:
        parts.append(f"{_count(work.changes, 'change file')} after {after}")
    if work.late:
        parts.append(f"{_count(work.late, 'change file')} arrived late: {_names(work.late)}")
    if work.perhaps_late and not parts:
        parts.append(f"{_count(work.perhaps_late, 'change file')} perhaps arrived late: {_names(work.perhaps_late)}")
    if not parts:
        parts.append("every raw file is accounted for" if any_files else "there are no raw files")
    if work.too_late:
        parts.append(
            f"{_count(work.too_late, 'change file')} came too late and will not be applied: {_names(work.too_late)}"
        )
    return "; ".join(parts)


def _names(files: Sequence[RawFile]) -> str:
    names = ", ".join(file.relative for file in files[:MOST_NAMES])
    return f"{names}, ..." if len(files) > MOST_NAMES else names


def _count(files: Sequence[RawFile], what: str) -> str:
    return f"{len(files)} {what}{'' if len(files) == 1 else 's'}"
