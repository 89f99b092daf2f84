"""What can be wrong with a table of the walkthrough's jobs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdclake.lake.operations.adopt.adopt import Adoption

MOST_NAMES = 3


class Code(str, Enum):
    """Stable names of findings."""

    UNREADABLE_FILE = "unreadable-file"
    """Half-written: the run died while it wrote the file."""
    LEFT_BEHIND_FILE = "left-behind-file"
    """The run died between writing new files and deleting old ones."""
    REPEATED_KEYS = "repeated-keys"
    """Later runs have carried duplicates on, so that no file is the old one."""
    NULL_KEYS = "null-keys"
    KEY_NOT_IN_LAKE = "key-not-in-lake"
    ROWS_DIFFER = "rows-differ"
    """The raw files say that rows should be there, should not, or should be different."""
    WATERMARK = "watermark"
    NOT_ADOPTABLE = "not-adoptable"
    """For another reason; see docs/adopt.md."""
    NEXT_CHANGE_DIFFERS = "next-change-differs"
    """The next change leaves other rows in the adopted files than in a table from the raw files."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a table.

    Attributes:
        text: What it is.
        remedy: What to do.
        files: Files that it is about, relative to the table's folder.
        rows: Number of rows that it is about; 0 if it is about none or they are unknown.
    """

    code: Code
    text: str
    remedy: str
    files: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True)
class TableCheck:
    """What a check found of one table.

    Attributes:
        files: Number of files in its folder that readers see.
        rows: Number of rows in those that can be read.
        findings: What is wrong with it; a table without any can be adopted.
        notes: What is good to know.
        rows_compared: Whether its rows were compared with what the raw files say.
        next_change: Number of change files of the next change, which was applied beside; None if none was.
        adoption: How its files become a lake table; None if something is wrong, or there is nothing to adopt.
    """

    table: str
    files: int = 0
    rows: int = 0
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    rows_compared: bool = False
    next_change: int | None = None
    adoption: Adoption | None = None

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong, and there is something to adopt."""
        return self.adoption is not None

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "table": self.table,
            "sound": self.is_sound,
            "files": self.files,
            "rows": self.rows,
            "rows_compared": self.rows_compared,
            "next_change": self.next_change,
            "findings": [{**asdict(one), "code": one.code.value} for one in self.findings],
            "notes": list(self.notes),
        }


def names(files: tuple[str, ...]) -> str:
    """The first of some files, for people."""
    more = f" and {len(files) - MOST_NAMES} more" if len(files) > MOST_NAMES else ""
    return ", ".join(files[:MOST_NAMES]) + more
