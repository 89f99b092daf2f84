"""Keys of rows as single Arrow columns, so that grouping, matching and routing are one vectorised step each.

`route` is the first key column, in which the key ranges of data files are told. `key` identifies the row: the same as
`route` for a key of one column, else a text made of all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile

LEADING_KEY = "_route"
KEY = "_key"
UNSENT = "_unsent"
"""Beside them: a character a source column, `1` where the change did not send it; the empty text if it sent all."""


def comparable(values: pa.Array) -> pa.Array:
    """A key column as int64 (integers, booleans, dates, timestamps) or text (all else).

    Equal values of one type give equal results, and different ones different results. Nulls stay null.
    """
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.int64())
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_binary(kind):
        return pa.array([value.hex() if value is not None else None for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def row_keys(columns: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Route and key of rows from their key columns.

    Args:
        columns: The key columns in the order of the primary key, at least one.

    Returns:
        Two columns of equal length; null where a key column is null.
    """
    parts = [comparable(column) for column in columns]
    if len(parts) == 1:
        return parts[0], parts[0]
    # Each part is preceded by its length, so that ("a", "b:c") and ("a:b", "c") stay two keys.
    texts = [part.cast(pa.string()) for part in parts]
    pieces = [piece for text in texts for piece in (pc.binary_length(text).cast(pa.string()), text)]
    return parts[0], pc.binary_join_element_wise(*pieces, ":")


def bounds(route: pa.Array) -> tuple[KeyValue, KeyValue]:
    """Smallest and largest route; two None for no rows."""
    if not len(route):
        return None, None
    extremes = pc.min_max(route)
    return extremes["min"].as_py(), extremes["max"].as_py()


def may_contain(file: DataFile | TombstoneFile, low: KeyValue, high: KeyValue) -> bool:
    """Whether a file may hold a route of a range, by its bounds; true if these are unknown or of another type."""
    if not (isinstance(low, type(file.key_min)) and isinstance(high, type(file.key_max))):
        return True
    return bool(file.key_min <= high and low <= file.key_max)  # type: ignore[operator]  # of one type by now


def matches(keys: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether each key is among the wanted ones; true or false, never null."""
    return pc.fill_null(pc.is_in(keys, value_set=wanted), False)
