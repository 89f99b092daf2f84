"""Reads the footer of a Parquet file that anybody wrote, in a way that raises if it is damaged.

pyarrow's accessors of column chunks (`RowGroupMetaData.column`, `statistics`) are declared in Cython without exceptions
(https://github.com/apache/arrow/blob/main/python/pyarrow/includes/libparquet.pxd). If the C++ below throws, because
statistics or levels do not fit the column, the process ends with SIGABRT. So the footer is decoded and checked here,
with what those accessors check. Whoever reads columns of a file's footer takes them from here.

Format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import repeated
from cdclake.lake.storage.parquet.thrift import (
    BINARY,
    ENCODED,
    I32,
    I64,
    LIST,
    STRUCT,
    ListOf,
    Struct,
    damaged,
    decode,
    decode_list,
    field,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_TAIL_BYTES = 1 << 16
"""So much is read at once: most footers are shorter."""
_MAX_BYTES = 64 << 20
"""Some 500,000 column chunks: it takes 10 seconds to read them."""
_MAX_DEPTH = 64
_KNOWN_BYTES = 1 << 14
"""Most bytes of a footer, or a part of one, that is kept in memory."""
_MAGIC, _MAGIC_OF_ENCRYPTED = b"PAR1", b"PARE"
_LENGTH_BYTES = 4
_END_BYTES = _LENGTH_BYTES + len(_MAGIC)
_INT32, _INT64, _BYTE_ARRAY, _FIXED_LENGTH = 1, 2, 6, 7
_VALUE_BYTES = {0: 1, _INT32: 4, _INT64: 8, 3: 12, 4: 4, 5: 8, _BYTE_ARRAY: 0}
"""Length of a plain value, by physical type; 0: any."""
_REQUIRED, _OPTIONAL, _REPEATED = range(3)
_UNSIGNED = range(11, 15)
"""Converted types of unsigned integers."""
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4")
_ENCODINGS = (
    "PLAIN",
    "GROUP_VAR_INT",
    "PLAIN_DICTIONARY",
    "RLE",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY",
    "BYTE_STREAM_SPLIT",
)
_UNKNOWN = "UNKNOWN"
# The fields that are read of each struct of the definition, by number.
_FILE = {field(1, I32): None, field(2, LIST): ENCODED, field(3, I64): None, field(7, LIST): ENCODED}
_SCHEMA = ListOf(STRUCT, {**{field(number, I32): None for number in (1, 2, 3, 5, 6)}, field(10, STRUCT): {}})
_ORDERS = ListOf(STRUCT, {field(1, STRUCT): {}})
_CHUNK_FACTS = {
    **{field(number, I32): None for number in (1, 4, 15)},
    **{field(number, I64): None for number in (5, 6, 7, 11, 14)},
    field(2, LIST): ListOf(I32),
    field(12, STRUCT): {field(number, BINARY): None for number in (1, 2, 5, 6)},
    field(16, STRUCT): {field(1, I64): None, field(2, LIST): ListOf(I64), field(3, LIST): ListOf(I64)},
}
_CHUNK = {field(3, STRUCT): _CHUNK_FACTS, field(8, STRUCT): {}}
_ROW_GROUP = {field(1, LIST): ListOf(STRUCT, _CHUNK), field(3, I64): None}


class ColumnChunk(NamedTuple):
    """A column's part of a row group.

    Attributes:
        codec: `GZIP`, `SNAPPY`, ...
        encodings: Of its pages.
        size_bytes: Compressed size.
        memory_bytes: Uncompressed size.
        has_dictionary: Whether it begins with a dictionary page.
        filter_range: Offset and length of its Bloom filter in the file; 0 and 0 if it has none.
        extremes: Smallest and largest value as plain bytes, and again in the order of the column's type; None where the
            footer has none.
    """

    codec: str
    encodings: tuple[str, ...]
    values: int
    size_bytes: int
    memory_bytes: int
    has_dictionary: bool
    filter_range: tuple[int, int]
    extremes: tuple[bytes | None, bytes | None, bytes | None, bytes | None]


class RowGroup(NamedTuple):
    """A row group of a file.

    Attributes:
        columns: Its column chunks, in the order of the file's columns; of a nested column, its parts' chunks.
    """

    rows: int
    columns: tuple[ColumnChunk, ...]

    @property
    def size_bytes(self) -> int:
        """Compressed size."""
        return sum(column.size_bytes for column in self.columns)

    @property
    def memory_bytes(self) -> int:
        """Uncompressed size."""
        return sum(column.memory_bytes for column in self.columns)


class Footer(NamedTuple):
    """A footer whose parts agree.

    Attributes:
        version: Version of the format: `1.0` or `2.6`.
        has_order: Of each column chunk, whether the footer says that extremes follow the order of its type.
        has_old_order: Of each column chunk, whether they would also without that.
        arrow: The same footer, to open the file with.
    """

    version: str
    row_groups: tuple[RowGroup, ...]
    has_order: tuple[bool, ...]
    has_old_order: tuple[bool, ...]
    arrow: pq.FileMetaData

    def extremes(self, group: RowGroup, column: int) -> tuple[bytes | None, bytes | None]:
        """Smallest and largest value of a column chunk, as plain bytes; None if none is sure to be that."""
        low, high, low_in_order, high_in_order = group.columns[column].extremes
        if self.has_order[column]:
            return low_in_order, high_in_order
        return (low, high) if self.has_old_order[column] else (None, None)


class _Leaf(NamedTuple):
    """A column, or a part of a nested one that has no parts.

    Attributes:
        kind: Physical type.
        value_bytes: Length of a plain value; 0: any.
        definition_levels: How many of it and the columns around it may be null or are repeated.
        repetition_levels: How many are repeated.
        is_signed: Whether it has signed numbers. Before the format had orders, extremes followed theirs.
    """

    kind: int
    value_bytes: int
    definition_levels: int
    repetition_levels: int
    is_signed: bool


def footer_of(source: pa.NativeFile) -> Footer:
    """Read the footer of an open file.

    Raises:
        pa.ArrowException: It is damaged or encrypted, or this is no Parquet file.
        OSError: Likewise, where pyarrow reports it like that.
        UnicodeDecodeError: The name of a column is not UTF-8 text.
    """
    size = source.size()
    tail = _last_bytes(source, size, min(size, _TAIL_BYTES))
    if tail.endswith(_MAGIC_OF_ENCRYPTED):
        raise pa.ArrowInvalid("its metadata is encrypted")
    if size < len(_MAGIC) + _END_BYTES or not tail.endswith(_MAGIC):
        message = f"it does not end as a Parquet file does, and has {size} bytes"
        raise pa.ArrowInvalid(message)
    needed = int.from_bytes(tail[-_END_BYTES : -len(_MAGIC)], "little") + _END_BYTES
    if needed > size - len(_MAGIC):
        raise damaged("it is longer than the file")
    if needed > _MAX_BYTES:
        message = f"its metadata is longer than {_MAX_BYTES >> 20} MB"
        raise pa.ArrowInvalid(message)
    tail = tail[-needed:] if needed <= len(tail) else _last_bytes(source, size, needed)
    facts = _known_facts if needed <= _KNOWN_BYTES else _facts
    return Footer(*facts(tail[:-_END_BYTES], size), pq.read_metadata(pa.BufferReader(tail)))


def from_plain(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Values of a type from their plain bytes.

    Args:
        kind: Text, an integer or `date32`.

    Raises:
        ValueError: A text is not UTF-8.
        OverflowError: A number is too large for the type.
    """
    if pa.types.is_string(kind):
        return pa.array(values, pa.binary()).cast(kind)
    signed = not pa.types.is_unsigned_integer(kind)
    numbers = [int.from_bytes(value, "little", signed=signed) for value in values]
    return pa.array(numbers, pa.int32()).cast(kind) if pa.types.is_date32(kind) else pa.array(numbers, kind)


