"""Represents the key of a row as one Arrow column, so that sorting, matching and splitting are vectorized.

The leading key sorts rows by the table's primary key; the key ranges of data files refer to it. The key identifies a
row. In a table both have the columns of the primary key; in the files of a history, the key also has those that
identify a version. A key of one column is that column's value, a key of several columns is a text.

Keys are stored in tombstones, and leading keys in the key ranges of snapshots. So the encoding of a type never changes.
If a key column gets a wider type, the keys of tombstones are converted when they are read.
"""

from __future__ import annotations

import hmac
import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from cdclake.lake.storage.types import (
    cast_exactly,
    from_arrow,
    has_fraction,
    text_depends_on_type,
    to_arrow,
    without_negative_zero,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile

LEADING_KEY = "_leading_key"
KEY = "_key"
UNSENT = "_unsent"
"""One character per source column, `1` if the change did not send it; empty if it sent all."""
UNSEEN = "_unseen"
"""Whether a row is an update that does not tell the whole key before it."""

_DIGITS = 20
_ID_DIGITS = 16
_SIGN = np.uint64(1 << 63)
_END = "\0"
"""Ends a column of a leading key. It sorts below all other characters, so that a text sorts before longer ones."""
_AFTER_END = "\1"
_ESCAPES = (("\1", "\1\2"), ("\0", "\1\1"))
"""Replace the end mark, and the escape itself, in this order; the escaped text sorts like the original."""


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


def row_keys(columns: Sequence[pa.Array], leading: int | None = None) -> tuple[pa.Array, pa.Array]:
    """Leading key and key of rows.

    Args:
        columns: The key columns in the order of the primary key, at least one.
        leading: Number of columns in the leading key; None for all.

    Returns:
        Two columns of equal length; null where a key column is null.
    """
    return leading_key_of(columns[:leading]), key_of(columns)


def key_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Key with these columns."""
    parts = [comparable(column) for column in columns]
    return parts[0] if len(parts) == 1 else _join(parts)


def leading_key_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Leading key with these columns."""
    return _in_order([comparable(column) for column in columns])


def leading_key_range_of(columns: Sequence[pa.Array]) -> tuple[KeyValue, KeyValue]:
    """Smallest and largest leading key with these columns; two None if there are no rows.

    Compares one column after another, and encodes only these two keys: encoding every row's takes much longer.
    """
    parts = [comparable(column) for column in columns]
    if len(parts) == 1:
        return key_range(parts[0])
    return _extreme_key(parts, pc.min), _extreme_key(parts, pc.max)


def _extreme_key(parts: Sequence[pa.Array], extreme: Callable[[pa.Array], pa.Scalar]) -> KeyValue:
    """The first or the last key in order; None if there are no rows."""
    values: list[pa.Array] = []
    remaining = list(parts)
    while remaining:
        first, *others = remaining
        value = extreme(first)
        values.append(pa.array([value.as_py()], first.type))
        remaining = [part.filter(pc.equal(first, value)) for part in others]
    key: KeyValue = _in_order(values)[0].as_py()
    return key


def _in_order(parts: Sequence[pa.Array]) -> pa.Array:
    """Text that sorts, byte by byte, like the parts one after another; a single part unchanged."""
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*map(_sortable, parts), _END)


def _sortable(part: pa.Array) -> pa.Array:
    """Text without the end mark that sorts like the values: 20 digits for an integer."""
    if pa.types.is_integer(part.type):
        shifted = pc.fill_null(part, 0).to_numpy().view(np.uint64) ^ _SIGN
        digits = pc.utf8_lpad(pa.array(shifted).cast(pa.string()), _DIGITS, "0")
        return pc.if_else(part.is_valid(), digits, pa.scalar(None, pa.string()))
    for character, escaped in _ESCAPES:
        part = pc.replace_substring(part, character, escaped)
    return part


