"""Finds updates of keys that the table lacks. Either an insert is missing, or the update changed the key.

If it changed the key, the row with the old key must go. Only the before image of the key tells: without it, the lake
cannot know which of the two happened, but it knows that the update does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.keys import KEY, UNSEEN, matches
from cdclake.lake.storage.tombstones import file_orders
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import file_and_row
from cdclake.model.schema import DELETE, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping


class UpdatesInFile(NamedTuple):
    """Updates of unknown keys in one change file.

    Attributes:
        updates: Their number.
        row: Index of the first of them in the file.
    """

    updates: int
    row: int


@dataclass(frozen=True)
class UnknownKeys:
    """Updates of keys that the table lacks, if they may have changed them, by `RawFile.order` of their change file."""

    by_file: Mapping[str, UpdatesInFile] = field(default_factory=dict)

    def __add__(self, other: UnknownKeys) -> UnknownKeys:
        if not (self.by_file and other.by_file):
            return self if self.by_file else other
        total = dict(self.by_file)
        for order, found in other.by_file.items():
            known = total.get(order, UpdatesInFile(0, found.row))
            total[order] = UpdatesInFile(known.updates + found.updates, min(known.row, found.row))
        return UnknownKeys(total)

    @property
    def count(self) -> int:
        """The number of updates."""
        return sum(found.updates for found in self.by_file.values())


def unknown_keys(rows: pa.Table, live: pa.Table) -> UnknownKeys:
    """Find updates that do not tell the key before them, and whose key the table lacks at their place in the order.

    The table lacks a key after a delete among the rows, and before its first row if it has no live row. So the result
    is the same whether a delete comes in the same change or in an earlier one.

    Args:
        rows: Rows in order of key and position, none superseded.
        live: The table's rows of their keys, without soft-deleted ones.
    """
    if not (rows.num_rows and pc.any(rows[UNSEEN]).as_py()):
        return UnknownKeys()
    keys = rows[KEY].combine_chunks()
    is_first = np.concatenate([[True], pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)])
    is_delete = pc.equal(rows[OP_COLUMN], DELETE).to_numpy()
    follows_delete = np.concatenate([[False], is_delete[:-1]])
    is_lacking = np.where(is_first, pc.invert(matches(rows[KEY], live[KEY])).to_numpy(), follows_delete)
    positions = rows[POSITION].filter(pc.and_(pa.array(is_lacking), rows[UNSEEN]))
    if not len(positions):
        return UnknownKeys()
    files = pa.table({"file": file_orders(positions, ""), "position": positions})
    named = files.filter(pc.not_equal(files["file"], ""))
    found = named.group_by("file").aggregate([("position", "count"), ("position", "min")]).to_pylist()
    return UnknownKeys(
        {one["file"]: UpdatesInFile(one["position_count"], file_and_row(one["position_min"])[1]) for one in found}
    )
