"""Computes of rows in Arrow what `ChecksumSql` computes in a server."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake_cli.sources.checksum_sql import BUCKET_DIGITS, CHECKSUM_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    FloatTexts = Callable[[pa.Array], pa.Array]

_HALF_BITS = 30
_HALF = np.uint64((1 << _HALF_BITS) - 1)


class BucketSums:
    """The rows and checksums of the buckets of one side.

    Args:
        buckets: Number of buckets.
    """

    def __init__(self, buckets: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(buckets, np.int64)
        # Sums of 60 bits do not fit 64. Halves do, of 17 billion rows.
        self._high: NDArray[np.uint64] = np.zeros(buckets, np.uint64)
        self._low: NDArray[np.uint64] = np.zeros(buckets, np.uint64)

    def add(self, buckets: NDArray[np.int64], checksums: NDArray[np.uint64]) -> None:
        """Add rows, given the bucket and the checksum of each."""
        self.counts += np.bincount(buckets, minlength=len(self.counts))
        np.add.at(self._high, buckets, checksums >> np.uint64(_HALF_BITS))
        np.add.at(self._low, buckets, checksums & _HALF)

    def of(self, bucket: int) -> tuple[int, int]:
        """The number of rows of a bucket, and the sum of their checksums."""
        return int(self.counts[bucket]), (int(self._high[bucket]) << _HALF_BITS) + int(self._low[bucket])


def digests(rows: pa.Table, names: Sequence[str], float_texts: FloatTexts) -> list[bytes]:
    """The MD5 of some columns of each row."""
    pieces = []
    for name in names:
        text = pa.chunked_array([_texts(chunk, float_texts) for chunk in rows[name].chunks], pa.string())
        if pa.types.is_string(rows.schema.field(name).type):
            length = pc.utf8_length(text).cast(pa.string())
            pieces.append(pc.fill_null(pc.binary_join_element_wise(length, text, ":"), "-"))
        else:
            pieces.append(pc.fill_null(pc.binary_join_element_wise(text, "", ","), "-,"))
    joined = pc.binary_join_element_wise(*pieces, "").cast(pa.binary())
    return [md5(row, usedforsecurity=False).digest() for row in joined.to_pylist()]


def checksums(rows: Sequence[bytes]) -> NDArray[np.uint64]:
    """The checksum of each row, given its digest."""
    return _first_digits(rows, CHECKSUM_DIGITS)


def hash_buckets(keys: Sequence[bytes], buckets: int) -> NDArray[np.int64]:
    """The bucket of each row, given its key's digest."""
    return (_first_digits(keys, BUCKET_DIGITS) % np.uint64(buckets)).astype(np.int64)


def _first_digits(rows: Sequence[bytes], digits: int) -> NDArray[np.uint64]:
    first = np.frombuffer(b"".join(row[:8] for row in rows), ">u8").astype(np.uint64)
    return first >> np.uint64(64 - 4 * digits)


def _texts(values: pa.Array, float_texts: FloatTexts) -> pa.Array:
    kind = values.type
    if pa.types.is_floating(kind):
        return float_texts(values)
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8()).cast(pa.string())
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us")).cast(pa.string())
    texts = values.cast(pa.string())
    if pa.types.is_decimal(kind) and pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([None if value is None else f"{value:f}" for value in values.to_pylist()], pa.string())
    return texts
