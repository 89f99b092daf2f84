"""The decision for one table: inert, so that the same object is printed, logged and carried out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL
from cdclake.model.raw.files import file_order
from cdclake.model.table.state import TableState
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from datetime import datetime


class DecisionKind(Enum):
    """What to do for a table."""

    FULL_LOAD = "full load"
    """LOAD files are newer than the last full load."""
    INCREMENTAL = "incremental"
    """Change files are due."""
    BOTH = "full load and incremental"
    """The full load comes first; the incremental follows only if it succeeds."""
    RESCAN = "rescan"
    """Only a run can find out, from all raw files and the lake: a change file before the watermark may be late, a run
    died while it held the table's lease, or the catalog is out of date."""
    CLEAN_UP = "clean up"
    """Every raw file is accounted for, and states are no longer to be kept."""
    NOTHING_NEW = "nothing new"
    """Every raw file is accounted for."""
    INACTIVE = "inactive"
    """No operator has turned the table on, so its files were not listed."""
    WAITING = "waiting"
    """A full load is still arriving, see `cdclake.control.plan.full_load_gate`. Nothing is done until it is
    complete."""
    BUSY = "busy"
    """There is work, and another run holds the table. It lists the raw files again before it ends."""
    FROZEN = "frozen"
    """Change files vanished before they were applied, see `cdclake.control.plan.lost_files`. An operator must act."""


@dataclass(frozen=True)
class Decision:
    """What to do for one table, and why.

    Attributes:
        kind: What to do.
        reason: Why, for people.
        to_do: The action needed from an operator; empty if none.
        watermark: Relative key of the last change file applied; empty if none.
        new_watermark: Relative key of the last change file to apply. Equals `watermark` if no file after it is due. It
            is before `watermark` if the late files alone exceed what one change may take.
        first: Relative key of the first change file to apply; empty if there is none.
        full_load_utc: When the newest LOAD file was written, to the second; None if no full load is due.
        load_begin: Relative key of the last change file that the due full load contains, if an operator set it; else
            empty, and the times of the files decide.
        files: Number of raw files to read.
        bytes: Their size.
        left: Number of raw files that are left for a later run.
        oldest_utc: When the oldest of all these files was written; None if there are none.
        too_late: Number of change files that arrived outside the late window, and are left out.
        findings: What was left out or needs an operator's attention although the table works: one short text each,
            with its remedy.
        left_out: Text to store in the item after the run, see `cdclake.control.plan.left_out`.
        note: The `PendingNote` to store in the item before anything is applied.
    """

    kind: DecisionKind
    reason: str
    to_do: str = ""
    watermark: str = ""
    new_watermark: str = ""
    first: str = ""
    full_load_utc: datetime | None = None
    load_begin: str = ""
    files: int = 0
    bytes: int = 0
    left: int = 0
    oldest_utc: datetime | None = None
    too_late: int = 0
    findings: tuple[str, ...] = ()
    left_out: str = ""
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
    def due_job(self) -> str:
        """The job whose work is due next; empty if none is. A full load comes first."""
        if self.full_load:
            return JOB_LOAD_INITIAL
        return JOB_LOAD_INCREMENTAL if self.incremental else ""

    @property
    def work(self) -> bool:
        """Whether ProcessTable has anything to do."""
        return self.full_load or self.incremental or self.kind in (DecisionKind.RESCAN, DecisionKind.CLEAN_UP)

    def repeats(self, earlier: Decision) -> bool:
        """Whether this includes change files of an earlier decision on the same listing."""
        if not (self.incremental and earlier.incremental):
            return False
        return file_order(self.first) <= file_order(earlier.new_watermark)

    def to_json(self) -> dict[str, object]:
        """JSON data; `full_load_utc` is null or `yyyy-mm-dd HH:MM:SS`, `oldest_utc` null or `yyyy-mm-ddTHH:MM:SSZ`."""
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
            "findings": list(self.findings),
        }
