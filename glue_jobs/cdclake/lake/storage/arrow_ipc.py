"""Rows on their way between functions and processes: a table in Arrow, or compressed Arrow IPC.

Spark then moves a few large values instead of many rows, Arrow's types stay as they are, and no row becomes a Python
or JVM object on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.wide_rows import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


Part = TypeVar("Part")
MAX_UNPACKED_BYTES = 1 << 20
"""Rows that need more memory are packed at once, because many may wait for others: of a large change, only the last few
of a task need less."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""The bytes go through pipes, shuffle files and Spark's heap: halving them saves more time than it costs.

Threads cost more than they save: with them, 2,000 rows of 13 columns take three times the CPU time.
"""


_LONG_BYTES = 1 << 10
"""LZ4 finds no repetition further back than 64 KB, so columns of longer texts on average are sent as dictionaries if
the texts repeat: 70,000 texts of 32 KB that are all the same took a fiftieth of their size."""
_SAMPLED_TEXTS = 64
_DECODE = {b"cdclake": b"decode"}
"""Metadata of a column that is a dictionary only on the way."""


class Rows:
    """Some rows. Within a process they stay the table that they are; pickling packs them, as compressed Arrow IPC.

    Whoever receives packed rows and passes them on unread passes on the same bytes.
    """

    __slots__ = ("_packed", "_table", "num_rows")

    def __init__(self, table: pa.Table | None, packed: bytes = b"", num_rows: int = 0) -> None:
        self._table, self._packed = table, packed
        self.num_rows: int = num_rows if table is None else table.num_rows

    @classmethod
    def to_keep(cls, table: pa.Table) -> Rows:
        """The rows of a table; packed if they are large."""
        return kept({0: table})[0]

    @property
    def table(self) -> pa.Table:
        """The rows as a table, unpacked each time."""
        return from_ipc(self._packed) if self._table is None else self._table

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of the rows."""
        return from_ipc(self._packed, names) if self._table is None else self._table.select(names)

    def packed(self) -> Rows:
        """The same rows, packed."""
        return self if self._table is None else Rows(None, to_ipc(self._table), self.num_rows)

    def part(self, table: pa.Table) -> Rows:
        """Some of these rows; packed if these are, because a slice keeps all that it is a slice of."""
        return Rows(table).packed() if self._table is None else Rows(table)

    @property
    def size_bytes(self) -> int:
        """Size in memory, as they are."""
        size: int = len(self._packed) if self._table is None else self._table.nbytes
        return size

    def __reduce__(self) -> tuple[type[Rows], tuple[None, bytes, int]]:
        return Rows, (None, self.packed()._packed, self.num_rows)


def kept(tables: Mapping[Part, pa.Table]) -> dict[Part, Rows]:
    """Parts of a table as rows; packed if they are large together, because each keeps the whole table in memory."""
    is_large = sum(table.nbytes for table in tables.values()) > MAX_UNPACKED_BYTES
    return {part: Rows(table).packed() if is_large else Rows(table) for part, table in tables.items()}


def to_ipc(table: pa.Table) -> bytes:
    """Serialize a table."""
    table = _with_dictionaries(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_ipc(data: bytes, columns: Sequence[str] = ()) -> pa.Table:
    """Inverse of `to_ipc`.

    Args:
        columns: The columns to read; none: all.
    """
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if columns:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        options.included_fields = [schema.get_field_index(name) for name in columns]
    with pa.ipc.open_stream(pa.py_buffer(data), options=options) as reader:
        rows = _without_dictionaries(reader.read_all())
    return rows.select(columns) if columns else rows


def _with_dictionaries(table: pa.Table) -> pa.Table:
    """Encode long texts that repeat."""
    for i, field in enumerate(table.schema):
        if is_text(field.type) and table.num_rows > _SAMPLED_TEXTS and _is_repetitive(table.column(i)):
            encoded = table.column(i).dictionary_encode()
            table = table.set_column(i, pa.field(field.name, encoded.type, metadata=_DECODE), encoded)
    return table


def _is_repetitive(values: pa.ChunkedArray) -> bool:
    if values.nbytes < _LONG_BYTES * len(values):
        return False
    few = values.take(pa.array(np.linspace(0, len(values) - 1, _SAMPLED_TEXTS).astype(np.int64)))
    return bool(pc.count_distinct(few).as_py() <= _SAMPLED_TEXTS // 2)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Inverse of `_with_dictionaries`."""
    for i, field in enumerate(table.schema):
        if field.metadata == _DECODE:
            chunks = [chunk.dictionary_decode() for chunk in table.column(i).chunks]
            table = table.set_column(i, field.name, pa.chunked_array(chunks, field.type.value_type))
    return table


def concat(batches: Iterable[Rows], empty: pa.Schema) -> pa.Table:
    """All rows of batches in one table; an empty table of schema `empty` if there are none."""
    tables = [rows.table for rows in batches]
    return pa.concat_tables(tables).combine_chunks() if tables else empty.empty_table()
