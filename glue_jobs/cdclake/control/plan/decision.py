"""What planning comes to: an inert decision for one table, which is printed, run and logged as it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.model.rawfiles import file_order
from cdclake.model.table import TableState
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from datetime import datetime


class DecisionKind(Enum):
    """What is to be done for a table."""

    FULL_LOAD = "full load"
    """There are LOAD files newer than the last full load."""
    INCREMENTAL = "incremental"
    """There are change files to apply."""
    BOTH = "full load and incremental"
    """The full load first, and the incremental only if that went well."""
    LOOK = "look"
    """A change file before the watermark may be late, or a run died with the table's lease; only the lake can tell. Or
    the catalog is not in line with the lake."""
    NOTHING_NEW = "nothing new"
    """Every raw file is accounted for."""
    INACTIVE = "inactive"
    """No person has turned the table on, so its files were not looked at."""
    WAITING = "waiting"
    """A full load is still arriving. Nothing is done until it has, see `cdclake.control.plan.full_load_gate`."""
    BUSY = "busy"
    """There is work, and another run is working on the table. It will look again before it ends."""
    FROZEN = "frozen"
    """Change files vanished before they were applied, see `cdclake.control.plan.lost_files`. A person must look."""


@dataclass(frozen=True)
class Decision:
    """What is to be done for one table, and why.

    Attributes:
        kind: What.
        reason: Why, for people.
        to_do: What a person must do; empty if nothing.
        watermark: Relative key of the last change file applied; empty if none.
        new_watermark: Relative key of the change file up to which to apply. As `watermark` if none after it is due, or
            a file before it if even the late files are more than one change may take.
        first: Relative key of the first change file to apply; empty if there is none.
        full_load_utc: When the newest LOAD file was written, to the second; None if no full load is due.
        files: Number of raw files to read.
        bytes: Their size.
        left: Number of raw files that wait as well, for a later change or for what the table waits for.
        oldest_utc: When the oldest of all these files was written; None if there are none.
        too_late: Number of change files that came since the last run and lie behind the late window.
        note: What to note in the item before anything is applied, see `cdclake.control.plan.lost_files`.
    """

    kind: DecisionKind
    reason: str
    to_do: str = ""
    watermark: str = ""
    new_watermark: str = ""
    first: str = ""
    full_load_utc: datetime | None = None
    files: int = 0
    bytes: int = 0
    left: int = 0
    oldest_utc: datetime | None = None
    too_late: int = 0
    note: str = ""

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

    def repeats(self, earlier: Decision) -> bool:
        """Whether this asks for change files that an earlier decision on the same listing asked for."""
        if not (self.incremental and earlier.incremental):
            return False
        return file_order(self.first) <= file_order(earlier.new_watermark)

    def to_json(self) -> dict[str, object]:
        """Good for JSON; `full_load_utc` as `yyyy-mm-dd HH:MM:SS` or null, `oldest_utc` as `yyyy-mm-ddTHH:MM:SSZ`."""
        written = self.full_load_utc
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "to_do": self.to_do,
            "watermark": self.watermark,
            "new_watermark": self.new_watermark,
            "full_load_utc": written.strftime(TableState.DATE_FORMAT) if written else None,
            "files": self.files,
            "bytes": self.bytes,
            "left": self.left,
            "oldest_utc": iso_utc(self.oldest_utc) if self.oldest_utc else None,
            "too_late": self.too_late,
        }
