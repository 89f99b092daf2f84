"""Parquet's Bloom filters on the key: which row groups of a data file cannot hold any of a few keys.

The key ranges of the snapshot find a file at once where keys ascend. Keys such as UUIDs arrive in any order, so that a
file of new rows spans nearly all keys; and in a partitioned table a key may lie in each partition. There a filter of
two to four bytes a row saves reading the key column, for us as for every query engine that knows of filters.

Format: https://parquet.apache.org/docs/file-format/bloomfilter/ (split blocks, xxHash, not compressed).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from cdclake.lake.storage.shape import TableShape

FALSE_POSITIVES = 0.001
MAX_PROBED_KEYS = 200
"""Of more keys at once, one in five times a filter takes one for held that is not, and a large change is no faster."""

_TEXT, _INTEGERS = "string", frozenset({"tinyint", "smallint", "int", "bigint"})
_BEGIN, _END = b"\x15", b"\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"
"""A filter's header, in Thrift's compact protocol, is its number of bytes as a varint between these: they say split
blocks, xxHash, not compressed, and there is nothing else that they could say."""
_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_NUMBERS = {"INT32": "<i4", "INT64": "<i8"}


def filtered_column(shape: TableShape) -> str | None:
    """The column whose values data files have a filter of: the first of the key, where ranges alone may not do."""
    if not shape.primary_key:
        return None
    column = shape.schema.find(shape.primary_key[0])
    if column is None or column.name not in shape.key_columns_stored():
        return None
    return column.name if column.type == _TEXT or (shape.partition_key and column.type in _INTEGERS) else None


def bloom_filter_options(shape: TableShape, rows: int) -> dict[str, dict[str, Any]] | None:
    """How `pyarrow.parquet.ParquetWriter` is told to write filters into row groups of so many rows; None for none."""
    name = filtered_column(shape)
    return {name: {"ndv": rows, "fpp": FALSE_POSITIVES}} if name else None


def row_groups_to_read(
    shape: TableShape, keys: pa.Array, routes: pa.ChunkedArray
) -> Callable[[pa.NativeFile, pq.ParquetFile], Iterator[int]] | None:
    """What `data_file.read_batches` is to read of a file in which keys are looked up; None: all of it.

    Args:
        keys: The keys, each once.
        routes: Their routes, as often as they come.
    """
    name = filtered_column(shape)
    if not name or len(keys) > MAX_PROBED_KEYS:
        return None
    return partial(row_groups_that_may_contain, name=name, routes=pc.unique(routes))


def row_groups_that_may_contain(
    source: pa.NativeFile, parquet: pq.ParquetFile, name: str, routes: pa.Array
) -> Iterator[int]:
    """Row groups that may hold a row with one of some values; those without a filter are among them.

    Args:
        source: The open file; filters are read from it.
        parquet: The same, with its footer.
        name: Name of the column, as the table has it.
        routes: Values as `keys.comparable` gives them, int64 or text, no nulls.
    """
    names = [own.lower() for own in parquet.schema_arrow.names]
    place = names.index(name.lower()) if name.lower() in names and len(parquet.schema) == len(names) else None
    hashes = None if place is None else _hashes(parquet.schema.column(place), routes)
    if place is None or hashes is None:
        yield from range(parquet.num_row_groups)
        return
    for group in range(parquet.num_row_groups):
        chunk = parquet.metadata.row_group(group).column(place)
        bits = _bits(source, chunk.bloom_filter_offset, chunk.bloom_filter_length)
        if bits is None or _may_hold(bits, hashes).any():
            yield group


def _hashes(column: pq.ColumnSchema, routes: pa.Array) -> NDArray[np.uint64] | None:
    """Hashes of values as a file holds them in this column; None if it holds other than integers or text."""
    logical = column.logical_type.type
    if pa.types.is_string(routes.type) and logical == "STRING":
        plain = [text.encode() for text in routes.to_pylist()]
    elif pa.types.is_int64(routes.type) and logical in {"INT", "NONE"} and column.physical_type in _NUMBERS:
        numbers = routes.to_numpy(zero_copy_only=False).astype(_NUMBERS[column.physical_type])
        plain = [number.tobytes() for number in numbers]
    else:
        return None
    return np.array([xxhash.xxh64_intdigest(value) for value in plain], np.uint64)


def _bits(source: pa.NativeFile, offset: int | None, length: int | None) -> NDArray[np.uint32] | None:
    """A filter's blocks, eight words each; None if there is no filter, or not of the one kind there is."""
    if not offset or not length:
        return None
    source.seek(offset)
    data = source.read(length)
    end = data.find(_END, 1, len(_BEGIN) + 5 + len(_END))
    header = end + len(_END)
    if not data.startswith(_BEGIN) or end < 0 or (len(data) - header) % _SALT.nbytes:
        return None
    return np.frombuffer(data, "<u4", offset=header).reshape(-1, len(_SALT))


def _may_hold(blocks: NDArray[np.uint32], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each value may be among those that the filter was made of."""
    chosen = blocks[((hashes >> np.uint64(32)) * np.uint64(len(blocks))) >> np.uint64(32)]
    bit = ((hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)[:, None] * _SALT) >> np.uint32(27)
    held: NDArray[np.bool_] = ((chosen >> bit) & np.uint32(1)).all(axis=1)
    return held
