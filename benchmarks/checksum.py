"""A row count and a checksum over all values, both independent of the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.hashing import mix

if TYPE_CHECKING:
    from benchmarks.hashing import U64

_MAX_TEXT_BYTES = 64
_WORD_BYTES = 8
_WORD_FACTORS = mix(np.arange(_MAX_TEXT_BYTES // _WORD_BYTES, dtype=np.uint64)) | np.uint64(1)
_NULL = np.uint64(0x6E756C6C)


@dataclass(frozen=True)
class Checksum:
    """The checksum of a multiset of rows.

    Attributes:
        rows: Number of rows.
        total: Sum of the rows' hashes, modulo 2**64.
    """

    rows: int = 0
    total: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        return Checksum(self.rows + other.rows, (self.total + other.total) % 2**64)

    def __sub__(self, other: Checksum) -> Checksum:
        return Checksum(self.rows - other.rows, (self.total - other.total) % 2**64)


def checksum(rows: pa.Table | pa.RecordBatch) -> Checksum:
    """Checksum of rows; a row's hash covers all its values and their columns."""
    hashes = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        hashes = mix(hashes + _hashes(values))
    return Checksum(rows.num_rows, int(hashes.sum(dtype=np.uint64)))


def _hashes(values: pa.Array) -> U64:
    words = mix(_words(values))
    return np.where(values.is_null(), _NULL, words) if values.null_count else words


def _words(values: pa.Array) -> U64:
    """A 64-bit word per value, different for different values; arbitrary for null."""
    kind = values.type
    if pa.types.is_string(kind):
        return _text_words(values.fill_null(""))
    if pa.types.is_decimal128(kind):
        return _decimal_words(values)
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    if pa.types.is_integer(values.type):
        numbers: U64 = values.fill_null(0).cast(pa.int64()).to_numpy().view(np.uint64)
        return numbers
    if pa.types.is_float64(kind):
        bits: U64 = values.fill_null(0.0).to_numpy().view(np.uint64)
        return bits
    message = f"the checksum does not support the type {kind}"
    raise TypeError(message)


def _decimal_words(values: pa.Array) -> U64:
    if values.type.precision > 18:  # the value must fit the low half of the 16 bytes
        message = f"the checksum does not support the type {values.type}"
        raise TypeError(message)
    halves: U64 = np.frombuffer(values.buffers()[1], np.uint64)
    low: U64 = halves[2 * values.offset : 2 * (values.offset + len(values)) : 2].copy()
    return low


def _text_words(values: pa.Array) -> U64:
    """The sum of each zero-padded text's words, multiplied by odd factors."""
    if not len(values):
        return np.zeros(0, np.uint64)
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest > _MAX_TEXT_BYTES:
        message = f"the checksum supports texts of up to {_MAX_TEXT_BYTES} bytes, not of {longest}"
        raise ValueError(message)
    count = max(1, -(-longest // _WORD_BYTES))
    padded = pc.ascii_rpad(values, count * _WORD_BYTES, "\0")  # despite its name it counts bytes
    words = np.frombuffer(padded.buffers()[2], np.uint64, len(values) * count, padded.offset * count * _WORD_BYTES)
    products: U64 = words.reshape(len(values), count) * _WORD_FACTORS[:count]
    sums: U64 = products.sum(axis=1, dtype=np.uint64)
    return sums