def _last_bytes(source: pa.NativeFile, size: int, length: int) -> bytes:
    data: bytes = repeated(partial(source.read_at, length, size - length))
    return data


Part = TypeVar("Part")
_Facts = tuple[str, tuple[RowGroup, ...], tuple[bool, ...], tuple[bool, ...]]


def _facts(data: bytes, file_bytes: int) -> _Facts:
    """The fields of a `Footer`, without the last."""
    leaves: tuple[_Leaf, ...] | None = None

    def converted(before: Struct, group: Struct) -> RowGroup:
        nonlocal leaves
        if leaves is None:  # there may be none
            leaves = _shared(_leaves, _list(before, 2))
        return _row_group(group, leaves)

    file = decode(data, {**_FILE, field(4, LIST): ListOf(STRUCT, _ROW_GROUP, converted)})
    if leaves is None:
        leaves = _shared(_leaves, _list(file, 2))
    groups: tuple[RowGroup, ...] = tuple(_list(file, 4))
    if sum(group.rows for group in groups) != _count(file, 3):
        raise damaged("its row groups do not have as many rows as the file")
    if sum(group.size_bytes for group in groups) > file_bytes:
        raise damaged("its row groups are longer than the file")
    orders = _shared(_orders, file[7]) if 7 in file else ()
    has_order = tuple(number < len(orders) and orders[number] for number in range(len(leaves)))
    version = "1.0" if file.get(1) == 1 else "2.6"
    return version, groups, has_order, tuple(leaf.is_signed for leaf in leaves)


_known_facts = lru_cache(256)(_facts)
"""A change reads each of its files twice: its columns, and its rows."""


def _shared(decoded: Callable[[bytes], tuple[Part, ...]], encoded: bytes) -> tuple[Part, ...]:
    """What a list that the files of a table have in common says, kept in memory if it is short."""
    return _known_part(decoded, encoded) if len(encoded) <= _KNOWN_BYTES else decoded(encoded)


