"""Reads Parquet Bloom filters on the key, to skip row groups that contain none of some keys.

Where keys ascend, the snapshot's key ranges find the right file. Random keys such as UUIDs make each file span nearly
all keys, and in a partitioned table a key may be in any partition. There a filter of five to ten bytes per row saves
reading the key column, for cdclake and for every query engine that supports filters.

Format: https://parquet.apache.org/docs/file-format/bloomfilter/ (split blocks, xxHash, not compressed).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import xxhash

from cdclake.adapters.filesystem import repeated
from cdclake.lake.storage.keys import LEADING_KEY, comparable, part_of
from cdclake.lake.storage.types import to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from cdclake.lake.storage.parquet.footer import Footer
    from cdclake.lake.storage.reader import RowGroupFilter
    from cdclake.lake.storage.shape import TableShape

FALSE_POSITIVE_RATE = 1e-6
MAX_PROBED_KEYS = 1_000_000
"""With more keys, a filter reports a false positive for nearly every row group."""

_TEXT, _INTEGERS = "string", frozenset({"tinyint", "smallint", "int", "bigint"})
_BEGIN, _END = b"\x15", b"\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"
"""What encloses a filter's size (a varint) in its Thrift header: split blocks, xxHash, not compressed. The format
allows no other values."""
_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_TEXT_ENCODING = "BYTE_ARRAY"
_NUMBERS = {"INT32": "<i4", "INT64": "<i8"}
_ENCODINGS = {_TEXT: _TEXT_ENCODING, **dict.fromkeys(_INTEGERS, "INT32"), "bigint": "INT64"}
"""Physical types of the columns that have filters, by lake type."""
FILTER_HASH = "_filter_hash"


def filtered_column(shape: TableShape) -> str | None:
    """The column that data files have a filter on: the first key column, if key ranges may not suffice; else None."""
    if not shape.primary_key:
        return None
    column = shape.schema.find(shape.primary_key[0])
    if column is None or column.name not in shape.key_columns_stored():
        return None
    return column.name if column.type == _TEXT or (shape.partition_key and column.type in _INTEGERS) else None


def bloom_filter_options(shape: TableShape, rows: int) -> dict[str, dict[str, Any]] | None:
    """Options for `pyarrow.parquet.ParquetWriter`, given the rows of a row group; None for no filter."""
    name = filtered_column(shape)
    return {name: {"ndv": rows, "fpp": FALSE_POSITIVE_RATE}} if name else None


def with_filter_hashes(rows: pa.Table, shape: TableShape) -> pa.Table:
    """Append the hash of each row's key as `FILTER_HASH`, if data files have filters, so that it is computed once.

    Args:
        rows: Rows with a leading key.
    """
    if not filtered_column(shape):
        return rows
    return rows.append_column(FILTER_HASH, pa.array(_filter_hashes(rows[LEADING_KEY], shape)))


def row_group_filter(shape: TableShape, rows: pa.Table) -> RowGroupFilter | None:
    """Selects the row groups in which to look up keys, for `reader.read_batches`; None selects all.

    Args:
        rows: The leading keys, and their `FILTER_HASH` if it is known.
    """
    name = filtered_column(shape)
    if not name or rows.num_rows > MAX_PROBED_KEYS:
        return None
    known = FILTER_HASH in rows.column_names
    hashes = rows[FILTER_HASH].to_numpy() if known else _filter_hashes(rows[LEADING_KEY], shape)
    return partial(row_groups_that_may_contain, name=name, encoding=_encoding(shape), hashes=hashes)


def _encoding(shape: TableShape) -> str:
    """Physical type of the column with the filter."""
    return _ENCODINGS[shape.key_types[0]]


def _filter_hashes(leading_keys: pa.ChunkedArray, shape: TableShape) -> NDArray[np.uint64]:
    """Hash of the filtered column of each leading key."""
    values = leading_keys
    if len(shape.leading_columns) > 1:
        values = part_of(values, 0, comparable(pa.array([], to_arrow(shape.key_types[0]))).type)
    return hashes_of(values, _encoding(shape))


def hashes_of(values: pa.ChunkedArray | pa.Array, encoding: str) -> NDArray[np.uint64]:
    """Hashes of values as filters have them.

    Args:
        values: From `keys.comparable`: int64 or text, no nulls.
        encoding: Physical type of their column in the files.
    """
    if encoding == _TEXT_ENCODING:
        encoded = [text.encode() for text in values.to_pylist()]
    else:
        numbers = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
        data, size = numbers.astype(_NUMBERS[encoding]).tobytes(), int(_NUMBERS[encoding][-1])
        encoded = [data[start : start + size] for start in range(0, len(data), size)]
    return np.fromiter(map(xxhash.xxh64_intdigest, encoded), np.uint64, len(encoded))


def row_groups_that_may_contain(
    source: pa.NativeFile, footer: Footer, name: str, encoding: str, hashes: NDArray[np.uint64]
) -> Iterator[int]:
    """Row groups that may contain one of some values; one without a filter, or of another encoding, may contain any.

    Args:
        source: The open file, to read filters from.
        footer: Its footer.
        name: The column with the filter.
        encoding: The physical type that the values were hashed for.
        hashes: `hashes_of` the values.
    """
    schema = footer.arrow.schema
    names = [column.lower() for column in schema.to_arrow_schema().names]
    index = names.index(name.lower()) if name.lower() in names and len(schema) == len(names) else None
    if index is None or not _has_encoding(schema.column(index), encoding):
        yield from range(len(footer.row_groups))
        return
    for number, group in enumerate(footer.row_groups):
        blocks = _filter_blocks(source, *group.columns[index].filter_range)
        if blocks is None or _may_contain(blocks, hashes).any():
            yield number


def _has_encoding(column: pq.ColumnSchema, encoding: str) -> bool:
    logical = {"STRING"} if encoding == _TEXT_ENCODING else {"INT", "NONE"}
    return column.physical_type == encoding and column.logical_type.type in logical


def _filter_blocks(source: pa.NativeFile, offset: int, length: int) -> NDArray[np.uint32] | None:
    """A filter's blocks of eight words; None if there is no filter or its header is unknown."""
    if not length or offset + length > source.size():
        return None
    data: bytes = repeated(partial(source.read_at, length, offset))
    end = data.find(_END, 1, len(_BEGIN) + 5 + len(_END))
    header = end + len(_END)
    if not data.startswith(_BEGIN) or end < 0 or (len(data) - header) % _SALT.nbytes or len(data) == header:
        return None
    return np.frombuffer(data, "<u4", offset=header).reshape(-1, len(_SALT))


def _may_contain(blocks: NDArray[np.uint32], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether the filter may contain each value."""
    chosen = blocks[((hashes >> np.uint64(32)) * np.uint64(len(blocks))) >> np.uint64(32)]
    bit = ((hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)[:, None] * _SALT) >> np.uint32(27)
    contained: NDArray[np.bool_] = ((chosen >> bit) & np.uint32(1)).all(axis=1)
    return contained
