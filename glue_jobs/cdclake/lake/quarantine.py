"""Bad rows: counted, kept aside where a person can look at them, and never in the way of good ones."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cdclake.adapters.filesystem import open_output
from cdclake.errors import BadRowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.raw_rows import BadRow


@dataclass(frozen=True)
class Quarantine:
    """Bad rows of a task, or of a whole change.

    Attributes:
        rows: How many.
        first: The first of them by file and row; None if there are none.
        keys: Files in the lake bucket that they were written to.
    """

    rows: int = 0
    first: BadRow | None = None
    keys: tuple[str, ...] = ()

    def __add__(self, other: Quarantine) -> Quarantine:
        firsts = [one.first for one in (self, other) if one.first]
        first = min(firsts, key=_place, default=None)
        return Quarantine(self.rows + other.rows, first, self.keys + other.keys)

    @classmethod
    def counted(cls, bad_rows: Sequence[BadRow]) -> Quarantine:
        """Bad rows that are counted, and not written anywhere."""
        return cls(len(bad_rows), min(bad_rows, key=_place, default=None))

    def check(self, most: int) -> None:
        """Refuse more bad rows than the operator allows.

        Raises:
            BadRowError: There are more; names the first.
        """
        if self.rows <= most or self.first is None:
            return
        first = self.first
        others = "" if self.rows == 1 else f", the first of {self.rows} bad rows"
        remedy = (
            "Nothing was applied. Have the file corrected, or allow such rows to be put aside: "
            f"MaxQuarantinedRows {self.rows} or more"
        )
        message = f"{first.reason}{others}"
        raise BadRowError(message, remedy=remedy, file=first.file, row=first.row)


def put_aside(fs: FileSystem, key: str, bad_rows: Sequence[BadRow], most: int) -> Quarantine:
    """Write bad rows as JSON lines (file, row, reason, content), unless there are more than allowed anyway.

    Args:
        fs: Lake file system.
        key: Where to write them.
        most: How many one change may put aside.
    """
    found = Quarantine.counted(bad_rows)
    if not found.rows or found.rows > most:
        return found
    lines = "".join(json.dumps(asdict(bad), default=str) + "\n" for bad in bad_rows)
    with open_output(fs, key) as sink:
        sink.write(lines.encode())
    return Quarantine(found.rows, found.first, (key,))


def _place(bad: BadRow) -> tuple[str, int]:
    return bad.file, -1 if bad.row is None else bad.row
