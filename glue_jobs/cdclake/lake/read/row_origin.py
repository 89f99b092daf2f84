"""Finds the raw files whose changes made a few rows what they are. No Spark."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.lake.read.as_of import table_as_of
from cdclake.lake.read.key_filter import RowKeys
from cdclake.lake.read.key_history import printable_value
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.storage.shape import TableShape
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import file_and_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.read.as_of import RetainedFile, TableLocation


@dataclass(frozen=True)
class RowOrigin:
    """A row of a table, and where its last change came from.

    Attributes:
        key: Its key columns, as JSON types, see `KeyVersions`.
        file: Relative key of the raw file; empty if the row is as the full load had it.
        row: Index of the row in the file, from 0; None for a full load.
    """

    key: dict[str, Any]
    file: str
    row: int | None


def row_origins(location: TableLocation, texts: Sequence[str], secret: bytes = b"") -> list[RowOrigin]:
    """Where the rows of some keys came from, soft-deleted rows too; ordered by file.

    A row has only the position of its last change. Columns that this change did not send are of earlier files.

    Args:
        texts: The keys, in the form that `RowKeys.parse` reads.
        secret: The secret of hashed columns; empty for none.

    Raises:
        ConfigurationError: There is no such table, or a key does not fit its key columns.
        LakeFilesError: A data file vanished or was overwritten.
    """
    as_of = table_as_of(location.log())
    lake = as_of.snapshot
    shape = TableShape(lake.schema, lake.primary_key, lake.partition_key)
    keys = RowKeys.parse(texts, lake.primary_key, lake.schema, lake.policy.with_secret(secret))
    key_filter, reader, found = keys.filter_for(shape), RetainedFileReader(location), list[RowOrigin]()

    def search(retained: RetainedFile) -> None:
        if key_filter and key_filter.may_match(retained.file):
            with reader.open(retained) as source:
                for rows in key_filter.matching_rows(source, shape, retained.file):
                    keys_of_rows = (shape.key_column(name, rows, retained.file.partition) for name in keys.names)
                    columns = dict(zip(keys.names, keys_of_rows))
                    found.extend(map(origin, pa.table({**columns, POSITION: rows[POSITION]}).to_pylist()))

    def origin(row: dict[str, Any]) -> RowOrigin:
        position = row.pop(POSITION)
        file, number = file_and_row(position) if position else ("", None)
        return RowOrigin({name: printable_value(value) for name, value in row.items()}, file, number)

    in_parallel(search, as_of.files, CALLS_AT_ONCE)
    return sorted(found, key=attrgetter("file"))
