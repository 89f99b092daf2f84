"""What is wrong with a feed on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.devkit.dms.files import Changes
    from cdclake.devkit.feed.options import Fault

UNKNOWN_OPERATION = "X"
_KEPT = 0.6


class Planted(NamedTuple):
    """One fault.

    Attributes:
        fault: What it is.
        key: Of the file, as in the raw bucket.
        round: In which it can be found.
        rows: Numbers of the bad rows in the file, from 0, with what is wrong with each.
    """

    fault: Fault
    key: str
    round: int
    rows: Mapping[int, str]

    def to_json(self, prefix: str) -> dict[str, object]:
        """As in the feed's manifest, which has the prefix before each key."""
        rows = [{"row": row, "wrong": wrong} for row, wrong in sorted(self.rows.items())]
        return {"fault": self.fault.value, "key": prefix + self.key, "round": self.round, "rows": rows}


def with_bad_rows(
    changes: Changes, count: int, key: str, dice: np.random.Generator, *, operations_told: bool
) -> tuple[Changes, dict[int, str]]:
    """Put rows between others that no lake can take: of an unknown operation, or without a key.

    Args:
        changes: Good rows, one at least.
        count: Bad rows.
        key: A key column.
        dice: Draws.
        operations_told: Whether the file has `Op`; if not, all bad rows lack the key.

    Returns:
        All rows, and what is wrong with which, by place.
    """
    good = len(changes.operations)
    places = np.sort(dice.choice(good + count, count, replace=False))
    is_bad = np.zeros(good + count, np.bool_)
    is_bad[places] = True
    source = np.where(is_bad, dice.integers(0, good, good + count), np.cumsum(~is_bad) - 1)
    mixed = changes.take(pa.array(source))
    unknown = is_bad & (np.cumsum(is_bad) % 2 == 1) & operations_told
    keyless = is_bad & ~unknown
    column = mixed.rows.schema.get_field_index(key)
    field = mixed.rows.schema.field(column).with_nullable(True)
    values = pc.if_else(pa.array(keyless), pa.scalar(None, field.type), mixed.rows.column(column))
    made = replace(
        mixed,
        operations=pc.if_else(pa.array(unknown), UNKNOWN_OPERATION, mixed.operations),
        rows=mixed.rows.set_column(column, field, values),
    )
    return made, {int(place): f"no {key}" if keyless[place] else f"unknown {OP_COLUMN}" for place in places}


def truncated(data: bytes) -> bytes:
    """The first part of a file."""
    return data[: int(len(data) * _KEPT)]