def key_range_of_columns(ranges: Sequence[tuple[KeyValue, KeyValue]]) -> tuple[KeyValue, KeyValue]:
    """Bounds of leading keys, given the bounds of each column.

    A column refines the bounds only if all rows have the same value in each column before it.

    Args:
        ranges: Smallest and largest value of each key column, as `comparable` returns them; None if unknown.
    """
    if not ranges or ranges[0][0] is None or ranges[0][1] is None:
        return None, None
    if len(ranges) == 1:
        return ranges[0]
    known: list[tuple[KeyValue, KeyValue]] = []
    for low, high in ranges:
        if low is None or high is None:
            break
        known.append((low, high))
        if low != high:
            break
    low_text, high_text = (_END.join(_sortable(pa.array([value]))[0].as_py() for value in side) for side in zip(*known))
    return low_text, high_text if len(known) == len(ranges) else high_text + _AFTER_END


def part_of(leading_keys: pa.Array, column: int, kind: pa.DataType) -> pa.Array:
    """One column of leading keys of several columns, as `comparable` returns it.

    Args:
        column: Its number, from 0.
        kind: Its type: int64 or text.
    """
    texts = pc.list_element(pc.split_pattern(leading_keys, _END), column)
    if pa.types.is_integer(kind):
        return pa.array((texts.cast(pa.uint64()).to_numpy() ^ _SIGN).view(np.int64))
    for character, escaped in reversed(_ESCAPES):
        texts = pc.replace_substring(texts, escaped, character)
    return texts


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
    if len(after) == 1:
        leading_keys = _convert(leading_keys, before[0], after[0])
        return leading_keys, leading_keys
    texts = zip(_split(keys, len(after)), before, after, strict=True)
    parts = [_convert(*text) for text in texts]
    typed = [part.cast(comparable(pa.array([], to_arrow(kind))).type) for part, kind in zip(parts, after, strict=True)]
    return _in_order(typed), _join(parts)


def _convert(values: pa.Array, before: str, after: str) -> pa.Array:
    """Values of one key column, encoded for its wider type."""
    if not text_depends_on_type(after):
        return values
    return comparable(cast_exactly(cast_exactly(values.cast(pa.string()), before), after))


def key_hashes(keys: pa.ChunkedArray) -> NDArray[np.uint64]:
    """64-bit hashes of keys without null. Equal keys have equal hashes; different ones nearly always differ."""
    if pa.types.is_integer(keys.type):
        integers: NDArray[np.uint64] = keys.cast(pa.int64()).to_numpy().view(np.uint64)
        return integers
    texts = keys.cast(pa.string()).cast(pa.binary()).to_pylist()
    return np.fromiter(map(xxhash.xxh64_intdigest, texts), np.uint64, len(texts))


def keyed_hashes(secret: bytes, columns: Sequence[pa.Array]) -> list[str | None]:
    """HMAC-SHA-256 of each key, as hexadecimal digits, by which a key is recognized that is not stored; null for nulls.

    It depends on the values alone: not on the columns' types, which may become wider, and not on how keys are encoded.

    Args:
        secret: The secret that keys the hashes.
        columns: The key columns, at least one.
    """
    keys = zip(*map(_texts, columns), strict=True)
    return [None if None in key else hmac.digest(secret, json.dumps(key).encode(), "sha256").hex() for key in keys]


def secret_id(secret: bytes) -> str:
    """Identifies a secret, but does not reveal it."""
    return hmac.digest(secret, b"", "sha256").hex()[:_ID_DIGITS]


def _texts(values: pa.Array) -> Iterable[str | None]:
    """Values as text, equal numbers of any type as the same text."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if has_fraction(from_arrow(values.type) or ""):
        return [None if value is None else number_text(value) for value in values.to_pylist()]
    texts: list[str | None] = comparable(values).cast(pa.string()).to_pylist()
    return texts


def number_text(value: float | Decimal) -> str:
    """The exact number without an exponent and final zeros."""
    if not math.isfinite(value):
        return str(float(value))
    text = format(Decimal(value), "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text


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
    """Whether a file's key range compares with leading keys of columns of these types."""
    return file.key_types == tuple(types) or not any(map(text_depends_on_type, types))


def matches(keys: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether each key is one of the wanted; never null."""
    return pc.fill_null(pc.is_in(keys, value_set=wanted), False)
