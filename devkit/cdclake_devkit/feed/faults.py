"""Faults that a feed injects on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake_cli.dms.files import ChangeRows
    from cdclake_devkit.feed.options import Fault

UNKNOWN_OPERATION = "X"
_KEPT_SHARE = 0.6


class InjectedFault(NamedTuple):
    """One fault.

    Attributes:
        fault: Kind of fault.
        key: Key of the file, relative to the raw prefix.
        round: Round in which the fault appears, from 1.
        rows: What is wrong with each bad row, by the row's index in the file, from 0.
    """

    fault: Fault
    key: str
    round: int
    rows: Mapping[int, str]

    def to_json(self, prefix: str) -> dict[str, object]:
        """The entry in the feed's manifest, with the full key."""
        rows = [{"row": row, "wrong": wrong} for row, wrong in sorted(self.rows.items())]
        return {"fault": self.fault.value, "key": prefix + self.key, "round": self.round, "rows": rows}


def with_bad_rows(
    changes: ChangeRows, count: int, key: str, rng: np.random.Generator, *, has_operations: bool
) -> tuple[ChangeRows, dict[int, str]]:
    """Insert rows that no lake can apply: with an unknown operation, or without a key.

    Args:
        changes: Good rows, at least one.
        count: Number of bad rows.
        has_operations: Whether the file has `Op`; if not, all bad rows lack the key.

    Returns:
        All rows, and what is wrong with the bad ones, by index.
    """
    good = len(changes.operations)
    indices = np.sort(rng.choice(good + count, count, replace=False))
    is_bad = np.zeros(good + count, np.bool_)
    is_bad[indices] = True
    source = np.where(is_bad, rng.integers(0, good, good + count), np.cumsum(~is_bad) - 1)
    mixed = changes.take(pa.array(source))
    unknown = is_bad & (np.cumsum(is_bad) % 2 == 1) & has_operations
    keyless = is_bad & ~unknown
    column = mixed.rows.schema.get_field_index(key)
    field = mixed.rows.schema.field(column).with_nullable(True)
    values = pc.if_else(pa.array(keyless), pa.scalar(None, field.type), mixed.rows.column(column))
    faulty = replace(
        mixed,
        operations=pc.if_else(pa.array(unknown), UNKNOWN_OPERATION, mixed.operations),
        rows=mixed.rows.set_column(column, field, values),
    )
    return faulty, {int(index): f"no {key}" if keyless[index] else f"unknown {OP_COLUMN}" for index in indices}


def truncated(data: bytes) -> bytes:
    """The first part of a file."""
    return data[: int(len(data) * _KEPT_SHARE)]
