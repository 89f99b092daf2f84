"""Bad rows: counted, kept aside where a person can look at them, and never in the way of good ones."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from cdclake.adapters.filesystem import open_output
from cdclake.errors import BadRowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.raw.rows import BadRow


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


class BadRowCollector:
    """Bad rows gathered by a task, in bounded memory: once there are more than allowed they are but counted.

    Args:
        most: How many one change may put aside.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[BadRow] = []
        self._counted = Quarantine()

    def add(self, bad_rows: Sequence[BadRow]) -> None:
        """Take some more."""
        self._rows += bad_rows
        if self._counted.rows + len(self._rows) > self._most:  # the change will be refused
            self._counted += _counted(self._rows)
            self._rows.clear()

    def write(self, fs: FileSystem, key: str) -> Quarantine:
        """Write them as JSON lines (file, row, reason, content), unless there are none or more than allowed.

        Args:
            fs: Lake file system.
            key: Where to write them.
        """
        if self._counted.rows or not self._rows:
            return self._counted + _counted(self._rows)
        lines = "".join(json.dumps(asdict(bad), default=str) + "\n" for bad in self._rows)
        with open_output(fs, key) as sink:
            sink.write(lines.encode())
        return replace(_counted(self._rows), keys=(key,))


def quarantine_rows(fs: FileSystem, key: str, bad_rows: Sequence[BadRow], most: int) -> Quarantine:
    """Put all bad rows of a task aside at once, see `BadRowCollector`."""
    gathered = BadRowCollector(most)
    gathered.add(bad_rows)
    return gathered.write(fs, key)


def _counted(bad_rows: Sequence[BadRow]) -> Quarantine:
    """Bad rows that are counted, and not written anywhere."""
    return Quarantine(len(bad_rows), min(bad_rows, key=_place, default=None))


def _place(bad: BadRow) -> tuple[str, int]:
    return bad.file, -1 if bad.row is None else bad.row
