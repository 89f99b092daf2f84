"""Pickles what tasks send to each other. Tables of rows become Arrow IPC, compressed: Spark never sees a row.

Spark then moves a few large values instead of many rows, Arrow's types stay as they are, and no row becomes a Python
or JVM object on the way.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from typing import Any

import pyarrow as pa

from cdclake.lake.storage.arrow_ipc import from_ipc, to_ipc


def dumps(value: object) -> bytes:
    """Pickle a value."""
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def loads(data: bytes) -> Any:  # noqa: ANN401 - whatever was pickled
    """Inverse of `dumps`."""
    return pickle.loads(data)


def _as_ipc(rows: pa.Table) -> tuple[Any, ...]:
    return from_ipc, (to_ipc(rows),)


class _Pickler(pickle.Pickler):
    dispatch_table = {**copyreg.dispatch_table, pa.Table: _as_ipc}  # noqa: RUF012 - so the library declares it
