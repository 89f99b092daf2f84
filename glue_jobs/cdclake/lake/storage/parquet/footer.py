"""Reads the footer of a Parquet file that anybody wrote, in a way that raises if it is damaged.

pyarrow's accessors of column chunks (`RowGroupMetaData.column`, `statistics`) are declared in Cython without exceptions
(https://github.com/apache/arrow/blob/main/python/pyarrow/includes/libparquet.pxd). If the C++ below throws, because
statistics or levels do not fit the column, the process ends with SIGABRT. So the footer is decoded and checked here,
with what those accessors check. Whoever reads columns of a file's footer takes them from here.

Format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import repeated
from cdclake.lake.storage.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, damaged, decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TAIL_BYTES = 1 << 16
"""So much is read at once: most footers are shorter."""
_KNOWN_BYTES = 1 << 14
"""Most bytes of a footer that is kept in memory."""
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


class ColumnChunk(NamedTuple):
    """A column's part of a row group.

    Attributes:
        codec: `GZIP`, `SNAPPY`, ...
        encodings: Of its pages.
        size_bytes: Compressed size.
        memory_bytes: Uncompressed size.
        has_dictionary: Whether it begins with a dictionary page.
        has_statistics: Whether the footer has a smallest or largest value of it.
        minimum: The smallest value, as plain bytes; None if the footer has none that is sure to be the smallest.
        maximum: The largest value, likewise.
    """

    codec: str
    encodings: tuple[str, ...]
    values: int
    size_bytes: int
    memory_bytes: int
    has_dictionary: bool
    has_statistics: bool
    minimum: bytes | None
    maximum: bytes | None


class RowGroup(NamedTuple):
    """A row group of a file.

    Attributes:
        columns: Its column chunks, in the order of the file's columns; of a nested column, those of its parts.
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
        arrow: The same footer, to open the file with.
    """

    version: str
    row_groups: tuple[RowGroup, ...]
    arrow: pq.FileMetaData


class _Leaf(NamedTuple):
    """A column, or a part of a nested one that has no parts.

    Attributes:
        kind: Physical type.
        value_bytes: Length of a plain value; 0: any.
        definition_levels: How many of it and the columns around it may be null or are repeated.
        repetition_levels: How many are repeated.
        is_ordered: Whether the footer says that its extremes follow the order of its type.
        is_signed: Whether its type is none of unsigned numbers.
    """

    kind: int
    value_bytes: int
    definition_levels: int
    repetition_levels: int
    is_ordered: bool
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
    tail = tail[-needed:] if needed <= len(tail) else _last_bytes(source, size, needed)
    facts = _known_facts if needed <= _KNOWN_BYTES else _facts
    return Footer(*facts(tail[:-_END_BYTES], size), pq.read_metadata(pa.BufferReader(tail)))


def _last_bytes(source: pa.NativeFile, size: int, length: int) -> bytes:
    data: bytes = repeated(partial(source.read_at, length, size - length))
    return data


def _facts(data: bytes, file_bytes: int) -> tuple[str, tuple[RowGroup, ...]]:
    file = decode(data)
    return "1.0" if file.get((1, I32)) == 1 else "2.6", _row_groups(file, file_bytes)


_known_facts = lru_cache(256)(_facts)
"""A change reads each of its files twice: its columns, and its rows."""


def _row_groups(file: Struct, file_bytes: int) -> tuple[RowGroup, ...]:
    leaves = list(_leaves(file))
    groups = tuple(_row_group(group, leaves) for group in _structs(file, 4))
    if sum(group.rows for group in groups) != _count(file, 3, I64):
        raise damaged("its row groups do not have as many rows as the file")
    if sum(group.size_bytes for group in groups) > file_bytes:
        raise damaged("its row groups are longer than the file")
    return groups


def _leaves(file: Struct) -> Iterator[_Leaf]:
    """The columns without parts, in order. The schema is a tree, depth first: each element counts its children."""
    is_ordered = [(1, STRUCT) in order for order in _structs(file, 7)] if (7, LIST) in file else []
    around = [(1, 0, 0)]  # of each element that is not complete: children to come, and levels of definition, repetition
    number = 0
    for element in _structs(file, 2):
        while around and not around[-1][0]:
            around.pop()
        if not around:
            raise damaged("a column is outside of the schema")
        to_come, definition, repetition = around.pop()
        around.append((to_come - 1, definition, repetition))
        is_root = len(around) == 1
        if not is_root:
            how_often = element.get((3, I32), _REQUIRED)
            if how_often not in (_REQUIRED, _OPTIONAL, _REPEATED):
                raise damaged("a column is neither required nor optional nor repeated")
            definition += how_often != _REQUIRED
            repetition += how_often == _REPEATED
        if (5, I32) in element or is_root:
            around.append((_count(element, 5, I32), definition, repetition))
            continue
        kind = _count(element, 1, I32)
        length = _count(element, 2, I32) if kind == _FIXED_LENGTH else _VALUE_BYTES.get(kind)
        if length is None:
            raise damaged("a column has an unknown type")
        is_signed = element[6, I32] not in _UNSIGNED if (6, I32) in element else (10, STRUCT) not in element
        yield _Leaf(kind, length, definition, repetition, number < len(is_ordered) and is_ordered[number], is_signed)
        number += 1
    if any(to_come for to_come, *_ in around):
        raise damaged("the schema lacks a column")


def _row_group(group: Struct, leaves: Sequence[_Leaf]) -> RowGroup:
    chunks, rows = _structs(group, 1), _count(group, 3, I64)
    if len(chunks) != len(leaves):
        raise damaged("a row group has more or fewer columns than the schema")
    columns = []
    for chunk, leaf in zip(chunks, leaves, strict=True):
        columns.append(_column_chunk(chunk, leaf))
        if not leaf.repetition_levels and columns[-1].values != rows:
            raise damaged("a column has more or fewer values than its row group has rows")
    return RowGroup(rows, tuple(columns))


def _column_chunk(chunk: Struct, leaf: _Leaf) -> ColumnChunk:
    if (3, STRUCT) not in chunk or (8, STRUCT) in chunk:
        raise pa.ArrowInvalid("a column is encrypted")
    facts: Struct = chunk[3, STRUCT]
    if facts.get((1, I32)) != leaf.kind:
        raise damaged("a column has two types")
    extremes = _extremes(facts, leaf)
    _check_level_counts(facts, leaf)
    codec = _count(facts, 4, I32)
    if codec >= len(_CODECS):
        raise damaged("a column has an unknown compression")
    low, high = (6, 5) if leaf.is_ordered else (2, 1)
    # Before the format had orders, extremes followed that of signed numbers, whatever the type.
    is_sure = leaf.is_ordered or (leaf.kind in (_INT32, _INT64) and leaf.is_signed)
    return ColumnChunk(
        codec=_CODECS[codec],
        encodings=tuple(_encoding(number) for number in _list(facts, 2, I32)),
        values=_count(facts, 5, I64),
        size_bytes=_count(facts, 7, I64),
        memory_bytes=_count(facts, 6, I64),
        has_dictionary=(11, I64) in facts,
        has_statistics=bool(extremes),
        minimum=extremes.get(low) if is_sure else None,
        maximum=extremes.get(high) if is_sure else None,
    )


def _extremes(facts: Struct, leaf: _Leaf) -> dict[int, bytes]:
    """Smallest and largest values of a column chunk, by their number in the format."""
    statistics: Struct = facts.get((12, STRUCT), {})
    extremes = {number: statistics[number, BINARY] for number in (1, 2, 5, 6) if (number, BINARY) in statistics}
    if leaf.value_bytes and any(len(value) != leaf.value_bytes for value in extremes.values()):
        raise damaged("a column's smallest or largest value is not of its type")
    return extremes


def _check_level_counts(facts: Struct, leaf: _Leaf) -> None:
    statistics: Struct = facts.get((16, STRUCT), {})
    for number, levels in ((2, leaf.repetition_levels), (3, leaf.definition_levels)):
        counts = _list(statistics, number, I64) if (number, LIST) in statistics else []
        if counts and len(counts) != levels + 1:
            raise damaged("a column's counts of levels are not of its type")
    if (1, I64) in statistics and leaf.kind != _BYTE_ARRAY:
        raise damaged("a column without texts has a length of texts")


def _encoding(number: int) -> str:
    return _ENCODINGS[number] if 0 <= number < len(_ENCODINGS) else _UNKNOWN


def _structs(fields: Struct, number: int) -> list[Struct]:
    return _list(fields, number, STRUCT)


def _list(fields: Struct, number: int, kind: int) -> list[Any]:
    found = fields.get((number, LIST))
    if found is None or (found.values and found.kind != kind):
        raise damaged("it lacks a list")
    values: list[Any] = found.values
    return values


def _count(fields: Struct, number: int, kind: int) -> int:
    count: int = fields.get((number, kind), -1)
    if count < 0:
        raise damaged("it lacks a number, or has a negative one")
    return count
