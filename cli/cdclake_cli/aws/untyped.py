"""Counts the columns of tables that are text because their files are CSV and Schema does not declare them."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from cdclake.concurrency import in_parallel
from cdclake.errors import ConfigurationError, InputError
from cdclake.model.raw.files import RawKind, raw_files
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.adapters.s3 import S3Store
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.state import TableState

_PAGE = 1000
_HEAD_BYTES = 1 << 16
_GZIP = 31
"""The window size of zlib that stands for gzip."""


class Untyped(NamedTuple):
    """The untyped columns of a table.

    Attributes:
        columns: Their number.
        text: What an operator should know of them; empty if there are none.
    """

    columns: int
    text: str


def untyped_columns(raw: S3Store, states: Sequence[TableState]) -> dict[str, Untyped]:
    """The untyped columns of each table, by its path.

    Reads one page of each table's raw folder, and the start of a CSV file. What cannot be read is left to the doctor.
    """
    counts = in_parallel(partial(_count, raw), states, raw.calls_at_once)
    return {state.path: Untyped(count, _text(state, count)) for state, count in zip(states, counts)}


def _text(state: TableState, count: int) -> str:
    if not count:
        return ""
    columns = f"{count:,} column{'s are' if count > 1 else ' is'}"
    return (
        f"untyped: {columns} text, because the files are CSV and {Attribute.SCHEMA} declares no type"
        f" (cdclake doctor {state.name.typed} proposes types)"
    )


def _count(raw: S3Store, state: TableState) -> int:
    try:
        file = _csv_file(raw, state)
        if file is None:
            return 0
        from pyarrow.fs import LocalFileSystem  # takes a third of a second to import

        from cdclake.adapters.filesystem import FetchedFile
        from cdclake.lake.raw.csv import column_names
        from cdclake.lake.raw.reader import read_errors_reported
        from cdclake_cli.doctor.types.shapes import untyped_names

        head = raw.get_first(file.key, _HEAD_BYTES)
        if file.format.is_gzip:
            head = zlib.decompressobj(_GZIP).decompress(head, _HEAD_BYTES)
        settings, whole = state.settings, replace(file, key=file.key.removesuffix(".gz"))
        with read_errors_reported(file):
            names = column_names(FetchedFile(LocalFileSystem(), head), whole, settings)
        return len(untyped_names(names, settings.schema))
    except (ConfigurationError, InputError, zlib.error):
        return 0


def _csv_file(raw: S3Store, state: TableState) -> RawFile | None:
    """A CSV file in the first page of the table's raw folder: a full load, if there is one."""
    listed = raw_files(islice(raw.list(state.raw_prefix), _PAGE), state.raw_prefix)
    found = [file for file in (*listed.full_load, *listed.changes) if not file.transactions and file.size_bytes]
    csv = [file for file in found if file.format.is_text]
    return min(csv, key=lambda file: file.kind is not RawKind.FULL_LOAD, default=None)