@lru_cache(64)
def _known_part(decoded: Callable[[bytes], tuple[Part, ...]], encoded: bytes) -> tuple[Part, ...]:
    return decoded(encoded)


def _orders(encoded: bytes) -> tuple[bool, ...]:
    """Of each column chunk, whether its extremes follow the order of its type."""
    return tuple(1 in order for order in decode_list(encoded, _ORDERS))


def _leaves(encoded: bytes) -> tuple[_Leaf, ...]:
    """The columns without parts of a schema, in order."""
    return tuple(_without_parts(decode_list(encoded, _SCHEMA)))


def _without_parts(elements: Sequence[Struct]) -> Iterator[_Leaf]:
    """The elements of a schema that have no parts. It is a tree, depth first: each element counts its children."""
    around = [(1, 0, 0)]  # of each element that is not complete: children to come, and levels of definition, repetition
    for element in elements:
        while around and not around[-1][0]:
            around.pop()
        if not around or len(around) > _MAX_DEPTH:
            raise damaged("a column is outside of the schema, or nested too deeply")
        to_come, definition, repetition = around.pop()
        around.append((to_come - 1, definition, repetition))
        is_root = len(around) == 1
        if not is_root:
            how_often = element.get(3, _REQUIRED)
            if how_often not in (_REQUIRED, _OPTIONAL, _REPEATED):
                raise damaged("a column is neither required nor optional nor repeated")
            definition += how_often != _REQUIRED
            repetition += how_often == _REPEATED
        if 5 in element or is_root:
            around.append((_count(element, 5), definition, repetition))
            continue
        kind = _count(element, 1)
        length = _count(element, 2) if kind == _FIXED_LENGTH else _VALUE_BYTES.get(kind)
        if length is None:
            raise damaged("a column has an unknown type")
        is_signed = element[6] not in _UNSIGNED if 6 in element else 10 not in element
        yield _Leaf(kind, length, definition, repetition, is_signed and kind in (_INT32, _INT64))
    if any(to_come for to_come, *_ in around):
        raise damaged("the schema lacks a column")


def _row_group(group: Struct, leaves: Sequence[_Leaf]) -> RowGroup:
    chunks, rows = _list(group, 1), _count(group, 3)
    if len(chunks) != len(leaves):
        raise damaged("a row group has more or fewer columns than the schema")
    columns = []
    for chunk, leaf in zip(chunks, leaves, strict=True):
        columns.append(_column_chunk(chunk, leaf))
        if not leaf.repetition_levels and columns[-1].values != rows:
            raise damaged("a column has more or fewer values than its row group has rows")
    return RowGroup(rows, tuple(columns))


def _column_chunk(chunk: Struct, leaf: _Leaf) -> ColumnChunk:
    if 3 not in chunk or 8 in chunk:
        raise pa.ArrowInvalid("a column is encrypted")
    facts: Struct = chunk[3]
    if facts.get(1) != leaf.kind:
        raise damaged("a column has two types")
    codec = _count(facts, 4)
    if codec >= len(_CODECS):
        raise damaged("a column has an unknown compression")
    _check_level_counts(facts, leaf)
    return ColumnChunk(
        codec=_CODECS[codec],
        encodings=tuple(map(_encoding, _list(facts, 2))),
        values=_count(facts, 5),
        size_bytes=_count(facts, 7),
        memory_bytes=_count(facts, 6),
        has_dictionary=11 in facts,
        filter_range=(_count(facts, 14), _count(facts, 15)) if 14 in facts and 15 in facts else (0, 0),
        extremes=_extremes(facts.get(12, {}), leaf),
    )


def _extremes(statistics: Struct, leaf: _Leaf) -> tuple[bytes | None, bytes | None, bytes | None, bytes | None]:
    """`ColumnChunk.extremes`."""
    if leaf.value_bytes and any(len(value) != leaf.value_bytes for value in statistics.values()):
        raise damaged("a column's smallest or largest value is not of its type")
    return statistics.get(2), statistics.get(1), statistics.get(6), statistics.get(5)


def _check_level_counts(facts: Struct, leaf: _Leaf) -> None:
    statistics: Struct = facts.get(16, {})
    for counts, levels in ((statistics.get(2), leaf.repetition_levels), (statistics.get(3), leaf.definition_levels)):
        if counts and len(counts) != levels + 1:
            raise damaged("a column's counts of levels are not of its type")
    if 1 in statistics and leaf.kind != _BYTE_ARRAY:
        raise damaged("a column without texts has a length of texts")


def _encoding(number: int) -> str:
    return _ENCODINGS[number] if 0 <= number < len(_ENCODINGS) else _UNKNOWN


def _list(fields: Struct, number: int) -> Any:  # noqa: ANN401 - decoded or not
    if number not in fields:
        raise damaged("it lacks a list")
    return fields[number]


def _count(fields: Struct, number: int) -> int:
    count: int = fields.get(number, -1)
    if count < 0:
        raise damaged("it lacks a number, or has a negative one")
    return count
