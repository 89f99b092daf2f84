"""A source table in memory that records its changes, as DMS would read them."""

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


class ShopChange(NamedTuple):
    """One change as DMS reads it from the source's log; a delete has the row before the delete."""

    op: str
    committed_utc: datetime
    row: Row


class MemoryTable:
    """The current rows by `id`, and the changes since the last `take_changes`.

    Most rows never change and stay in the initial Arrow table; changed rows are stored separately.

    Args:
        rows: Initial rows, ordered by `id`, which is unique.
        clock: Returns the commit time of each change.
    """

    def __init__(self, rows: pa.Table, clock: Clock) -> None:
        self._start = rows.combine_chunks()
        self._start_ids = rows[KEY].to_numpy()
        self._clock = clock
        self._changed: dict[int, Row | None] = {}
        self._log: list[ShopChange] = []

    @property
    def columns(self) -> pa.Schema:
        """Columns in order."""
        return self._start.schema

    def row(self, key: int) -> Row:
        """The row with this id.

        Raises:
            KeyError: The row does not exist.
        """
        row = self._find(key)
        if row is None:
            message = f"no row with id {key}"
            raise KeyError(message)
        return row

    def _find(self, key: int) -> Row | None:
        if key in self._changed:
            return self._changed[key]
        index = int(np.searchsorted(self._start_ids, key))
        if index == len(self._start_ids) or self._start_ids[index] != key:
            return None
        row: Row = self._start.slice(index, 1).to_pylist()[0]
        return row

    def insert(self, row: Row) -> None:
        """Insert a row.

        Raises:
            KeyError: A row with this id exists.
        """
        if self._find(row[KEY]) is not None:
            message = f"duplicate id {row[KEY]}"
            raise KeyError(message)
        self._write("I", row)

    def update(self, key: int, **values: object) -> None:
        """Set columns of a row.

        Raises:
            KeyError: The row does not exist.
        """
        self._write("U", {**self.row(key), **values})

    def delete(self, key: int) -> None:
        """Delete a row.

        Raises:
            KeyError: The row does not exist.
        """
        row = self.row(key)
        self._changed[key] = None
        self._log.append(ShopChange("D", self._clock(), row))

    def rows(self) -> pa.Table:
        """The current rows, in no order."""
        unchanged = self._start.filter(~np.isin(self._start_ids, list(self._changed)))
        written = [row for row in self._changed.values() if row is not None]
        return pa.concat_tables([unchanged, pa.Table.from_pylist(written, self.columns)])

    def take_changes(self) -> list[ShopChange]:
        """The changes since the last call, in statement order."""
        taken, self._log = self._log, []
        return taken

    def _write(self, op: str, row: Row) -> None:
        self._changed[row[KEY]] = row
        self._log.append(ShopChange(op, self._clock(), row))
