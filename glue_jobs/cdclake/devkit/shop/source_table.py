"""One table of the source database, in memory: statements change it, and it remembers them as DMS would see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.ports import Clock

Row = dict[str, Any]
"""Column name to Python value; None is NULL."""

KEY = "id"


class ChangeRow(NamedTuple):
    """One change as DMS reads it from the source's log: a delete carries the row as it was."""

    op: str
    committed_utc: datetime
    row: Row


class SourceTable:
    """Rows by `id`, as they are now, and the changes nobody has taken yet.

    Most rows never change, so they stay in the Arrow table they came in; changed ones are kept beside it.

    Args:
        rows: Starting rows, by `id`, which is unique.
        clock: Gives each change its commit time.
    """

    def __init__(self, rows: pa.Table, clock: Clock) -> None:
        self._start = rows.combine_chunks()
        self._start_ids = rows[KEY].to_numpy()
        self._clock = clock
        self._changed: dict[int, Row | None] = {}
        self._log: list[ChangeRow] = []

    @property
    def columns(self) -> pa.Schema:
        """Columns in order."""
        return self._start.schema

    def row(self, key: int) -> Row:
        """The row of an id.

        Raises:
            KeyError: There is none.
        """
        row = self._find(key)
        if row is None:
            message = f"no row of id {key}"
            raise KeyError(message)
        return row

    def _find(self, key: int) -> Row | None:
        if key in self._changed:
            return self._changed[key]
        place = int(np.searchsorted(self._start_ids, key))
        if place == len(self._start_ids) or self._start_ids[place] != key:
            return None
        found: Row = self._start.slice(place, 1).to_pylist()[0]
        return found

    def insert(self, row: Row) -> None:
        """Add a row.

        Raises:
            KeyError: There is one of that id.
        """
        if self._find(row[KEY]) is not None:
            message = f"duplicate id {row[KEY]}"
            raise KeyError(message)
        self._write("I", row)

    def update(self, key: int, **values: object) -> None:
        """Set columns of a row.

        Raises:
            KeyError: There is no such row.
        """
        self._write("U", {**self.row(key), **values})

    def delete(self, key: int) -> None:
        """Take a row away.

        Raises:
            KeyError: There is no such row.
        """
        row = self.row(key)
        self._changed[key] = None
        self._log.append(ChangeRow("D", self._clock(), row))

    def rows(self) -> pa.Table:
        """The rows as they are now, in no order."""
        same = self._start.filter(~np.isin(self._start_ids, list(self._changed)))
        written = [row for row in self._changed.values() if row is not None]
        return pa.concat_tables([same, pa.Table.from_pylist(written, self.columns)])

    def take_changes(self) -> list[ChangeRow]:
        """The changes since the last call, in the order of the statements."""
        taken, self._log = self._log, []
        return taken

    def _write(self, op: str, row: Row) -> None:
        self._changed[row[KEY]] = row
        self._log.append(ChangeRow(op, self._clock(), row))
