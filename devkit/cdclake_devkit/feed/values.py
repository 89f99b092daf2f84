"""Generates row values as a function of the row's number and version, so that rows need not be stored.

A value is a hash of the number, the version and the column's stream, computed for a whole column at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.model.schema import decimal_parts
from cdclake_devkit.feed.columns import TIME, FeedColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cdclake_devkit.feed.texts import TextPools

    U64 = NDArray[np.uint64]
    I64 = NDArray[np.int64]

INCARNATION_BITS = 32
"""The bits of a version from this one up count inserts of the same key; the bits below count its updates."""
_FIRST_DAY, _DAYS = 16_436, 4_018
"""Eleven years from 2015-01-01."""
_DAY_US = 86_400_000_000
_LIMITS = {"tinyint": 100, "smallint": 30_000, "int": 2_000_000_000, "bigint": 9_000_000_000_000_000}
_MAX_DIGITS = 18
_KEY_PARTS = 16
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_VALUES_PER_NULL = 11


class RowIds(NamedTuple):
    """Identifies the rows to generate.

    Attributes:
        numbers: Row numbers from 0, from which keys are derived.
        versions: Row versions, see `INCARNATION_BITS`.
    """

    numbers: I64
    versions: I64


class RowGenerator:
    """Generates rows of a table.

    Args:
        seed: Selects the values.
        primary_key: Key columns. The last one is unique; the others have few different values.
        texts: Values of text columns.
        milliseconds: Whether times are in whole milliseconds.
    """

    def __init__(self, seed: int, primary_key: Sequence[str], texts: TextPools, *, milliseconds: bool = False) -> None:
        self._seed, self._key, self._texts = seed, tuple(primary_key), texts
        self._unit_us = 1000 if milliseconds else 1

    def rows(self, ids: RowIds, columns: Sequence[FeedColumn]) -> pa.Table:
        """Rows in the order of `ids`, with these columns."""
        arrays = [self.values(ids, column) for column in columns]
        return pa.table(arrays, schema=pa.schema([column.field for column in columns]))

    def values(self, ids: RowIds, column: FeedColumn) -> pa.Array:
        """The values of one column."""
        if column.name in self._key:
            return self._keys(ids.numbers, column)
        versions = ids.versions >> INCARNATION_BITS if column.static else ids.versions
        drawn = self._drawn(ids.numbers, versions, column)
        nulls = drawn % np.uint64(_VALUES_PER_NULL) == 0
        return self._typed(column, drawn >> np.uint64(4), nulls)

    def _keys(self, numbers: I64, column: FeedColumn) -> pa.Array:
        if column.name == self._key[-1]:
            if column.type == "string":
                return _hex_digits(scramble(numbers.view(np.uint64) ^ np.uint64(self._seed & 0xFFFFFFFF)))
            return pa.array(numbers + 1).cast(column.field.type)
        part = self._drawn(numbers, np.zeros_like(numbers), column) % np.uint64(_KEY_PARTS)
        return pa.array(part).cast(column.field.type)

    def _drawn(self, numbers: I64, versions: I64, column: FeedColumn) -> U64:
        stream = _stream(self._seed, column.stream)
        return scramble(scramble(numbers.view(np.uint64) ^ stream) ^ versions.view(np.uint64))

    def _typed(self, column: FeedColumn, drawn: U64, nulls: NDArray[np.bool_]) -> pa.Array:
        kind, arrow_type = column.type, column.field.type
        decimal = decimal_parts(kind)
        if decimal:
            unscaled = (drawn % np.uint64(10 ** min(decimal[0], _MAX_DIGITS))).astype(np.int64)
            return _decimals(np.where(drawn >> np.uint64(59) == 0, -unscaled, unscaled), nulls, arrow_type)
        if kind == "string":
            return self._texts.values(column, drawn, nulls)
        if kind == "binary":
            digits = pa.py_buffer(np.ascontiguousarray(drawn))
            wide = pa.Array.from_buffers(pa.binary(8), len(drawn), [None, digits])
            return pc.if_else(pa.array(nulls), None, wide.cast(pa.binary()))
        if kind == "boolean":
            return pa.array(drawn & np.uint64(1) == 1, mask=nulls)
        if kind in _LIMITS:
            limit = _LIMITS[kind]
            numbers = (drawn % np.uint64(2 * limit)).astype(np.int64) - limit
            return pa.array(numbers, mask=nulls).cast(arrow_type)
        if kind in {"float", "double"}:
            return pa.array((drawn % np.uint64(40_000)).astype(np.float64) / 1000, mask=nulls).cast(arrow_type)
        if kind == "date":
            days = (drawn % np.uint64(_DAYS)).astype(np.int32) + _FIRST_DAY
            return pa.array(days, pa.int32(), mask=nulls).cast(arrow_type)
        span = _DAY_US if kind == TIME else _DAYS * _DAY_US
        first = 0 if kind == TIME else _FIRST_DAY * _DAY_US
        unit = self._unit_us
        times = first + (drawn % np.uint64(span // unit)).astype(np.int64) * unit
        return pa.array(times, mask=nulls).cast(arrow_type)


def scramble(values: U64) -> U64:
    """A bijection of 64-bit integers that looks random: the finalizer of splitmix64."""
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _stream(seed: int, column: int) -> np.uint64:
    return np.uint64(scramble(np.array([(seed & 0xFFFFFFFF) << 16 | column], np.uint64))[0])


def _decimals(unscaled: I64, nulls: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    words = np.empty((len(unscaled), 2), "<i8")  # 128 bits, little-endian: low word, then the sign
    words[:, 0] = unscaled
    words[:, 1] = unscaled >> 63
    whole = pa.Array.from_buffers(kind, len(unscaled), [None, pa.py_buffer(words)])
    return pc.if_else(pa.array(nulls), pa.scalar(None, kind), whole)


def _hex_digits(values: U64) -> pa.Array:
    """The values as sixteen hexadecimal digits."""
    shifts = np.arange(60, -4, -4).astype(np.uint64)
    text = _HEX[(values[:, None] >> shifts) & np.uint64(15)]
    offsets = pa.py_buffer(np.arange(len(values) + 1, dtype=np.int32) * 16)
    return pa.Array.from_buffers(pa.string(), len(values), [None, offsets, pa.py_buffer(np.ascontiguousarray(text))])
