"""Quarantines bad rows: counts them and writes them to a file for the operator, so that good rows can go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdclake.adapters.filesystem import open_output
from cdclake.errors import BadRowError
from cdclake.lake.counts import summed
from cdclake.lake.raw.bad_values import added, faults_of
from cdclake.lake.raw.rows import BadRowKind
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.raw.bad_values import Fault
    from cdclake.lake.raw.rows import BadRow
    from cdclake.model.table.name import TableName

_FEW = 10
"""Of rows with a common cause, at most a tenth of all may be quarantined: what has a cause has a better remedy."""


@dataclass(frozen=True)
class Quarantine:
    """Bad rows of a task or a change.

    Attributes:
        rows: Number of bad rows.
        first: The first by file and row; None if there are none.
        keys: Object keys, in the lake bucket, of the files with these rows.
        faults: The rows by reason.
        by_file: Number of the rows by raw file.
    """

    rows: int = 0
    first: BadRow | None = None
    keys: tuple[str, ...] = ()
    faults: Mapping[str, Fault] = field(default_factory=dict)
    by_file: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Quarantine) -> Quarantine:
        firsts = [quarantine.first for quarantine in (self, other) if quarantine.first]
        first = min(firsts, key=_file_and_row, default=None)
        faults, by_file = added(self.faults, other.faults), summed(self.by_file, other.by_file)
        return Quarantine(self.rows + other.rows, first, self.keys + other.keys, faults, by_file)

    def require_at_most(self, limit: int, table: TableName, good_rows: int) -> None:
        """Refuse a change with more bad rows than the operator allows.

        Args:
            good_rows: Number of rows of the change that are not bad.

        Raises:
            BadRowError: There are more; names the first, with rows counted from 1, and what most have in common.
        """
        if self.rows <= limit or self.first is None:
            return
        first, total = self.first, self.rows + good_rows
        reason, fault = max(self.faults.items(), key=lambda item: item[1].rows)
        message = first.reason if self.rows == 1 else f"{first.reason}, the first of {self.rows} bad rows of {total}"
        if fault.rows < self.rows:
            has = "has" if fault.rows == 1 else "have"
            message += f"; {fault.rows} {has} {'this fault' if reason == first.reason else f'the fault: {reason}'}"
        message += f"; {fault.description}" if fault.description else ""
        remedies = [fault.remedy(f"cdclake doctor {table.typed} --show-values")]
        if not fault.has_common_cause or self.rows * _FEW <= total:
            allowed = f"quarantine such rows: set {Attribute.MAX_QUARANTINED_ROWS} to {self.rows} or more"
            if fault.kind is BadRowKind.UNSENT:
                remedies.append(f"Do that; or {allowed}, and they keep their old keys")
            else:
                remedies.append(f"Or {allowed}" if remedies[0] else f"Correct the file, or {allowed}")
        remedy = ". ".join(["Nothing was applied", *filter(None, remedies)])
        row = None if first.row is None else first.row + 1
        raise BadRowError(message, remedy=remedy, file=first.file, row=row)


class BadRowCollector:
    """Collects the bad rows of a task in bounded memory. Above the limit it only counts them.

    Args:
        limit: Number of bad rows that one change may quarantine.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: list[BadRow] = []
        self._counted = Quarantine()

    def add(self, bad_rows: Sequence[BadRow]) -> None:
        """Add bad rows."""
        self._rows += bad_rows
        if self._counted.rows + len(self._rows) > self._limit:  # the change will be refused
            self._counted += _counted(self._rows)
            self._rows.clear()

    def write(self, fs: FileSystem, key: str) -> Quarantine:
        """Write the bad rows as JSON lines (file, row, reason, columns, content), unless there are none or too many.

        Args:
            key: Object key to write to.
        """
        if self._counted.rows or not self._rows:
            return self._counted + _counted(self._rows)
        lines = "".join(json.dumps(_stored(bad), default=str) + "\n" for bad in self._rows)
        with open_output(fs, key) as sink:
            sink.write(lines.encode())
        return replace(_counted(self._rows), keys=(key,))


def quarantine_rows(fs: FileSystem, key: str, bad_rows: Sequence[BadRow], limit: int) -> Quarantine:
    """Write all bad rows of a task at once, see `BadRowCollector`."""
    collector = BadRowCollector(limit)
    collector.add(bad_rows)
    return collector.write(fs, key)


def _stored(bad: BadRow) -> dict[str, object]:
    columns = list(bad.columns)
    return {"file": bad.file, "row": bad.row, "reason": bad.reason, "columns": columns, "content": bad.content}


def _counted(bad_rows: Sequence[BadRow]) -> Quarantine:
    """Count bad rows without writing them."""
    first, by_file = min(bad_rows, key=_file_and_row, default=None), Counter(bad.file for bad in bad_rows)
    return Quarantine(len(bad_rows), first, faults=faults_of(bad_rows), by_file=by_file)


def _file_and_row(bad: BadRow) -> tuple[str, int]:
    return bad.file, -1 if bad.row is None else bad.row
