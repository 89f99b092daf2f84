"""Casts values from outside, of raw files and of operators' input, to lake types; shows them as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.types import cast_exactly, plain_values, require_all, to_arrow, within

if TYPE_CHECKING:
    from collections.abc import Iterator

_CAST_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_LIMITS = {"date": (-719_162, 2_932_896), "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999)}
"""First and last day, and microsecond, of the years 1 to 9999. Most readers, Python among them, have no others."""


def cast_column(values: pa.Array, kind: str) -> tuple[pa.Array, list[int]]:
    """Cast raw values to a lake type; nulls stay null, and no value is truncated, rounded or stored unchecked.

    Args:
        values: One column. Bytes are read as UTF-8 text unless the lake type is `binary`.
        kind: Lake type.

    Returns:
        The values, with null for those that do not parse or fit, and the ascending indices of these.
    """
    plain = _unchecked(values)
    try:
        return _cast_checked(plain, kind), []
    except _CAST_ERRORS:
        # Try each distinct value once: bad values often repeat.
        encoded = pc.dictionary_encode(plain)
        bad_codes: list[int] = []
        pieces = list(_cast_pieces(encoded.dictionary, kind, 0, bad_codes))
        bad = pc.is_in(encoded.indices, value_set=pa.array(bad_codes, encoded.indices.type))
        return pa.concat_arrays(pieces).take(encoded.indices), pc.indices_nonzero(bad).to_pylist()


def as_text(values: pa.Array) -> pa.Array:
    """Raw values of any type but bytes as readable text, before any cast. What is not UTF-8 is shown with escapes."""
    if pa.types.is_nested(values.type):
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
    plain = _unchecked(values)
    try:
        return plain.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "backslashreplace") for value in plain.to_pylist()]
        return pa.array(texts, pa.string())


def _unchecked(values: pa.Array) -> pa.Array:
    """Raw values as plain as possible, and text as bytes: Arrow reads text from Parquet without checking it."""
    plain = plain_values(values)
    return plain.cast(pa.binary()) if pa.types.is_string(plain.type) else plain


def _cast_checked(values: pa.Array, kind: str) -> pa.Array:
    """`cast_exactly`, for values from outside: also refuses what their type should not contain."""
    if pa.types.is_decimal(values.type):
        values.validate(full=True)
    result = cast_exactly(values, kind)
    if kind in _LIMITS:
        numbers = result.cast(pa.int32() if kind == "date" else pa.int64())
        require_all(within(numbers, *_LIMITS[kind]))
    return result


def _cast_pieces(values: pa.Array, kind: str, first: int, bad: list[int]) -> Iterator[pa.Array]:
    """Halve an array that does not cast until the bad values are isolated."""
    try:
        yield _cast_checked(values, kind)
    except _CAST_ERRORS:
        if len(values) <= 1:
            bad.extend(range(first, first + len(values)))
            yield pa.nulls(len(values), to_arrow(kind))
            return
        middle = len(values) // 2
        yield from _cast_pieces(values.slice(0, middle), kind, first, bad)
        yield from _cast_pieces(values.slice(middle), kind, first + middle, bad)
