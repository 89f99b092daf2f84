"""Arrow tables as bytes, which is what Spark shuffles.

One blob is a batch of rows for one destination. Spark moves few large values instead of many rows, Arrow's types pass
unchanged, and nothing is converted to Python or JVM rows on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
"""A blob goes through pipes, shuffle files and Spark's heap: half the bytes save more time than they cost."""


def to_ipc(table: pa.Table) -> bytes:
    """Serialise a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_ipc(blob: bytes) -> pa.Table:
    """Inverse of `to_ipc`."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return reader.read_all()


def concat_ipc(blobs: Iterable[bytes], empty: pa.Schema) -> pa.Table:
    """All rows of some blobs in one table; no rows of schema `empty` if there are no blobs."""
    tables = [from_ipc(blob) for blob in blobs]
    return pa.concat_tables(tables).combine_chunks() if tables else empty.empty_table()
