"""Represents the key of a row as one Arrow column, so that sorting, matching and splitting are vectorized.

The leading key is the first key column; the key ranges of data files refer to it. The key identifies the row: it equals
the leading key if the primary key has one column, else it is a text built from all columns.

Keys are stored in tombstones, and leading keys in the key ranges of snapshots. So the encoding of a type never changes.
If a key column gets a wider type, the keys of tombstones are converted when they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.types import cast_exactly, text_depends_on_type, without_negative_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile

LEADING_KEY = "_route"
KEY = "_key"
UNSENT = "_unsent"
"""One character per source column, `1` if the change did not send it; empty if it sent all."""


def comparable(values: pa.Array) -> pa.Array:
    """Convert a key column to int64 (integers, booleans, dates, timestamps) or text (all other types).

    Values of one type stay equal or different, but -0.0 equals 0.0, and NaN equals NaN. Nulls stay null.
    """
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.int64())
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_binary(kind):
        return pa.array([value.hex() if value is not None else None for value in values.to_pylist()], pa.string())
    return without_negative_zero(values).cast(pa.string())


def row_keys(columns: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Leading key and key of rows.

    Args:
        columns: The key columns in the order of the primary key, at least one.

    Returns:
        Two columns of equal length; null where a key column is null.
    """
    parts = [comparable(column) for column in columns]
    if len(parts) == 1:
        return parts[0], parts[0]
    return parts[0], _join(parts)


def _join(parts: Sequence[pa.Array]) -> pa.Array:
    # The length of each part keeps ("a", "b:c") and ("a:b", "c") apart.
    texts = [part.cast(pa.string()) for part in parts]
    pieces = [piece for text in texts for piece in (pc.binary_length(text).cast(pa.string()), text)]
    return pc.binary_join_element_wise(*pieces, ":")


def _split(keys: pa.Array, count: int) -> list[pa.Array]:
    """Inverse of `_join`, given the number of parts."""
    columns: list[list[str]] = [[] for _ in range(count)]
    for key in keys.to_pylist():
        rest = key.encode()
        for column in columns:
            length, _, rest = rest.partition(b":")
            column.append(rest[: int(length)].decode())
            rest = rest[int(length) + 1 :]
    return [pa.array(column, pa.string()) for column in columns]


def convert_keys(
    leading_keys: pa.Array, keys: pa.Array, before: Sequence[str], after: Sequence[str]
) -> tuple[pa.Array, pa.Array]:
    """Leading keys and keys as they are encoded after key columns became wider.

    Args:
        before: Lake types of the key columns for which the keys are encoded.
        after: The types now.
    """
    leading_keys = _convert(leading_keys, before[0], after[0])
    if len(after) == 1:
        return leading_keys, leading_keys
    parts = zip(_split(keys, len(after)), before, after, strict=True)
    return leading_keys, _join([_convert(*part) for part in parts])


def _convert(values: pa.Array, before: str, after: str) -> pa.Array:
    """Values of one key column, encoded for its wider type."""
    if not text_depends_on_type(after):
        return values
    return comparable(cast_exactly(cast_exactly(values.cast(pa.string()), before), after))


def key_range(keys: pa.Array) -> tuple[KeyValue, KeyValue]:
    """Smallest and largest key; two None if there are none."""
    if not len(keys):
        return None, None
    extremes = pc.min_max(keys)
    return extremes["min"].as_py(), extremes["max"].as_py()


def may_contain(file: DataFile | TombstoneFile, low: KeyValue, high: KeyValue) -> bool:
    """Whether a file's key range overlaps a range; true if the file's bounds are unknown or of another type."""
    if not (isinstance(low, type(file.key_min)) and isinstance(high, type(file.key_max))):
        return True
    return bool(file.key_min <= high and low <= file.key_max)  # type: ignore[operator]  # checked above


def has_usable_bounds(file: TombstoneFile, types: Sequence[str]) -> bool:
    """Whether a file's key range compares with keys of these types."""
    return file.key_types == tuple(types) or not text_depends_on_type(types[0])


def matches(keys: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether each key is one of the wanted; never null."""
    return pc.fill_null(pc.is_in(keys, value_set=wanted), False)
